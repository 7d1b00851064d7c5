"""The law of the next grid state: one row of masses per state-action pair.

The law is the truncated density in each grid cell (`cell`), under each hat function (`linear`), or at each grid point
(`point`). Product kernels have closed forms per axis (`normal.py`) and a row is their outer product. Other kernels are
integrated by Gauss–Legendre rules in every piece of the axis on which cells or hats are smooth; the number of nodes per
piece doubles until the masses of two successive rules agree.

Everything here is written for one pair in whatever precision is on: samplers call it in float32, `exact` in float64.
"""

import itertools
import math
import os
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.kernel import CorrelatedDensity, ProductDensity
from hamq.problem.normal import NUM_IMAGES, axis_log_masses
from hamq.problem.problem import Problem, action_values, pair_name
from hamq.types import Law

MAX_EVALUATIONS = 4 * 10**10
"""Density evaluations that quadrature may spend unless told otherwise: minutes on two cores."""
FIRST_NODES = 4
MAX_NODES = 64
BLOCK_VALUES = 2**21


def log_masses(problem: Problem, state: Float[Array, " d"], action: Array, num_nodes: int) -> Float[Array, " S"]:
    """log P(s' | s, a) on all grid states, normalised over the box; `num_nodes` per piece where quadrature is needed."""
    grid, law = problem.grid, problem.law
    density = problem.density(state, action)
    if isinstance(density, ProductDensity):
        total = jnp.zeros((1,), state.dtype)
        for i in range(grid.dimension):
            axis = axis_log_masses(grid, i, law, density.mean[i], density.std[i])
            total = (total[:, None] + axis[None, :]).ravel()
        return total
    rules = [axis_rule(grid, i, law, num_nodes) for i in range(grid.dimension)]
    logs = _log_density_on_product(problem, density, [rule.nodes for rule in rules])
    largest = jnp.max(logs)
    # A row that is −inf everywhere stays −inf (and is refused by whoever asked), never 0/0.
    masses = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0))
    for rule in rules:
        # Contract the leading axis and append the result: after d rounds the axes are in order again.
        masses = jnp.tensordot(masses, jnp.asarray(rule.weights, masses.dtype), axes=((0,), (1,)))
    return jnp.log(masses.ravel()) - jnp.log(jnp.sum(masses))


class AxisRule(NamedTuple):
    """Quadrature on one axis: mass of node k = Σ_m weights[k, m] · density(nodes[m])."""

    nodes: np.ndarray
    weights: np.ndarray


def axis_rule(grid: Grid, axis: int, law: Law, num_nodes: int) -> AxisRule:
    """Gauss–Legendre in every piece on which the cells (or hats) of one axis are smooth."""
    points = grid.axis_nodes(axis)
    n = len(points)
    if law == "point":
        return AxisRule(points, np.eye(n))
    circle = grid.periodic[axis]
    if law == "cell":
        ends = grid.axis_edges(axis)
    else:
        ends = np.append(points, points[0] + grid.widths[axis]) if circle else points
    t, w = np.polynomial.legendre.leggauss(num_nodes)
    t, w = (t + 1) / 2, w / 2
    lengths = np.diff(ends)
    nodes = ends[:-1, None] + lengths[:, None] * t
    weights = np.zeros((n, len(lengths), num_nodes))
    for piece, length in enumerate(lengths):
        if law == "cell":
            weights[piece, piece] = length * w
        else:
            weights[piece, piece] += length * w * (1 - t)
            weights[(piece + 1) % n, piece] += length * w * t
    return AxisRule(nodes.ravel(), weights.reshape(n, -1))


def _log_density_on_product(problem: Problem, density, axes: list[np.ndarray]) -> Float[Array, "..."]:
    """log p at all combinations of the axes' nodes; a Gaussian on a periodic axis is summed over its images."""
    shifts = np.zeros((1, problem.grid.dimension))
    if isinstance(density, CorrelatedDensity) and any(problem.grid.periodic):
        density = eqx.tree_at(lambda g: g.mean, density, problem.grid.wrap(density.mean))
        shifts = _image_shifts(problem)

    def log_at(point):
        images = jax.vmap(lambda shift: density.log(point + shift))(jnp.asarray(shifts, point.dtype))
        return logsumexp(images) if len(shifts) > 1 else images[0]

    function = log_at
    for i in reversed(range(len(axes))):
        in_axes = [None] * len(axes)
        in_axes[i] = 0
        function = jax.vmap(_of_coordinates(function) if i == len(axes) - 1 else function, in_axes=tuple(in_axes))
    dtype = jnp.result_type(float)
    return function(*(jnp.asarray(nodes, dtype) for nodes in axes))


def _of_coordinates(log_at):
    return lambda *coordinates: log_at(jnp.stack(coordinates))


def _image_shifts(problem: Problem) -> np.ndarray:
    """Shifts of the images of a correlated normal round its circles, as far as 6.5 σ (σ half a circle where it varies)."""
    grid, covariance = problem.grid, problem.kernel.covariance
    widths = np.asarray(grid.widths)
    stds = widths / 2 if callable(covariance) else np.sqrt(np.diag(covariance))
    reach = np.minimum(np.ceil(6.5 * stds / widths).astype(int) + 1, NUM_IMAGES)
    ranges = [range(-k, k + 1) if circle else (0,) for k, circle in zip(reach, grid.periodic, strict=True)]
    return np.asarray(list(itertools.product(*ranges))) * widths


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
    nodes = math.prod(len(axis_rule(problem.grid, i, problem.law, num_nodes).nodes) for i in range(problem.grid.dimension))
    return 8 * pairs * problem.num_states, pairs * nodes


def require_room(problem: Problem, what: str, max_bytes: int | None, max_evaluations: int | None) -> None:
    """Refuses, with the numbers, rows that do not fit."""
    num_bytes, evaluations = estimate(problem)
    allowed_bytes = available_bytes() if max_bytes is None else max_bytes
    allowed_evaluations = MAX_EVALUATIONS if max_evaluations is None else max_evaluations
    if num_bytes > allowed_bytes:
        raise ValueError(
            f"{what} needs {num_bytes:.2e} bytes for the {problem.num_states:.2e} masses of each of "
            f"{problem.num_states * problem.num_actions:.2e} pairs, and {allowed_bytes:.2e} are allowed; "
            "use fewer points or a product kernel, raise max_bytes, or sample (HMC needs no masses)."
        )
    if not problem.is_product and evaluations > allowed_evaluations:
        raise ValueError(
            f"{what} needs at least {evaluations:.2e} density evaluations, and {allowed_evaluations:.2e} are allowed; "
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
    per_state = lambda m: estimate(problem, m)[1] // problem.num_states  # noqa: E731
    evaluations = len(states) * per_state(nodes)
    rows = _rows(problem, states, nodes, first_state)
    if problem.is_product or problem.law == "point":
        return rows, 0.0, nodes, evaluations
    coarse = _rows(problem, states, nodes // 2, first_state)
    evaluations += len(states) * per_state(nodes // 2)
    while True:
        error = float(0.5 * np.abs(rows - coarse).sum(axis=-1).max())
        too_dear = problem.num_states * per_state(2 * nodes) > budget
        if error <= tolerance or 2 * nodes > MAX_NODES or too_dear:
            return rows, error, nodes, evaluations
        nodes *= 2
        coarse, rows = rows, _rows(problem, states, nodes, first_state)
        evaluations += len(states) * per_state(nodes)


def _rows(problem: Problem, states: np.ndarray, num_nodes: int, first_state: int) -> np.ndarray:
    """Masses of a few states in float64; one state at a time where a block would not fit the cache."""
    per_pair = math.prod(len(axis_rule(problem.grid, i, problem.law, num_nodes).nodes) for i in range(problem.grid.dimension))
    one_at_a_time = max(1, BLOCK_VALUES // per_pair)
    with jax.enable_x64(True):
        logs = np.asarray(_batched_rows(problem, jnp.asarray(states), num_nodes, one_at_a_time))
    bad = ~np.isfinite(logs).any(axis=-1) | np.isnan(logs).any(axis=-1)
    if np.any(bad):
        s, a = (int(v) for v in np.argwhere(bad)[0])
        raise ValueError(
            f"the density of {problem.name} has no finite mass in the box at {pair_name(problem, first_state + s, a)}; "
            "the log-density must be a number at some grid point, and never NaN."
        )
    return np.exp(logs)


@eqx.filter_jit
def _batched_rows(problem: Problem, states: Array, num_nodes: int, batch: int) -> Array:
    actions = action_values(problem)
    num_states, num_actions = len(states), len(actions)
    pairs = jnp.arange(num_states * num_actions)
    logs = jax.lax.map(
        lambda pair: log_masses(problem, states[pair // num_actions], actions[pair % num_actions], num_nodes),
        pairs,
        batch_size=min(batch, num_states * num_actions),
    )
    return logs.reshape(num_states, num_actions, -1)


def settled_nodes(problem: Problem, tolerance: float = 1e-4, num_probes: int = 8) -> int:
    """Nodes per piece that settle the masses of a few states spread over the grid: what samplers that need masses use."""
    if problem.is_product or problem.law == "point":
        return FIRST_NODES
    probes = np.unique(np.linspace(0, problem.num_states - 1, num_probes).astype(np.int64))
    nodes = FIRST_NODES
    for probe in probes:
        states = problem.grid.states_at(probe[None])
        *_, nodes, _ = _settled_block(problem, states, nodes, tolerance, MAX_EVALUATIONS, int(probe))
    return nodes
