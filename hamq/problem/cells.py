"""The law of the next grid state: one row of masses per state-action pair.

The law is the truncated density in each grid cell (`cell`), under each hat function (`linear`), or at each grid point
(`point`). Product kernels have closed forms per axis (`normal.py`) and a row is their outer product. Other kernels are
integrated (`quadrature.py`); the number of nodes per piece doubles until the masses agree with those of the rule with three
quarters of the nodes.

Samplers call `log_masses`, traced for one pair in whatever precision is on; `exact` has all rows in float64.
"""

import math
import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.counts import as_power
from hamq.problem.kernel import ProductDensity
from hamq.problem.normal import axis_log_masses
from hamq.problem.problem import Problem, action_values, pair_name
from hamq.problem.programs import program
from hamq.problem.quadrature import MAX_PEAK, axis_rule, integrate, summed_rows

MAX_EVALUATIONS = 4 * 10**10
"""Density evaluations that quadrature may spend unless told otherwise: minutes on two cores."""
FIRST_NODES = 4
MAX_NODES = 64
BLOCK_VALUES = 2**21


def log_masses(problem: Problem, state: Float[Array, " d"], action: Array, num_nodes: int) -> Float[Array, " S"]:
    """log P(s' | s, a) on all grid states, normalised over the box; `num_nodes` per piece for quadrature."""
    density = problem.density(state, action)
    if not problem.is_product:
        return integrate(problem, density, num_nodes)
    assert isinstance(density, ProductDensity)
    total = jnp.zeros((1,), state.dtype)
    for i in range(problem.grid.dimension):
        axis = axis_log_masses(problem.grid, i, problem.law, density.mean[i], density.std[i])
        total = (total[:, None] + axis[None, :]).ravel()
    return total


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
    """Masses of a few states in float64, and the largest share of a row that one node carries, or a bound of it."""
    with jax.enable_x64(True):
        if problem.is_product:
            masses, peak = _closed_rows(problem, states), 0.0
        else:
            masses, peak = summed_rows(problem, states, num_nodes)
    bad = ~np.isfinite(masses).all(axis=-1)
    if np.any(bad):
        s, a = (int(v) for v in np.argwhere(bad)[0])
        raise ValueError(
            f"the density of {problem.name} has no finite mass in the box at {pair_name(problem, first_state + s, a)}; "
            "the log-density must be a number at some grid point, and never NaN."
        )
    return masses, peak


def _closed_rows(problem: Problem, states: np.ndarray) -> Float[np.ndarray, "_ A S"]:
    def trace(states, actions):
        of_actions = jax.vmap(lambda state, action: jnp.exp(log_masses(problem, state, action, 1)), (None, 0))
        return jax.lax.map(lambda state: of_actions(state, actions), states)

    given = jnp.asarray(states), action_values(problem)
    rows = program(("closed rows", problem.constants), problem.kernel.functions, trace, *given)
    return np.asarray(rows(*given))


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
