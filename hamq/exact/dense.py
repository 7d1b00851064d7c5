"""The law of any kernel as dense rows, where they fit; their quadrature error is part of every bound.

How narrow, how wide and how entangled the noise of a Gaussian kernel is, at worst: what rounding is judged by.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.exact.factored import ROUNDING
from hamq.problem import cells
from hamq.problem.kernels.gaussian import image_reach
from hamq.problem.problem import Problem
from hamq.problem.small_matrix import solve_positive
from hamq.problem.tables import tabulate


class Noise(NamedTuple):
    """Of every axis, over all pairs: the smallest σ given the other axes, the largest σ, and the largest Σ_jj·(Σ⁻¹)_jj."""

    narrowest: Float[np.ndarray, " d"]
    widest: Float[np.ndarray, " d"]
    inflation: Float[np.ndarray, " d"]


def noise_of(problem: Problem) -> Noise:
    normal = problem.kernel.normal
    assert normal is not None
    covariance, d = normal.covariance, problem.grid.dimension
    if callable(covariance):
        found = tabulate(problem, lambda state, action: _moments(covariance(state, action)), (3, d)).reshape(-1, 3, d)
    else:
        given = np.asarray(covariance, np.float64)
        inverse = 1 / given if given.ndim == 1 else np.diag(np.linalg.inv(given))
        variances = given if given.ndim == 1 else np.diag(given)
        found = np.stack([inverse**-0.5, variances**0.5, variances * inverse])[None]
    found = np.where(np.isfinite(found), found, np.asarray([0.0, np.inf, np.inf])[:, None])  # not to be told apart from 0
    return Noise(np.maximum(found[:, 0].min(axis=0), 1e-300), found[:, 1].max(axis=0), found[:, 2].max(axis=0))


def _moments(given: Any) -> Float[Array, "3 d"]:
    covariance = jnp.asarray(given)
    if covariance.ndim == 1:
        return jnp.stack([jnp.sqrt(covariance), jnp.sqrt(covariance), jnp.ones_like(covariance)])
    variances = jnp.diagonal(covariance)
    precisions = jnp.diagonal(solve_positive(covariance, jnp.eye(len(variances), dtype=covariance.dtype)))
    return jnp.stack([1 / jnp.sqrt(precisions), jnp.sqrt(variances), variances * precisions])


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
