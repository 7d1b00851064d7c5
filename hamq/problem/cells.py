"""The law of the next grid state: one row of masses per state-action pair.

The law is the truncated density in each grid cell (`cell`), under each hat function (`linear`), or at each grid point
(`point`). Product kernels have closed forms per axis (`normal.py`) and a row is their outer product. Other kernels are
integrated (`quadrature.py`), each pair until its masses are as good as was asked for.

`rows_of` has the masses of any pairs, of states between the grid points too, in float64. `log_masses` is traced for one pair
in whatever precision is on, for what needs no quadrature.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.counts import as_power
from hamq.problem.evaluation import lifted, numbers
from hamq.problem.kernel import ProductDensity
from hamq.problem.normal import axis_log_masses
from hamq.problem.problem import Problem, listed_actions
from hamq.problem.programs import program
from hamq.problem.quadrature import FIRST_VALUES, Integral, integrate
from hamq.problem.rules import num_points

MAX_EVALUATIONS = 4 * 10**9
"""Density evaluations that quadrature may spend unless told otherwise: minutes on two cores."""
VALUES_PER_BLOCK = 2**21
"""Values of rows in closed form, or at points, that are made at once."""

Progress = Callable[[str, int, int], None]
"""Told (what is being done, how many parts are done, of how many)."""


def needs_quadrature(problem: Problem) -> bool:
    return not (problem.is_product or problem.law == "point")


def log_masses(problem: Problem, state: Float[Array, " d"], action: Array) -> Float[Array, " S"]:
    """log P(s' | s, a) on all grid states, normalised over the box; closed forms and point masses only."""
    density = problem.density(state, action)
    if problem.law == "point" and not isinstance(density, ProductDensity):
        logs = jax.vmap(lifted(problem, density))(jnp.asarray(problem.grid.states(), state.dtype))
        largest = jnp.max(logs)
        logs = logs - jnp.where(jnp.isfinite(largest), largest, 0)  # never −inf + inf
        return logs - jax.nn.logsumexp(logs)
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
    evaluations: int


def estimate(problem: Problem) -> tuple[int, int]:
    """(bytes, density evaluations) of all rows, as Python ints; quadrature may need more where it refines."""
    pairs = problem.num_states * problem.num_actions
    per_pair = num_points(problem.grid, problem.law) if needs_quadrature(problem) else problem.num_states
    return 8 * pairs * problem.num_states, pairs * per_pair


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


def all_rows(
    problem: Problem, tolerance: float, max_evaluations: int | float | None = None, progress: Progress | None = None
) -> Rows:
    """Masses of all pairs in float64, each with an estimated error of at most `tolerance` in total variation.

    Where the evaluations end first, which all pairs share alike, the error says how far the worst pair is.
    """
    budget = MAX_EVALUATIONS if max_evaluations is None else max_evaluations
    states, actions = problem.grid.states(), np.asarray(listed_actions(problem), np.float64)
    num_states, num_actions = len(states), len(actions)
    masses, worst, spent = np.empty((num_states * num_actions, num_states)), 0.0, 0
    for first, last in _blocks(problem, num_states * num_actions):
        pairs = np.arange(first, last)
        of_block = states[pairs // num_actions], actions[pairs % num_actions]
        rows = rows_of(problem, *of_block, tolerance, budget / (num_states * num_actions))
        masses[first:last] = rows.masses
        worst, spent = max(worst, float(rows.errors.max())), spent + int(rows.evaluations.sum())
        if progress is not None:
            progress("integrating the density", last, num_states * num_actions)
    return Rows(masses.reshape(num_states, num_actions, -1), worst, spent)


def _blocks(problem: Problem, num_pairs: int) -> list[tuple[int, int]]:
    """Ends of blocks of pairs that are worked on together."""
    values = FIRST_VALUES if needs_quadrature(problem) else VALUES_PER_BLOCK
    size = max(1, values // (estimate(problem)[1] // (problem.num_states * problem.num_actions)))
    return [(first, min(first + size, num_pairs)) for first in range(0, num_pairs, size)]


def rows_of(
    problem: Problem,
    states: Float[np.ndarray, "P d"],
    actions: Float[np.ndarray, "P *k"],
    tolerance: float,
    max_evaluations: int | float = np.inf,
) -> Integral:
    """Masses of pairs, their estimated errors and what they cost; `max_evaluations` is for each pair, and not binding on
    what a row costs unrefined. A pair without any density in the box is refused by name."""
    if needs_quadrature(problem):
        rows = integrate(problem, states, actions, tolerance, max_evaluations)
    else:
        masses = _direct_rows(problem, states, actions)
        cost = 0 if problem.is_product else problem.num_states
        rows = Integral(masses, np.zeros(len(masses)), np.full(len(masses), cost, np.int64))
    bad = np.asarray(~np.isfinite(rows.masses).all(axis=-1))
    if np.any(bad):
        first = int(np.argmax(bad))
        raise ValueError(
            f"the density of {problem.name} has no finite mass in the box at state {numbers(states[first])}, action "
            f"{numbers(actions[first])} ({int(bad.sum())} of {len(bad)} pairs); the log-density must be a number somewhere "
            "in the box, and never NaN."
        )
    return rows


def _direct_rows(problem: Problem, states: np.ndarray, actions: np.ndarray) -> Float[np.ndarray, "P S"]:
    """Closed forms, or point masses."""

    def trace(states, actions):
        return jax.lax.map(lambda pair: jnp.exp(log_masses(problem, *pair)), (states, actions))

    with jax.enable_x64(True):
        given = np.asarray(states, np.float64), np.asarray(actions, np.float64)
        rows = program(("closed rows", problem.constants), problem.kernel.functions, trace, *given)
        return np.asarray(rows(*given))
