"""`hamq show`: what a run folder holds."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich import box
from rich.color import Color
from rich.style import Style
from rich.table import Table
from rich.text import Text

from hamq.cli.messages import print_json
from hamq.cli.parsing import Request
from hamq.cli.tables import make_console, make_table
from hamq.runs.reading import Run, read_run
from hamq.runs.storage import CHECKPOINT

DRAWN = ("distance", "residual", "change", "error", "rank", "unidentified")
"""Columns of the history that are drawn where they vary."""
SPENT = ("samples", "density_evaluations", "gradient_evaluations", "seconds")
"""Columns that only grow."""
DIGITS = {"seconds": 1}
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40
MAX_MAP = 60
"""Cells per side that a terminal shows."""


def run(request: Request) -> int:
    name = request.words[0]
    found = read_run(name)
    if request.options["output"].json:
        print_json(_described(found))
        return 0
    console = make_console()
    console.print(_settings(name, found))
    console.print(_result(found))
    if len(found.history):
        console.print(_history(found))
    if found.q is not None and (picture := policy_map(found.q, found.summary["grid"]["points"])) is not None:
        console.print(*picture, sep="\n")
    versions = ", ".join(f"{package} {version}" for package, version in found.manifest.versions.items())
    console.print(f"Written with {versions}; problem {found.manifest.problem[:12]}.", style="dim")
    return 0


def can_resume(found: Run) -> bool:
    return found.config["command"] == "solve" and (CHECKPOINT in found.manifest.files or not found.is_finished)


def _described(found: Run) -> dict[str, Any]:
    return {
        "path": str(found.path),
        "config": found.config,
        "finished": found.is_finished,
        "can_resume": can_resume(found),
        "result": found.result,
        "converged": found.converged,
        "error": found.error,
        "summary": found.summary,
        "history": {name: column.tolist() for name, column in found.history.columns.items()},
        "versions": found.manifest.versions,
        "problem_hash": found.manifest.problem,
    }


def _settings(name: str, found: Run) -> Table:
    table = Table(title=f"{found.config['command']} in {name}", title_justify="left", box=box.SIMPLE, show_header=False)
    for key, value in found.config.items():
        if value is not None and key not in ("command", "output"):
            table.add_row(key, _text(value))
    return table


def _text(value: Any) -> str:
    """`kind(field=value, …)` for what has one, without what is not set."""
    if not isinstance(value, dict):
        return str(value)
    head = value.get("kind") or value.get("name", "")
    fields = value.get("options", {key: entry for key, entry in value.items() if key != "kind"})
    return f"{head}({', '.join(f'{key}={entry}' for key, entry in fields.items() if entry is not None)})"


def _result(found: Run) -> Text:
    if not found.is_finished:
        saved = f"Not finished: {len(found.history)} iterations are saved; the same command with --resume continues it."
        return Text(saved, "yellow")
    more = " It can be resumed with more --iterations." if can_resume(found) else ""
    return Text(f"{found.result}.", "green" if found.converged else "yellow") + Text(more)


def _history(found: Run) -> Table:
    bars = f"{len(found.history)} iterations, logarithmic"
    table = make_table(("history", "first", "last", bars), ("history", bars))
    for name in (name for name in DRAWN if name in found.history.columns):
        column = found.history.columns[name].astype(float)
        if np.isfinite(column).any() and np.ptp(column) > 0:
            table.add_row(name, f"{column[0]:.3g}", f"{column[-1]:.3g}", sparkline(column))
    for name in (name for name in SPENT if name in found.history.columns):
        table.add_row(name.replace("_", " "), "", f"{found.history.columns[name][-1].item():,.{DIGITS.get(name, 0)}f}", "")
    return table


def sparkline(values: Sequence[float] | np.ndarray) -> str:
    """The values as bars, logarithmic where all are above 0, at most WIDTH of them."""
    numbers = np.asarray(values, float)
    numbers = numbers[np.linspace(0, len(numbers) - 1, min(len(numbers), WIDTH)).round().astype(int)]
    heights = np.log(numbers) if np.all(numbers > 0) else numbers
    low, high = float(np.nanmin(heights)), float(np.nanmax(heights))
    parts = (heights - low) / (high - low) if high > low else np.zeros_like(heights)
    return "".join(" " if math.isnan(part) else BARS[round(part * (len(BARS) - 1))] for part in parts)


def policy_map(q: np.ndarray, points: Sequence[int]) -> list[Text] | None:
    """The greedy action over the first two axes, the others in their middle; from blue (first) to red (last)."""
    if len(points) < 2 or max(points[:2]) > MAX_MAP:
        return None
    policy = q.argmax(axis=1).reshape(tuple(points))
    policy = policy[(slice(None), slice(None), *(n // 2 for n in points[2:]))]
    rest = ", the others in their middle" if len(points) > 2 else ""
    lines = [Text(f"Greedy action by its number, axis 0 downwards, axis 1 to the right{rest}", "bold")]
    width = len(str(q.shape[1] - 1)) + 1
    for row in policy:
        line = Text("  ")
        for action in row:
            line.append(f"{action:>{width}} ", Style(color="black", bgcolor=_colour(action / max(q.shape[1] - 1, 1))))
        lines.append(line)
    return lines


def _colour(part: float) -> Color:
    """From blue over white to red, light enough for black letters."""
    blue, grey, red = (110, 150, 255), (245, 245, 245), (255, 120, 110)
    ends, weight = ((blue, grey), 2 * part) if part < 0.5 else ((grey, red), 2 * part - 1)
    return Color.from_rgb(*(round((1 - weight) * a + weight * b) for a, b in zip(*ends, strict=True)))
