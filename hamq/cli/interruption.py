"""Ctrl-C and SIGTERM during a solve: at once while there is nothing to save, otherwise after the iteration."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType

from hamq.cli.messages import say

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context manager; `is_asked` says that a signal came while `is_patient` was set. A second one is not waited with."""

    def __init__(self, tell: Callable[[str], None] = say):
        self._tell = tell
        self.is_patient = False
        self.is_asked = False

    def __enter__(self) -> "Interruption":
        self._before = [signal.signal(number, self._handle) for number in SIGNALS]
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in zip(SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked or not self.is_patient:
            raise KeyboardInterrupt
        self.is_asked = True
        self._tell("stopping after this iteration; once more stops at once")
