"""The benchmark suite: measures part by part, keeps one record, writes docs/benchmarks.md and its two pictures.

Each part is a process of its own, so that memory, threads and compiled code are clean; it is written into the record as
soon as it is done, so an interrupted run loses one part at most. `--only` measures some parts again; `--only` alone
measures nothing and writes the page from the record. With `--check` a part whose ratios fell (`suite/check.py`) does
not enter the record: it is left in build/bench for a look, and the command fails.

    python -m benchmarks.run                        # minutes; as `make bench`
    python -m benchmarks.run --full                 # half an hour; as `make bench-full`
    python -m benchmarks.run --only exact --check
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.suite import show
from benchmarks.suite.cells import number
from benchmarks.suite.check import LEAST, Fall, falls
from benchmarks.suite.page import PEERS, SCALING, page
from benchmarks.suite.pictures import draw_peers, draw_scaling
from benchmarks.suite.record import GPU, RECORD, ROOT, comparisons, load, save

PARTS = {
    "sampling": "benchmarks.samplers",
    "exact": "benchmarks.exact",
    "completion": "benchmarks.completion",
    "solving": "benchmarks.end_to_end",
    "devices": "benchmarks.devices",
    "scaling": "benchmarks.scaling",
}
FRESH = ROOT / "build" / "bench"
PAGE = ROOT / "docs" / "benchmarks.md"


def measure(name: str, is_full: bool) -> dict | None:
    """One part in a process of its own; None where it failed, which it has printed."""
    path = FRESH / f"{name}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", PARTS[name], "--out", str(path), *(["--full"] if is_full else [])]
    print(f"{name} ({time.strftime('%H:%M:%S')})", flush=True)
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    return json.loads(path.read_text(encoding="utf-8")) if code == 0 and path.exists() else None


def write(record: dict, path: Path) -> None:
    """The page, and its pictures beside it."""
    (path.parent / PEERS).parent.mkdir(parents=True, exist_ok=True)
    if comparisons(record):
        draw_peers(record, path.parent / PEERS)
    if studies := record["parts"].get("scaling", {}).get("studies"):
        draw_scaling(studies, path.parent / SCALING)
    gpu = json.loads(GPU.read_text(encoding="utf-8")) if GPU.exists() else None
    path.write_text(page(record, gpu), encoding="utf-8")
    print(f"wrote {path}", flush=True)


def in_order(parts: dict) -> dict:
    return {name: parts[name] for name in PARTS if name in parts}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all problems, sizes and methods")
    parser.add_argument(
        "--only", nargs="*", choices=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}; none: page only"
    )
    parser.add_argument("--check", action="store_true", help=f"fail where a ratio is below {LEAST:g} of the recorded one")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    record, failed, fallen = load(options.record), [], list[Fall]()
    for name in PARTS if options.only is None else options.only:
        part = measure(name, options.full)
        if part is None:
            failed.append(name)
            continue
        before = record["parts"].get(name)
        lost = falls(before, part) if options.check and before else []
        fallen += lost
        if not lost:
            record["parts"] = in_order({**record["parts"], name: part})
            save(options.record, record)
    write(record, options.page)
    if fallen:
        rows = [[fall.name, fall.peer, *map(number, (fall.before, fall.now, fall.best_now))] for fall in fallen]
        show.table(
            f"ratios below {LEAST:g} of the record", ["comparison", "peer", "recorded", "now", "upper quartile"], rows
        )
        print(f"The record keeps the old values of these parts; the new ones are in {FRESH}.")
    if failed:
        print(f"failed: {', '.join(failed)}; see above. `--only {' '.join(failed)}` measures them again.")
    return 1 if fallen or failed else 0


if __name__ == "__main__":
    sys.exit(main())
