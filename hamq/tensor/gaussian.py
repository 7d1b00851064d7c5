"""Weighted draws of a normal law cut to a box, as a smooth function of its mean: one coordinate after the other.

x = μ + L·e, and e_k is drawn from N(η_k, 1) cut to where coordinate k, given those before it, stays in the box; the weight
is Π_k mass_k·exp(½η_k² − η_k·e_k) (Geweke, Hajivassiliou and Keane; the tilt η is Botev's). η makes the first coordinates
look ahead: where a later one will be cut, it has already moved the correlated ones. Without it a mean far outside the box
leaves all the weight on one draw. Any η is right; the one that makes the weights even solves, by a few fixed point
passes at the mean of the draws,

    η_k = Σ_{j>k} L_jk/L_jj·λ_j,        λ_j = E[e_j] − η_j.

Far from the walls all weights are equal and x = μ + L·z. The random numbers z are shared by all states and actions: the
weighted mean of a smooth V is then a smooth function of both, which is what cross approximation lives on, and what
rejections would destroy.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import Normal

FARTHEST = 10.0
"""Standard deviations beyond which a tail has its own formulas: float32 holds Φ(−13), not less."""
NUM_PASSES = 6


def ndtr(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Φ(x), with all its digits in the lower tail; JAX's own has a branch more, for which more is compiled."""
    return 0.5 * jax.lax.erfc(-jnp.sqrt(jnp.asarray(0.5, x.dtype)) * x)


def shared_normals(num_samples: int, dimension: int, seed: int) -> Float[np.ndarray, "d n"]:
    """Standard normal draws in pairs ±z; with enough of them their second moments are exact.

    n/2 ≥ d independent draws are turned into ones with Σ z·zᵀ = n·I: a quadratic V then has its exact expectation.
    """
    half = -(-num_samples // 2)
    draws = np.random.default_rng(seed).standard_normal((half, dimension))
    if half >= dimension:
        values, vectors = np.linalg.eigh(draws.T @ draws / half)
        draws = draws @ (vectors / np.sqrt(values)) @ vectors.T
    return np.concatenate([draws, -draws])[:num_samples].T


def cut_normal(
    z: Float[Array, "*n"], lower: Float[Array, "*n"], upper: Float[Array, "*n"]
) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
    """(quantile Φ(z) of a standard normal cut to [lower, upper], log of the cut's mass)."""
    is_mirrored = lower + upper > 0  # work in the lower tail, where Φ has its digits
    a, b = jnp.where(is_mirrored, -upper, lower), jnp.where(is_mirrored, -lower, upper)
    share = ndtr(jnp.where(is_mirrored, -z, z))
    # Within reach of float32: the quantile of Φ(a) + share·(Φ(b) − Φ(a)).
    low, high = ndtr(jnp.maximum(a, -FARTHEST - 2)), ndtr(jnp.maximum(b, -FARTHEST))
    mass = jnp.maximum(high - low, 1e-37)
    inside = jnp.clip(ndtri(jnp.clip(low + share * mass, 1e-37, 1 - 6e-8)), a, b)
    slope, full, log_tail = _tail(a, b)
    level = -jnp.log(jnp.clip(1 - (1 - share) * full, 1e-37, 1))
    tail = jnp.maximum(b - 2 * level / (slope + jnp.sqrt(slope**2 + 2 * level)), a)
    is_far = b < -FARTHEST
    e = jnp.where(is_far, tail, inside)
    return jnp.where(is_mirrored, -e, e), jnp.where(is_far, log_tail, jnp.log(mass))


def cut_mean(lower: Float[Array, "*n"], upper: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The mean of a standard normal cut to [lower, upper]: (φ(lower) − φ(upper))/mass."""
    is_mirrored = lower + upper > 0
    a, b = jnp.where(is_mirrored, -upper, lower), jnp.where(is_mirrored, -lower, upper)
    near = jnp.maximum(b, -FARTHEST)
    mass = jnp.maximum(ndtr(near) - ndtr(jnp.maximum(a, -FARTHEST - 2)), 1e-37)
    root = jnp.sqrt(2 * jnp.asarray(jnp.pi, b.dtype))
    inside = (jnp.exp(-0.5 * a**2) - jnp.exp(-0.5 * near**2)) / (root * mass)
    slope, width = jnp.maximum(-b, 1.0) + 2 / jnp.maximum(-b, 1.0), b - a
    tail = b - 1 / slope + width / jnp.maximum(jnp.expm1(jnp.minimum(slope * width, 80.0)), 1e-30)
    mean = jnp.clip(jnp.where(b < -FARTHEST, tail, inside), a, b)
    return jnp.where(is_mirrored, -mean, mean)


def _tail(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """(rate s, 1 − exp(−s·w − ½w²) for w = b − a, log of the mass) of a normal cut to [a, b], for b far below 0.

    The mass of [a, b] is φ(b)/s times that, s = |b| + 1/|b|, up to 2/b⁴: both join what `cut_normal` has within reach.
    """
    far = jnp.maximum(-b, 1.0)
    slope, width = far + 1 / far, jnp.minimum(b - a, 1e6)
    full = -jnp.expm1(-width * (slope + 0.5 * width))
    log_tail = -0.5 * b**2 - jnp.log(slope * jnp.sqrt(2 * jnp.asarray(jnp.pi, b.dtype))) + jnp.log(full)
    return slope, full, log_tail


def tilt_of(
    mean: Float[Array, " d"], root: Float[Array, "d d"], lower: Float[Array, " d"], upper: Float[Array, " d"]
) -> Float[Array, " d"]:
    """η: how far the earlier coordinates look ahead."""
    std = jnp.diagonal(root)
    ahead = (jnp.tril(root, -1) / std[:, None]).T

    def look(_, eta):
        def coordinate(so_far, given):
            k, column, own, low, high = given
            here = so_far[k]
            excess = cut_mean((low - here) / column[k] - own, (high - here) / column[k] - own)
            return so_far + column * (own + excess), excess

        steps = (jnp.arange(len(mean)), root.T, eta, lower, upper)
        _, excess = jax.lax.scan(coordinate, mean, steps)
        return 0.5 * (eta + jnp.sum(ahead * excess[None, :], axis=1))

    return jax.lax.fori_loop(0, NUM_PASSES, look, jnp.zeros_like(mean))


def cut_draws(normal: Normal, grid: Grid, z: Float[Array, "d n"]) -> tuple[Float[Array, "d n"], Float[Array, " n"]]:
    """(points, log-weights up to a constant) of a normal cut to the box; circles are not cut."""
    far = 1e6
    circle = np.asarray(grid.periodic)
    lower = jnp.asarray(np.where(circle, -far, grid.lower), z.dtype)
    upper = jnp.asarray(np.where(circle, far, grid.upper), z.dtype)
    mean, root = normal.mean, normal.factor
    if normal.is_product:
        std = root
        ends = (((end - mean) / std)[:, None] for end in (lower, upper))
        e, _ = cut_normal(z, *(jnp.broadcast_to(end, z.shape) for end in ends))
        return mean[:, None] + std[:, None] * e, jnp.zeros(z.shape[1], z.dtype)  # masses do not depend on the draw

    def coordinate(so_far, given):
        """Adds e_k·L[:, k] to all coordinates; so_far[k] is then final."""
        k, z_k, column, own, low, high = given
        here, std = so_far[k], column[k]
        e, log_mass = cut_normal(z_k, (low - here) / std - own, (high - here) / std - own)
        e = e + own
        return so_far + column[:, None] * e[None, :], log_mass - own * e + 0.5 * own**2

    start = jnp.broadcast_to(mean[:, None], z.shape)
    steps = (jnp.arange(z.shape[0]), z, root.T, tilt_of(mean, root, lower, upper), lower, upper)
    points, log_weights = jax.lax.scan(coordinate, start, steps)
    return points, jnp.sum(log_weights, axis=0)
