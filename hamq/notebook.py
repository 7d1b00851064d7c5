"""What a notebook shows: a title, a sentence, a few numbers and a map of coloured cells, as HTML without scripts.

Names come from users and run folders: all text is escaped.
"""

import html
from collections.abc import Sequence

import numpy as np
from jaxtyping import Num

COLOURS = ((49, 54, 149), (116, 173, 209), (255, 255, 191), (244, 109, 67), (165, 0, 38))
"""From low to high."""
SIDE = 240
"""Pixels of the longer side of a map."""
MAX_CELLS = 60
"""Per side; larger maps show every n-th node."""


def card(title: str, sentence: str, facts: Sequence[tuple[str, str]] = (), picture: str = "") -> str:
    """One block: the title, the sentence, the facts as a table, and the picture beside them."""
    rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in facts)
    table = f"<table>{rows}</table>" if rows else ""
    said = f"<div><strong>{html.escape(title)}</strong><p>{html.escape(sentence)}</p>{table}</div>"
    return f'<div style="display:flex;gap:1.5em;align-items:flex-start">{said}{picture}</div>'


def map_of(values: Num[np.ndarray, "x y"], axes: tuple[str, str], caption: str) -> str:
    """Coloured cells, the first axis to the right and the second upwards; the least value blue, the largest red.

    What is not finite, such as the bound of a certificate that says nothing, is shown as the largest.
    """
    steps = [max(1, -(-size // MAX_CELLS)) for size in values.shape]
    shown = np.asarray(values, np.float64)[:: steps[0], :: steps[1]]
    is_finite = np.isfinite(shown)
    known = shown[is_finite] if is_finite.any() else np.zeros(1)
    low, high = float(known.min()), float(known.max())
    shown = np.where(is_finite, shown, high)
    parts = (shown - low) / (high - low) if high > low else np.full(shown.shape, 0.5)
    width, height = shown.shape
    cells = "".join(
        f'<rect x="{x}" y="{height - 1 - y}" width="{run}" height="1" fill="{colour}"/>'
        for y in range(height)
        for x, run, colour in _runs([_colour(part) for part in parts[:, y]])
    )
    scale = SIDE / max(width, height)
    size = f'width="{width * scale:.0f}" height="{max(height * scale, 12):.0f}"'
    box = f'viewBox="0 0 {width} {height}" preserveAspectRatio="none" shape-rendering="crispEdges"'
    across, up = (html.escape(name) for name in axes)
    told = f"{html.escape(caption)}; {across} to the right" + (f", {up} upwards" if height > 1 else "")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {box}>{cells}</svg>'
    return f'<figure style="margin:0">{svg}<figcaption style="font-size:85%">{told}</figcaption></figure>'


def _colour(part: float) -> str:
    place = min(max(part, 0.0), 1.0) * (len(COLOURS) - 1)
    left = min(int(place), len(COLOURS) - 2)
    mixed = [round(a + (place - left) * (b - a)) for a, b in zip(COLOURS[left], COLOURS[left + 1], strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _runs(colours: Sequence[str]) -> list[tuple[int, int, str]]:
    """(first cell, number of cells, colour) of neighbours that are alike."""
    found: list[tuple[int, int, str]] = []
    for x, colour in enumerate(colours):
        if found and found[-1][2] == colour:
            first, count, _ = found[-1]
            found[-1] = (first, count + 1, colour)
        else:
            found.append((x, 1, colour))
    return found


def held(points: Sequence[int]) -> str:
    """What is said of the axes that are not shown."""
    return ", the other axes in their middle" if len(points) > 2 else ""


def slice_of(table: Num[np.ndarray, " S"], points: Sequence[int]) -> Num[np.ndarray, "x y"]:
    """Values at all nodes → those of the first two axes, the others in their middle; one row where there is one axis."""
    if len(points) == 1:
        return table.reshape(points[0], 1)
    return table.reshape(tuple(points))[(slice(None), slice(None), *(n // 2 for n in points[2:]))]
