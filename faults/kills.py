"""kill −9 of `hamq solve`, again and again: whatever was saved is there, and the end has the bits of a run left alone.

Most kills are aimed, so that none of the short phases is missed; some come at any time, and some hit the command as a shell
starts it. After each, what is on the disk must be the beginning of the uninterrupted run, and no shorter than what the
killed process had been told was saved.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from faults import children
from faults.cases import CASES, outcome, require_prefix
from faults.children import AFTER, CHECKPOINTING, FINISHING, ITERATING, OPENING, PHASES, SAMPLING, Child, die_at
from faults.progress import say
from hamq.errors import RunError
from hamq.runs.reading import Run, read_run

SEED = 8
AIMS = (
    *("opening", "sampling", "iterating", "checkpointing", "iterating", "checkpointing", "any", "iterating"),
    *("final write", "opening", "final write", "final write"),
)
"""Of the kills of one run, in turn; the final write last, for there is nothing left to iterate after it."""
CALLS = {"opening": (OPENING, 16), "checkpointing": (CHECKPOINTING, 60), "final write": (FINISHING, 25)}
"""Phases that are met before one of their system calls, and among how many."""
EARLY = 0.4
"""Of the time that a phase takes: later, a run would often be over."""
EVERY = (1, 3, 10)
"""Iterations between two checkpoints."""
SHELL_EVERY = 10
"""Of so many kills one hits a process that a shell would have started."""


class Reference(NamedTuple):
    """A run that nobody disturbed, and how long its phases took."""

    words: tuple[str, ...]
    run: Run
    sampling: float
    iterating: float


def main(is_quick: bool = False) -> dict:
    num_kills = 12 if is_quick else 200
    rng, began = random.Random(SEED), time.monotonic()
    fell, runs, late = Counter[str](), 0, 0
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as name:
        root = Path(name)
        references = [reference(root, case, words) for case, words in CASES.items()]
        while sum(fell.values()) < num_kills:
            whole = references[runs % len(references)]
            runs += 1
            found, missed = kill_one_run(root / f"run{runs}", whole, rng, num_kills - sum(fell.values()), sum(fell.values()))
            fell, late = fell + found, late + missed
            say(f"{sum(fell.values())}/{num_kills} kills, {runs} runs, all equal to the uninterrupted one")
            shutil.rmtree(root / f"run{runs}")
    return {
        "seed": SEED,
        "kills": sum(fell.values()),
        "phases": {name: fell[name] for name in (*PHASES, "command of a shell")},
        "came_too_late": late,
        "runs": runs,
        "runs_equal": runs,
        "lost_iterations": 0,
        "seconds": time.monotonic() - began,
    }


def reference(root: Path, name: str, words: tuple[str, ...]) -> Reference:
    folder = root / f"whole {name}"
    for _ in range(2):  # the second finds what the first compiled
        child = children.start([*words, "--out", folder, "--overwrite", "--checkpoint-every", "1"], root / "printed")
        times = {}
        while child.is_running():
            times.setdefault(child.marks.phase, time.monotonic())
            time.sleep(0.0005)
        times[AFTER] = time.monotonic()
        assert child.wait() == 0, child.printed.read_text()
    sampled = times.get(ITERATING, times[AFTER])
    return Reference(words, read_run(folder), sampled - times[SAMPLING], times[AFTER] - sampled)


def kill_one_run(folder: Path, whole: Reference, rng: random.Random, most: int, before: int) -> tuple[Counter[str], int]:
    """Where the kills of one run fell, and how many came after its end; the run is then finished and compared."""
    fell, saved, late = Counter[str](), 0, 0
    for aim in AIMS:
        if sum(fell.values()) == most or _is_finished(folder):
            break
        every = rng.choice(EVERY)
        words = [*whole.words, "--out", folder, "--checkpoint-every", every, *(["--resume"] if _is_run(folder) else [])]
        if (before + sum(fell.values())) % SHELL_EVERY == SHELL_EVERY - 1:
            where = kill_command(words, rng)
        else:
            where, told = kill_child(words, folder, whole, aim, rng)
            saved = max(saved, told)
        if where is None:
            late += 1
        else:
            fell[where] += 1
        if _is_run(folder):
            found = require_prefix(folder, whole.run)
            assert found >= saved, f"{saved} iterations were said to be saved, and {found} are there"
            saved = found
    printed = folder.parent / "printed"
    resume = ["--resume"] if _is_run(folder) else []
    code, said = children.run([*whole.words, "--out", folder, "--checkpoint-every", "1", *resume], printed)
    assert code == 0, said
    assert outcome(folder) == outcome(whole.run.path), f"{folder} is not what the uninterrupted run gives"
    return fell, late


def kill_child(words, folder: Path, whole: Reference, aim: str, rng: random.Random) -> tuple[str | None, int]:
    """The phase in which the child died, None if it came to its end; and the iterations that it had saved."""
    printed = folder.parent / "printed"
    if aim in CALLS:
        phase, most = CALLS[aim]
        child = children.start(words, printed, die_at(rng.randint(1, most), phase))
    else:
        child = children.start(words, printed)
        _wait_for(child, {"sampling": SAMPLING, "iterating": ITERATING}.get(aim, 0))
        spans = {"sampling": whole.sampling, "iterating": whole.iterating}
        time.sleep(EARLY * rng.random() * spans.get(aim, whole.sampling + whole.iterating))
        child.kill()
    code = child.wait()
    assert code in (0, -9), printed.read_text()
    return (PHASES[child.marks.phase] if code else None), child.marks.saved


def _wait_for(child: Child, phase: int) -> None:
    while child.is_running() and child.marks.phase < phase:
        time.sleep(0.0002)


def kill_command(words, rng: random.Random) -> str | None:
    """`python -m hamq …`, killed at any time of its first seconds; None where it had come to its end."""
    command = [sys.executable, "-m", "hamq", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as process:
        time.sleep(rng.random() * 6)
        process.kill()
        return "command of a shell" if process.wait() else None


def _is_run(folder: Path) -> bool:
    return (folder / "manifest.json").exists()


def _is_finished(folder: Path) -> bool:
    try:
        return read_run(folder).is_finished
    except RunError as error:
        assert "it has no manifest.json" in str(error), error
        return False
