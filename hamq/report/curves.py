"""Line charts of what happened over the iterations, as SVG that needs no script."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence

WIDTH, HEIGHT = 440, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 8, 30
MAX_DOTS = 300
"""Points of one curve; longer histories are thinned."""
NUM_HUES = 4
"""Colours that page.css has for curves."""

History = Mapping[str, Sequence[float | int]]


def charts(history: History) -> str:
    """One chart on a log scale for residuals and changes, and a linear one for each list of whole numbers (ranks, counts).

    What is not a finite number was not measured in that iteration: the curve passes over it. A log scale also leaves out
    what is not positive.
    """
    measured = {name: [float(value) for value in values] for name, values in history.items()}
    measured = {name: values for name, values in measured.items() if any(map(math.isfinite, values))}
    whole = [name for name, values in measured.items() if all(v.is_integer() for v in values if math.isfinite(v))]
    positive = [name for name in measured if name not in whole and any(0 < v < math.inf for v in measured[name])]
    rest = [name for name in measured if name not in whole and name not in positive]
    groups = [[name] for name in whole + rest]
    parts = [_chart({name: measured[name] for name in positive}, is_log=True)] if positive else []
    return "".join(parts + [_chart({name: measured[name] for name in group}, is_log=False) for group in groups])


def number(value: float) -> str:
    """A number in at most four digits, with a true minus."""
    text = f"{value:.4g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"
    mantissa, _, power = text.partition("e")
    if power:
        text = f"{float(mantissa):g}e{int(power)}"
    return text.replace("-", "−")


def _chart(curves: Mapping[str, Sequence[float]], is_log: bool) -> str:
    points = {name: list(_points(values, is_log)) for name, values in curves.items()}
    heights = [height for found in points.values() for _, height in found]
    low, high = _ends(min(heights), max(heights), is_log)
    last = max(max(map(len, curves.values())), 2)

    def place(iteration: int, height: float) -> tuple[float, float]:
        across = LEFT + (iteration - 1) / (last - 1) * (WIDTH - LEFT - RIGHT)
        return round(across, 1), round(TOP + (high - height) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    keys, drawn = [], _rules(low, high, last, is_log, place)
    for i, (name, found) in enumerate(points.items()):
        hue = f"hue-{i % NUM_HUES}"
        keys.append(f'<span class="key {hue}">{html.escape(name)}</span>')
        drawn.append(_curve(name, curves[name], [(k, *place(k, height)) for k, height in found], hue))
    label = html.escape(f"Line chart over iterations: {', '.join(curves)}")
    body = "\n".join(drawn)
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">\n{body}\n</svg>'
    return f"<figure>\n<figcaption>{''.join(keys)}</figcaption>\n{picture}\n</figure>\n"


def _points(values: Sequence[float], is_log: bool) -> Iterator[tuple[int, float]]:
    """(iteration, height on the scale) of what can be drawn, thinned."""
    stride = -(-len(values) // MAX_DOTS)
    for i, value in enumerate(values):
        is_kept = i % stride == 0 or i == len(values) - 1
        if is_kept and math.isfinite(value) and (value > 0 or not is_log):
            yield i + 1, math.log10(value) if is_log else value


def _ends(low: float, high: float, is_log: bool) -> tuple[float, float]:
    """Whole decades on a log scale; a linear one holds 0."""
    low, high = (math.floor(low), math.ceil(high)) if is_log else (min(low, 0.0), max(high, 0.0))
    return float(low), float(high if high > low else low + 1)


def _rules(low: float, high: float, last: int, is_log: bool, place) -> list[str]:
    """Grid lines with their numbers."""
    step = max(1.0, float(math.ceil((high - low) / 5))) if is_log else _round_step((high - low) / 6)
    drawn = []
    for k in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1):
        _, y = place(1, k * step)
        text = _power(k * step) if is_log else number(k * step)
        drawn.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        drawn.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{text}</text>')
    stride = max(1, round(_round_step((last - 1) / 5)))
    for iteration in [1, *range(stride * (1 + (stride == 1)), last + 1, stride)]:
        x, _ = place(iteration, low)
        drawn.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{iteration}</text>')
    drawn.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">iteration</text>')
    return drawn


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _power(exponent: float) -> str:
    return f'10<tspan dy="-4" font-size="8">{number(exponent)}</tspan>'


def _curve(name: str, values: Sequence[float], placed: Sequence[tuple[int, float, float]], hue: str) -> str:
    """The line, and dots that show their numbers under the pointer."""
    line = " ".join(f"{x},{y}" for _, x, y in placed)
    alone = " alone" if len(placed) == 1 else ""
    dots = "".join(
        f'<circle class="dot {hue}{alone}" cx="{x}" cy="{y}" r="4"><title>{html.escape(name)}, iteration {k}: '
        f"{number(values[k - 1])}</title></circle>"
        for k, x, y in placed
    )
    return f'<polyline class="curve {hue}" points="{line}"/>{dots}'
