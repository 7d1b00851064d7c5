"""Product rules for one piece of the box, and the pieces on which cells and hats are smooth.

A rule has two parts: n Gauss–Lobatto points, whose sum is used, and n − 1 Gauss–Legendre points, whose sum says how far off
it may be. Both are exact for polynomials of degree 2n − 3. The points of one lie between those of the other, and no share of
the interval has the same sum in both, so that a jump anywhere in a piece shows as a difference. Lobatto's points at the ends
see what happens between the last Gauss point and the end.

Hats are linear in each coordinate. A rule therefore sums the values times 1 and times each position, all combinations of the
axes (2ᵈ moments), and `Pieces.shared` makes the masses of the 2ᵈ corners from them. Cells need the plain sum only.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hamq.problem.grid import Grid
from hamq.types import Law

ORDERS = ((3, 2), (5, 4), (8, 7), (13, 12))
"""(Lobatto, Gauss) points per axis of the rules that a part may have, one after the other."""
NUM_ORDERS = {1: 4, 2: 4, 3: 3}
"""By dimension; in more dimensions a larger rule has too many points, and parts are halved instead."""
FEWEST_ORDERS = 2
POINTS_OF_A_LINE = 300
"""On a line points cost little: pieces begin with so many that the whole line has this number, to see narrow peaks."""
INSIDE = 1e-9
"""Part of a piece that points at its ends are moved inwards: a wall may be where a density has no value."""


def orders(dimension: int) -> tuple[tuple[int, int], ...]:
    return ORDERS[: NUM_ORDERS.get(dimension, FEWEST_ORDERS)]


def first_order(grid: Grid) -> int:
    """The number of the rule that a piece begins with."""
    if grid.dimension > 1:
        return 0
    enough = [k for k, points in enumerate(orders(1)) if sum(points) * grid.points[0] >= POINTS_OF_A_LINE]
    return enough[0] if enough else len(orders(1)) - 1


class Rule(NamedTuple):
    """Points of the unit cube, those whose sum is used first, and what sums their values.

    fine, coarse   matrices that make the moments from the values at the points of either kind
    weights        of all points in the plain sums
    highest        the two highest Legendre polynomials that the points of one axis tell apart, times their weights
    num_crests     how many of those two count as roughness that is no slope: one where the rule has few points
    """

    positions: Float[np.ndarray, "M d"]
    fine: Float[np.ndarray, "F moments"]
    coarse: Float[np.ndarray, "C moments"]
    weights: Float[np.ndarray, " M"]
    of_axis: Float[np.ndarray, " n"]
    highest: Float[np.ndarray, "2 n"]
    num_crests: int

    @property
    def num_points(self) -> int:
        return len(self.positions)

    @property
    def num_fine(self) -> int:
        return len(self.fine)

    @property
    def both(self) -> Float[np.ndarray, "twice M"]:
        """One matrix for all moments, those of the fine rule first."""
        (num_fine, moments), num_coarse = self.fine.shape, len(self.coarse)
        matrix = np.zeros((2 * moments, num_fine + num_coarse))
        matrix[:moments, :num_fine], matrix[moments:, num_fine:] = self.fine.T, self.coarse.T
        return matrix

    @property
    def reach(self) -> float:
        """The farthest that a place of the unit cube is from the nearest point, coordinate by coordinate."""
        size = {1: 1000, 2: 60}.get(self.positions.shape[1], 12)
        places = combinations([(np.arange(size) + 0.5) / size] * self.positions.shape[1])
        away = np.abs(places[:, None] - self.positions[None]).max(axis=2)
        return float(away.min(axis=1).max())


@functools.cache
def make_rule(dimension: int, order: int, has_hats: bool) -> Rule:
    num_fine, num_coarse = orders(dimension)[order]
    fine, coarse = lobatto(num_fine), _gauss(num_coarse)
    of_fine, of_coarse = (_moments(*each, dimension, has_hats) for each in (fine, coarse))
    return Rule(
        np.concatenate([combinations([nodes] * dimension) for nodes, _ in (fine, coarse)]),
        of_fine,
        of_coarse,
        np.concatenate([of_fine[:, 0], of_coarse[:, 0]]),
        fine[1],
        _highest(*fine),
        1 if num_fine < 8 else 2,
    )


def lobatto(num: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of [0, 1], both ends moved inwards by `INSIDE`, and weights that sum to one.

    The weights are those of the moved nodes: polynomials that the nodes can tell apart are summed exactly all the same.
    """
    polynomial = np.polynomial.Legendre.basis(num - 1)
    nodes = np.concatenate([[-1.0], np.sort(np.real(polynomial.deriv().roots())), [1.0]])
    nodes = np.clip(nodes, 2 * INSIDE - 1, 1 - 2 * INSIDE)
    integrals = np.zeros(num)
    integrals[0] = 1  # of the Legendre polynomials, by half of the interval
    return (nodes + 1) / 2, np.linalg.solve(np.polynomial.legendre.legvander(nodes, num - 1).T, integrals)


def _gauss(num: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(num)
    return (nodes + 1) / 2, weights / 2


def _moments(nodes: np.ndarray, weights: np.ndarray, dimension: int, has_hats: bool) -> np.ndarray:
    of_axis = np.stack([weights, weights * nodes], axis=1) if has_hats else weights[:, None]
    return functools.reduce(np.kron, [of_axis] * dimension)


def _highest(nodes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    num, x = len(nodes), 2 * nodes - 1
    return np.stack([np.polynomial.Legendre.basis(k)(x) * weights for k in (num - 1, num - 2)])


class Pieces(NamedTuple):
    """The pieces of the box: where they begin, how long they are, and which states own their corners."""

    starts: Float[np.ndarray, "pieces d"]
    lengths: Float[np.ndarray, "pieces d"]
    owners: Int[np.ndarray, "pieces corners"]
    has_hats: bool

    @property
    def volumes(self) -> Float[np.ndarray, " pieces"]:
        return self.lengths.prod(axis=1)

    def shared(self, moments: Float[np.ndarray, "N moments"], low: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Masses of the corners `[N, corners]` from the moments of parts that begin at `low` and have this `size`.

        With x the position in the part, the hats of its piece are 1 − low − size·x and low + size·x.
        """
        if not self.has_hats:
            return moments
        d = low.shape[1]
        shares = moments.reshape(len(moments), *(2,) * d)
        for axis in range(d):
            first, second = np.take(shares, 0, axis + 1), np.take(shares, 1, axis + 1)
            begin, long = (a[:, axis].reshape(-1, *(1,) * (d - 1)) for a in (low, size))
            upper = begin * first + long * second
            shares = np.stack([first - upper, upper], axis=axis + 1)
        return shares.reshape(len(moments), -1)


@functools.lru_cache(maxsize=8)
def make_pieces(grid: Grid, law: Law) -> Pieces:
    """Cells, or boxes between neighbouring nodes (linear law)."""
    per_axis = [_axis_pieces(grid, axis, law) for axis in range(grid.dimension)]
    starts, lengths = (combinations([axis[k] for axis in per_axis]) for k in (0, 1))
    corners = [axis[2] for axis in per_axis]
    flat = np.zeros((1, 1), np.int64)
    for owners, n in zip(corners, grid.points, strict=True):
        flat = (flat[:, None, :, None] * n + owners[None, :, None, :]).reshape(flat.shape[0] * len(owners), -1)
    return Pieces(starts, lengths, flat, law == "linear")


def _axis_pieces(grid: Grid, axis: int, law: Law) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(starts, lengths, owners of the corners) of one axis."""
    points = grid.axis_nodes(axis)
    if law == "cell":
        edges = grid.axis_edges(axis)
        return edges[:-1], np.diff(edges), np.arange(len(points))[:, None]
    ends = np.append(points, points[0] + grid.widths[axis]) if grid.periodic[axis] else points
    left = np.arange(len(ends) - 1)
    return ends[:-1], np.diff(ends), np.stack([left, (left + 1) % len(points)], axis=-1)


def combinations(axes: list[np.ndarray]) -> np.ndarray:
    """All combinations `[product of the sizes, number of axes]`, last axis fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)


def num_points(grid: Grid, law: Law) -> int:
    """Evaluations of one pair before anything is refined: what a row costs at least."""
    if law == "point":
        return grid.num_states
    pieces = math.prod(_num_pieces(grid, axis, law) for axis in range(grid.dimension))
    return pieces * sum(num**grid.dimension for num in orders(grid.dimension)[first_order(grid)])


def _num_pieces(grid: Grid, axis: int, law: Law) -> int:
    return grid.points[axis] - (law == "linear" and not grid.periodic[axis])
