"""The fault campaign, part by part: one record, and docs/reliability.md written from it.

Each part is a process of its own. It enters the record when it has come to its end without a failure; one that fails prints
what went wrong, leaves the record as it was, and fails the command.

    python -m faults.run                    # half an hour on two cores; as `make faults`
    python -m faults.run --only kills       # some parts; --only alone writes the page from the record
    python -m faults.run --quick            # minutes, a look; nothing is recorded
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults.page import PAGE, page
from faults.progress import head, say
from faults.record import RECORD, ROOT, about, load, save

PARTS = ("kills", "disk_full", "writers", "damage", "fuzzing", "outcomes", "endurance", "memory", "devices", "hostile")


def carry_out(name: str, is_quick: bool, cache: str) -> dict | None:
    """One part in a process of its own; None where it failed, which it has printed."""
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as folder:
        path = Path(folder) / "part.json"
        command = [
            sys.executable,
            "-m",
            "faults.run",
            "--part",
            name,
            "--out",
            str(path),
            *(["--quick"] if is_quick else []),
        ]
        # All that is compiled is kept: a child that was killed left nothing for the next one to compile.
        kept = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        own = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
        head(f"{name} ({time.strftime('%H:%M:%S')})")
        code = subprocess.run(command, cwd=ROOT, env=os.environ | kept | own, check=False).returncode
        return json.loads(path.read_text(encoding="utf-8")) if code == 0 else None


def one_part(name: str, is_quick: bool, out: Path) -> None:
    found = importlib.import_module(f"faults.{name}").main(is_quick)
    out.write_text(json.dumps(about(is_quick) | found), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}; none: page only")
    parser.add_argument("--quick", action="store_true", help="a look at every part; leaves record and page alone")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        one_part(options.part, options.quick, options.out)
        return 0
    record, failed = load(options.record), []
    with tempfile.TemporaryDirectory(prefix="hamq-faults-cache-") as cache:
        for name in PARTS if options.only is None else options.only:
            found = carry_out(name, options.quick, cache)
            if found is None:
                failed.append(name)
            elif not options.quick:
                parts = {**record["parts"], name: found}
                record["parts"] = {name: parts[name] for name in PARTS if name in parts}
                save(options.record, record)
    if not options.quick:
        options.page.write_text(page(record), encoding="utf-8")
        say(f"wrote {options.page}")
    if failed:
        say(f"failed: {', '.join(failed)}; see above. `--only {' '.join(failed)}` tries them again.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
