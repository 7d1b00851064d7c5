"""When to write a checkpoint."""

import time
from collections.abc import Callable, Mapping

import numpy as np

from hamq.runs.errors import RunError
from hamq.runs.folder import RunFolder
from hamq.solution import History


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
