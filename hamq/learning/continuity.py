"""Whether the log-density of a problem jumps, or is cut to zero inside the box: seen directly, on lines through draws.

Stein's identities (`sampling/calibration.py`) hold for densities that go to zero where they end; a density that jumps obeys
them with a term for every jump, which nobody knows. So does whatever uses a gradient across one. Along each axis through a
draw of a pair the density is looked at in places near and far, and the intervals over which it changes most are halved,
again and again. Over what is left, a millionth of the box, a continuous density does not change any more.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hamq.problem.grid import Grid

NUM_EVEN, NUM_NEAR = 88, 20
"""Places of a line that are spread over the box, and those at W/2, W/4, … on each side of the draw."""
NUM_PLACES = NUM_EVEN + 2 * NUM_NEAR
NUM_INTERVALS = 8
"""Of each line that are halved."""
NUM_HALVINGS = 12
JUMP = 0.03
"""Change of the density over what is left of an interval, as a part of its largest value on the line."""
EDGE = 1e-3
"""The same where one end has no density at all: cut off, however little was left."""


class Jumps(NamedTuple):
    """Of each pair: whether its density jumps, the axis and the place of the largest jump, how large it is; and the
    evaluations that this took for all of them."""

    found: Bool[np.ndarray, " P"]
    axis: np.ndarray
    place: Float[np.ndarray, " P"]
    size: Float[np.ndarray, " P"]
    density_evaluations: int


Logs = Callable[[Float[np.ndarray, "P n d"]], Float[np.ndarray, "P n"]]
"""log p of each pair at points of its own."""


def find_jumps(grid: Grid, logs_of: Logs, points: Float[np.ndarray, "P d"]) -> Jumps:
    """Looks along every axis through one point of each pair, which should be a draw: there the density matters."""
    lower, widths = np.asarray(grid.lower, np.float32), np.asarray(grid.widths, np.float32)
    points = points.astype(np.float32)
    own = _finite(logs_of(points[:, None]))[:, 0]
    best = (np.zeros(len(points)), np.zeros(len(points), int), np.zeros(len(points)))
    for axis in range(grid.dimension):
        places = np.repeat(points[:, None], NUM_PLACES, axis=1)
        places[:, :, axis] = _line(points[:, axis], lower[axis], widths[axis])
        logs = _finite(logs_of(places))
        top = np.maximum(own, logs.max(axis=1))
        size, place = _halved(logs_of, places, logs, top, axis)
        is_larger = size > best[0]
        best = tuple(np.where(is_larger, new, old) for new, old in zip((size, axis, place), best, strict=True))
    evaluations = len(points) * (grid.dimension * (NUM_PLACES + NUM_HALVINGS * NUM_INTERVALS) + 1)
    return Jumps(best[0] > 1, best[1], best[2], best[0] * JUMP, evaluations)


def _line(x: Float[np.ndarray, " P"], lower: np.float32, width: np.float32) -> Float[np.ndarray, "P places"]:
    """Places of one axis, in order: evenly over the box, and nearer and nearer to x."""
    even = lower + width * (np.arange(NUM_EVEN, dtype=np.float32) + np.float32(0.5)) / NUM_EVEN
    near = width * np.float32(0.5) ** np.arange(1, NUM_NEAR + 1, dtype=np.float32)
    both = np.concatenate([x[:, None] - near, x[:, None] + near, np.broadcast_to(even, (len(x), NUM_EVEN))], axis=1)
    margin = np.float32(1e-6) * width
    return np.sort(np.clip(both, lower + margin, lower + width - margin), axis=1)


def _halved(logs_of: Logs, places, logs, top, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """(size in units of what counts as a jump, place) of the largest jump on each line."""
    row = np.arange(len(places))[:, None]
    order = np.argsort(-_change(logs[:, :-1], logs[:, 1:], top), axis=1)[:, :NUM_INTERVALS]
    low, high = places[row, order, axis], places[row, order + 1, axis]
    low_log, high_log = logs[row, order], logs[row, order + 1]
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2
        asked = places[:, :NUM_INTERVALS].copy()
        asked[:, :, axis] = middle
        log = _finite(logs_of(asked))
        is_below = _change(low_log, log, top) >= _change(log, high_log, top)
        low, low_log = np.where(is_below, low, middle), np.where(is_below, low_log, log)
        high, high_log = np.where(is_below, middle, high), np.where(is_below, log, high_log)
    sizes = _change(low_log, high_log, top)
    best = sizes.argmax(axis=1)
    at = np.arange(len(best)), best
    return sizes[at], ((low + high) / 2)[at]


def _change(first: np.ndarray, second: np.ndarray, top: Float[np.ndarray, " P"]) -> np.ndarray:
    """Change of the density as a part of the line's largest, in units of what counts as a jump."""
    top = np.where(np.isfinite(top), top, 0)[:, None]
    change = np.abs(np.exp(np.minimum(first - top, 0)) - np.exp(np.minimum(second - top, 0)))
    is_edge = np.isfinite(first) != np.isfinite(second)
    return change / np.where(is_edge, EDGE, JUMP)


def _finite(logs: np.ndarray) -> Float[np.ndarray, "P n"]:
    """−inf where the density is not a number."""
    logs = np.asarray(logs, np.float64)
    return np.where(np.isnan(logs) | (logs == np.inf), -np.inf, logs)
