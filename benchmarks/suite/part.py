"""The command line that all parts share: `python -m benchmarks.exact --full --out exact.json`."""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.suite import record, show
from benchmarks.suite.smallest import add_smallest, shrink


def command(measure: record.Measure, text: str | None, own: dict[str, Any], smallest: dict[str, Any]) -> None:
    """Runs one part; `own` are the constants of its script, `smallest` those of them that `--smallest` changes."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="more sizes and repeats")
    parser.add_argument("--out", type=Path, help="write what was measured as JSON to this path")
    add_smallest(parser)
    options = parser.parse_args()
    if options.smallest:
        shrink(own, smallest)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measure(options.full)
    part = record.finish(found, options.full, time.perf_counter() - began)
    show.part(part)
    if options.out:
        record.save(options.out, part)
