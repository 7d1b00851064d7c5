"""Runs scripts one after the other in this process, as a shell would each in its own: they share imports and programs.

    python -m tests.scripts FOLDER '[["benchmarks.gpu", "--smallest"], ...]'

FOLDER gets `N.txt` with what script N printed; the last line of stdout is JSON: for each the traceback, or "". The CPU
seconds of each go to stderr.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import traceback
from pathlib import Path


def run(words: list[str], folder: Path, number: int) -> str:
    printed, said = io.StringIO(), ""
    sys.argv = list(words)
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        said = "" if not ended.code else f"exit code {ended.code}"
    except BaseException:
        said = traceback.format_exc()
    (folder / f"{number}.txt").write_text(printed.getvalue(), encoding="utf-8")
    return said


if __name__ == "__main__":
    where, commands = Path(sys.argv[1]), json.loads(sys.argv[2])
    wrong = []
    for number, words in enumerate(commands):
        before = sum(os.times()[:4])
        wrong.append(run(words, where, number))
        print(f"{sum(os.times()[:4]) - before:.1f} s of {' '.join(words)}", file=sys.stderr, flush=True)
    print(json.dumps(wrong))
