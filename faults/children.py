"""`hamq` in a forked child that tells where it is and can be made to die there.

The parent has imported the command line but never started JAX: a fork of it is safe, and spares the seconds of importing.
What the child then does is what the command does from the first line of `main` on.
"""

import errno
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import hamq.cli.commands.solve
import hamq.runs.solving  # noqa: F401 (what a child would import first)
from hamq.cli import main
from hamq.learning import q_iteration
from hamq.runs.folder import RunFolder
from hamq.runs.progress import Progress

PHASES = ("starting", "opening", "sampling", "iterating", "checkpointing", "final write", "after")
STARTING, OPENING, SAMPLING, ITERATING, CHECKPOINTING, FINISHING, AFTER = range(len(PHASES))
CALLS = ("open", "write", "fsync", "replace", "link", "unlink", "ftruncate", "pwrite", "mkdir")
LONGEST = 120.0
"""Seconds after which a child counts as hanging."""


class Marks:
    """What a child tells its parent, in memory that both have: the phase, and the iterations that are saved."""

    def __init__(self):
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def phase(self) -> int:
        return self._memory[0]

    @phase.setter
    def phase(self, number: int) -> None:
        self._memory[0] = number

    @property
    def saved(self) -> int:
        return struct.unpack_from("q", self._memory, 8)[0]

    @saved.setter
    def saved(self, number: int) -> None:
        struct.pack_into("q", self._memory, 8, number)


class Child(NamedTuple):
    """A process that runs `hamq`; what it prints goes to `printed`."""

    pid: int
    marks: Marks
    printed: Path

    def wait(self, seconds: float = LONGEST) -> int:
        """Its exit code, negative for a signal; AssertionError where it hangs."""
        until = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"still running after {seconds:.0f} s: {self.printed.read_text()}")
            time.sleep(0.001)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def is_running(self) -> bool:
        """Without taking its exit code."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def start(words: Sequence[object], printed: Path, before: Callable[[Marks], None] = lambda marks: None) -> Child:
    """Runs `hamq words` in a fork; `before` is called in it first."""
    marks = Marks()
    if (pid := os.fork()) == 0:
        _run([str(word) for word in words], printed, marks, before)
    return Child(pid, marks, printed)


def run(words: Sequence[object], printed: Path) -> tuple[int, str]:
    """(exit code, all that was printed)."""
    return start(words, printed).wait(), printed.read_text()


def _run(words: list[str], printed: Path, marks: Marks, before: Callable[[Marks], None]) -> None:
    code = 99
    try:
        descriptor = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        tell_phases(marks)
        before(marks)
        code = main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def tell_phases(marks: Marks) -> None:
    def around(owner, name: str, phase: int, tell=None):
        real = getattr(owner, name)

        def call(*arguments, **options):
            outside, marks.phase = marks.phase, phase
            found = real(*arguments, **options)
            marks.phase = outside
            if tell is not None:
                tell(*arguments)
            return found

        setattr(owner, name, staticmethod(call) if hasattr(real, "__self__") else call)

    def saved(folder, arrays, history):
        marks.saved = len(history)

    def iterating(self, iterate):
        marks.phase = ITERATING

    around(RunFolder, "create", OPENING)
    around(RunFolder, "resume", OPENING)
    around(q_iteration, "prepare_run", SAMPLING)
    around(Progress, "iteration", ITERATING, iterating)
    around(RunFolder, "save_checkpoint", CHECKPOINTING, saved)
    around(RunFolder, "finish", FINISHING, lambda *_, **__: setattr(marks, "phase", AFTER))


def die_at(number: int, phase: int) -> Callable[[Marks], None]:
    """System call `number` of that phase is the child's last: a write is cut in half, others never happen."""

    def die(name: str, real, arguments) -> None:
        if name == "write":
            real(arguments[0], arguments[1][: len(arguments[1]) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    return lambda marks: _at(lambda: marks.phase == phase, number, die)


def fail_at(number: int) -> list[str]:
    """System call `number` of this process from here on fails, once: there is no room. Its name is then in the list."""
    failed = []

    def fail(name: str, real, arguments) -> None:
        failed.append(name)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _at(lambda: True, number, fail)
    return failed


def _at(counts: Callable[[], bool], number: int, act: Callable) -> None:
    calls = iter(range(1, 10**9))

    def watched(name: str):
        real = getattr(os, name)

        def call(*arguments, **options):
            if counts() and next(calls) == number:
                act(name, real, arguments)
            return real(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, watched(name))
