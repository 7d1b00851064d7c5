"""Small matrices without LAPACK, against NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.problem.small_matrix import MAX_UNROLLED, cholesky, eliminated, inverse_lower, raised_cholesky, solve_positive

DIMENSIONS = [1, 3, MAX_UNROLLED, MAX_UNROLLED + 1, 40]
BATCH = 5
LEAST = 0.5


def symmetric(d):
    """Indefinite matrices `[BATCH, d, d]` whose entries differ by orders of magnitude."""
    rng = np.random.default_rng(d)
    square, scale = rng.normal(size=(BATCH, d, d)), 10 ** rng.uniform(-1, 1, (BATCH, d))
    return (square + square.transpose(0, 2, 1)) * scale[:, :, None] * scale[:, None, :]


def positive(d):
    square = np.random.default_rng(d).normal(size=(BATCH, d, d))
    return square @ square.transpose(0, 2, 1) + np.eye(d)


@functools.cache  # one program for each size, whatever the matrices
def compiled(function):
    return jax.jit(jax.vmap(function))


def batched(function, *arrays):
    return np.asarray(compiled(function)(*(jnp.asarray(a) for a in arrays)))


def raised(matrix):
    return raised_cholesky(matrix, LEAST)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_factor_inverse_and_solution_equal_numpy(x64, d):
    matrices = positive(d)
    factors = batched(cholesky, matrices)
    np.testing.assert_allclose(factors, np.linalg.cholesky(matrices), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(batched(inverse_lower, factors), np.linalg.inv(factors), rtol=1e-9, atol=1e-10)
    right = np.random.default_rng(1).normal(size=(BATCH, d, 2))
    np.testing.assert_allclose(
        batched(solve_positive, matrices, right), np.linalg.solve(matrices, right), rtol=1e-9, atol=1e-10
    )
    one = right[:, :, 0]
    np.testing.assert_allclose(
        batched(eliminated, matrices, one), np.linalg.solve(matrices, one[..., None])[..., 0], rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("d", [2, 12])
def test_float32_is_as_good_as_its_digits(d):
    matrices = positive(d).astype(np.float32)
    factors, right = batched(cholesky, matrices), np.ones((BATCH, d, 1), np.float32)
    assert factors.dtype == np.float32
    np.testing.assert_allclose(factors @ factors.transpose(0, 2, 1), matrices, atol=1e-5 * np.abs(matrices).max())
    np.testing.assert_allclose(matrices @ batched(solve_positive, matrices, right), right, atol=1e-3)


def test_no_factor_of_an_indefinite_matrix():
    assert np.isnan(batched(cholesky, np.asarray([[[1.0, 2.0], [2.0, 1.0]]], np.float32))[0, -1, -1])


@pytest.mark.parametrize("d", DIMENSIONS)
def test_raised_leaves_a_positive_matrix_alone(x64, d):
    factors = batched(raised, positive(d))
    np.testing.assert_allclose(factors, np.linalg.cholesky(positive(d)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_raised_adds_a_multiple_of_the_identity_that_is_enough_and_not_far_too_much(x64, d):
    """No eigenvalue below LEAST, and the shift within 4 times what is needed, or 1/64 of the bound."""
    matrices = symmetric(d)
    factors = batched(raised, matrices)
    added = factors @ factors.transpose(0, 2, 1) - matrices
    shifts = added[:, 0, 0]
    scale = np.abs(matrices).max(axis=(1, 2))
    np.testing.assert_allclose(added / scale[:, None, None], (shifts / scale)[:, None, None] * np.eye(d), atol=1e-12)
    lowest = np.linalg.eigvalsh(matrices)[:, 0]
    assert np.all(lowest + shifts >= LEAST - 1e-9 * scale)
    needed = np.maximum(LEAST - lowest, 0)
    assert np.all(shifts <= np.maximum(4 * needed, (d * scale + LEAST) / 64) + 1e-9 * scale)


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((3, 3)), -1e20 * np.eye(3), 1e20 * np.ones((3, 3)), np.diag([1e12, 0, -1e-3]),
        -1e20 * np.eye(1), -3.7e9 * np.eye(1),
    ],
)  # fmt: skip
def test_raised_takes_any_finite_matrix(matrix):
    factor = batched(raised, matrix[None].astype(np.float32))[0].astype(np.float64)
    assert np.all(np.isfinite(factor))
    assert np.all(np.diagonal(factor) ** 2 >= 0.99 * LEAST)


@pytest.mark.bits
def test_bits_do_not_depend_on_the_batch():
    matrices = jnp.asarray(positive(5), jnp.float32)
    whole = jax.jit(jax.vmap(lambda m: solve_positive(m, m)))
    assert np.array_equal(whole(matrices)[2], whole(matrices[2:3])[0])
