"""The law of a product kernel as one small table per axis.

P(s' | s, a) = Π_i P_i(s'_i | s, a). The next position depends on position and velocity only, so its table needs no other
index. Which ones it needs is read off the table of means of a normal kernel (is it constant along an axis?), whose masses
are closed forms, and off the log-density of any other (`axis_masses.py`). `contraction.py` then sums V against the tables.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.exact.axis_masses import axis_dependence, axis_masses, require_evaluations
from hamq.exact.contraction import Contraction, Factor
from hamq.exact.plan import Plan, make_plan
from hamq.problem import cells
from hamq.problem.grid import Grid
from hamq.problem.normal import axis_log_masses
from hamq.problem.problem import Problem
from hamq.problem.tables import mean_table, require_finite, std_table, tabulate
from hamq.types import HamqError, Law

EPSILON = float(np.finfo(np.float64).eps)
SAME = 16 * EPSILON
"""Entries that differ by less, relative to the largest one, are equal: XLA may round one formula in two ways."""
CHUNK_VALUES = 2**21
"""Means that are computed at once; larger tables are computed axis by axis."""
CHUNK_ROWS = (2**10, 2**15)
"""Normals whose masses are computed at once."""
ROUNDING = 1e-13
"""Total variation that float64 may cost a row besides its quadrature error."""
NUM_TABLES = 5
"""Tables [S, A] that a solver holds at once: rewards, two images, and the bounds at the end."""


class FactoredLaw:
    """E[V] of all pairs, `[S] -> [S, A]`; `error` bounds the total variation between its masses and the true ones.

    The quadrature error in it, `quadrature_error` (0 for closed forms), is an estimate and at most `tolerance` where
    `max_evaluations` suffice; `needed` is how many would, which nobody estimates here.
    """

    needed = math.inf

    def __init__(
        self,
        problem: Problem,
        max_bytes: int | None = None,
        tolerance: float = 1e-3,
        max_evaluations: int | None = None,
        progress: cells.Progress | None = None,
    ):
        grid, self.asked, self.quadrature_error, self.evaluations = problem.grid, tolerance, 0.0, 0
        sizes = (*grid.points, problem.num_actions, *grid.points)
        if problem.kernel.normal is not None and problem.has_closed_masses:
            moments = _moments(problem)
            self.depends_on = [moment.depends_on for moment in moments]
            self.error = sum(moment.error for moment in moments)
            plan = _plan(problem, sizes, self.depends_on, max_bytes)
            factors = [Factor(_masses(problem, i, moment), moment.depends_on) for i, moment in enumerate(moments)]
        else:
            self.depends_on = axis_dependence(problem)
            require_evaluations(problem, self.depends_on, max_evaluations)
            plan = _plan(problem, sizes, self.depends_on, max_bytes)
            factors, self.quadrature_error, self.evaluations = axis_masses(
                problem, self.depends_on, tolerance, max_evaluations, progress
            )
            self.error = self.quadrature_error + grid.dimension * ROUNDING
        self.contraction = Contraction(plan, sizes, factors)

    @property
    def num_summands(self) -> int:
        return self.contraction.num_summands

    def __call__(self, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        return self.contraction(value)


def require_tables(problem: Problem, max_bytes: int | None) -> None:
    """Refuses, with the numbers, problems whose tables do not fit."""
    allowed = cells.available_bytes() if max_bytes is None else max_bytes
    needed = 8 * NUM_TABLES * problem.num_states * problem.num_actions
    if needed > allowed:
        raise cells.DoesNotFit(
            f"solving {problem.name} exactly needs {needed:.2e} bytes for {NUM_TABLES} tables of "
            f"{problem.num_states:.2e} states × {problem.num_actions} actions, and {allowed:.2e} are allowed; "
            "use fewer points or actions, or raise max_bytes."
        )


def _plan(problem: Problem, sizes, depends_on: list[tuple[int, ...]], max_bytes: int | None) -> Plan:
    allowed = cells.available_bytes() if max_bytes is None else max_bytes
    tables = 8 * NUM_TABLES * problem.num_states * problem.num_actions
    plan = make_plan(sizes, depends_on, allowed - tables)
    smallest = plan or make_plan(sizes, depends_on, 2**62)
    assert smallest is not None  # everything fits into 4 exabytes
    # While the masses are laid out for their steps, both are there; afterwards, the steps and the solver's tables.
    laying_out = tables // NUM_TABLES + _mass_bytes(sizes, depends_on)
    needed = smallest.table_bytes + max(laying_out, tables + smallest.work_bytes)
    if plan is None or needed > allowed:
        raise cells.DoesNotFit(
            f"solving {problem.name} exactly needs {needed:.2e} bytes ({smallest.table_bytes:.2e} for the masses of "
            f"its axes, {smallest.work_bytes:.2e} for the largest step of {smallest.multiply_adds:.2e} multiply-adds "
            f"a sweep), and {allowed:.2e} are allowed; use fewer points or actions, raise max_bytes, or sample (HMC "
            "needs no masses)."
        )
    return plan


def _mass_bytes(sizes: tuple[int, ...], depends_on: list[tuple[int, ...]]) -> int:
    """Of the masses of all axes, `[*depends_on, n]` each."""
    next_sizes = sizes[len(depends_on) + 1 :]
    return sum(8 * n * math.prod(sizes[i] for i in own) for n, own in zip(next_sizes, depends_on, strict=True))


class Moments(NamedTuple):
    """Mean and standard deviation of one axis on the indices they depend on; `error` is that of their masses."""

    mean: Float[np.ndarray, "..."]
    std: Float[np.ndarray, "..."]
    depends_on: tuple[int, ...]
    error: float


def _moments(problem: Problem) -> list[Moments]:
    normal, axes = problem.kernel.normal, range(problem.grid.dimension)
    assert normal is not None
    stds = std_table(problem)
    if problem.num_states * problem.num_actions * len(axes) <= CHUNK_VALUES:
        means = mean_table(problem)
        return [_axis_moments(problem, means[..., axis], stds[..., axis], axis) for axis in axes]
    moments = []
    for axis in axes:  # the table of all means would be the largest thing that a solver ever holds
        means = tabulate(problem, lambda state, action: normal.mean(state, action)[axis])  # noqa: B023
        require_finite(problem, means, "mean")
        moments.append(_axis_moments(problem, means, stds[..., axis], axis))
    return moments


def _axis_moments(problem: Problem, mean: np.ndarray, std: np.ndarray, axis: int) -> Moments:
    shape = (*problem.grid.points, problem.num_actions)
    mean, mean_spread = _without_constants(mean.reshape(shape))
    std, std_spread = _without_constants(std.reshape(shape if std.ndim else [1] * len(shape)))
    depends_on = tuple(i for i in range(len(shape)) if max(mean.shape[i], std.shape[i]) > 1)
    error = _mass_error(problem, axis, mean, std, mean_spread, std_spread)
    kept = [shape[i] for i in depends_on]
    mean, std = np.broadcast_arrays(mean, std)
    return Moments(mean.reshape(kept), std.reshape(kept), depends_on, error)


def _without_constants(table: np.ndarray) -> tuple[np.ndarray, float]:
    """The table with size 1 along each axis on which it is constant, and how far that moved an entry at most."""
    same, moved = SAME * float(np.abs(table).max()), 0.0
    for axis in range(table.ndim):
        spread = float((table.max(axis=axis) - table.min(axis=axis)).max())
        if spread <= same:
            table, moved = table.take([0], axis=axis), moved + spread
    return table, moved


def _mass_error(problem: Problem, axis: int, mean, std, mean_spread: float, std_spread: float) -> float:
    """Total-variation distance of the computed masses of one axis from the true ones, at most.

    E[f] moves with the mean by Cov(f, x)/σ² ≤ span(f)·width/(4σ²), with σ by Cov(f, (x − μ)²)/σ³, and wrapped round a
    circle by less than 1/σ. Rounding of z = (x − μ)/σ enters a log-mass as z², narrow cells cancel.
    """
    width, h = problem.grid.widths[axis], problem.grid.spacing[axis]
    lower, upper = problem.grid.lower[axis], problem.grid.upper[axis]
    sigma, far = float(std.min()), width
    if not problem.grid.periodic[axis]:
        far = max(upper - float(mean.min()), float(mean.max()) - lower)
    z, coarseness = far / sigma, float(std.max()) / h
    cancelled = {"cell": coarseness, "linear": coarseness * coarseness * (1 + z) * (1 + z), "point": 0.0}[problem.law]
    rounding = 8 * EPSILON * (problem.grid.points[axis] + z * z + cancelled)
    moved = mean_spread * (width / (4 * sigma**2) + 1 / sigma) + std_spread * (z * z / (4 * sigma) + 1 / sigma)
    return rounding + moved


def _masses(problem: Problem, axis: int, moments: Moments) -> Float[np.ndarray, "..."]:
    """P_i `[*depends_on, n]`.

    The axis is mapped to [0, 1] and computed in chunks of two sizes, so that axes share their compilation.
    """
    n, count, width = problem.grid.points[axis], moments.mean.size, problem.grid.widths[axis]
    unit = Grid([0.0], [1.0], [n], [problem.grid.periodic[axis]])
    means, stds = (moments.mean.ravel() - problem.grid.lower[axis]) / width, moments.std.ravel() / width
    masses = np.empty((count, n))
    size = next((size for size in CHUNK_ROWS if count <= size), CHUNK_ROWS[-1])
    with jax.enable_x64(True):
        for start in range(0, count, size):
            rows = np.resize(np.arange(start, min(start + size, count)), size)  # the last chunk is filled up
            logs = _log_masses(unit, problem.law, jnp.asarray(means[rows]), jnp.asarray(stds[rows]))
            masses[start : start + size] = logs[: count - start]
    np.exp(masses, out=masses)
    if not np.all(np.isfinite(masses)):
        worst = int(np.argmin(np.isfinite(masses).all(axis=1)))
        raise HamqError(
            f"{problem.name}: a normal with mean {moments.mean.ravel()[worst]:.3g} and standard deviation "
            f"{moments.std.ravel()[worst]:.3g} has no mass that float64 can hold on axis {axis}, which runs from "
            f"{problem.grid.lower[axis]:g} to {problem.grid.upper[axis]:g}; keep the mean nearer to the box."
        )
    masses /= masses.sum(axis=1, keepdims=True)
    return masses.reshape(*moments.mean.shape, n)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _log_masses(unit: Grid, law: Law, means: Float[Array, " rows"], stds: Float[Array, " rows"]) -> Array:
    return jax.vmap(lambda mean, std: axis_log_masses(unit, 0, law, mean, std))(means, stds)
