"""Summits of log p, found by climbing from places all over the box.

Far from a narrow peak the density is 0 to the last bit, and no point of a quadrature knows of it. But its logarithm still
rises towards the peak. A climb takes Newton steps along the axes, from differences of log p alone, so that nothing is
compiled for it: a peak that is normal far out is reached in a few steps, whatever its width. A step that does not rise is
cut. Places without any density are left out: log p says nothing there.

How the errors of pairs fall with their evaluations, and what that says of the evaluations that a tolerance takes.

A smooth density settles faster than any power of its evaluations, a jump along a line to the power of one half or one, a
singularity more slowly. The last doubling of the evaluations of a pair says which.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

LEAST_POWER = 0.1
"""An error that falls more slowly than evaluations to this power does not fall."""


class Fall:
    """Evaluations and errors of pairs, round by round."""

    def __init__(self, tolerance: float):
        self.tolerance, self.rows = tolerance, []

    def add(
        self, evaluations: Int[np.ndarray, " P"], errors: Float[np.ndarray, " P"], masses: Float[np.ndarray, " P"]
    ) -> None:
        with np.errstate(all="ignore"):
            self.rows.append((evaluations.astype(float), errors / masses))

    def needed(self) -> Float[np.ndarray, " P"]:
        """Evaluations of each pair until its error is within the tolerance; those it has where it is."""
        spent, errors = (np.stack(column) for column in zip(*self.rows, strict=True))
        half = np.maximum(np.argmax(spent > spent[-1] / 2, axis=0) - 1, 0)[None]
        then, error_then = (np.take_along_axis(a, half, axis=0)[0] for a in (spent, errors))
        with np.errstate(all="ignore"):
            power = np.log(error_then / errors[-1]) / np.log(spent[-1] / then)
            more = (errors[-1] / self.tolerance) ** (1 / np.maximum(power, LEAST_POWER))
        return np.where(errors[-1] <= self.tolerance, spent[-1], spent[-1] * np.nan_to_num(more, nan=np.inf))


NUM_PLACES, NUM_STEPS = {1: 4}, {1: 6}
MOST_PLACES, MOST_STEPS = 12, 9
"""Places from which each pair is climbed, and steps of a climb: on a line fewer do."""
FIRST_STEP, LEAST_STEP = 0.25, 1e-6
"""Differences are taken over this part of the box at first, and never over less."""
CUT = 0.2
"""What is left of a step that did not rise."""

Logs = Callable[[Int[np.ndarray, " N"], Float[np.ndarray, "N d"]], Float[np.ndarray, " N"]]
"""log p of pairs at one point each; −inf outside of the box."""


def places(lower: Float[np.ndarray, " d"], upper: Float[np.ndarray, " d"]) -> Float[np.ndarray, "n d"]:
    """Low-discrepancy points of the box (Roberts 2018)."""
    d, phi = len(lower), 2.0
    for _ in range(60):
        phi = (1 + phi) ** (1 / (d + 1))
    count = np.arange(1, NUM_PLACES.get(d, MOST_PLACES) + 1)
    return lower + (upper - lower) * ((0.5 + count[:, None] / phi ** np.arange(1, d + 1)) % 1)


def climb(
    logs: Logs, pairs: Int[np.ndarray, " P"], lower: Float[np.ndarray, " d"], upper: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, "P n d"], Float[np.ndarray, "P n"]]:
    """(where the climbs of each pair end, log p there)."""
    width, starts = upper - lower, places(lower, upper)
    shape = len(pairs), len(starts)
    at, pairs = np.tile(starts, (len(pairs), 1)), np.repeat(pairs, len(starts))
    height = logs(pairs, at)
    reach = np.full(len(at), FIRST_STEP)
    for _ in range(NUM_STEPS.get(len(lower), MOST_STEPS)):
        step = _newton_step(logs, pairs, at, height, reach, width)
        tried = np.clip(at + step, lower, upper)
        found = logs(pairs, tried)
        rises = found > height
        at[rises], height[rises] = tried[rises], found[rises]
        # Differences over as much as the last step moved: the curvature of a narrow peak is seen from near by alone.
        length = np.max(np.abs(step) / width, axis=1)
        reach = np.clip(np.where(rises, np.minimum(reach, length), CUT * reach), LEAST_STEP, FIRST_STEP)
    return at.reshape(*shape, -1), height.reshape(shape)


def _newton_step(logs: Logs, pairs, at, height, reach, width) -> Float[np.ndarray, "N d"]:
    """Along each axis; where log p is not concave, as far up as differences were taken."""
    step = np.zeros_like(at)
    for axis in range(at.shape[1]):
        away = np.zeros_like(at)
        away[:, axis] = reach * width[axis]
        up, down = logs(pairs, at + away), logs(pairs, at - away)
        with np.errstate(invalid="ignore", divide="ignore"):
            slope, bend = (up - down) / 2, 2 * height - up - down
            parts = np.where(bend > 0, slope / bend, np.sign(slope))
        is_known = np.isfinite(up) & np.isfinite(down) & np.isfinite(parts)
        one_sided = np.where(np.isfinite(up) & (up > height), 1.0, np.where(np.isfinite(down) & (down > height), -1.0, 0.0))
        # At most four differences far: a peak that is normal is hit from any distance by a parabola.
        step[:, axis] = np.where(is_known, np.clip(np.where(is_known, parts, 0), -4, 4), one_sided) * reach * width[axis]
    return step
