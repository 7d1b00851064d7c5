"""The bank of densities through every capability of the library: the table of docs/densities.md.

    python -m benchmarks.bank                                  # all of it: half an hour on two cores
    python -m benchmarks.bank --only ridge shell               # some densities, by name
    python -m benchmarks.bank --capability solve certify       # some capabilities
    python -m benchmarks.bank --alone                          # every density with functions of its own: compiles 68 times
    python -m benchmarks.bank --page                           # the page alone, from the record

Densities of one grid share the library's compiled programs (`tests/densities/problems.py`). What is not run again keeps
its outcome in the record, benchmarks/records/bank.json.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: two threads on small matrices are slower than one

import argparse
import dataclasses
import json
import math
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.bank_page import write_page
from tests.densities.bank import BANK, named
from tests.densities.capabilities import CAPABILITIES, applies, forget_programs, put_through
from tests.densities.outcomes import Outcome
from tests.densities.problems import groups, pose, pose_all
from tests.densities.reference import reference

RECORD = Path(__file__).parent / "records" / "bank.json"
PAGE = Path(__file__).parent.parent / "docs" / "densities.md"


def run(densities, capabilities: list[str], is_alone: bool, keep) -> None:
    """Every capability of every density; `keep` is given each outcome as soon as it is there."""
    for group in [[density] for density in densities] if is_alone else groups(densities):
        problems = [pose(group[0])] if is_alone else pose_all(group)
        for capability in capabilities:
            for density, problem in zip(group, problems, strict=True):
                if applies(density, capability):
                    keep(put_through(density, problem, capability))
        pose.cache_clear()
        forget_programs()


def describe(density) -> dict:
    """What the page says of a density itself."""
    truth = reference(density)
    return {
        "dimension": density.dimension,
        "points": list(density.points),
        "actions": len(density.actions),
        "law": density.law,
        "traits": list(density.traits),
        "note": density.note,
        "doubt": truth.doubt / truth.span,
    }


def load(path: Path) -> dict:
    return json.loads(path.read_text()) if path.exists() else {"densities": {}, "outcomes": {}}


def save(record: dict, path: Path) -> None:
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """0 where nothing that was run is WRONG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="densities by name; all by default")
    parser.add_argument("--capability", nargs="+", choices=CAPABILITIES, metavar="NAME", help=", ".join(CAPABILITIES))
    parser.add_argument("--alone", action="store_true", help="share no compiled programs")
    parser.add_argument("--page", action="store_true", help="write the page from the record, and run nothing")
    parser.add_argument("--record", type=Path, default=RECORD, help="where the outcomes are kept")
    parser.add_argument("--out", type=Path, default=PAGE, help="where the page is written")
    options = parser.parse_args(arguments)
    record, wrong = load(options.record), []

    def keep(outcome: Outcome) -> None:
        kept = {k: v for k, v in dataclasses.asdict(outcome).items() if k not in ("density", "capability")}
        if kept["number"] is not None and not math.isfinite(kept["number"]):
            kept["number"] = None  # JSON has neither NaN nor infinity
        record["outcomes"].setdefault(outcome.density, {})[outcome.capability] = kept
        wrong.extend([outcome] if outcome.kind == "WRONG" else [])
        print(f"{time.strftime('%H:%M:%S')} {outcome.seconds:6.1f} s  {outcome}"[:300], flush=True)
        save(record, options.record)

    if not options.page:
        densities = named(options.only) if options.only else list(BANK)
        record["versions"] = {"python": platform.python_version(), **{n: version(n) for n in ("jax", "numpy")}}
        record["densities"].update({density.name: describe(density) for density in densities})
        run(densities, options.capability or list(CAPABILITIES), options.alone, keep)
        save(record, options.record)
        print(f"{len(wrong)} WRONG outcomes", *wrong, sep="\n  ")
    write_page(record, options.out)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
