"""Weights that make the draws of a chain obey identities which the density is known to obey.

For any density exp(−U(y)) on the line that vanishes at infinity, integration by parts gives Stein's identities

    E[∂ᵢU] = 0,        E[φ(yᵢ)·∂ᵢU − φ'(yᵢ)] = 0,

normaliser or not; φ(y) = y on a line, sin on a circle. A chain has ∂U at each of its draws already, so these 2d
functions z cost no evaluation. Their averages over n draws are not 0, and what they are off tells part of the error of
every other average. Regression on z (control variates) takes that part off; the same to first order, but with weights
that stay positive, so that a backup remains an average of values, is the exponential tilt

    w_i ∝ exp(λᵀz_i),    λ = argmin log Σ_i exp(λᵀz_i) + ½ρ|λ|²,    z scaled to mean square 1.

Without the ridge ρ the weighted averages of z are exactly 0, where that is possible at all; ρ = 4/n keeps few draws
from being fitted (docs/sampling.md has the measurements).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.problem.small_matrix import solve_positive
from hamq.sampling.walls import LogitPotential

NUM_NEWTON = 4
RIDGE = 4.0


def calibrated_weights(
    potential: LogitPotential, positions: Float[Array, "n d"], gradients: Float[Array, "n d"]
) -> Float[Array, " n"]:
    """Log-weights of the draws, summing to one; `gradients` are ∇U at the positions."""
    return tilt(stein_functions(potential, positions.T, gradients.T))


def stein_functions(
    potential: LogitPotential, y: Float[Array, "d n"], gradient: Float[Array, "d n"]
) -> Float[Array, "functions n"]:
    """Functions of the draws whose expectation is 0, two per axis."""
    field, slope = y, jnp.ones_like(y)
    if potential.wraps.any():
        turn = 2 * jnp.pi / (potential.upper - potential.lower)[:, None]
        wraps = potential.wraps[:, None]
        field, slope = jnp.where(wraps, jnp.sin(turn * y), y), jnp.where(wraps, turn * jnp.cos(turn * y), slope)
    return jnp.concatenate([gradient, field * gradient - slope])


def tilt(functions: Float[Array, "functions n"], log_weights: Float[Array, " n"] | None = None) -> Float[Array, " n"]:
    """log w with w_i ∝ w⁰_i·exp(λᵀz_i) and Σ w_i z_i ≈ 0, by damped Newton steps on the convex dual.

    `log_weights` are those of draws that have weights w⁰ already; n is then their effective number.
    """
    num, n = functions.shape
    z = jnp.where(jnp.isfinite(functions), functions, 0)
    if log_weights is None:
        own, ridge = 0.0, jnp.asarray(RIDGE / n, z.dtype)
        square = jnp.mean(z**2, axis=1, keepdims=True)
    else:
        own = jax.nn.log_softmax(jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights))
        weights = jnp.exp(own)
        ridge = RIDGE * jnp.sum(weights**2)
        square = jnp.sum(weights[None, :] * z**2, axis=1, keepdims=True)
    z = z / jnp.maximum(jnp.sqrt(square), 1e-12)

    def newton(_, multipliers):
        w = jnp.exp(_log_weights(multipliers, z, own))
        weighted = w[None, :] * z
        mean = jnp.sum(weighted, axis=1)
        second = jnp.stack([jnp.sum(z[f : f + 1] * weighted, axis=1) for f in range(num)])
        hessian = second - mean[:, None] * mean[None, :] + ridge * jnp.eye(num, dtype=z.dtype)
        slope = mean + ridge * multipliers
        step = solve_positive(hessian, slope[:, None])[:, 0]
        # The decrement damps steps that leave the region where the quadratic model holds.
        return multipliers - step / (1 + jnp.sqrt(jnp.maximum(jnp.sum(slope * step), 0)))

    multipliers = jax.lax.fori_loop(0, NUM_NEWTON, newton, jnp.zeros((num,), z.dtype))
    return _log_weights(multipliers, z, own)


def _log_weights(multipliers: Float[Array, " functions"], z: Float[Array, "functions n"], own) -> Float[Array, " n"]:
    return jax.nn.log_softmax(own + jnp.sum(multipliers[:, None] * z, axis=0))
