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

Newton's method needs Σ_i w_i·(1, z_i)(1, z_i)ᵀ for every pair: small products, made draw by draw for a whole batch of pairs
that lies last in memory (`batch_last.py`), where a sum over the draws of one pair would not be vectorised.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.sampling.batch_last import alone, batched_last
from hamq.sampling.walls import LogitPotential
from hamq.types import is_cpu

NUM_NEWTON = 3
RIDGE = 4.0
MAX_EXPONENT = 60.0
"""Of a draw's weight before it is divided by the sum of all, so that nothing overflows. No sum underflows either:
Σ w⁰_i·exp(λᵀz_i) ≥ exp(λᵀΣ w⁰_i z_i), and the ridge bounds λ."""
LARGEST = 1e15
"""Value of a function that counts, so that its square is a float32."""


def calibrated_weights(functions: Float[Array, "n functions"]) -> Float[Array, " n"]:
    """Log-weights of draws that were even, summing to one, from functions of them whose expectation is 0."""
    n = functions.shape[0]
    own = np.full((n, 1), -np.log(n), functions.dtype)  # no tracer: a batch is traced apart
    return batched_last(lambda z: (_tilt_batch(z, own),))(*alone(functions))[0][..., 0]


def stein_functions(
    potential: LogitPotential, y: Float[Array, "d n"], gradient: Float[Array, "d n"]
) -> Float[Array, "functions n"]:
    """Functions of the draws whose expectation is 0, two per axis."""
    wraps, widths = potential.wraps, potential.grid.widths
    field, slope = y, jnp.ones_like(y)
    if wraps.any():
        turn = jnp.asarray(2 * np.pi / np.asarray(widths)[:, None], y.dtype)
        circle = jnp.asarray(wraps[:, None])
        field, slope = jnp.where(circle, jnp.sin(turn * y), y), jnp.where(circle, turn * jnp.cos(turn * y), slope)
    return jnp.concatenate([gradient, field * gradient - slope])


def tilt(functions: Float[Array, "functions n"], log_weights: Float[Array, " n"] | None = None) -> Float[Array, " n"]:
    """log w with w_i ∝ w⁰_i·exp(λᵀz_i) and Σ w_i z_i ≈ 0, by Newton's method on the convex dual.

    `log_weights` are those of draws that have weights w⁰ already; n is then their effective number.
    """
    if log_weights is None:
        log_weights = jnp.zeros((functions.shape[1],), functions.dtype)
    own = jax.nn.log_softmax(jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights))
    return batched_last(lambda z, own: (_tilt_batch(z, own),))(*alone(functions.T, own))[0][..., 0]


def _tilt_batch(functions: Float[Array, "n functions B"], own: Float[Array | np.ndarray, "n ..."]) -> Float[Array, "n B"]:
    """`tilt` of B pairs; `own` are log-weights that sum to one, with a last axis of B, or of 1 where all share them."""
    n, num, size = functions.shape
    size = max(size, own.shape[-1])
    z = jnp.broadcast_to(cleaned(functions), (n, num, size))
    weights = jnp.exp(own)
    ridge = RIDGE * jnp.sum(weights**2, axis=0, keepdims=True)
    square = _sum_of_draws(lambda w, z: w[None] * z**2, weights, z)
    z = z / jnp.maximum(jnp.sqrt(square), 1e-12)[None]
    with_one = jnp.concatenate([jnp.ones((n, 1, size), z.dtype), z], axis=1)
    identity = jnp.eye(num, dtype=z.dtype)[:, :, None]

    def exponents(multipliers):
        logs = own + functools.reduce(jnp.add, [multipliers[f][None] * z[:, f] for f in range(num)])
        return jnp.minimum(logs, MAX_EXPONENT)

    def newton(_, multipliers):
        weighted = jnp.exp(exponents(multipliers))[:, None, :] * with_one
        total = _sum_of_draws(lambda a, b: a[:, None, :] * b[None, :, :], weighted, with_one)
        moments = total / total[0, 0][None, None]
        mean = moments[0, 1:]
        hessian = moments[1:, 1:] - mean[:, None] * mean[None, :] + ridge[None] * identity
        slope = mean + ridge * multipliers
        step = _solve_positive(hessian, slope)
        decrement = jnp.sqrt(jnp.maximum(jnp.sum(slope * step, axis=0, keepdims=True), 0))
        # Steps that leave the region where the quadratic model holds are cut.
        return multipliers - step / jnp.maximum(decrement, 1)

    logs = exponents(jax.lax.fori_loop(0, NUM_NEWTON, newton, jnp.zeros((num, size), z.dtype)))
    weights = jnp.exp(logs)
    return logs - jnp.log(_sum_of_draws(lambda w: w, weights))[None]


def cleaned(functions: Float[Array, "..."]) -> Float[Array, "..."]:
    """What is not finite counts as 0, and what is too large to be squared as the largest that is not."""
    return jnp.clip(jnp.where(jnp.isfinite(functions), functions, 0), -LARGEST, LARGEST)


def tilt_on_host(functions: Float[np.ndarray, "B functions n"]) -> Float[np.ndarray, "B n"]:
    """Weights (not their logs) of even draws of B pairs: `tilt` in NumPy.

    What takes time are a product with a short matrix and an exponential, for which NumPy is faster than XLA on a CPU, and
    nothing is compiled for the number of draws.
    """
    z, num = functions, functions.shape[1]
    n, diagonal = np.float32(z.shape[2]), np.arange(num)

    def moments(weights: Float[np.ndarray, "B n"]) -> tuple[Float[np.ndarray, "B f"], Float[np.ndarray, "B f f"]]:
        return np.matmul(z, weights[:, :, None])[:, :, 0], np.matmul(z * weights[:, None], z.swapaxes(1, 2))

    # The first step is from even weights: their moments give the scale of z, too.
    mean, square = moments(np.full((len(z), z.shape[2]), 1 / n, z.dtype))
    scale = 1 / np.maximum(np.sqrt(square[:, diagonal, diagonal]), np.float32(1e-12))
    ridge, multipliers = np.float32(RIDGE) / n, np.zeros_like(mean)

    def exponentials() -> Float[np.ndarray, "B n"]:
        logs = np.matmul((multipliers * scale)[:, None, :], z)[:, 0]
        weights = np.exp(np.minimum(logs, MAX_EXPONENT, out=logs), out=logs)
        weights /= np.sum(weights, axis=1, keepdims=True)
        return weights

    for step in range(NUM_NEWTON):
        if step > 0:
            mean, square = moments(exponentials())
        centre = mean * scale
        hessian = square * (scale[:, :, None] * scale[:, None, :]) - centre[:, :, None] * centre[:, None, :]
        hessian[:, diagonal, diagonal] += ridge
        slope = centre + ridge * multipliers
        change = _solve_on_host(hessian, slope)
        decrement = np.sqrt(np.maximum(np.sum(slope * change, axis=1, keepdims=True), 0))
        multipliers = multipliers - change / np.maximum(decrement, 1)
    return exponentials()


def _solve_on_host(matrix: Float[np.ndarray, "B f f"], right: Float[np.ndarray, "B f"]) -> Float[np.ndarray, "B f"]:
    """`_solve_positive` in NumPy, by elimination: LAPACK, which takes one small matrix after the other, is slower."""
    both = np.ascontiguousarray(np.moveaxis(np.concatenate([matrix, right[:, :, None]], axis=2), 0, -1))
    num = len(both)
    for k in range(num):
        both[k, k + 1 :] /= both[k, k]
        both[k + 1 :, k + 1 :] -= both[k + 1 :, k, None] * both[k, k + 1 :]
    solution = both[:, -1]
    for k in reversed(range(num)):
        solution[:k] -= both[:k, k] * solution[k]
    return solution.T


def _sum_of_draws(value: Callable[..., Array], *arrays: Array) -> Array:
    """Σ_i value(row i of each array). On a CPU draw by draw: every number of the sum has an accumulator of its own."""
    if not is_cpu():
        return jnp.sum(jax.vmap(value)(*arrays), axis=0)

    def add(i, total):
        return total + value(*(a[i] for a in arrays))

    return jax.lax.fori_loop(1, arrays[0].shape[0], add, value(*(a[0] for a in arrays)), unroll=2)


def _solve_positive(matrix: Float[Array, "f f B"], right: Float[Array, "f B"]) -> Float[Array, "f B"]:
    """matrix⁻¹·right of B positive definite matrices, by Gauss–Jordan: step k clears column k in all rows but its own."""
    index = jnp.arange(right.shape[0])[:, None, None]

    def clear(k, both):
        row = both[k] / both[k, k][None]
        return jnp.where(index == k, row[None], both - both[:, k][:, None] * row[None])

    return jax.lax.fori_loop(0, right.shape[0], clear, jnp.concatenate([matrix, right[:, None]], axis=1))[:, -1]
