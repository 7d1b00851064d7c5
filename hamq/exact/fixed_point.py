"""The fixed point of a discounted operator, between two bounds.

T is monotone, and T(V + c) = TV + γc for a constant c. With f = TV − V, b₋ = min f and b₊ = max f (MacQueen),

    TV + γ b₋/(1−γ)  ≤  V*  ≤  TV + γ b₊/(1−γ).

Proof of the right side: TV ≤ V + b₊; apply T again and again: TᵏV ≤ TV + (γ + … + γᵏ⁻¹) b₊; k → ∞.

Terminal states have V = TV = 0 and do not pass a constant on: with N the other states, T(V + c·1_N) ≤ TV + γc·1_N holds
for c ≥ 0 only, because a pair moves into N with probability at most 1; ≥ holds for c ≤ 0 only. The proof needs no more
than b₊ ≥ 0 ≥ b₋, which is so because f = 0 in the terminal states: they must be among those over which max and min are
taken. The bounds then hold on N.

The computed image is within ε of TV (rounding, quadrature). Then b± ± ε bound f, and the images themselves may be off
by ε: both bounds move outwards by ε + γε/(1−γ) = ε/(1−γ).

Iterates come from Anderson's extrapolation of the last ten sweeps. It may lose ground for a while, so it is judged by
windows of 20 sweeps: where the distance of the bounds did not shrink by γ²⁰, as 20 plain sweeps surely would, plain
sweeps from the best iterate follow, 10 at first and twice as many each time. So at most a few windows are ever lost
against the rate γ that plain sweeps guarantee.
"""

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.solution import History

DEPTH = 10
"""Sweeps that Anderson's extrapolation remembers."""
WINDOW = 20
"""Sweeps after which the extrapolation is judged."""
FIRST_REST = 10
"""Plain sweeps after its first failure."""
LOST = 1e4
"""Growth of the distance of the bounds that is not waited for."""
CUTOFF = 1e-12
"""Eigenvalues of the (scaled) Gram matrix below it are noise of its own rounding."""
NEAR = 0.1
"""Where the slack alone is above the tolerance, iterating stops once it adds less than this part to the slack."""

Reason = Literal["reached", "slack", "sweeps"]


class Bounds(NamedTuple):
    """V* and Q* lie between image + low and image + high; `slack` is the part that no iterating removes."""

    low: float
    high: float
    slack: float

    @property
    def error(self) -> float:
        return (self.high - self.low) / 2


class Record:
    """One row per sweep and a clock: what becomes the history."""

    def __init__(self, tell: Callable[[int, float], None] | None = None):
        """`tell` hears of every sweep and of the best error so far."""
        self.began, self.rows, self._tell = time.perf_counter(), [], tell

    def add(self, residual: float, error: float, best_error: float, is_resting: bool) -> None:
        self.rows.append((residual, error, best_error, int(is_resting), time.perf_counter() - self.began))
        if self._tell is not None:
            self._tell(len(self.rows), best_error)

    def history(self) -> History:
        """Columns: sweep, residual ‖TV − V‖∞, error (of the bounds), best_error so far, resting (0 or 1), seconds."""
        residual, error, best_error, resting, seconds = (np.asarray(column) for column in zip(*self.rows, strict=True))
        return History(
            sweep=np.arange(1, len(self.rows) + 1),
            residual=residual,
            error=error,
            best_error=best_error,
            resting=resting,
            seconds=seconds,
        )


class FixedPoint(NamedTuple):
    """The last good iterate, its image, the table behind the image, their bounds, and why iterating stopped."""

    value: Float[np.ndarray, " S"]
    image: Float[np.ndarray, " S"]
    table: Float[np.ndarray, "S A"]
    bounds: Bounds
    reason: Reason


def macqueen(value: np.ndarray, image: np.ndarray, discount: float, slack: float) -> Bounds:
    """The bounds above; `slack` bounds the distance of `image` from the exact one."""
    change = image - value
    smallest, largest = float(change.min()) - slack, float(change.max()) + slack
    factor = discount / (1 - discount)
    return Bounds(factor * smallest - slack, factor * largest + slack, slack / (1 - discount))


def iterate(
    apply: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    slack: Callable[[np.ndarray], float],
    start: Float[np.ndarray, " S"],
    *,
    discount: float,
    has_terminal_states: bool,
    tolerance: float,
    max_sweeps: int,
    record: Record,
) -> FixedPoint:
    """Sweeps until the bounds are within ±tolerance; `apply` gives (TV, the table it was read from)."""
    anderson = Anderson(len(start), discount, drop_constants=not has_terminal_states)
    value, best, is_resting = start, None, False
    for _ in range(max_sweeps):
        image, table = apply(value)
        bounds = macqueen(value, image, discount, slack(value))
        if best is None or _width(bounds) < _width(best.bounds):
            best = FixedPoint(value, image, table, bounds, _reason(bounds, tolerance))
        record.add(float(np.abs(image - value).max()), bounds.error, best.bounds.error, is_resting)
        if best.reason == "reached" or (best.reason == "slack" and _width(best.bounds) <= NEAR * best.bounds.slack):
            break
        if anderson.has_failed(_width(bounds), _width(best.bounds)):
            anderson.rest()
            value, image = best.value, best.image
        is_resting = anderson.is_resting
        value = anderson.extrapolate(value, image)
    assert best is not None
    return best


def _reason(bounds: Bounds, tolerance: float) -> Reason:
    """Why iterating stops here, if it does."""
    if bounds.error <= tolerance:
        return "reached"
    return "slack" if bounds.slack > tolerance else "sweeps"


def _width(bounds: Bounds) -> float:
    """What iterating can still remove."""
    return max(bounds.error - bounds.slack, 0.0)


class Anderson:
    """Extrapolation of V → TV (Anderson 1965), while it pays: the mixture of past images with the smallest residual.

    Constants are dropped from the residuals where the bounds do not see them either.
    """

    def __init__(self, size: int, discount: float, drop_constants: bool):
        self.discount, self.drop_constants = discount, drop_constants
        self.depth = min(DEPTH, max(1, size // 2))
        self.changes, self.images = np.zeros((self.depth, size)), np.zeros((self.depth, size))
        self.count, self.last = 0, None
        self.num_plain, self.next_rest = 0, FIRST_REST
        self.num_sweeps, self.goal = 0, None

    @property
    def is_resting(self) -> bool:
        return self.num_plain > 0

    def has_failed(self, width: float, best_width: float) -> bool:
        """Whether this sweep ends a window that did not reach its goal, or has lost all the ground there was."""
        self.num_sweeps += 1
        if self.is_resting or self.goal is None:
            self.num_sweeps, self.goal = 0, self.discount**WINDOW * best_width
            return False
        if not width <= LOST * best_width:  # NaN too
            return True
        if self.num_sweeps < WINDOW:
            return False
        is_short = best_width > self.goal
        self.num_sweeps, self.goal = 0, self.discount**WINDOW * best_width
        return is_short

    def rest(self) -> None:
        """Plain sweeps for a while, twice as long each time; what was remembered is forgotten."""
        self.count, self.last = 0, None
        self.num_plain, self.next_rest = self.next_rest, 2 * self.next_rest

    def extrapolate(self, value: np.ndarray, image: np.ndarray) -> np.ndarray:
        """The next iterate."""
        if self.is_resting:
            self.num_plain -= 1
            return image
        change = image - value
        if self.drop_constants:
            change -= change.mean()
        last, self.last = self.last, (change, image)
        if last is None:
            return image
        slot = self.count % self.depth
        np.subtract(change, last[0], out=self.changes[slot])
        np.subtract(image, last[1], out=self.images[slot])
        self.count += 1
        used = min(self.count, self.depth)
        return image - _least_squares(self.changes[:used], change) @ self.images[:used]


def _least_squares(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """w that makes |target − w·rows| small, by the Gram matrix of the normalised rows: 10 × 10 whatever the grid."""
    scale = np.linalg.norm(rows, axis=1)
    scale[scale == 0] = 1
    gram = (rows @ rows.T) / np.outer(scale, scale)
    eigenvalues, vectors = np.linalg.eigh(gram)
    kept = eigenvalues > CUTOFF * eigenvalues[-1]
    weights = vectors[:, kept] @ ((vectors[:, kept].T @ ((rows @ target) / scale)) / eigenvalues[kept])
    return weights / scale
