"""The fixed point of a discounted operator, between two bounds.

T is monotone, and T(V + c) = TV + γc for a constant c. With f = TV − V, b₋ = min f and b₊ = max f (MacQueen),

    TV + γ b₋/(1−γ)  ≤  V*  ≤  TV + γ b₊/(1−γ).

Proof of the right side: TV ≤ V + b₊; apply T again and again: TᵏV ≤ TV + (γ + … + γᵏ⁻¹) b₊; k → ∞.

Terminal states have V = TV = 0 and do not pass a constant on: with N the other states, T(V + c·1_N) ≤ TV + γc·1_N holds
for c ≥ 0 only, because a pair moves into N with probability at most 1; ≥ holds for c ≤ 0 only. The proof needs nothing
else, so with terminal states b₊ is cut at ≥ 0, b₋ at ≤ 0, and the bounds hold on N.

The computed image is within ε of TV (rounding, quadrature). Then b± ± ε bound f, and the images themselves may be off
by ε: both bounds move outwards by ε + γε/(1−γ) = ε/(1−γ).

Iterates come from Anderson's extrapolation of the last ten sweeps; where that does not shrink the distance of the
bounds by γ, as a plain sweep surely would, the plain sweep is taken instead. So no run needs more than twice the sweeps
of value iteration, and most need a tenth.
"""

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.exact.solution import History

DEPTH = 10
"""Sweeps that Anderson's extrapolation remembers."""
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

    def __init__(self):
        self.began, self.rows = time.perf_counter(), []

    def add(self, residual: float, error: float, is_plain: bool) -> None:
        self.rows.append((residual, error, int(is_plain), time.perf_counter() - self.began))

    def history(self) -> History:
        residual, error, plain, seconds = (np.asarray(column) for column in zip(*self.rows, strict=True))
        sweep = np.arange(1, len(self.rows) + 1)
        return History(sweep=sweep, residual=residual, error=error, plain=plain, seconds=seconds)


class FixedPoint(NamedTuple):
    """The last good iterate, its image, the table behind the image, their bounds, and why iterating stopped."""

    value: Float[np.ndarray, " S"]
    image: Float[np.ndarray, " S"]
    table: Float[np.ndarray, "S A"]
    bounds: Bounds
    reason: Reason


def macqueen(value: np.ndarray, image: np.ndarray, discount: float, slack: float, has_terminal_states: bool) -> Bounds:
    """The bounds above; `slack` bounds the distance of `image` from the exact one."""
    change = image - value
    smallest, largest = float(change.min()) - slack, float(change.max()) + slack
    if has_terminal_states:
        smallest, largest = min(smallest, 0.0), max(largest, 0.0)
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
    anderson = Anderson(len(start), drop_constants=not has_terminal_states)
    value, is_plain, best = start, True, None
    for _ in range(max_sweeps):
        image, table = apply(value)
        bounds = macqueen(value, image, discount, slack(value), has_terminal_states)
        record.add(float(np.abs(image - value).max()), bounds.error, is_plain)
        if best is not None and not is_plain and _width(bounds) > discount * _width(best.bounds):
            anderson.forget()
            value, is_plain = best.image, True
            continue
        best = FixedPoint(value, image, table, bounds, _reason(bounds, tolerance))
        if best.reason == "reached" or (best.reason == "slack" and _width(bounds) <= NEAR * bounds.slack):
            return best
        value, is_plain = anderson.extrapolate(value, image)
    assert best is not None  # the first sweep is always kept
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
    """Extrapolation of V → TV (Anderson 1965): the combination of past images whose residual is smallest.

    Constants are dropped from the residuals where the bounds do not see them either.
    """

    def __init__(self, size: int, drop_constants: bool):
        self.changes, self.images = np.zeros((DEPTH, size)), np.zeros((DEPTH, size))
        self.drop_constants = drop_constants
        self.forget()

    def forget(self) -> None:
        self.count, self.last = 0, None

    def extrapolate(self, value: np.ndarray, image: np.ndarray) -> tuple[np.ndarray, bool]:
        """(the next iterate, whether it is the plain sweep)."""
        change = image - value
        if self.drop_constants:
            change -= change.mean()
        if self.last is None:
            self.last = (change, image)
            return image, True
        slot = self.count % DEPTH
        np.subtract(change, self.last[0], out=self.changes[slot])
        np.subtract(image, self.last[1], out=self.images[slot])
        self.count, self.last = self.count + 1, (change, image)
        used = min(self.count, DEPTH)
        weights = _least_squares(self.changes[:used], change)
        return image - weights @ self.images[:used], False


def _least_squares(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """w that makes |target − w·rows| small, by the Gram matrix of the normalised rows: 10 × 10 whatever the grid."""
    scale = np.linalg.norm(rows, axis=1)
    scale[scale == 0] = 1
    gram = (rows @ rows.T) / np.outer(scale, scale)
    eigenvalues, vectors = np.linalg.eigh(gram)
    kept = eigenvalues > CUTOFF * eigenvalues[-1]
    weights = vectors[:, kept] @ ((vectors[:, kept].T @ ((rows @ target) / scale)) / eigenvalues[kept])
    return weights / scale
