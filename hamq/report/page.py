"""One self-contained HTML file on functions of the state: maps of their slices, facts, curves, tables.

The page shows any two axes across and up, with a slider for each other one. Of a table it holds one number per state; of a
tensor train it holds the cores and evaluates

    f(s) = G_1(s_order[0]) · … · G_d(s_order[d−1]),   G_k(x) = linear between the nodes of its axis (periodic axes wrap),

which is multilinear interpolation of the train's table and costs d·r² per slice instead of the table's pointsᵈ entries.

    page = make_page(
        "A chain of masses",
        layers=[Layer("Value", value_cores, order), TableLayer("Greedy action", policy, points, levels=actions)],
        grid=problem.grid,
        facts=[("Result", solution.result), ("Ranks", "1, 3, 3, 1")],
        charts=[Chart([Curve("Residual", [...]), Curve("Change", [...])], is_log=True)],
        tables=[Table("Rollouts", ["policy", "return"], [["greedy", -3.2], ["zero", -9.1]])],
    )

To show one more function, append a layer (layers.py). Layers of several `runs` stand side by side where their names are
equal, with their difference. A function of another kind needs a class in fields.js with a `slice`, its entry in KINDS there,
and what it reads from the page's data in layers.py. A grid of one axis is shown as curves. Names and texts may hold
anything: they stay text.
"""

import html
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hamq.problem.grid import Grid
from hamq.report.animation import Animation
from hamq.report.cards import FactsCard, card, facts_card, table_card
from hamq.report.cards import Table as Table
from hamq.report.curves import Chart, drawn
from hamq.report.layers import AnyLayer, encoded, require_fitting
from hamq.report.layers import Layer as Layer
from hamq.report.layers import TableLayer as TableLayer
from hamq.types import HamqError

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
ENUMERABLE = 10**7
"""Larger numbers of states are written as powers of ten."""
GENERATOR = b'<meta name="generator" content="hamq">'
"""By which a page of ours is known."""
ANIMATION_PLACE = '<section class="card" id="animation" aria-label="Animated rollout">\n<h2>Rollout</h2>\n</section>'
"""Filled by animation.js."""


def make_page(
    title: str,
    layers: Sequence[AnyLayer],
    grid: Grid,
    facts: Sequence[tuple[str, str]] = (),
    charts: Sequence[Chart] = (),
    tables: Sequence[Table] = (),
    axis_names: Sequence[str] | None = None,
    animations: Sequence[Animation | Mapping[str, Any]] = (),
    *,
    runs: Sequence[str] = ("",),
    cards: Sequence[FactsCard] = (),
    is_smooth: bool = False,
) -> str:
    """The page as text.

    `facts` are (label, text), `cards` hold more of them. `runs` are the names of those that the layers belong to.
    `is_smooth`: tables are interpolated at first, instead of shown as cells. `animations` is what animation.js plays: it
    finds the list in the page's data.
    """
    names = [f"s{i + 1}" for i in range(grid.dimension)] if axis_names is None else list(axis_names)
    if len(names) != grid.dimension:
        raise HamqError(f"make_page: axis_names must have one entry per axis ({grid.dimension}), got {len(names)}.")
    require_fitting(layers, grid, len(runs))
    data = {
        "axes": _axes(grid, names),
        "runs": list(runs),
        "isSmooth": is_smooth,
        "layers": encoded(layers),
        "animations": [a.data() if isinstance(a, Animation) else a for a in animations],
    }
    return _filled(
        _asset("page.html"),
        {
            "title": html.escape(title),
            "summary": _summary(layers, grid, runs),
            "facts": facts_card("The solution", facts),
            "cards": "\n".join(facts_card(one.title, one.facts, one.lead) for one in cards),
            "curves": card("Convergence", drawn(charts)),
            "tables": "\n".join(table_card(table) for table in tables if not table.is_wide),
            "wide_tables": "\n".join(table_card(table) for table in tables if table.is_wide),
            "data": _script_text(data),
            "css": _asset("page.css") + (_asset("animation.css") if animations else ""),
            "fields": _asset("fields.js"),
            "drawing": _asset("drawing.js"),
            "panel": _asset("panel.js"),
            "animation": ANIMATION_PLACE if animations else "",
            "animation_script": f'<script id="animation-script">{_asset("animation.js")}</script>' if animations else "",
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


def _summary(layers: Sequence[AnyLayer], grid: Grid, runs: Sequence[str]) -> str:
    counts = dict.fromkeys(_count(math.prod(layer.points)) for layer in layers)
    said = f"{len(runs)} runs, " if len(runs) > 1 else ""
    return f"{said}{grid.dimension} dimension{'s' * (grid.dimension > 1)}, {' and '.join(counts)} grid states"


def _script_text(data: Any) -> str:
    """JSON that cannot end or open a script element; json.dumps already writes U+2028 and U+2029 as escapes."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """All {{places}} in one pass: what is put in is never searched for places."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


def _asset(name: str) -> str:
    """A file beside this one; "" where there is none: animations come with files of their own."""
    file = resources.files("hamq.report").joinpath(name)
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _count(num: int) -> str:
    if num < ENUMERABLE:
        return f"{num:,}"
    power = math.floor(math.log10(num))
    return f"{10 ** (math.log10(num) - power):.1f} · 10{str(power).translate(SUPERSCRIPTS)}"
