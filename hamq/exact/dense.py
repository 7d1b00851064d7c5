"""The law of any kernel as dense rows, where they fit; their quadrature error is part of every bound."""

import math

import numpy as np
from jaxtyping import Float

from hamq.exact.factored import ROUNDING
from hamq.problem import cells
from hamq.problem.kernels.gaussian import image_reach
from hamq.problem.noise import noise_of
from hamq.problem.problem import Problem


class DenseLaw:
    """E[V] of all pairs, `[S] -> [S, A]`; `error` bounds the total variation between its masses and the true ones.

    The quadrature error in it is an estimate: the distance between two rules, of which the finer one is used.
    """

    def __init__(
        self,
        problem: Problem,
        tolerance: float,
        max_evaluations: int | None = None,
        progress: cells.Progress | None = None,
    ):
        rows, self.asked = cells.all_rows(problem, tolerance, max_evaluations, progress), tolerance
        self.masses = rows.masses.reshape(-1, problem.num_states)
        self.masses /= self.masses.sum(axis=1, keepdims=True)
        self.num_actions = problem.num_actions
        self.quadrature_error, self.error = rows.error, rows.error + ROUNDING + _error_of_noise(problem)
        self.evaluations, self.needed = rows.evaluations, rows.needed

    @property
    def num_summands(self) -> int:
        return self.masses.shape[1]

    def __call__(self, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        return np.matmul(self.masses, value).reshape(-1, self.num_actions)


class GlanceLaw:
    """E[V] by the density at the grid points, normalised over them: no error is known."""

    error = quadrature_error = asked = 0.0
    evaluations, needed = 0, math.inf

    def __init__(self, problem: Problem):
        self.masses, self.num_actions = cells.glance(problem).reshape(-1, problem.num_states), problem.num_actions

    @property
    def num_summands(self) -> int:
        return self.masses.shape[1]

    def __call__(self, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        return np.matmul(self.masses, value).reshape(-1, self.num_actions)


def _error_of_noise(problem: Problem) -> float:
    """What both rules of the quadrature miss alike: ε·Σ_jj·(Σ⁻¹)_jj, by which the exponent cancels, and images of a normal
    that are farther round a circle than was summed."""
    normal = problem.kernel.normal
    if normal is None or problem.is_product:
        return 0.0
    noise, circle = noise_of(problem), np.asarray(problem.grid.periodic)
    away = (image_reach(problem.grid, normal.covariance) - 1) * np.asarray(problem.grid.widths) / noise.widest
    left_out = [math.erfc(z / math.sqrt(2)) for z in away[circle]]
    return float(np.finfo(np.float64).eps * noise.inflation.max() + sum(left_out))
