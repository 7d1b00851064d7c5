"""How far a solve is: a bar on a terminal, plain lines elsewhere; rate, error and time left. Always on stderr."""

import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from hamq.cli.messages import say
from hamq.cli.recording import Iterate
from hamq.learning.record import Row as QRow
from hamq.tensor.solve import Row as TensorRow

SECONDS_BETWEEN_LINES = 1.0
SECONDS_IN_A_PLAN = 10.0
"""Between two lines about one run of many."""


class Progress:
    """A context manager; told of draws and of iterations as they come."""

    def __init__(self, console: Console | None = None):
        self._console = console or Console(stderr=True)
        self._bar = None
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("preparing", total=None, note="")
        self._phase = self._head = ""
        self._line_at = -math.inf

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def draws(self, phase: str, done: int, total: int) -> None:
        """`solve(progress=…)`."""
        self._show(phase, done, total, "")

    def plan(self, title: str, done: int, total: int, share: float, seconds: float) -> None:
        """Before each run of a plan: what it is, how many are done, and the time left, from the share of the work left."""
        left = f", {seconds * share / (1 - share) / 60:.0f} min left" if done else ""
        self._head, self._line_at = f"run {done + 1}/{total}: {title}{left}", time.monotonic()
        if self._bar is None:
            say(self._head)
        else:
            self._bar.update(self._task, description=self._head, completed=done, total=total, note="")

    def iteration(self, iterate: Iterate) -> None:
        """From the callback of a solver."""
        self._show("iteration", iterate.iteration, iterate.iterations, f", {_note(iterate.row)}")

    def _show(self, phase: str, done: int, total: int, note: str) -> None:
        now = time.monotonic()
        is_new = phase != self._phase or done < self._done
        if is_new:
            self._phase, self._began, self._first = phase, now, done - 1
        self._done = done
        is_worth_a_line = not self._head and (is_new or done >= total)
        pause = SECONDS_IN_A_PLAN if self._head else SECONDS_BETWEEN_LINES
        if self._bar is None and not is_worth_a_line and now - self._line_at < pause:
            return
        self._line_at = now
        note += self._pace(now, done, total)
        if self._bar is None:
            say(f"{phase} {done}/{total}{note}")
        else:
            title = f"{self._head}: {phase}" if self._head else phase
            self._bar.update(self._task, description=title, completed=done, total=total, note=note.removeprefix(", "))

    def _pace(self, now: float, done: int, total: int) -> str:
        """`, 35.2/s, 4 s left`, once there is something to measure."""
        seconds, steps = now - self._began, done - self._first - 1
        if steps < 1 or seconds <= 0:
            return ""
        rate = steps / seconds
        return f", {rate:,.{0 if rate > 10 else 1}f}/s, {(total - done) / rate:.0f} s left"


def _note(row: QRow | TensorRow) -> str:
    """What matters of a row of the history."""
    if isinstance(row, TensorRow):
        return f"residual {row.residual:.2%}, rank {row.rank}, {row.reads:,} backups, {row.seconds:.0f} s"
    return f"change {row.change:.2e}" if math.isnan(row.distance) else f"distance to Q* {row.distance:.2e}"
