"""The law of the next grid state: one row of masses per state-action pair.

The law is the truncated density in each grid cell (`cell`), under each hat function (`linear`), or at each grid point
(`point`). Where the coordinates are independent, a row is the outer product of the masses of its axes (`axis_rows_of`):
closed forms for normal kernels (`normal.py`). Everything else is integrated (`quadrature.py`), each pair until its masses
are as good as was asked for.

`rows_of` has the masses of any pairs, of states between the grid points too, in float64. `log_masses` is traced for one pair
in whatever precision is on, for what needs no quadrature.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.problem.evaluation import numbers
from hamq.problem.integrand import Integrand, axis_grid
from hamq.problem.kernels.kernel import AbstractDensity
from hamq.problem.needles import divisions_for
from hamq.problem.pacing import SECONDS_BETWEEN as SECONDS_BETWEEN
from hamq.problem.pacing import Meter, Plan, spread
from hamq.problem.pacing import Progress as Progress
from hamq.problem.problem import Problem, listed_actions
from hamq.problem.programs import program
from hamq.problem.quadrature import Integral, Tell, integrate
from hamq.problem.rules import num_points
from hamq.types import HamqError, as_power

MAX_EVALUATIONS = 4 * 10**9
"""Density evaluations that quadrature may spend unless told otherwise: a minute or two on two cores at 20 ns each."""
VALUES_PER_BLOCK = 2**21
"""Values of rows at the grid points that are made at once."""


def needs_quadrature(problem: Problem) -> bool:
    return not (problem.has_closed_masses or problem.law == "point")


def log_masses(problem: Problem, state: Float[Array, " d"], action: Array) -> Float[Array, " S"]:
    """log P(s' | s, a) on all grid states, normalised over the box; closed forms and point masses only."""
    density = problem.density(state, action)
    if not problem.is_product:
        return _log_masses_at_points(problem, state, action)
    total = jnp.zeros((1,), state.dtype)
    for i in range(problem.grid.dimension):
        axis = _axis_log_masses(problem, density, i, state.dtype)
        total = (total[:, None] + axis[None, :]).ravel()
    return total


def _log_masses_at_points(problem: Problem, state: Float[Array, " d"], action: Array) -> Float[Array, " S"]:
    """log p at all grid states, normalised over them."""
    log_at = problem.density(state, action).log_on_circles(problem.grid)
    return _normalised(jax.vmap(log_at)(jnp.asarray(problem.grid.states(), state.dtype)))


def _axis_log_masses(problem: Problem, density: AbstractDensity, axis: int, dtype: Any) -> Float[Array, " n"]:
    """log P of one coordinate of a product kernel on the nodes of its axis; closed forms and point masses only."""
    if problem.has_closed_masses:
        return density.axis_log_masses(problem.grid, axis, problem.law)
    nodes = jnp.asarray(problem.grid.axis_nodes(axis), dtype)
    return _normalised(jax.vmap(lambda node: density.log_of_axis(axis, node))(nodes))


def _normalised(logs: Float[Array, " n"]) -> Float[Array, " n"]:
    largest = jnp.max(logs)
    logs = logs - jnp.where(jnp.isfinite(largest), largest, 0)  # never −inf + inf
    return logs - jax.nn.logsumexp(logs)


class Rows(NamedTuple):
    """Rows of masses, their quadrature error (largest total-variation distance) and the density evaluations spent.

    `needed` is an estimate of the evaluations that the tolerance takes, by a few pairs; inf where their errors do not fall.
    """

    masses: Float[np.ndarray, "S A S"]
    error: float
    evaluations: int
    needed: float


def estimate(problem: Problem) -> tuple[int, int]:
    """(bytes, density evaluations) of all rows, as Python ints; quadrature may need more where it refines."""
    pairs = problem.num_states * problem.num_actions
    return 8 * pairs * problem.num_states, pairs * evaluations_per_pair(problem)


def evaluations_per_pair(problem: Problem) -> int:
    """Density evaluations of one row, before anything is refined."""
    if problem.has_closed_masses:
        return problem.num_states
    if problem.is_product:
        return sum(axis_evaluations(problem, axis) for axis in range(problem.grid.dimension))
    return num_points(problem.grid, problem.law) if needs_quadrature(problem) else problem.num_states


def axis_evaluations(problem: Problem, axis: int) -> int:
    """The same for one coordinate."""
    return num_points(axis_grid(problem.grid, axis), problem.law) if needs_quadrature(problem) else problem.grid.points[axis]


class DoesNotFit(HamqError):
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
    if not problem.has_closed_masses and evaluations > allowed_evaluations:
        raise DoesNotFit(
            f"{what} needs at least {as_power(evaluations)} density evaluations, and {allowed_evaluations:.2e} are allowed; "
            "use fewer points, raise max_evaluations, or sample (HMC needs no masses)."
        )


def available_bytes() -> int:
    """Half of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def all_rows(
    problem: Problem, tolerance: float, max_evaluations: int | float | None = None, progress: Progress | None = None
) -> Rows:
    """Masses of all pairs in float64, each with an estimated error of at most `tolerance` in total variation.

    A few pairs from everywhere come first. They say what the tolerance takes. Where that is far beyond the evaluations
    that are allowed by default, only a part of those is spent: more would not bring what was asked for. The error says how
    far the worst pair is.
    """
    states, actions = problem.grid.states(), np.asarray(listed_actions(problem), np.float64)
    num_actions, num = len(actions), len(states) * len(actions)
    masses, errors, spent = np.empty((num, len(states))), np.empty(num), np.zeros(num, np.int64)
    queue = spread(num) if needs_quadrature(problem) else np.arange(num)
    meter = Meter(progress, num)
    most = (MAX_EVALUATIONS if max_evaluations is None else max_evaluations) / num
    plan = Plan(num, most, max_evaluations is None, tolerance, _row_cost(problem), needs_quadrature(problem))
    while len(queue):
        pairs, queue = np.sort(queue[: plan.size]), queue[plan.size :]
        of_block = states[pairs // num_actions], actions[pairs % num_actions]
        rows = rows_of(problem, *of_block, tolerance, plan.most, meter.within)
        masses[pairs], errors[pairs], spent[pairs] = rows.masses, rows.errors, spent[pairs] + rows.evaluations
        was_pilot, again = plan.is_pilot, plan.learn(rows)
        queue = np.concatenate([queue, pairs[again]])
        if was_pilot:
            meter.forecast(problem.name, float(spent.sum()), plan.left(len(queue)))
        meter.settled(num - len(queue), plan.said)
    return Rows(masses.reshape(len(states), num_actions, -1), float(errors.max()), int(spent.sum()), plan.needed * num)


def _row_cost(problem: Problem) -> int:
    """Values of a row before it is refined."""
    if not needs_quadrature(problem):
        return problem.num_states
    return num_points(problem.grid, problem.law) * divisions_for(Integrand(problem)) ** problem.grid.dimension


def rows_of(
    problem: Problem,
    states: Float[np.ndarray, "P d"],
    actions: Float[np.ndarray, "P *k"],
    tolerance: float,
    max_evaluations: int | float = np.inf,
    tell: Tell | None = None,
) -> Integral:
    """Masses of pairs, their estimated errors and what they cost; `max_evaluations` is for each pair, and not binding on
    what a row costs unrefined. A pair without any density in the box is refused by name."""
    if problem.is_product and not problem.has_closed_masses:
        return _product_rows(all_axis_rows_of(problem, states, actions, tolerance, max_evaluations))
    if needs_quadrature(problem):
        divisions = divisions_for(Integrand(problem), max_evaluations)
        rows = integrate(problem, states, actions, tolerance, max_evaluations, divisions, tell)
    else:
        masses = _direct_rows(problem, states, actions)
        cost = 0 if problem.has_closed_masses else evaluations_per_pair(problem)
        rows = Integral(masses, np.zeros(len(masses)), np.full(len(masses), cost, np.int64))
    _require_mass(problem.name, rows, states, actions)
    return rows


def axis_rows_of(
    problem: Problem,
    axis: int,
    states: Float[np.ndarray, "P d"],
    actions: Float[np.ndarray, "P *k"],
    tolerance: float,
    max_evaluations: int | float = np.inf,
) -> Integral:
    """`rows_of` for one coordinate of a product kernel, on the nodes of its axis."""
    if needs_quadrature(problem):
        divisions = divisions_for(Integrand(problem, axis), max_evaluations)
        rows = integrate(problem, states, actions, tolerance, max_evaluations, divisions, axis=axis)
    else:
        masses = _direct_rows(problem, states, actions, axis)
        cost = 0 if problem.has_closed_masses else problem.grid.points[axis]
        rows = Integral(masses, np.zeros(len(masses)), np.full(len(masses), cost, np.int64))
    _require_mass(f"axis {axis} of {problem.name}", rows, states, actions)
    return rows


def all_axis_rows_of(
    problem: Problem,
    states: Float[np.ndarray, "P d"],
    actions: Float[np.ndarray, "P *k"],
    tolerance: float,
    max_evaluations: int | float = np.inf,
) -> list[Integral]:
    """The rows of all axes of a product kernel, which miss at most `tolerance` together: what the axes miss adds up."""
    d = problem.grid.dimension
    return [axis_rows_of(problem, axis, states, actions, tolerance / d, max_evaluations / d) for axis in range(d)]


def _product_rows(rows: list[Integral]) -> Integral:
    """Outer products of the rows of the axes."""
    masses = np.ones((len(rows[0].masses), 1))
    for of_axis in rows:
        masses = (masses[:, :, None] * of_axis.masses[:, None, :]).reshape(len(masses), -1)
    return Integral(masses, *_summed(rows))


def _summed(rows: list[Integral]) -> tuple[Float[np.ndarray, " P"], Int[np.ndarray, " P"]]:
    """Errors and evaluations of the axes."""
    return np.sum([each.errors for each in rows], axis=0), np.sum([each.evaluations for each in rows], axis=0)


def errors_of(
    problem: Problem, states: np.ndarray, actions: np.ndarray, tolerance: float, max_evaluations: int | float
) -> tuple[Float[np.ndarray, " P"], Int[np.ndarray, " P"]]:
    """(errors, evaluations) of `rows_of`; of a product no row is as long as the grid is large."""
    given = problem, states, actions, tolerance, max_evaluations
    return _summed(all_axis_rows_of(*given) if problem.is_product else [rows_of(*given)])


def _require_mass(name: str, rows: Integral, states: np.ndarray, actions: np.ndarray) -> None:
    bad = np.asarray(~np.isfinite(rows.masses).all(axis=-1))
    if np.any(bad):
        first = int(np.argmax(bad))
        raise HamqError(
            f"the density of {name} has no finite mass in the box at state {numbers(states[first])}, action "
            f"{numbers(actions[first])} ({int(bad.sum())} of {len(bad)} pairs); the log-density must be a number somewhere "
            "in the box, and never NaN."
        )


def glance(problem: Problem) -> Float[np.ndarray, "S A S"]:
    """Rows of the density at the grid points alone, which cost one evaluation per mass: enough to see how much V varies.

    A row without any density at a grid point is uniform.
    """
    states, actions = problem.grid.states(), np.asarray(listed_actions(problem), np.float64)
    num_actions, num = len(actions), len(states) * len(actions)
    masses, size = np.empty((num, len(states))), max(1, VALUES_PER_BLOCK // len(states))
    for first in range(0, num, size):
        pairs = np.arange(first, min(first + size, num))
        given = states[pairs // num_actions], actions[pairs % num_actions]
        masses[pairs] = _direct_rows(problem, *given, log_row=_log_masses_at_points)
    masses = np.where(np.isfinite(masses).all(axis=1, keepdims=True), masses, 1 / len(states))
    return masses.reshape(len(states), num_actions, -1)


def _direct_rows(
    problem: Problem,
    states: np.ndarray,
    actions: np.ndarray,
    axis: int | None = None,
    log_row: Callable[..., Array] = log_masses,
) -> Float[np.ndarray, "P n"]:
    """Closed forms, or point masses; of all coordinates, or of one."""

    def of_pair(state, action):
        if axis is None:
            return log_row(problem, state, action)
        return _axis_log_masses(problem, problem.density(state, action), axis, state.dtype)

    def trace(states, actions):
        return jax.lax.map(lambda pair: jnp.exp(of_pair(*pair)), (states, actions))

    with jax.enable_x64(True):
        given = np.asarray(states, np.float64), np.asarray(actions, np.float64)
        rows = program((log_row.__name__, problem.constants, axis), problem.kernel.functions, trace, *given)
        return np.asarray(rows(*given))
