"""The law of the next grid state: one row of masses per state-action pair.

The law is the truncated density in each grid cell (`cell`), under each hat function (`linear`), or at each grid point
(`point`). Product kernels have closed forms per axis (`normal.py`) and a row is their outer product. Other kernels are
integrated by Gauss–Legendre rules in every piece of the axis on which cells or hats are smooth; the number of nodes per
piece doubles until the masses agree with those of the rule with three quarters of the nodes.

Everything here is written for one pair in whatever precision is on: samplers call it in float32, `exact` in float64.
"""

import functools
import itertools
import math
import os
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from hamq.problem.counts import as_power
from hamq.problem.grid import Grid
from hamq.problem.kernel import CorrelatedDensity, GaussianKernel, ProductDensity
from hamq.problem.normal import NUM_IMAGES, axis_log_masses
from hamq.problem.problem import Problem, action_values, pair_name
from hamq.problem.programs import program
from hamq.types import Law

MAX_EVALUATIONS = 4 * 10**10
"""Density evaluations that quadrature may spend unless told otherwise: minutes on two cores."""
FIRST_NODES = 4
MAX_NODES = 64
MAX_PEAK = 0.6
"""Largest share of a row that one quadrature node may carry: more means a density narrower than the nodes are apart."""
BLOCK_VALUES = 2**21
TILE = 2**10
"""Points evaluated at once: a tile and what is computed from it stay in cache."""


def log_masses(problem: Problem, state: Float[Array, " d"], action: Array, num_nodes: int) -> Float[Array, " S"]:
    """log P(s' | s, a) on all grid states, normalised over the box; `num_nodes` per piece for quadrature."""
    return _log_row(problem, state, action, None if problem.is_product else _quadrature(problem, num_nodes))[0]


def _log_row(
    problem: Problem, state: Array, action: Array, quadrature: "Quadrature | None"
) -> tuple[Float[Array, " S"], Float[Array, ""]]:
    """One row, and the largest share of it that a single quadrature node carries (0 for closed forms)."""
    density = problem.density(state, action)
    if quadrature is not None:
        return _integrate(problem, density, quadrature)
    assert isinstance(density, ProductDensity)
    total = jnp.zeros((1,), state.dtype)
    for i in range(problem.grid.dimension):
        axis = axis_log_masses(problem.grid, i, problem.law, density.mean[i], density.std[i])
        total = (total[:, None] + axis[None, :]).ravel()
    return total, jnp.zeros((), state.dtype)


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
        jnp.asarray(functools.reduce(np.kron, [rule.shares for rule in rules]).T, dtype),
        rules,
    )


def _integrate(problem: Problem, density, quadrature: Quadrature) -> tuple[Float[Array, " S"], Float[Array, ""]]:
    """log of the masses of one row, and the largest share of a single node."""
    log_at = _lifted(problem, density)
    shares = quadrature.shares

    def tile_masses(tile):
        points, volumes = tile
        logs = jax.vmap(log_at, in_axes=1)(points)
        largest = jnp.max(logs)
        # A tile that is −inf everywhere has mass 0, never exp(−inf + inf).
        values = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0))
        values = values.reshape(-1, len(shares))
        peak = jnp.max(values * jnp.sum(shares, axis=1)[None, :] * volumes[:, None])
        return jnp.dot(values, shares, precision="highest") * volumes[:, None], largest, peak

    masses, scales, peaks = jax.lax.map(tile_masses, (quadrature.points, quadrature.volumes))
    largest = jnp.max(scales)
    # A row that is −inf everywhere stays −inf (and is refused by whoever asked), never 0/0.
    factors = jnp.exp(scales - jnp.where(jnp.isfinite(largest), largest, 0))
    masses = masses * factors[:, None, None]
    masses = _owned(masses.reshape(-1, shares.shape[1]), quadrature.rules, problem.grid.points)
    total = jnp.sum(masses)
    return jnp.log(masses) - jnp.log(total), jnp.max(peaks * factors) / total


def _owned(masses: Float[Array, "_ corners"], rules: list[AxisRule], points: tuple[int, ...]) -> Float[Array, " S"]:
    """Adds up, at each grid point, the masses of the corners that it owns; in a corner no point owns two pieces."""
    pieces, corners = (_combinations([np.arange(rule.owners.shape[k]) for rule in rules]) for k in (0, 1))
    per_axis = [rule.owners[pieces[:, i, None], corners[None, :, i]] for i, rule in enumerate(rules)]
    owners = np.ravel_multi_index(per_axis, points)
    nothing = len(pieces)
    owned = np.full((math.prod(points), len(corners)), nothing)
    owned[owners, np.arange(len(corners))] = np.arange(nothing)[:, None]
    masses = jnp.pad(masses[:nothing], ((0, 1), (0, 0)))
    return jnp.sum(masses[owned, np.broadcast_to(np.arange(len(corners)), owned.shape)], axis=1)


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


class Rows(NamedTuple):
    """Rows of masses, their quadrature error (largest total-variation distance) and the density evaluations spent."""

    masses: Float[np.ndarray, "S A S"]
    error: float
    num_nodes: int
    evaluations: int


def estimate(problem: Problem, num_nodes: int = FIRST_NODES) -> tuple[int, int]:
    """(bytes, density evaluations) of all rows, as Python ints."""
    pairs = problem.num_states * problem.num_actions
    if problem.is_product or problem.law == "point":
        return 8 * pairs * problem.num_states, pairs * problem.num_states
    rules = (axis_rule(problem.grid, i, problem.law, num_nodes) for i in range(problem.grid.dimension))
    nodes = math.prod(rule.num_points for rule in rules)
    return 8 * pairs * problem.num_states, pairs * nodes


class DoesNotFit(ValueError):
    """What was refused for its size alone: memory, or evaluations of the density."""


def require_room(problem: Problem, what: str, max_bytes: int | None, max_evaluations: int | None) -> None:
    """Refuses, with the numbers, rows that do not fit."""
    num_bytes, evaluations = estimate(problem)
    allowed_bytes = available_bytes() if max_bytes is None else max_bytes
    allowed_evaluations = MAX_EVALUATIONS if max_evaluations is None else max_evaluations
    if num_bytes > allowed_bytes:
        raise DoesNotFit(
            f"{what} needs {as_power(num_bytes)} bytes for the {as_power(problem.num_states)} masses of each of "
            f"{as_power(problem.num_states * problem.num_actions)} pairs, and {allowed_bytes:.2e} are allowed; "
            "use fewer points or a product kernel, raise max_bytes, or sample (HMC needs no masses)."
        )
    if not problem.is_product and evaluations > allowed_evaluations:
        raise DoesNotFit(
            f"{what} needs at least {as_power(evaluations)} density evaluations, and {allowed_evaluations:.2e} are allowed; "
            "use fewer points, raise max_evaluations, or sample (HMC needs no masses)."
        )


def available_bytes() -> int:
    """Half of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def all_rows(problem: Problem, tolerance: float, max_evaluations: int | None = None) -> Rows:
    """Masses of all pairs in float64; the nodes double until no row moves by more than `tolerance` in total variation.

    Each block starts from the nodes that the block before it needed. Where the budget of evaluations or `MAX_NODES`
    ends first, the error says how far the last two rules were apart.
    """
    budget = MAX_EVALUATIONS if max_evaluations is None else max_evaluations
    states, num_actions = problem.grid.states(), problem.num_actions
    masses = np.empty((len(states), num_actions, len(states)))
    nodes, worst, spent = FIRST_NODES, 0.0, 0
    start = 0
    while start < len(states):
        size = max(1, BLOCK_VALUES // (estimate(problem, nodes)[1] // problem.num_states))
        block = slice(start, min(start + size, len(states)))
        rows, error, nodes, evaluations = _settled_block(problem, states[block], nodes, tolerance, budget, start)
        masses[block] = rows
        worst, spent, start = max(worst, error), spent + evaluations, block.stop
    return Rows(masses, worst, nodes, spent)


def _settled_block(problem, states, nodes, tolerance, budget, first_state):
    """Rows, error, nodes and evaluations of a few states; the error is the distance to the rule with ¾ of the nodes."""
    if problem.is_product or problem.law == "point":
        return _rows(problem, states, nodes, first_state)[0], 0.0, nodes, len(states) * _per_state(problem, nodes)
    evaluations = 0
    while True:
        rows, peak = _rows(problem, states, nodes, first_state)
        coarse, _ = _rows(problem, states, 3 * nodes // 4, first_state)
        evaluations += len(states) * _checked_cost(problem, nodes)
        error = float(0.5 * np.abs(rows - coarse).sum(axis=-1).max())
        # Two rules agree on a peak that falls between the nodes of both; then one node carries the row.
        error = error if peak <= MAX_PEAK else max(error, peak)
        too_dear = problem.num_states * _checked_cost(problem, 2 * nodes) > budget
        if error <= tolerance or 2 * nodes > MAX_NODES or too_dear:
            return rows, error, nodes, evaluations
        nodes *= 2


def _per_state(problem: Problem, num_nodes: int) -> int:
    return estimate(problem, num_nodes)[1] // problem.num_states


def _checked_cost(problem: Problem, num_nodes: int) -> int:
    return _per_state(problem, num_nodes) + _per_state(problem, 3 * num_nodes // 4)


def _rows(problem: Problem, states: np.ndarray, num_nodes: int, first_state: int) -> tuple[np.ndarray, float]:
    """Masses of a few states in float64, and the largest share of a row that one node carries."""
    batch = max(1, TILE * problem.num_actions // _per_state(problem, num_nodes))
    with jax.enable_x64(True):
        given, trace = (
            (jnp.asarray(states), action_values(problem)),
            functools.partial(_batched_rows, problem, num_nodes, batch),
        )
        rows = program(("rows", problem.constants, num_nodes, batch), problem.kernel.functions, trace, *given)
        logs, peaks = (np.asarray(a) for a in rows(*given))
    bad = ~np.isfinite(logs).any(axis=-1) | np.isnan(logs).any(axis=-1)
    if np.any(bad):
        s, a = (int(v) for v in np.argwhere(bad)[0])
        raise ValueError(
            f"the density of {problem.name} has no finite mass in the box at {pair_name(problem, first_state + s, a)}; "
            "the log-density must be a number at some grid point, and never NaN."
        )
    return np.exp(logs), float(peaks.max())


def _batched_rows(problem: Problem, num_nodes: int, batch: int, states: Array, actions: Array) -> tuple[Array, Array]:
    num_states, num_actions = len(states), len(actions)
    quadrature = None if problem.is_product else _quadrature(problem, num_nodes)  # once, not in every turn of the loop

    def row(pair):
        return _log_row(problem, states[pair // num_actions], actions[pair % num_actions], quadrature)

    count = num_states * num_actions
    turns = math.ceil(count / batch)
    # Turns of one size: a remainder would be compiled a second time. What fills the last turn up is cut off.
    pairs = np.resize(np.arange(count), (turns, math.ceil(count / turns)))
    logs, peaks = jax.lax.map(jax.vmap(row) if batch > 1 else lambda pair: row(pair[0]), jnp.asarray(pairs))
    return logs.reshape(-1, problem.num_states)[:count].reshape(num_states, num_actions, -1), peaks


def settled_nodes(problem: Problem, tolerance: float = 1e-4, num_probes: int = 8) -> int:
    """Nodes per piece that settle the masses of a few states spread over the grid: for samplers that need masses."""
    if problem.is_product or problem.law == "point":
        return FIRST_NODES
    probes = np.unique(np.linspace(0, problem.num_states - 1, num_probes).astype(np.int64))
    nodes = FIRST_NODES
    for probe in probes:
        states = problem.grid.states_at(probe[None])
        *_, nodes, _ = _settled_block(problem, states, nodes, tolerance, MAX_EVALUATIONS, int(probe))
    return nodes
