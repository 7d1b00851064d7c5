"""Masses of one row by quadrature, for densities without closed forms.

Gauss–Legendre rules in every piece of the axis on which cells or hats are smooth. Two ways to add up: `integrate` is traced,
for one pair, in whatever precision is on (samplers call it); `summed_rows` is for many pairs in float64, and adds up in
NumPy what one program evaluates, so that all numbers of nodes share it.
"""

import concurrent.futures
import functools
import itertools
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from hamq.problem.grid import Grid
from hamq.problem.kernel import AbstractDensity, CorrelatedDensity, GaussianKernel
from hamq.problem.lapack import must_run_alone
from hamq.problem.normal import NUM_IMAGES
from hamq.problem.problem import Problem, action_values
from hamq.problem.programs import program
from hamq.types import Law

MAX_PEAK = 0.6
"""Largest share of a row that one quadrature node may carry: more means a density narrower than the nodes are apart."""
TILE = 2**10
"""Points evaluated at once: a tile and what is computed from it stay in cache."""
SMALL_TILE = 2**7
"""The same for rows of fewer points, which a large tile would evaluate many times."""
VALUES_PER_CALL = 2**16
SUMMED_VALUES = 2**16
"""Values of the density that NumPy sums at a time, while they are in cache."""


class AxisRule(NamedTuple):
    """Gauss–Legendre in every piece of one axis on which the cells (or hats) are smooth.

    Piece p is [starts[p], starts[p] + lengths[p]], its nodes are starts[p] + lengths[p]·positions. shares[c] weighs the
    nodes for corner c of the piece, which belongs to the grid point owners[p, c]: one corner for cells, two for hats.
    """

    starts: np.ndarray
    lengths: np.ndarray
    positions: np.ndarray
    shares: np.ndarray
    owners: np.ndarray

    @property
    def num_points(self) -> int:
        return len(self.starts) * len(self.positions)


def axis_rule(grid: Grid, axis: int, law: Law, num_nodes: int) -> AxisRule:
    points = grid.axis_nodes(axis)
    pieces = np.arange(len(points))
    if law == "point":
        return AxisRule(points, np.ones(len(points)), np.zeros(1), np.ones((1, 1)), pieces[:, None])
    t, w = np.polynomial.legendre.leggauss(num_nodes)
    t, w = (t + 1) / 2, w / 2
    if law == "cell":
        edges = grid.axis_edges(axis)
        return AxisRule(edges[:-1], np.diff(edges), t, w[None], pieces[:, None])
    ends = np.append(points, points[0] + grid.widths[axis]) if grid.periodic[axis] else points
    left = pieces[: len(ends) - 1]
    owners = np.stack([left, (left + 1) % len(points)], axis=-1)
    return AxisRule(ends[:-1], np.diff(ends), t, np.stack([w * (1 - t), w * t]), owners)


class Quadrature(NamedTuple):
    """Nodes and weights of the box: the nodes of a few pieces (a tile) lie on the LAST array axis of `points`.

    There the user's function is vectorised over them, and a tile is summed while it is in cache. Larger tiles are
    slower on a busy machine, because XLA splits them among threads.
    """

    points: Float[Array, "tiles d nodes"]
    volumes: Float[Array, "tiles pieces"]
    shares: Float[Array, "piece_nodes corners"]
    rules: list[AxisRule]


def _quadrature(problem: Problem, num_nodes: int) -> Quadrature:
    rules = [axis_rule(problem.grid, i, problem.law, num_nodes) for i in range(problem.grid.dimension)]
    dtype = jnp.result_type(float)
    positions = _combinations([rule.positions for rule in rules]).T
    starts, lengths = (_combinations([getattr(rule, name) for rule in rules]) for name in ("starts", "lengths"))
    size = min(len(starts), max(1, TILE // positions.shape[1]))
    # The last tile is filled up with pieces that `_owned` cuts off.
    tiles = np.resize(np.arange(len(starts)), (math.ceil(len(starts) / size), size))
    start, length = (jnp.asarray(np.swapaxes(table[tiles], 1, 2)[..., None], dtype) for table in (starts, lengths))
    points = start + length * jnp.asarray(positions[None, :, None], dtype)
    return Quadrature(
        points.reshape(len(tiles), len(rules), -1),
        jnp.asarray(lengths.prod(axis=1)[tiles], dtype),
        jnp.asarray(_shares(rules), dtype),
        rules,
    )


def integrate(problem: Problem, density: AbstractDensity, num_nodes: int) -> Float[Array, " S"]:
    """log of the masses of one row."""
    quadrature = _quadrature(problem, num_nodes)
    log_at, shares = _lifted(problem, density), quadrature.shares

    def tile_masses(tile):
        points, volumes = tile
        logs = jax.vmap(log_at, in_axes=1)(points)
        largest = jnp.max(logs)
        # A tile that is −inf everywhere has mass 0, never exp(−inf + inf).
        values = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0))
        return jnp.dot(values.reshape(-1, len(shares)), shares, precision="highest") * volumes[:, None], largest

    masses, scales = jax.lax.map(tile_masses, (quadrature.points, quadrature.volumes))
    largest = jnp.max(scales)
    # A row that is −inf everywhere stays −inf (and is refused by whoever asked), never 0/0.
    factors = jnp.exp(scales - jnp.where(jnp.isfinite(largest), largest, 0))
    masses = masses * factors[:, None, None]
    masses = _owned(masses.reshape(-1, shares.shape[1]), quadrature.rules, problem.grid.points)
    return jnp.log(masses) - jnp.log(jnp.sum(masses))


def _owned(masses: Any, rules: list[AxisRule], points: tuple[int, ...]) -> Any:
    """Adds up, at each grid point, the masses `[…, pieces, corners]` that it owns; in a corner none owns two pieces."""
    pieces, corners = (_combinations([np.arange(rule.owners.shape[k]) for rule in rules]) for k in (0, 1))
    per_axis = [rule.owners[pieces[:, i, None], corners[None, :, i]] for i, rule in enumerate(rules)]
    owners = np.ravel_multi_index(per_axis, points)
    nothing = len(pieces)
    owned = np.full((math.prod(points), len(corners)), nothing)
    owned[owners, np.arange(len(corners))] = np.arange(nothing)[:, None]
    xp = np if isinstance(masses, np.ndarray) else jnp
    masses = masses[..., :nothing, :]
    masses = xp.concatenate([masses, xp.zeros_like(masses[..., :1, :])], axis=-2)
    return xp.sum(masses[..., owned, np.broadcast_to(np.arange(len(corners)), owned.shape)], axis=-1)


def _shares(rules: list[AxisRule]) -> Float[np.ndarray, "piece_nodes corners"]:
    return functools.reduce(np.kron, [rule.shares for rule in rules]).T


def _combinations(axes: list[np.ndarray]) -> np.ndarray:
    """All combinations `[product of the sizes, number of axes]`, last axis fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)


def _lifted(problem: Problem, density):
    """log p of one point; a Gaussian on a periodic axis is summed over its images."""
    if not isinstance(density, CorrelatedDensity) or not any(problem.grid.periodic):
        return density.log
    density = eqx.tree_at(lambda g: g.mean, density, problem.grid.wrap(density.mean))
    shifts = _image_shifts(problem)

    def log_at(point):
        return logsumexp(jax.vmap(lambda shift: density.log(point + shift))(jnp.asarray(shifts, point.dtype)))

    return log_at


def _image_shifts(problem: Problem) -> np.ndarray:
    """Shifts of a correlated normal's images round its circles."""
    grid, reach = problem.grid, image_reach(problem)
    ranges = [range(-k, k + 1) if circle else (0,) for k, circle in zip(reach, grid.periodic, strict=True)]
    return np.asarray(list(itertools.product(*ranges))) * np.asarray(grid.widths)


def image_reach(problem: Problem) -> Int[np.ndarray, " d"]:
    """How many circles away images of a correlated normal are summed: to 6.5 σ (σ half a circle where it varies)."""
    assert isinstance(problem.kernel, GaussianKernel)
    widths, covariance = np.asarray(problem.grid.widths), problem.kernel.covariance
    stds = widths / 2 if callable(covariance) else np.sqrt(np.diag(covariance))
    return np.minimum(np.ceil(6.5 * stds / widths).astype(int) + 1, NUM_IMAGES)


def summed_rows(problem: Problem, states: np.ndarray, num_nodes: int) -> tuple[Float[np.ndarray, "_ A S"], float]:
    """By quadrature; sums are NumPy's, so that every number of nodes shares the one program that evaluates the density."""
    rules = [axis_rule(problem.grid, i, problem.law, num_nodes) for i in range(problem.grid.dimension)]
    positions, shares = _combinations([rule.positions for rule in rules]), _shares(rules)
    starts, lengths = (_combinations([getattr(rule, name) for rule in rules]) for name in ("starts", "lengths"))
    volumes, of_node = lengths.prod(axis=1), shares.sum(axis=1)
    pairs, in_group = len(states) * problem.num_actions, max(1, SUMMED_VALUES // len(positions))
    groups = [slice(first, first + in_group) for first in range(0, len(starts), in_group)]
    at_once = max(1, SUMMED_VALUES // (min(in_group, len(starts)) * len(positions)))
    masses = np.empty((pairs, len(starts), shares.shape[1]))
    scales, peaks = np.empty((2, pairs, len(groups)))
    evaluation = _Evaluation(problem, states)
    blocks = [slice(first, min(first + at_once, pairs)) for first in range(0, pairs, at_once)]

    def add_up(evaluate, g: int, pieces: slice, block: slice) -> None:
        with jax.enable_x64(True):  # for this thread
            logs = evaluate(np.arange(block.start, block.stop))
        scales[block, g] = largest = logs.max(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):  # a density without a number is refused by whoever asked
            # Pieces that are −inf everywhere have mass 0, never exp(−inf + inf).
            logs -= np.where(np.isfinite(largest), largest, 0)[:, None]
            values = np.exp(logs, out=logs).reshape(-1, len(positions))
            sums = (values @ shares).reshape(len(logs), -1, shares.shape[1])
            masses[block, pieces] = sums * volumes[pieces, None]
            peaks[block, g] = highest = of_node.max() * volumes[pieces].max()
            if not np.all(highest <= MAX_PEAK * masses[block, pieces].sum(axis=(1, 2))):
                of_pieces = np.max(values * of_node, axis=1).reshape(len(logs), -1)
                peaks[block, g] = np.max(of_pieces * volumes[pieces], axis=1)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        each = map if must_run_alone(problem) else threads.map
        for g, pieces in enumerate(groups):
            points = (starts[pieces, None] + lengths[pieces, None] * positions).reshape(-1, len(rules))
            evaluate = evaluation.at(points)
            list(each(lambda block: add_up(evaluate, g, pieces, block), blocks))  # noqa: B023
    largest = scales.max(axis=1)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        factors = np.exp(scales - np.where(np.isfinite(largest), largest, 0)[:, None])
        masses *= np.repeat(factors, [len(starts[pieces]) for pieces in groups], axis=1)[:, :, None]
        rows = _owned(masses, rules, problem.grid.points)
        totals = rows.sum(axis=1, keepdims=True)
        rows /= totals
        peak = np.max(peaks * factors / totals)
    return rows.reshape(len(states), problem.num_actions, -1), float(peak)


class _Evaluation:
    """log p of pairs at points: tiles of points for the pairs in each call of one program."""

    def __init__(self, problem: Problem, states: np.ndarray):
        self.problem, self.states, self.actions = problem, states, np.asarray(action_values(problem))

    def at(self, points: Float[np.ndarray, "N d"]) -> Callable[[Int[np.ndarray, " P"]], Float[np.ndarray, "P N"]]:
        """The function of pairs that has their values at these points."""
        tile = TILE if len(points) >= TILE else SMALL_TILE
        run = self._program(tile, points.shape[1])
        slabs = np.array_split(points, range(VALUES_PER_CALL, len(points), VALUES_PER_CALL))
        evaluate = [self._of_slab(run, slab, tile) for slab in slabs]
        if len(evaluate) == 1:
            return evaluate[0]
        return lambda pairs: np.concatenate([part(pairs) for part in evaluate], axis=1)

    def _program(self, tile: int, dimension: int) -> Callable[..., Array]:
        problem, num = self.problem, VALUES_PER_CALL // tile

        def trace(states, actions, numbers, tiles):
            def of_tile(given):
                state, action, number = given
                return jax.vmap(_lifted(problem, problem.density(state, action)), in_axes=1)(tiles[number])

            return jax.lax.map(of_tile, (states, actions, numbers))

        tiles = jax.ShapeDtypeStruct((num, dimension, tile), np.float64)
        given = *self._pairs(np.zeros(num, np.int64)), np.zeros(num, np.int32), tiles
        return program(("densities", problem.constants), problem.kernel.functions, trace, *given)

    def _of_slab(self, run, points: Float[np.ndarray, "N d"], tile: int):
        num, num_tiles, at_once = len(points), math.ceil(len(points) / tile), VALUES_PER_CALL // tile
        filled = np.pad(points, ((0, VALUES_PER_CALL - num), (0, 0)), mode="edge")
        tiles = np.ascontiguousarray(filled.reshape(at_once, tile, -1).swapaxes(1, 2))
        tiles = jax.block_until_ready(jnp.asarray(tiles))  # what waits for its arrays is run by another thread

        def evaluate(pairs):
            items = np.arange(len(pairs) * num_tiles)
            logs = np.empty((len(items), tile))
            for first in range(0, len(items), at_once):
                part = np.minimum(np.arange(first, first + at_once), len(items) - 1)
                found = run(*self._pairs(pairs[part // num_tiles]), (part % num_tiles).astype(np.int32), tiles)
                logs[first : first + at_once] = np.asarray(found)[: len(items) - first]
            return logs.reshape(len(pairs), -1)[:, :num]

        return evaluate

    def _pairs(self, pairs: Int[np.ndarray, " P"]) -> tuple[np.ndarray, np.ndarray]:
        return self.states[pairs // len(self.actions)], self.actions[pairs % len(self.actions)]
