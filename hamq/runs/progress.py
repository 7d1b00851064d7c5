"""How far a solve is: a bar on a terminal, one line that changes in a notebook, plain lines elsewhere. Always on stderr.

From Python nothing is shown by default but on a terminal and in a notebook (`progress_for`); the shell always shows it.
"""

import contextlib
import html
import math
import sys
import threading
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from hamq.learning.record import Row as QRow
from hamq.runs.recording import Iterate
from hamq.tensor.solve import Row as TensorRow
from hamq.types import HamqError

SECONDS_BETWEEN_LINES = 1.0
SECONDS_OF_SILENCE = (1.5, 4.0)
"""After the start, and later: then a line says that the work goes on, even where nobody tells of it (compilation, one long
sweep)."""
SECONDS_IN_A_PLAN = 10.0
"""Between two lines about one run of many."""


class Progress:
    """A context manager; told of draws and of iterations as they come. `beats`: is never silent for long, told or not."""

    def __init__(self, console: Console | None = None, beats: bool = False):
        self._console = console or Console(stderr=True)
        self._bar = self._display = None
        if (notebook := _notebook()) is not None:
            self._display = notebook.display(notebook.HTML("preparing"), display_id=True)
        elif self._console.is_terminal:
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
        self._beats, self._has_ended = beats and self._bar is None, threading.Event()

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.start()
        if self._beats:
            threading.Thread(target=self._beat, name="hamq-progress", daemon=True).start()
        return self

    def _beat(self) -> None:
        """Says that the work goes on, whenever nothing was said for a while."""
        began = time.monotonic()
        spoke = began - SECONDS_OF_SILENCE[1] + SECONDS_OF_SILENCE[0]
        while not self._has_ended.wait(max(0.05, max(spoke, self._line_at) + SECONDS_OF_SILENCE[1] - time.monotonic())):
            now = time.monotonic()
            if now - max(spoke, self._line_at) >= SECONDS_OF_SILENCE[1]:
                spoke = now
                self._line(f"{self._phase or 'preparing'}, {now - began:.0f} s so far")

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._has_ended.set()
        if self._bar is not None:
            self._bar.stop()
        if self._display is not None:
            self._display.update(_notebook_text(""))

    def draws(self, phase: str, done: int, total: int) -> None:
        """`solve(progress=…)`."""
        self._show(phase, done, total, "")

    def plan(self, title: str, done: int, total: int, share: float, seconds: float) -> None:
        """Before each run of a plan: what it is, how many are done, and the time left, from the share of the work left."""
        left = f", {seconds * share / (1 - share) / 60:.0f} min left" if done else ""
        self._head, self._line_at = f"run {done + 1}/{total}: {title}{left}", time.monotonic()
        if self._bar is None:
            self._line(self._head)
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
            self._line(f"{phase} {done}/{total}{note}")
        else:
            title = f"{self._head}: {phase}" if self._head else phase
            self._bar.update(self._task, description=title, completed=done, total=total, note=note.removeprefix(", "))

    def _line(self, text: str) -> None:
        if self._display is not None:
            self._display.update(_notebook_text(text))
        else:
            print(f"hamq: {text}", file=sys.stderr, flush=True)

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


@contextlib.contextmanager
def progress_for(asked: Any) -> Any:
    """(what is told of draws, what is told of iterations), by the `progress` of a user: a function, True, False, or None.

    None shows it on a terminal and in a notebook. Each of the two is None where nobody is to be told.
    """
    if asked is not None and not isinstance(asked, bool):
        if not callable(asked):
            raise HamqError(f"progress must be True, False, None or a function of (phase, done, total), got {asked!r:.60}.")
        yield asked, None
    elif asked or (asked is None and is_watched()):
        with Progress() as shown:
            yield shown.draws, shown.iteration
    else:
        yield None, None


def is_watched() -> bool:
    """Whether somebody looks: a terminal, or a notebook."""
    return _notebook() is not None or (sys.stderr is not None and sys.stderr.isatty())


def _notebook() -> Any:
    """IPython's `display` module inside of a notebook, which has imported it; None anywhere else."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    return python.display if python is not None and type(shell).__name__ == "ZMQInteractiveShell" else None


def _notebook_text(text: str) -> Any:
    notebook = _notebook()
    return None if notebook is None else notebook.HTML(f"<code>{html.escape(text)}</code>" if text else "")
