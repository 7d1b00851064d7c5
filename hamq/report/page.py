"""One self-contained HTML file on a value function that is a tensor train: maps of its slices, facts, curves, tables.

The page holds the cores and evaluates the train itself, for any two axes across and up and a slider for each other one:

    f(s) = G_1(s_order[0]) · … · G_d(s_order[d−1]),   G_k(x) = linear between the nodes of its axis (periodic axes wrap),

which is multilinear interpolation of the train's table and costs d·r² per slice instead of the table's pointsᵈ entries.

    page = make_page(
        "A chain of masses",
        layers=[Layer("Value", value_cores, order), Layer("Action 1", action_cores, order, unit="N", is_diverging=True)],
        grid=problem.grid,
        facts=[("Result", solution.result), ("Ranks", "1, 3, 3, 1")],
        history={"Residual, held out": [...], "Largest rank": [...]},
        tables=[Table("Rollouts", ["policy", "return"], [["greedy", -3.2], ["zero", -9.1]])],
    )

To show one more function, append a `Layer`: a name, its cores as NumPy arrays [left rank, points, right rank] in the order
of the train, and in `order` the axis of the grid that each core belongs to. `is_diverging` colours it blue, white, red
around 0, for actions and differences. A function that is not a train needs a class in fields.js with a `slice`, its
entry in KINDS there, and what it reads from the page's data, beside `_layer` here. Names and texts may hold anything:
they stay text.
"""

import base64
import html
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from hamq.problem.grid import Grid
from hamq.report.curves import History, charts, number

Cell = str | float | int | np.number
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
ENUMERABLE = 10**7
"""Larger numbers of states are written as powers of ten."""
GENERATOR = b'<meta name="generator" content="hamq">'
"""By which a page of ours is known."""
MAX_COLUMNS = 4
"""A table with more takes the whole width of the page."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A tensor train to show: cores[k] is [r_k, points, r_{k+1}] for the grid's axis order[k], r_0 = r_d = 1."""

    name: str
    cores: tuple[np.ndarray, ...]
    order: tuple[int, ...]
    unit: str = ""
    is_diverging: bool = False

    def __post_init__(self):
        if any(core.ndim != 3 for core in self.cores):
            shapes = [core.shape for core in self.cores]
            raise ValueError(f"Layer {self.name!r}: cores must be [left rank, points, right rank], got shapes {shapes}.")
        left, right = [core.shape[0] for core in self.cores], [core.shape[2] for core in self.cores]
        if [*left, 1] != [1, *right]:
            raise ValueError(f"Layer {self.name!r}: ranks {left} on the left and {right} on the right do not fit together.")
        if sorted(self.order) != list(range(len(self.cores))):
            raise ValueError(
                f"Layer {self.name!r}: order must name each of the {len(self.cores)} axes once, got {self.order}."
            )


@dataclass(frozen=True)
class Table:
    """Rows under a header; numbers are shortened and stand on the right of their columns."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    def __post_init__(self):
        for i, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise ValueError(f"Table {self.title!r}: row {i} has {len(row)} cells and the header {len(self.header)}.")


def make_page(
    title: str,
    layers: Sequence[Layer],
    grid: Grid,
    facts: Sequence[tuple[str, str]] = (),
    history: History | None = None,
    tables: Sequence[Table] = (),
    axis_names: Sequence[str] | None = None,
) -> str:
    """The page as text. `facts` are (label, text); `history` is one list of numbers per curve, see `curves.charts`."""
    names = [f"s{i + 1}" for i in range(grid.dimension)] if axis_names is None else list(axis_names)
    _check(layers, grid, names)
    data = {"axes": _axes(grid, names), "layers": [_layer(layer) for layer in layers]}
    return _filled(
        _asset("page.html"),
        {
            "title": html.escape(title),
            "summary": f"{grid.dimension} dimensions, {_count(grid.num_states)} grid states",
            "facts": _facts(facts),
            "curves": _card("Convergence", charts(history or {})),
            "tables": "\n".join(_table(table) for table in tables if not _is_wide(table)),
            "wide_tables": "\n".join(_table(table) for table in tables if _is_wide(table)),
            "data": _script_text(data),
            "css": _asset("page.css"),
            "fields": _asset("fields.js"),
            "script": _asset("page.js"),
        },
    )


def write_page(path: str | os.PathLike, *arguments: Any, **named: Any) -> Path:
    """Writes the page of `make_page`, which takes the same arguments after the path."""
    path = Path(path)
    path.write_text(make_page(*arguments, **named), encoding="utf-8")
    return path


def is_page(path: Path) -> bool:
    """Whether the file is a page that `write_page` wrote, or began to write."""
    with path.open("rb") as file:
        start = file.read(1000)
    return GENERATOR in start or not start


def _check(layers: Sequence[Layer], grid: Grid, names: Sequence[str]) -> None:
    if grid.dimension < 2:
        raise ValueError(f"make_page: a map needs two axes, the grid has {grid.dimension}; plot the values as a curve.")
    if len(names) != grid.dimension:
        raise ValueError(f"make_page: axis_names must have one entry per axis ({grid.dimension}), got {len(names)}.")
    if not layers:
        raise ValueError("make_page: at least one layer is needed, got none.")
    for layer in layers:
        points = [core.shape[1] for core in layer.cores]
        expected = [grid.points[axis] for axis in layer.order] if len(layer.order) == grid.dimension else list(grid.points)
        if points != expected:
            raise ValueError(f"make_page: layer {layer.name!r} has {points} points, the grid in its order {expected}.")


def _axes(grid: Grid, names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "lower": grid.lower[i],
            "upper": grid.upper[i],
            "points": grid.points[i],
            "periodic": grid.periodic[i],
        }
        for i, name in enumerate(names)
    ]


def _layer(layer: Layer) -> dict[str, Any]:
    """What `Train` in fields.js reads: all cores one after the other, float32, little endian, base64."""
    with np.errstate(over="ignore"):  # said below, with the layer's name
        entries = np.concatenate([np.ravel(core) for core in layer.cores]).astype("<f4")
    if not np.all(np.isfinite(entries)):
        raise ValueError(f"make_page: layer {layer.name!r} has cores that are not finite in float32; balance their scales.")
    return {
        "kind": "train",
        "name": layer.name,
        "unit": layer.unit,
        "isDiverging": layer.is_diverging,
        "order": [int(axis) for axis in layer.order],
        "shapes": [core.shape for core in layer.cores],
        "cores": base64.b64encode(entries.tobytes()).decode("ascii"),
    }


def _script_text(data: Any) -> str:
    """JSON that cannot end or open a script element; json.dumps already writes U+2028 and U+2029 as escapes."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """All {{places}} in one pass: what is put in is never searched for places."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _asset(name: str) -> str:
    return resources.files("hamq.report").joinpath(name).read_text(encoding="utf-8")


def _count(num: int) -> str:
    if num < ENUMERABLE:
        return f"{num:,}"
    power = math.floor(math.log10(num))
    return f"{10 ** (math.log10(num) - power):.1f} · 10{str(power).translate(SUPERSCRIPTS)}"


def _card(title: str, body: str) -> str:
    if not body:
        return ""
    return f'<section class="card">\n<h2>{html.escape(title)}</h2>\n{body}\n</section>'


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    lines = [f"<dt>{html.escape(label)}</dt><dd>{html.escape(text)}</dd>" for label, text in facts]
    return _card("The solution", "<dl>\n" + "\n".join(lines) + "\n</dl>" if lines else "")


def _table(table: Table) -> str:
    numeric = [bool(table.rows) and not any(isinstance(row[i], str) for row in table.rows) for i in range(len(table.header))]
    head = "".join(f"<th{_side(numeric[i])}>{html.escape(text)}</th>" for i, text in enumerate(table.header))
    rows = [
        "<tr>" + "".join(f"<td{_side(numeric[i])}>{_cell(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    ]
    grid = (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )
    caption = f'\n<p class="caption">{html.escape(table.caption)}</p>' if table.caption else ""
    return _card(table.title, grid + caption)


def _is_wide(table: Table) -> bool:
    return len(table.header) > MAX_COLUMNS


def _side(is_numeric: bool) -> str:
    return ' class="numeric"' if is_numeric else ""


def _cell(cell: Cell) -> str:
    return html.escape(cell) if isinstance(cell, str) else number(float(cell))
