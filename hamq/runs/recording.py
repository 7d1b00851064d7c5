"""The run folder of a solve, if one was asked for.

A new folder is made at once, so that a second writer is refused and a run that is killed while drawing can be resumed;
it is removed again where a solve ends before there is anything to keep. A run that is to be overwritten counts until
there is something to put in its place.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hamq.errors import DamagedError, RunError
from hamq.learning.q_iteration import Iterate as QIterate
from hamq.runs.config import RunConfig, free_fields
from hamq.runs.encoding import plain
from hamq.runs.folder import RunFolder, holds_nothing
from hamq.runs.manifest import MANIFEST, read_manifest
from hamq.runs.reading import Run, read_run
from hamq.runs.storage import CHECKPOINT, CONFIG, LOCK, Lock
from hamq.solution import History, Solution
from hamq.tensor.solution import TensorSolution
from hamq.tensor.solve import Iterate as TensorIterate


class Checkpointer:
    """Called once per iteration; saves when `every_iterations` or `every_seconds` have passed since the last save.

    None turns one off. `is_due` asks without saving, for callers to whom the arrays of an iteration cost something.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        every_iterations: int | None = None,
        every_seconds: float | None = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        for name, every in (("every_iterations", every_iterations), ("every_seconds", every_seconds)):
            if every is not None and not every > 0:
                raise RunError(f"Checkpointer: {name} must be above 0, or None for never, got {every}.")
        self.folder = folder
        self.every_iterations = every_iterations
        self.every_seconds = every_seconds
        self._clock = clock
        self._saved_iteration = 0
        self._saved_seconds = clock()

    def is_due(self, iteration: int) -> bool:
        by_count = self.every_iterations is not None and iteration - self._saved_iteration >= self.every_iterations
        by_clock = self.every_seconds is not None and self._clock() - self._saved_seconds >= self.every_seconds
        return by_count or by_clock

    def __call__(self, arrays: Mapping[str, np.ndarray], history: History) -> bool:
        """Whether a checkpoint was written; the iteration is the length of the history."""
        if not self.is_due(len(history)):
            return False
        self.folder.save_checkpoint(arrays, history)
        self._saved_iteration = len(history)
        self._saved_seconds = self._clock()  # after writing: a slow disk must not fill the time with checkpoints
        return True


Iterate = QIterate | TensorIterate
"""What a solver gives its callback: the iteration, its row, and on demand the history and what `resume` needs."""


class Recording:
    """A context manager. `start` is what the solver's `resume` continues from; `num_saved` the iterations on the disk.

    `before` is the run that is continued; None where there was none, or its last checkpoint is damaged. `is_done` says that
    it has already come to the end that is asked for.
    """

    def __init__(
        self,
        out: str | None,
        config: RunConfig,
        problem_hash: str,
        *,
        overwrite: bool = False,
        resume: bool = False,
        every_iterations: int | None = None,
        every_seconds: float | None = 60.0,
    ):
        self._out, self.config, self._hash, self._overwrite = out, config, problem_hash, overwrite
        self._every = {"every_iterations": every_iterations, "every_seconds": every_seconds}
        self._folder: RunFolder | None = None
        self._last: Iterate | None = None
        self._is_new = self._is_finished = False
        self.start: dict[str, np.ndarray] | None = None
        self.num_saved = 0
        self.before: Run | None = None
        self.is_done = False
        if out is not None and resume:
            self._resume(out)
        elif out is not None and overwrite and _holds_run(out):
            Lock(Path(out)).release()  # refuses now if somebody writes there
        elif out is not None:
            self._is_new, self._was_there = True, Path(out).exists()
            self._create()

    def _resume(self, out: str) -> None:
        """Continues the run, or starts it where the folder holds nothing yet: job schedulers always ask to resume."""
        if holds_nothing(Path(out).absolute()):
            self._is_new, self._was_there = True, Path(out).exists()
            self._create()
            return
        self.before, free = _read_before(out), free_fields(self.config)
        old = self.config if self.before is None else self.before.setup
        if None in (old.problem.options, self.config.problem.options):
            # One of them was given as an object: the hash says whether it is the same. The name that makes it again is kept.
            kept = self.config.problem if old.problem.options is None else old.problem
            self.config, free = dataclasses.replace(self.config, problem=kept), (*free, "problem", "exact")
        self._open(RunFolder.resume(out, self.config.encode(), self._hash, free=free))
        if self.before is not None and self.before.is_finished:
            self.is_done = _asked(old, free) == _asked(self.config, free)

    @property
    def is_kept(self) -> bool:
        """Whether there is, or will be, a folder."""
        return self._out is not None

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._folder is None:
            return
        if self._is_new and not self.num_saved and not self._is_finished:
            self._remove()
        self._folder.close()

    def add(self, iterate: Iterate) -> None:
        """Once per iteration; saves when it is time."""
        self._last = iterate
        if self._out is None:
            return
        if self._folder is None:
            self._create()
        if self._checkpointer.is_due(iterate.iteration) and self._checkpointer(iterate.checkpoint(), iterate.history()):
            self.num_saved = iterate.iteration

    def save_last(self) -> None:
        """Saves the last iteration, be it time or not."""
        if self._folder is not None and self._last is not None and self.num_saved < self._last.iteration:
            self._folder.save_checkpoint(self._last.checkpoint(), self._last.history())
            self.num_saved = self._last.iteration

    def finish(self, solution: Solution | TensorSolution, summary: dict[str, Any]) -> None:
        if self._out is None:
            return
        if self._folder is None:
            self._create()
        assert self._folder is not None
        self._folder.finish(solution, summary, self.start if self._last is None else self._last.checkpoint())
        self._is_finished = True

    def _create(self) -> None:
        assert self._out is not None
        self._open(RunFolder.create(self._out, self.config.encode(), self._hash, overwrite=self._overwrite))

    def _open(self, folder: RunFolder) -> None:
        self._folder = folder
        self._checkpointer = Checkpointer(folder, **self._every)
        if (checkpoint := folder.load_checkpoint()) is not None:
            self.start, self.num_saved = checkpoint.arrays, len(checkpoint.history)

    def _remove(self) -> None:
        """Leaves the folder as it was found; nothing but the config has been written to it."""
        assert self._folder is not None
        for name in (MANIFEST, CONFIG, LOCK):
            (self._folder.path / name).unlink(missing_ok=True)
        if not self._was_there:
            with contextlib.suppress(OSError):  # somebody put a file there meanwhile
                self._folder.path.rmdir()


def _read_before(out: str) -> Run | None:
    """The run that is continued; None where its last checkpoint is damaged: what came after the one before is lost."""
    try:
        return read_run(out)
    except DamagedError as error:
        if error.name != CHECKPOINT:
            raise
        return None


def _asked(config: RunConfig, free: Collection[str]) -> dict[str, Any]:
    """What is to be computed, how long included."""
    is_same = set(free) - {"iterations", "tolerance"}
    return {name: value for name, value in plain(config.encode(), "config").items() if name not in is_same}


def _holds_run(out: str) -> bool:
    try:
        read_manifest(Path(out))
    except RunError:
        return False
    return True
