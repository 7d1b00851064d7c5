"""Independent draws from a correlated normal cut to the box, exactly but for what is left out of M_j, 1e-13.

Coordinate by coordinate, each from its law given those before it, cut to its side of the box: that is a truncated
normal. Their product has the density of the target divided by Π_j Z_j, Z_j(x_1 … x_{j−1}) the mass of side j under the law
of coordinate j, so that a proposal is kept with probability Π_j Z_j/M_j with M_j ≥ Z_j the largest that a mean in the box
can give. The coordinates that hit their side least come first: their Z is a constant. Periodic axes are not cut: Z = 1.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, Int

from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import Normal
from hamq.problem.normal import log_interval_mass
from hamq.problem.small_matrix import cholesky, inverse_lower
from hamq.sampling.truncated_normal import truncated_normal

TAIL = 60.0
"""A coordinate is taken to lie where its density is above e^(−TAIL/2) of its largest: what is left out is 1e-13 of it."""


class Ordered(NamedTuple):
    """The density and the box with the coordinates in the order in which they are drawn; covariance L·Lᵀ, and log M_j."""

    order: Int[Array, " d"]
    lower: Float[Array, " d"]
    upper: Float[Array, " d"]
    circle: Bool[Array, " d"]
    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]
    log_most: Float[Array, " d"]

    def log_mass(self, j: int, centre: Array) -> Array:
        """log Z_j for a coordinate with this mean."""
        std = self.factor[j, j]
        ends = (self.lower[j] - centre) / std, (self.upper[j] - centre) / std
        return log_interval_mass(*ends, (self.upper[j] - self.lower[j]) / std)


def in_order(grid: Grid, normal: Normal) -> Ordered:
    root = jnp.diag(normal.factor) if normal.is_product else normal.factor
    columns = [root[:, k, None] * root[None, :, k] for k in range(grid.dimension)]
    covariance = jnp.sum(jnp.stack(columns), axis=0)
    std = jnp.sqrt(jnp.diagonal(covariance))
    lower, upper = (jnp.asarray(ends, std.dtype) for ends in (grid.lower, grid.upper))
    circle = jnp.asarray(grid.periodic)
    hits = log_interval_mass((lower - normal.mean) / std, (upper - normal.mean) / std, (upper - lower) / std)
    order = jnp.argsort(jnp.where(circle, 0, hits))
    factor = cholesky(covariance[order][:, order])
    none = jnp.zeros_like(std)
    given = Ordered(order, lower[order], upper[order], circle[order], normal.mean[order], factor, none)
    return given._replace(log_most=_largest_masses(given))


def _largest_masses(given: Ordered) -> Float[Array, " d"]:
    """log M_j: Z_j is the larger the nearer the mean of coordinate j, m_j + Σ_i B_i (x_i − m_i), is to the middle.

    The x_i are taken from where they lie but for 1e-13: half of a box is out of reach of a mean that is far outside.
    """
    inverse, found, lows, highs = inverse_lower(given.factor), [], [], []
    for j in range(given.mean.shape[0]):
        low = high = given.mean[j]
        for i in range(j):
            slope = functools.reduce(jnp.add, [given.factor[j, k] * inverse[k, i] for k in range(i, j)])
            ends = slope * (lows[i] - given.mean[i]), slope * (highs[i] - given.mean[i])
            low, high = low + jnp.minimum(*ends), high + jnp.maximum(*ends)
        middle, std = (given.lower[j] + given.upper[j]) / 2, given.factor[j, j]
        found.append(given.log_mass(j, jnp.clip(middle, low, high)))
        first, last = _within(low, high, given.lower[j], given.upper[j], std)
        reach = std * TAIL**0.5
        lows.append(jnp.where(given.circle[j], low - reach, first))
        highs.append(jnp.where(given.circle[j], high + reach, last))
    return jnp.stack(found)


def _within(low: Array, high: Array, lower: Array, upper: Array, std: Array) -> tuple[Array, Array]:
    """Where a normal cut to [lower, upper] lies, its mean between low and high: beyond a wall it falls off faster."""
    above, below = jnp.maximum(lower - high, 0) / std, jnp.maximum(low - upper, 0) / std
    last = jnp.maximum(high, lower) + std * (jnp.sqrt(above**2 + TAIL) - above)
    first = jnp.minimum(low, upper) - std * (jnp.sqrt(below**2 + TAIL) - below)
    return jnp.clip(first, lower, upper), jnp.clip(last, lower, upper)


def propose(given: Ordered, u: Float[Array, " d"]) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """A proposal from d uniforms, and the log of the probability with which it is kept."""
    normals, found, log_kept = [], [], jnp.zeros((), u.dtype)
    for j in range(u.shape[0]):
        centre = given.mean[j]
        for i in range(j):
            centre = centre + given.factor[j, i] * normals[i]
        std = given.factor[j, j]
        cut = truncated_normal(u[j], centre, std, given.lower[j], given.upper[j])
        found.append(jnp.where(given.circle[j], centre + std * ndtri(u[j]), cut))
        normals.append((found[j] - centre) / std)
        if j:
            log_kept = log_kept + jnp.where(given.circle[j], 0, given.log_mass(j, centre) - given.log_most[j])
    return jnp.zeros_like(u).at[given.order].set(jnp.stack(found)), log_kept
