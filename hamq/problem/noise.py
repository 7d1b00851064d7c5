"""How narrow, how wide and how entangled the noise of a Gaussian kernel is, at worst: what rounding is judged by."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
