"""Plants each bug of table.py in a copy of the repository and expects its tests to fail.

    python tests/mutants/run.py [--only NAME ...] [--tested]

KILLED: pytest ran and a test failed (exit code 1). ALIVE: all tests passed. BROKEN: the bug could not be
planted, the tests could not be collected, or they hung; such a mutant says nothing and must be rewritten.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
COPIED = ["hamq", "tests", "docs", "examples", "benchmarks", "faults", "pyproject.toml", "README.md"]
MAX_SECONDS = 600  # a loop inside XLA never returns to Python, so pytest's own limit cannot stop it
COLOURS = {"KILLED": "green", "ALIVE": "bold red", "BROKEN": "bold yellow"}


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    verdict: str
    seconds: float
    details: str = ""


def planted(root: Path, mutant: Mutant) -> str:
    """The text of the mutated file; ValueError if the bug does not fit."""
    path = root / mutant.file
    if not path.is_file():
        raise ValueError(f"there is no file {mutant.file}")
    text = path.read_text(encoding="utf-8")
    if (count := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.old!r} occurs {count} times in {mutant.file}, not once")
    if mutant.new == mutant.old:
        raise ValueError("new is the same as old")
    text = text.replace(mutant.old, mutant.new)
    try:
        compile(text, mutant.file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ValueError(f"not Python any more: {error}") from error
    return text


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """A fresh copy for every run: no stale bytecode, no run sees another one's bug."""
    with tempfile.TemporaryDirectory(prefix="hamq-mutant-") as folder:
        for name in COPIED:
            source, target = root / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, target)
        yield Path(folder).resolve()


def run_tests(folder: Path, tests: Sequence[str], *options: str) -> tuple[int | None, str]:
    """Exit code of pytest in the copy (None: it hung) and the end of its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    # -P leaves the working directory out: PYTHONPATH alone must win against an installed hamq.
    where = "import importlib.util; print(importlib.util.find_spec('hamq').submodule_search_locations[0])"
    command = [sys.executable, "-P", "-c", where]
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    if Path(found.stdout.strip()).resolve() != folder / "hamq":
        raise RuntimeError(f"the tests would import {found.stdout.strip()}, not the copy in {folder}")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *options, *tests]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, f"still running after {MAX_SECONDS} s"
    return process.returncode, "\n".join(output.splitlines()[-15:])


def attempt(root: Path, mutant: Mutant) -> Outcome:
    """Plants one bug and runs its tests."""
    start = time.monotonic()
    try:
        text = planted(root, mutant)
    except ValueError as error:
        return Outcome(mutant, "BROKEN", 0.0, str(error))
    with copy_of(root) as folder:
        (folder / mutant.file).write_text(text, encoding="utf-8")
        code, output = run_tests(folder, mutant.tests)
    seconds = time.monotonic() - start
    if code == 1:
        return Outcome(mutant, "KILLED", seconds)
    if code == 0:
        return Outcome(mutant, "ALIVE", seconds, "all tests passed")
    return Outcome(mutant, "BROKEN", seconds, f"pytest's exit code: {code}\n{output}")


def hunt(root: Path, mutants: Sequence[Mutant], jobs: int, console: Console, is_tested: bool = False) -> bool:
    """Tries all mutants, `jobs` at a time, and prints the table; True if all were killed."""
    if not mutants:
        console.print("No mutants to try.")
        return True
    if not is_tested and not passes(root, mutants, jobs, console):
        return False
    outcomes = []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda mutant: attempt(root, mutant), mutants):
            outcomes.append(outcome)
            colour = COLOURS[outcome.verdict]
            console.print(f"[{colour}]{outcome.verdict}[/] {outcome.mutant.name} ({outcome.seconds:.0f} s)")
            if outcome.details:
                console.print(outcome.details, markup=False, highlight=False)
    print_table(outcomes, console)
    return all(outcome.verdict == "KILLED" for outcome in outcomes)


def passes(root: Path, mutants: Sequence[Mutant], jobs: int, console: Console) -> bool:
    """Whether their tests pass without any bug: otherwise a failure says nothing."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    console.print(f"The tests of {len(mutants)} mutants, without any bug:")
    with copy_of(root) as folder:
        code, output = run_tests(folder, tests, "-n", str(jobs))
    console.print(output, markup=False, highlight=False)
    if code != 0:
        console.print("[bold red]These tests must pass first.[/]")
    return code == 0


def print_table(outcomes: Sequence[Outcome], console: Console) -> None:
    killed = sum(outcome.verdict == "KILLED" for outcome in outcomes)
    table = Table(title=f"{killed} of {len(outcomes)} mutants killed")
    for name in ("mutant", "file", "test", "verdict"):
        table.add_column(name, overflow="fold")
    table.add_column("seconds", justify="right")
    for outcome in outcomes:
        mutant, verdict = outcome.mutant, f"[{COLOURS[outcome.verdict]}]{outcome.verdict}[/]"
        table.add_row(mutant.name, mutant.file, "\n".join(mutant.tests), verdict, f"{outcome.seconds:.0f}")
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plants bugs and expects the tests to see them.")
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="try this one; may repeat")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--tested", action="store_true", help="all tests have just passed: do not run them without a bug")
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if not options.only or mutant.name in options.only]
    console = Console(width=None if sys.stdout.isatty() else 140)
    return 0 if hunt(ROOT, mutants, options.jobs, console, options.tested) else 1


if __name__ == "__main__":
    sys.exit(main())
