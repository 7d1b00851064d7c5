"""Normal densities with independent or correlated coordinates, eq. (7); their gradients are written by hand."""

import functools
import itertools
from collections.abc import Hashable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import (
    AbstractDensity,
    AbstractKernel,
    Normal,
    NormalFunctions,
    Reading,
    check_output,
    shapes_of_pair,
)
from hamq.problem.normal import NUM_IMAGES, axis_log_masses
from hamq.problem.small_matrix import cholesky, solve_positive
from hamq.types import HamqError, UserFunction

MAX_CONDITION = 1e12


class ProductDensity(AbstractDensity):
    """Normal with independent coordinates."""

    mean: Float[Array, " d"]
    std: Float[Array, " d"]
    is_elementwise: ClassVar[bool] = True

    def log(self, point):
        return jnp.sum(self.log_of_axes(point))

    def log_of_axes(self, point):
        return -0.5 * ((point - self.mean) / self.std) ** 2

    def gradient(self, point):
        return (self.mean - point) / self.std**2

    def log_and_gradient(self, point):
        return self.log(point), self.gradient(point)

    def curvature(self, point):
        del point
        return 1 / self.std**2

    @property
    def normal(self):
        return Normal(self.mean, self.std)

    def log_of_axis(self, axis, coordinate):
        return -0.5 * ((coordinate - self.mean[axis]) / self.std[axis]) ** 2

    def axis_log_masses(self, grid, axis, law):
        return axis_log_masses(grid, axis, law, self.mean[axis], self.std[axis])


class CorrelatedDensity(AbstractDensity):
    """Normal with a full covariance L Lᵀ; `reach`: circles away to which images are summed (None: enough for any σ)."""

    mean: Float[Array, " d"]
    cholesky: Float[Array, "d d"]
    precision: Float[Array, "d d"]
    reach: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def log(self, point):
        return 0.5 * jnp.sum((point - self.mean) * self.gradient(point))

    def gradient(self, point):
        return times(self.precision, self.mean - point)

    def log_and_gradient(self, point):
        return self.log(point), self.gradient(point)

    def curvature(self, point):
        del point
        return self.precision

    @property
    def normal(self):
        return Normal(self.mean, self.cholesky, self.precision)

    def log_on_circles(self, grid):
        """The sum over its images."""
        if not any(grid.periodic):
            return self.log
        density = eqx.tree_at(lambda g: g.mean, self, grid.wrap(self.mean))
        reach = image_reach(grid, None) if self.reach is None else self.reach
        ranges = [range(-k, k + 1) if circle else (0,) for k, circle in zip(reach, grid.periodic, strict=True)]
        shifts = np.asarray(list(itertools.product(*ranges))) * np.asarray(grid.widths)

        def log_at(point):
            return logsumexp(jax.vmap(lambda shift: density.log(point + shift))(jnp.asarray(shifts, point.dtype)))

        return log_at


def image_reach(grid: Grid, covariance: Any) -> Int[np.ndarray, " d"]:
    """How many circles away images of a normal are summed: to 6.5 σ. Σ is a matrix; σ is half a circle where it is unknown,
    None or a function."""
    widths = np.asarray(grid.widths)
    stds = widths / 2 if covariance is None or callable(covariance) else np.sqrt(np.diag(covariance))
    return np.minimum(np.ceil(6.5 * stds / widths).astype(int) + 1, NUM_IMAGES)


def times(matrix: Float[Array, "d d"], vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """Matrix times vector, column by column: a batched matrix product would round by its place in the batch."""
    return functools.reduce(jnp.add, [matrix[:, j] * vector[j] for j in range(vector.shape[0])])


class GaussianKernel(AbstractKernel):
    """s' ~ N(mean(s, a), covariance), cut to the box; eq. (7).

    `covariance` is a vector of variances, a full matrix, or a function of (state, action) that returns either.
    """

    mean: UserFunction = eqx.field(static=True)
    covariance: Any = eqx.field(static=True)  # a function, or nested tuples: hashable, so that jit sees constants
    has_one_mode: ClassVar[bool] = True
    """In any box, because the energy is convex."""
    has_closed_masses: ClassVar[bool] = True

    def __init__(self, mean: UserFunction, covariance: Any):
        if not callable(mean):
            raise HamqError(f"GaussianKernel: mean must be a function of (state, action), got {mean!r}.")
        self.mean = mean
        if callable(covariance):
            self.covariance = covariance
        else:
            check_covariance(np.asarray(covariance), "covariance")
            rows = np.asarray(covariance, np.float64).tolist()
            self.covariance = tuple(tuple(row) if isinstance(row, list) else row for row in rows)

    @property
    def functions(self) -> tuple[UserFunction, ...]:
        return (self.mean, self.covariance) if callable(self.covariance) else (self.mean,)

    @property
    def constants(self) -> Hashable:
        return "gaussian", None if callable(self.covariance) else self.covariance

    def at(self, grid: Grid, state: Float[Array, " d"], action: Array) -> AbstractDensity:
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
            tuple(image_reach(grid, covariance).tolist()) if any(grid.periodic) else None,
        )

    @property
    def normal(self):
        return NormalFunctions(self.mean, self.covariance)

    def check(self, grid, action_shape):
        d, given = grid.dimension, shapes_of_pair(grid, action_shape)
        check_output("mean", self.mean, given, [(d,)])
        if callable(self.covariance):
            check_output("covariance", self.covariance, given, [(d,), (d, d)])
        elif np.shape(self.covariance) not in ((d,), (d, d)):
            raise HamqError(
                f"GaussianKernel: covariance has shape {np.shape(self.covariance)} and the grid has {d} dimensions; "
                f"give [{d}] or [{d}, {d}]."
            )

    def is_product(self, grid, action_shape):
        if not callable(self.covariance):
            return np.ndim(self.covariance) == 1
        given = shapes_of_pair(grid, action_shape)
        return jax.eval_shape(lambda *pair: jnp.asarray(self.covariance(*pair)), *given).ndim == 1

    def readings(self, grid, state, action):
        del grid
        found = {"mean": Reading(self.mean, self.mean, (state, action))}
        if callable(self.covariance):
            found["covariance"] = Reading(self.covariance, self.covariance, (state, action))
        return found


def check_covariance(covariance: np.ndarray, name: str) -> None:
    """Refuses what is not the covariance of a density: shape, symmetry, definiteness, conditioning."""
    if covariance.dtype.kind not in "iuf":
        raise HamqError(f"GaussianKernel: {name} must hold real numbers, got dtype {covariance.dtype}.")
    if covariance.ndim not in (1, 2) or covariance.size == 0 or len(set(covariance.shape)) > 1:
        raise HamqError(
            f"GaussianKernel: {name} has shape {covariance.shape}; give a vector of variances [d] or a matrix [d, d]."
        )
    if not np.all(np.isfinite(covariance)):
        raise HamqError(f"GaussianKernel: {name} holds a value that is not finite: {covariance.tolist()}.")
    if covariance.ndim == 1:
        variances = covariance
        if np.any(variances <= 0):
            raise HamqError(
                f"GaussianKernel: {name} has the variance {float(variances.min())}; every variance must be above 0."
            )
    else:
        if not np.allclose(covariance, covariance.T, rtol=1e-6, atol=1e-9 * np.abs(covariance).max()):
            raise HamqError(f"GaussianKernel: {name} is not symmetric; symmetrise it: (Σ + Σᵀ)/2.")
        variances = np.linalg.eigvalsh(covariance)
        if variances[0] <= 0:
            raise HamqError(
                f"GaussianKernel: {name} is not positive definite, its smallest eigenvalue is {variances[0]:.3g}; "
                "add noise to the direction that has none."
            )
    condition = float(variances.max() / variances.min())
    if condition > MAX_CONDITION:
        raise HamqError(
            f"GaussianKernel: {name} has condition number {condition:.2g}, above {MAX_CONDITION:.0g}; "
            "rescale the coordinates or add noise to the narrow direction."
        )
