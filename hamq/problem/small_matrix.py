"""Linear algebra of one small symmetric matrix without LAPACK.

XLA hands `jnp.linalg` on the CPU to LAPACK, and two threads that call it in a batch can wait for each other in XLA's
pool for ever. What samplers need is small (d up to 40 or so) and batched over thousands of pairs: plain elementwise
loops, faster than one LAPACK call per matrix. Nothing is summed over an axis, so the bits do not depend on the batch.

Both factorisations are the outer-product forms: step k finishes row k and takes its part off all rows below,

    A ← A − l·lᵀ,    l = A[:, k]/√A[k, k]    (Cholesky),        X[i] ← X[i] − L[i, k]·X[k]    (triangular solve).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

MAX_UNROLLED = 6
"""Loops over k are written out up to this dimension: 4 times faster to run, and slower to compile the larger d is."""
ROUNDING = 1e-5
"""Of the entries of a matrix: what factorisations in float32 may lose of them."""


def cholesky(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Lower L with L·Lᵀ = matrix; as LAPACK's, NaN and no exception where the matrix is not positive definite."""
    d = matrix.shape[0]
    index = jnp.arange(d)

    def eliminate(k, carry):
        rest, factor = carry
        column = jnp.where(index >= k, rest[:, k] / jnp.sqrt(rest[k, k]), 0)
        return rest - column[:, None] * column[None, :], factor.at[:, k].set(column)

    return _loop(d, eliminate, (matrix, jnp.zeros_like(matrix)))[1]


def solve_lower(factor: Float[Array, "d d"], right: Float[Array, "d n"]) -> Float[Array, "d n"]:
    """X with L·X = right."""
    d = factor.shape[0]
    index = jnp.arange(d)

    def substitute(k, rest):
        row = rest[k] / factor[k, k]
        below = jnp.where(index > k, factor[:, k], 0)
        return rest.at[k].set(row) - below[:, None] * row[None, :]

    return _loop(d, substitute, right)


def inverse_lower(factor: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """L⁻¹, lower as well."""
    return solve_lower(factor, jnp.eye(factor.shape[0], dtype=factor.dtype))


def solve_positive(matrix: Float[Array, "d d"], right: Float[Array, "d n"]) -> Float[Array, "d n"]:
    """matrix⁻¹·right for a positive definite matrix."""
    factor = cholesky(matrix)
    half = solve_lower(factor, right)
    # Lᵀ is upper; with rows and columns in reverse order it is lower.
    return solve_lower(factor.T[::-1, ::-1], half[::-1])[::-1]


def eliminated(matrix: Float[Array, "d d"], right: Float[Array, " d"]) -> Float[Array, " d"]:
    """matrix⁻¹·right for a well-conditioned positive definite matrix, by Gauss-Jordan elimination.

    One short loop, whatever d is: a third of the program that two triangular solves make.
    """
    index = jnp.arange(matrix.shape[0])

    def eliminate(k, rest):
        row = rest[k] / rest[k, k]
        column = rest[:, k] - (index == k).astype(rest.dtype)  # leaves row k itself
        return rest - column[:, None] * row[None, :]

    return jax.lax.fori_loop(0, len(index), eliminate, jnp.concatenate([matrix, right[:, None]], axis=1))[:, -1]


def raised_cholesky(matrix: Float[Array, "d d"], least: float) -> Float[Array, "d d"]:
    """Lower L with L·Lᵀ = matrix + τ·I and no eigenvalue below `least`, for any finite symmetric matrix.

    τ is 0 where the matrix allows it, `least` where it is positive semi-definite, else the first of four growing shifts; the
    last is d·max|A| + least, and a little more for rounding: more than any negative eigenvalue. (Taking |eigenvalues|
    instead needs an eigensolver, which costs a hundred Cholesky factorisations.)
    """
    d = matrix.shape[0]
    identity = jnp.eye(d, dtype=matrix.dtype)
    largest = d * jnp.max(jnp.abs(matrix))
    bound, last = largest + least, (1 + ROUNDING) * largest + least
    shifts = jnp.stack([jnp.zeros_like(bound), jnp.full_like(bound, least), bound / 64, bound / 16, bound / 4, last])
    trials = jax.vmap(lambda shift: cholesky(matrix + (shift - least) * identity))(shifts)
    # A failed factorisation is NaN from its first bad row to the last.
    is_enough = jnp.isfinite(trials[:, -1, -1]).at[-1].set(True)
    return cholesky(matrix + shifts[jnp.argmax(is_enough)] * identity)


def _loop(d: int, body, start):
    """`body` for k = 0 … d − 1."""
    return jax.lax.fori_loop(0, d, body, start, unroll=d if d <= MAX_UNROLLED else 1)
