"""Numbers as a terminal shows them: bars of a history, and coloured maps of a policy or a value."""

import math
from collections.abc import Sequence

import numpy as np
from rich.color import Color
from rich.style import Style
from rich.text import Text

from hamq.tensor import train

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40
LEVELS = 10
"""Steps of a map of V."""
MAX_MAP = 60
"""Cells per side that a terminal shows."""


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
