"""Truncated normals by their inverse distribution function, in log space.

For u uniform in (0, 1), Φ(z) = Φ(a) + u·(Φ(b) − Φ(a)) is solved on the side where Φ is small: far outside the box Φ
itself underflows, log Φ does not.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri
from jaxtyping import Array, Float

from hamq.types import is_cpu

NUM_NEWTON = 4


def truncated_normal(u: Float[Array, "..."], mean: Array, std: Array, lower: Array, upper: Array) -> Float[Array, "..."]:
    """Quantile u of a normal (mean, std) cut to [lower, upper]; arrays broadcast against u."""
    a, b = (lower - mean) / std, (upper - mean) / std
    is_mirrored = a + b > 0  # the box lies above the mean: look at −z, where the logs are of the lower tail
    low, high = jnp.where(is_mirrored, -b, a), jnp.where(is_mirrored, -a, b)
    u = jnp.where(is_mirrored, 1 - u, u)
    log_low, log_high = log_ndtr(jnp.stack([low, high]))
    # log(Φ(low)(1 − u) + Φ(high)u)
    log_p = jnp.logaddexp(log_low + jnp.log1p(-u), log_high + jnp.log(u))
    z = jnp.clip(_log_ndtri(log_p), low, high)
    return jnp.clip(mean + std * jnp.where(is_mirrored, -z, z), lower, upper)


def _log_ndtri(log_p: Float[Array, "..."]) -> Float[Array, "..."]:
    """z with log Φ(z) = log_p; Newton on log Φ, which is concave, from the tail's asymptote."""
    is_tail = log_p < -4
    tail_log = jnp.where(is_tail, log_p, -5)
    square = -2 * tail_log - jnp.log(2 * jnp.pi)
    z = -jnp.sqrt(square - jnp.log(jnp.maximum(square, 1)))

    def newton(_, z):
        log_cdf = log_ndtr(z)
        slope = jnp.exp(-0.5 * z**2 - 0.5 * jnp.log(2 * jnp.pi) - log_cdf)
        return z - (log_cdf - tail_log) / slope

    z = jax.lax.fori_loop(0, NUM_NEWTON, newton, z, unroll=1 if is_cpu() else max(NUM_NEWTON, 1))
    return jnp.where(is_tail, z, ndtri(jnp.exp(jnp.where(is_tail, -1, log_p))))
