"""Line charts of what happened over the iterations, as SVG that needs no script."""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 440, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 8, 30
MAX_DOTS = 300
"""Points of one curve; longer histories are thinned."""
NUM_HUES = 8
"""Colours that page.css has for curves."""

History = Mapping[str, Sequence[float | int]]
Place = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """Heights over `across`, by default over the iterations 1, 2, …; `band`: lowest and highest of what it sums up.

    What is not a finite number was not measured: the curve passes over it. A log scale also leaves out what is not positive.
    """

    name: str
    heights: Sequence[float | int]
    across: Sequence[float | int] | None = None
    band: tuple[Sequence[float], Sequence[float]] | None = None
    hue: int | None = None
    """Colour; None: by its place in the chart."""

    def at(self, k: int) -> float:
        return float(k + 1 if self.across is None else self.across[k])


@dataclass(frozen=True)
class Chart:
    """Curves in one picture; `across` says what stands below it."""

    curves: Sequence[Curve]
    is_log: bool = False
    title: str = ""
    across: str = "iteration"

    def shown(self) -> list[Curve]:
        """Those with something to draw."""
        return [curve for curve in self.curves if any(_can_draw(float(v), self.is_log) for v in curve.heights)]


def charts_of(history: History) -> list[Chart]:
    """One chart on a log scale for what falls, and a linear one for each list of whole numbers (ranks, counts)."""
    measured = {name: [float(value) for value in values] for name, values in history.items()}
    measured = {name: values for name, values in measured.items() if any(map(math.isfinite, values))}
    whole = [name for name, values in measured.items() if all(v.is_integer() for v in values if math.isfinite(v))]
    positive = [name for name in measured if name not in whole and any(0 < v < math.inf for v in measured[name])]
    rest = [name for name in measured if name not in whole and name not in positive]
    alone = [Chart([Curve(name, measured[name])]) for name in whole + rest]
    return [Chart([Curve(name, measured[name]) for name in positive], is_log=True), *alone]


def drawn(charts: Sequence[Chart]) -> str:
    """The charts that have something to draw, side by side where there is room."""
    figures = [_chart(chart) for chart in charts if chart.shown()]
    return f'<div class="charts">\n{"".join(figures)}</div>' if figures else ""


def number(value: float) -> str:
    """A number in at most four digits, with a true minus."""
    text = f"{value:.4g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"
    mantissa, _, power = text.partition("e")
    if power:
        text = f"{float(mantissa):g}e{int(power)}"
    return text.replace("-", "−")


def _chart(chart: Chart) -> str:
    curves, is_log = chart.shown(), chart.is_log
    bands = [end for curve in curves for end in curve.band or ()]
    heights = [height for values in (*(curve.heights for curve in curves), *bands) for _, height in _points(values, is_log)]
    low, high = _ends(min(heights), max(heights), is_log)
    places = [curve.at(k) for curve in curves for k in range(len(curve.heights))]
    first, last = min(places), max(places)
    last = last if last > first else first + 1

    def place(across: float, height: float) -> tuple[float, float]:
        x = LEFT + (across - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        return round(x, 1), round(TOP + (high - height) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    keys, parts = [], _rules(low, high, is_log, place) + _marks(first, last, chart.across, place)
    for i, curve in enumerate(curves):
        hue = f"hue-{(i if curve.hue is None else curve.hue) % NUM_HUES}"
        keys.append(f'<span class="key {hue}">{html.escape(curve.name)}</span>')
        parts += [_band(curve, is_log, place, hue), _curve(curve, chart, place, hue)]
    title = f"<strong>{html.escape(chart.title)}</strong>" if chart.title else ""
    named = f"{chart.title}: " if chart.title else ""
    label = html.escape(f"Line chart over {chart.across}s: {named}{', '.join(curve.name for curve in curves)}")
    body = "\n".join(parts)
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">\n{body}\n</svg>'
    return f"<figure>\n<figcaption>{title}{''.join(keys)}</figcaption>\n{picture}\n</figure>\n"


def _can_draw(value: float, is_log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not is_log)


def _points(values: Sequence[float | int], is_log: bool) -> Iterator[tuple[int, float]]:
    """(position, height on the scale) of what can be drawn, thinned."""
    stride = -(-len(values) // MAX_DOTS)
    for i, value in enumerate(values):
        is_kept = i % stride == 0 or i == len(values) - 1
        if is_kept and _can_draw(float(value), is_log):
            yield i, math.log10(value) if is_log else float(value)


def _ends(low: float, high: float, is_log: bool) -> tuple[float, float]:
    """Whole decades on a log scale; a linear one holds 0."""
    low, high = (math.floor(low), math.ceil(high)) if is_log else (min(low, 0.0), max(high, 0.0))
    return float(low), float(high if high > low else low + 1)


def _rules(low: float, high: float, is_log: bool, place: Place) -> list[str]:
    """Grid lines with their numbers."""
    step = max(1.0, float(math.ceil((high - low) / 5))) if is_log else _round_step((high - low) / 6)
    parts = []
    for k in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1):
        _, y = place(1.0, k * step)
        text = _power(k * step) if is_log else number(k * step)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{text}</text>')
    return parts


def _marks(first: float, last: float, across: str, place: Place) -> list[str]:
    """Numbers below the chart, whole ones, the first among them."""
    step = max(1, round(_round_step((last - first) / 5)))
    marks = [first, *(float(k * step) for k in range(math.floor(first / step) + 1, math.floor(last / step) + 1))]
    if len(marks) > 2 and marks[1] - first < step / 2 and step > 1:
        del marks[1]
    parts = []
    for mark in marks:
        x, _ = place(mark, 0.0)
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{number(mark)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">{html.escape(across)}</text>')
    return parts


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _power(exponent: float) -> str:
    return f'10<tspan dy="-4" font-size="8">{number(exponent)}</tspan>'


def _band(curve: Curve, is_log: bool, place: Place, hue: str) -> str:
    """The area between the ends of the band."""
    if curve.band is None:
        return ""
    low, high = ([place(curve.at(k), height) for k, height in _points(end, is_log)] for end in curve.band)
    outline = " ".join(f"{x},{y}" for x, y in [*low, *reversed(high)])
    return f'<polygon class="band {hue}" points="{outline}"/>'


def _curve(curve: Curve, chart: Chart, place: Place, hue: str) -> str:
    """The line, and dots that show their numbers under the pointer."""
    placed = [(k, *place(curve.at(k), height)) for k, height in _points(curve.heights, chart.is_log)]
    line = " ".join(f"{x},{y}" for _, x, y in placed)
    alone = " alone" if len(placed) == 1 else ""
    dots = "".join(
        f'<circle class="dot {hue}{alone}" cx="{x}" cy="{y}" r="4"><title>{html.escape(_said(curve, chart, k))}</title>'
        "</circle>"
        for k, x, y in placed
    )
    return f'<polyline class="curve {hue}" points="{line}"/>{dots}'


def _said(curve: Curve, chart: Chart, k: int) -> str:
    where = f"iteration {k + 1}" if curve.across is None else f"{chart.across} {number(curve.at(k))}"
    ends = "" if curve.band is None else f" ({number(curve.band[0][k])} to {number(curve.band[1][k])})"
    return f"{curve.name}, {where}: {number(float(curve.heights[k]))}{ends}"
