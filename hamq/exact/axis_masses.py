"""Masses of the axes of a product kernel, each on the coordinates that its density depends on.

The masses of one axis are needed once for every value of the coordinates that the axis depends on, which is read off its
log-density (`problem/dependence.py`), and not for every pair. They are integrated, or computed where they have closed forms.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from hamq.exact.contraction import Factor
from hamq.problem import cells
from hamq.problem.dependence import depends_on
from hamq.problem.problem import Problem, listed_actions
from hamq.problem.quadrature import FIRST_VALUES


class AxisMasses(NamedTuple):
    """One factor per axis; their quadrature error (the sum of the axes' largest, in total variation) and what they cost."""

    factors: list[Factor]
    error: float
    evaluations: int


def axis_dependence(problem: Problem) -> list[tuple[int, ...]]:
    """Of each axis, the numbers of the coordinates that its masses depend on; the dimension stands for the action."""
    return [_depends_on(problem, axis) for axis in range(problem.grid.dimension)]


def _depends_on(problem: Problem, axis: int) -> tuple[int, ...]:
    def masses(coordinate, state, action):
        density = problem.density(state, action)
        if problem.has_closed_masses:
            return density.axis_log_masses(problem.grid, axis, problem.law)
        return jnp.asarray(density.log_of_axis(axis, coordinate))

    return depends_on(masses, problem.grid.dimension, problem.action_shape)


def num_rows(problem: Problem, own: tuple[int, ...]) -> int:
    """Rows of masses of an axis that depends on these coordinates."""
    sizes = (*problem.grid.points, problem.num_actions)
    return math.prod(sizes[i] for i in own)


def require_evaluations(problem: Problem, depends: list[tuple[int, ...]], max_evaluations: int | float | None) -> None:
    """Refuses, with the numbers, masses that take too many evaluations before any of them is refined."""
    allowed = cells.MAX_EVALUATIONS if max_evaluations is None else max_evaluations
    needed = sum(num_rows(problem, own) * cells.axis_evaluations(problem, axis) for axis, own in enumerate(depends))
    if cells.needs_quadrature(problem) and needed > allowed:
        raise cells.DoesNotFit(
            f"solving {problem.name} exactly needs at least {needed:.2e} density evaluations for the masses of its axes, "
            f"and {allowed:.2e} are allowed; use fewer points or actions, raise max_evaluations, or sample (HMC needs no "
            "masses)."
        )


def axis_masses(
    problem: Problem,
    depends: list[tuple[int, ...]],
    tolerance: float,
    max_evaluations: int | float | None = None,
    progress: cells.Progress | None = None,
) -> AxisMasses:
    """The masses of all axes, which together miss at most `tolerance` of a row where the evaluations suffice for it."""
    d, total = len(depends), sum(num_rows(problem, own) for own in depends)
    budget = (cells.MAX_EVALUATIONS if max_evaluations is None else max_evaluations) / total
    factors, error, evaluations, done = [], 0.0, 0, 0
    for axis, own in enumerate(depends):
        masses, worst = np.empty((num_rows(problem, own), problem.grid.points[axis])), 0.0
        for rows in _blocks(len(masses), FIRST_VALUES // cells.axis_evaluations(problem, axis)):
            found = cells.axis_rows_of(problem, axis, *_pairs(problem, own, rows), tolerance / d, budget)
            masses[rows] = found.masses
            worst, evaluations = max(worst, float(found.errors.max())), evaluations + int(found.evaluations.sum())
            done += len(rows)
            if progress is not None:
                progress("integrating the density", done, total)
        error += worst
        masses /= masses.sum(axis=1, keepdims=True)
        sizes = (*problem.grid.points, problem.num_actions)
        factors.append(Factor(masses.reshape(*(sizes[i] for i in own), -1), own))
    return AxisMasses(factors, error, evaluations)


def _blocks(count: int, size: int) -> Iterator[Int[np.ndarray, " n"]]:
    for first in range(0, count, max(1, size)):
        yield np.arange(first, min(first + max(1, size), count))


def _pairs(
    problem: Problem, own: tuple[int, ...], rows: Int[np.ndarray, " P"]
) -> tuple[Float[np.ndarray, "P d"], Float[np.ndarray, "P *k"]]:
    """States and actions of these rows of an axis; coordinates that it does not depend on are the first of their axis."""
    d, sizes = problem.grid.dimension, (*problem.grid.points, problem.num_actions)
    at = dict(zip(own, np.unravel_index(rows, [sizes[i] for i in own]), strict=True)) if own else {}
    first = np.zeros(len(rows), np.int64)
    states = np.stack([problem.grid.axis_nodes(i)[at.get(i, first)] for i in range(d)], axis=-1)
    return states, np.asarray(listed_actions(problem), np.float64)[at.get(d, first)]
