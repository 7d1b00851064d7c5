"""The run folder of a command, if one was asked for.

A new folder is made at once, so that a second writer is refused and a run that is killed while drawing can be resumed;
it is removed again where a command ends before there is anything to keep. A run that is to be overwritten counts until
there is something to put in its place.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hamq.exact.solution import Solution
from hamq.learning.q_iteration import Iterate as QIterate
from hamq.runs.checkpointer import Checkpointer
from hamq.runs.config import FREE_FIELDS
from hamq.runs.errors import RunError
from hamq.runs.folder import RunFolder
from hamq.runs.lock import LOCK, Lock
from hamq.runs.manifest import MANIFEST, read_manifest
from hamq.runs.storage import CONFIG
from hamq.tensor.solution import TensorSolution
from hamq.tensor.solve import Iterate as TensorIterate

Iterate = QIterate | TensorIterate
"""What a solver gives its callback: the iteration, its row, and on demand the history and what `resume` needs."""


class Recording:
    """A context manager. `start` is what the solver's `resume` continues from; `num_saved` the iterations on the disk."""

    def __init__(
        self,
        out: str | None,
        config: dict[str, Any],
        problem_hash: str,
        *,
        overwrite: bool = False,
        resume: bool = False,
        free: Collection[str] = FREE_FIELDS,
        every_iterations: int | None = None,
        every_seconds: float | None = 60.0,
    ):
        self._out, self._config, self._hash, self._overwrite = out, config, problem_hash, overwrite
        self._every = {"every_iterations": every_iterations, "every_seconds": every_seconds}
        self._folder: RunFolder | None = None
        self._last: Iterate | None = None
        self._is_new = self._is_finished = False
        self.start: dict[str, np.ndarray] | None = None
        self.num_saved = 0
        if out is not None and resume:
            self._open(RunFolder.resume(out, config, problem_hash, free=free))
        elif out is not None and overwrite and _holds_run(out):
            Lock(Path(out)).release()  # refuses now if somebody writes there
        elif out is not None:
            self._is_new, self._was_there = True, Path(out).exists()
            self._create()

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
        self._open(RunFolder.create(self._out, self._config, self._hash, overwrite=self._overwrite))

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


def _holds_run(out: str) -> bool:
    try:
        read_manifest(Path(out))
    except RunError:
        return False
    return True
