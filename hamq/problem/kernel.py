"""Transition densities, known up to a constant.

A kernel gives, for one state and one action, the density of the next state on ℝᵈ before it is cut to the box; eq. (7)
of the paper is `GaussianKernel`, and `UnnormalizedKernel` takes any JAX function. What the samplers need of it is one
protocol, `AbstractDensity`: log p and its gradient, each up to the unknown constant. Gaussian densities write the
gradient by hand (value and gradient stay separate: the leapfrog loop never computes log p), others use autodiff.

On a periodic axis a Gaussian density is *lifted*: it lives on the line, and wrapping its draws round the circle gives
the wrapped normal. An unnormalised density is a function on the circle: it is called with the wrapped point.
"""

import abc
import functools
from collections.abc import Hashable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.small_matrix import cholesky, solve_positive
from hamq.types import UserFunction

MAX_CONDITION = 1e12


class AbstractDensity(eqx.Module):
    """log p(s') + constant and its gradient, for one state and one action."""

    @abc.abstractmethod
    def log(self, point: Float[Array, " d"]) -> Float[Array, ""]: ...

    @abc.abstractmethod
    def gradient(self, point: Float[Array, " d"]) -> Float[Array, " d"]: ...

    @abc.abstractmethod
    def log_and_gradient(self, point: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
        """Both at once: where autodiff makes the gradient, the function is traced and compiled once for the two."""

    @abc.abstractmethod
    def curvature(self, point: Float[Array, " d"]) -> Float[Array, "..."]:
        """−∇² log p: `[d]` where it is diagonal, else `[d, d]`."""


class ProductDensity(AbstractDensity):
    """Normal with independent coordinates."""

    mean: Float[Array, " d"]
    std: Float[Array, " d"]

    def log(self, point):
        return jnp.sum(self.log_of_axes(point))

    def log_of_axes(self, point: Float[Array, "..."]) -> Float[Array, "..."]:
        """The summands of `log`, one per axis."""
        return -0.5 * ((point - self.mean) / self.std) ** 2

    def gradient(self, point):
        return (self.mean - point) / self.std**2

    def log_and_gradient(self, point):
        return self.log(point), self.gradient(point)

    def curvature(self, point):
        del point
        return 1 / self.std**2


class CorrelatedDensity(AbstractDensity):
    """Normal with a full covariance L Lᵀ."""

    mean: Float[Array, " d"]
    cholesky: Float[Array, "d d"]
    precision: Float[Array, "d d"]

    def log(self, point):
        return 0.5 * jnp.sum((point - self.mean) * self.gradient(point))

    def gradient(self, point):
        return times(self.precision, self.mean - point)

    def log_and_gradient(self, point):
        return self.log(point), self.gradient(point)

    def curvature(self, point):
        del point
        return self.precision


class UserDensity(AbstractDensity):
    """A user's log-density; derivatives by autodiff."""

    logdensity: UserFunction = eqx.field(static=True)
    grid: Grid
    state: Float[Array, " d"]
    action: Array

    def log(self, point):
        return self.logdensity(self.grid.wrap(point), self.state, self.action)

    def gradient(self, point):
        return jax.grad(self.log)(point)

    def log_and_gradient(self, point):
        return jax.value_and_grad(self.log)(point)

    def curvature(self, point):
        return -jax.hessian(self.log)(point)


def times(matrix: Float[Array, "d d"], vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """Matrix times vector, column by column: a batched matrix product would round by its place in the batch."""
    return functools.reduce(jnp.add, [matrix[:, j] * vector[j] for j in range(vector.shape[0])])


class GaussianKernel(eqx.Module):
    """s' ~ N(mean(s, a), covariance), cut to the box; eq. (7).

    `covariance` is a vector of variances, a full matrix, or a function of (state, action) that returns either.
    """

    mean: UserFunction = eqx.field(static=True)
    covariance: Any = eqx.field(static=True)  # a function, or nested tuples: hashable, so that jit sees constants
    has_one_mode: ClassVar[bool] = True
    """In any box, because the energy is convex; densities of which this is not known are searched for modes."""

    def __init__(self, mean: UserFunction, covariance: Any):
        if not callable(mean):
            raise ValueError(f"GaussianKernel: mean must be a function of (state, action), got {mean!r}.")
        self.mean = mean
        if callable(covariance):
            self.covariance = covariance
        else:
            check_covariance(np.asarray(covariance), "covariance")
            rows = np.asarray(covariance, np.float64).tolist()
            self.covariance = tuple(tuple(row) if isinstance(row, list) else row for row in rows)

    @property
    def functions(self) -> tuple[UserFunction, ...]:
        """The user's functions: what is compiled for them is kept as long as they are."""
        return (self.mean, self.covariance) if callable(self.covariance) else (self.mean,)

    @property
    def constants(self) -> Hashable:
        """What else a compiled program depends on."""
        return "gaussian", None if callable(self.covariance) else self.covariance

    def at(self, grid: Grid, state: Float[Array, " d"], action: Array) -> AbstractDensity:
        del grid
        mean = jnp.asarray(self.mean(state, action))
        if callable(self.covariance):
            covariance = jnp.asarray(self.covariance(state, action))
            if covariance.ndim == 1:
                return ProductDensity(mean, jnp.sqrt(covariance))
            identity = jnp.eye(covariance.shape[0], dtype=covariance.dtype)
            return CorrelatedDensity(mean, cholesky(covariance), solve_positive(covariance, identity))
        covariance = np.asarray(self.covariance, np.float64)
        if covariance.ndim == 1:
            return ProductDensity(mean, jnp.asarray(np.sqrt(covariance), mean.dtype))
        return CorrelatedDensity(
            mean,
            jnp.asarray(np.linalg.cholesky(covariance), mean.dtype),
            jnp.asarray(np.linalg.inv(covariance), mean.dtype),
        )


class UnnormalizedKernel(eqx.Module):
    """s' ∝ exp(logdensity(next_state, state, action)) on the box: any JAX function, no constant needed."""

    logdensity: UserFunction = eqx.field(static=True)
    has_one_mode: ClassVar[bool] = False

    def __check_init__(self):
        if not callable(self.logdensity):
            raise ValueError(
                f"UnnormalizedKernel: logdensity must be a function of (next_state, state, action), got {self.logdensity!r}."
            )

    @property
    def functions(self) -> tuple[UserFunction, ...]:
        return (self.logdensity,)

    @property
    def constants(self) -> Hashable:
        return "unnormalized"

    def at(self, grid: Grid, state: Float[Array, " d"], action: Array) -> AbstractDensity:
        return UserDensity(self.logdensity, grid, state, action)


def check_covariance(covariance: np.ndarray, name: str) -> None:
    """Refuses what is not the covariance of a density: shape, symmetry, definiteness, conditioning."""
    if covariance.dtype.kind not in "iuf":
        raise ValueError(f"GaussianKernel: {name} must hold real numbers, got dtype {covariance.dtype}.")
    if covariance.ndim not in (1, 2) or covariance.size == 0 or len(set(covariance.shape)) > 1:
        raise ValueError(
            f"GaussianKernel: {name} has shape {covariance.shape}; give a vector of variances [d] or a matrix [d, d]."
        )
    if not np.all(np.isfinite(covariance)):
        raise ValueError(f"GaussianKernel: {name} holds a value that is not finite: {covariance.tolist()}.")
    if covariance.ndim == 1:
        variances = covariance
        if np.any(variances <= 0):
            raise ValueError(
                f"GaussianKernel: {name} has the variance {float(variances.min())}; every variance must be above 0."
            )
    else:
        if not np.allclose(covariance, covariance.T, rtol=1e-6, atol=1e-9 * np.abs(covariance).max()):
            raise ValueError(f"GaussianKernel: {name} is not symmetric; symmetrise it: (Σ + Σᵀ)/2.")
        variances = np.linalg.eigvalsh(covariance)
        if variances[0] <= 0:
            raise ValueError(
                f"GaussianKernel: {name} is not positive definite, its smallest eigenvalue is {variances[0]:.3g}; "
                "add noise to the direction that has none."
            )
    condition = float(variances.max() / variances.min())
    if condition > MAX_CONDITION:
        raise ValueError(
            f"GaussianKernel: {name} has condition number {condition:.2g}, above {MAX_CONDITION:.0g}; "
            "rescale the coordinates or add noise to the narrow direction."
        )
