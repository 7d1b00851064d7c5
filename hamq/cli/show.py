"""`hamq show`: what a run folder holds."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.color import Color
from rich.style import Style
from rich.table import Table
from rich.text import Text

from hamq.cli.messages import inert, print_json
from hamq.cli.parsing import Request
from hamq.cli.tables import make_console, make_table
from hamq.runs.reading import Run, read_run
from hamq.runs.storage import CHECKPOINT
from hamq.tensor import train

DRAWN = ("distance", "residual", "change", "error", "rank", "unidentified")
"""Columns of the history that are drawn where they vary."""
SPENT = ("reads", "samples", "density_evaluations", "gradient_evaluations", "seconds")
"""Columns that only grow."""
DIGITS = {"seconds": 1}
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40
LEVELS = 10
"""Steps of a map of V."""
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
    if found.certificate is not None:
        console.print(f"Certificate: {found.certificate.sentence}")
    if (line := _health(found)) is not None:
        console.print(line)
    if len(found.history):
        console.print(_history(found))
    if (picture := _map(found)) is not None:
        console.print(*picture, sep="\n")
    versions = ", ".join(f"{package} {version}" for package, version in found.manifest.versions.items())
    console.print(f"Written with {versions}; problem {found.manifest.problem[:12]}.", style="dim")
    return 0


def can_resume(found: Run) -> bool:
    is_open = CHECKPOINT in found.manifest.files or not found.is_finished
    return found.setup.command in ("solve", "solve-tensor") and is_open


def _described(found: Run) -> dict[str, Any]:
    return {
        "path": str(found.path),
        "config": found.config,
        "finished": found.is_finished,
        "can_resume": can_resume(found),
        "result": found.result,
        "converged": found.converged,
        "error": found.error,
        "expected_error": found.expected_error,
        "residual": found.residual,
        "certificate": None if found.certificate is None else found.certificate.facts(),
        "health": health_summary(found),
        "summary": found.summary,
        "history": {name: column.tolist() for name, column in found.history.columns.items()},
        "versions": found.manifest.versions,
        "problem_hash": found.manifest.problem,
    }


def _settings(name: str, found: Run) -> Table:
    table = Table(title=f"{found.setup.command} in {name}", title_justify="left", box=box.SIMPLE, show_header=False)
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
    if fields is None:  # the problem was given as an object
        return head
    return f"{head}({', '.join(f'{key}={entry}' for key, entry in fields.items() if entry is not None)})"


def _result(found: Run) -> Text:
    if not found.is_finished:
        saved = f"Not finished: {len(found.history)} iterations are saved; the same command with --resume continues it."
        return Text(saved, "yellow")
    more = " It can be resumed with more --iterations." if can_resume(found) else ""
    more += "" if found.cores is None else f"\n{_ranks(found)}"
    return Text(f"{inert(str(found.result))}.", "green" if found.converged else "yellow") + Text(more)


def health_summary(found: Run) -> dict[str, Any] | None:
    """Medians, worst states and the stuck share of the sampler; None of what its sampler does not have."""
    if found.health is None:
        return None
    acceptance, stuck, effective = (found.health[name] for name in ("acceptance", "stuck", "effective"))
    return {
        "median_acceptance": _over(np.nanmedian, acceptance),
        "worst_acceptance": _over(np.nanmin, acceptance),
        "worst_state": _over(np.nanargmin, acceptance),
        "stuck": _over(np.nanmean, stuck),
        "median_effective": _over(np.nanmedian, effective),
        "worst_effective": _over(np.nanmin, effective),
    }


def _over(measure: Callable[[np.ndarray], Any], values: np.ndarray) -> float | int | None:
    return None if np.isnan(values).all() else measure(values).item()


def _health(found: Run) -> str | None:
    measured = health_summary(found)
    if measured is None or measured["median_effective"] is None:
        return None
    parts = []
    if measured["median_acceptance"] is not None:
        median, worst, state = (measured[name] for name in ("median_acceptance", "worst_acceptance", "worst_state"))
        parts.append(f"acceptance {median:.2f} in the median state, {worst:.2f} in the worst (state {state})")
    if measured["stuck"] is not None:
        parts.append(f"{measured['stuck']:.2g} of the chains stuck")
    few = measured["worst_effective"]
    parts.append(f"{measured['median_effective']:,.3g} effective draws per pair, {few:,.3g} in the worst state")
    if found.expected_error is not None:
        parts.append(f"expected error of Q {found.expected_error:.1%} of the range of V")
    return f"Sampler: {'; '.join(parts)}."


def _ranks(found: Run) -> str:
    assert found.cores is not None and found.order is not None
    size = sum(core.size for core in found.cores)
    ranks, axes = ", ".join(map(str, train.ranks(found.cores))), ", ".join(map(str, found.order))
    return f"Ranks {ranks} between the axes {axes}; {size:,} numbers."


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


def _map(found: Run) -> list[Text] | None:
    if found.q is not None:
        return policy_map(found.q, found.outcome.grid.points)
    return None if found.cores is None or found.order is None else value_map(found.cores, found.order)


def policy_map(q: np.ndarray, points: Sequence[int]) -> list[Text] | None:
    """The greedy action over the first two axes, the others in their middle; from blue (first) to red (last)."""
    if not _fits(points):
        return None
    policy = q.argmax(axis=1).reshape(tuple(points))
    policy = policy[(slice(None), slice(None), *(n // 2 for n in points[2:]))]
    return [_head("Greedy action by its number", len(points)), *_cells(policy, q.shape[1] - 1)]


def value_map(cores: train.Train, order: Sequence[int]) -> list[Text] | None:
    """V over the first two axes, the others in their middle, in LEVELS steps from blue (low) to red (high)."""
    points = [core.shape[1] for _, core in sorted(zip(order, cores, strict=True), key=lambda pair: pair[0])]
    if not _fits(points):
        return None
    nodes = np.tile([n // 2 for n in points], (points[0] * points[1], 1))
    nodes[:, :2] = np.indices(points[:2]).reshape(2, -1).T
    values = train.entries(cores, nodes[:, list(order)]).reshape(points[:2])
    low, high = float(values.min()), float(values.max())
    steps = np.rint((values - low) / ((high - low) or 1) * (LEVELS - 1)).astype(int)
    return [_head(f"V from 0 = {low:.4g} to {LEVELS - 1} = {high:.4g}", len(points)), *_cells(steps, LEVELS - 1)]


def _fits(points: Sequence[int]) -> bool:
    return len(points) >= 2 and max(points[:2]) <= MAX_MAP


def _head(what: str, dimension: int) -> Text:
    rest = ", the others in their middle" if dimension > 2 else ""
    return Text(f"{what}, axis 0 downwards, axis 1 to the right{rest}", "bold")


def _cells(numbers: np.ndarray, most: int) -> list[Text]:
    """A coloured line for each row of whole numbers between 0 and `most`."""
    lines, width = [], len(str(most)) + 1
    for row in numbers:
        line = Text("  ")
        for number in row:
            line.append(f"{number:>{width}} ", Style(color="black", bgcolor=_colour(number / max(most, 1))))
        lines.append(line)
    return lines


def _colour(part: float) -> Color:
    """From blue over white to red, light enough for black letters."""
    blue, grey, red = (110, 150, 255), (245, 245, 245), (255, 120, 110)
    ends, weight = ((blue, grey), 2 * part) if part < 0.5 else ((grey, red), 2 * part - 1)
    return Color.from_rgb(*(round((1 - weight) * a + weight * b) for a, b in zip(*ends, strict=True)))
