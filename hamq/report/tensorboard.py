"""The history of a run as scalars that TensorBoard reads: one tag per column, one step per iteration, from 1.

TensorBoard reads all event files of a folder. A run that is continued adds a file that takes back what older ones say and
begins with the history so far: a killed run may have left more steps than its last checkpoint has, or fewer. Numbers that
are not finite were not measured, and are left out.
"""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from hamq.errors import MissingExtraError
from hamq.solution import History
from hamq.types import HamqError

try:
    import tensorboardX
except ImportError as error:
    raise MissingExtraError("--tensorboard needs tensorboardX: pip install 'hamq[tensorboard]'.") from error

EVENTS = "events.out.tfevents.*"
SECONDS_BETWEEN_WRITES = 10


class Scalars:
    """A context manager; `add` is called once per iteration. The folder is made with the first of them."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._writer: tensorboardX.SummaryWriter | None = None

    def __enter__(self) -> "Scalars":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, history: Callable[[], History], step: int, row: Mapping[str, float | int]) -> None:
        """Iteration `step`; the first one that is told also writes the `history` before it."""
        now = time.time()
        if self._writer is None:
            self._open()
            past = history() if step > 1 else History()
            for i in range(step - 1):
                earlier = {name: column[i].item() for name, column in past.columns.items()}
                self._write(i + 1, earlier, now - row["seconds"] + earlier["seconds"])
        self._write(step, row, now)

    def _open(self) -> None:
        # Two files of one second would be one; and TensorBoard reads them in the order of their names.
        suffix = f".{time.time_ns()}"
        try:
            self._writer = tensorboardX.SummaryWriter(
                str(self._folder), purge_step=1, flush_secs=SECONDS_BETWEEN_WRITES, filename_suffix=suffix
            )
        except OSError as error:
            raise HamqError(f"--tensorboard {self._folder} cannot be written: {error.strerror}; choose another.") from error

    def _write(self, step: int, row: Mapping[str, float | int], walltime: float) -> None:
        assert self._writer is not None
        for name, number in row.items():
            if math.isfinite(number):
                self._writer.add_scalar(name, number, step, walltime)


def require_place(folder: Path, is_continued: bool) -> None:
    """Refuses a folder that is none, or where another run's scalars would mix with ours."""
    if folder.exists() and not folder.is_dir():
        raise HamqError(f"--tensorboard {folder} is a file; give it a folder.")
    if not is_continued and any(folder.glob(EVENTS)):
        raise HamqError(
            f"--tensorboard {folder} holds scalars already, and those of two runs would mix; choose another folder."
        )
