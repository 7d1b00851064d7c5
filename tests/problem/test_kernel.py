"""Densities and their derivatives; covariances that are none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import CorrelatedDensity, GaussianKernel, ProductDensity
from hamq.problem.kernels.unnormalized import UnnormalizedKernel, UserDensity

GRID = Grid([-1.0, -2.0, -3.0], [1.0, 2.0, 3.0], 3, periodic=[False, True, False])
MATRIX = [[0.5, 0.2, -0.1], [0.2, 0.4, 0.05], [-0.1, 0.05, 0.9]]


def mean(state, action):
    return jnp.sin(state) + action


def variances(state, action):
    return 0.1 + state**2 + action**2


def matrix(state, action):
    return jnp.diag(variances(state, action)) + 0.05


def logdensity(next_state, state, action):
    x, y, z = next_state - state
    return -(x**2) * (1 + 0.1 * jnp.cos(np.pi * y)) + jnp.cos(np.pi * y + action) - jnp.cosh(z) * 0.5 - 0.3 * x * z


KERNELS = {
    "diagonal": (GaussianKernel(mean, [0.5, 0.4, 0.9]), ProductDensity),
    "full": (GaussianKernel(mean, MATRIX), CorrelatedDensity),
    "diagonal function": (GaussianKernel(mean, variances), ProductDensity),
    "full function": (GaussianKernel(mean, matrix), CorrelatedDensity),
    "user": (UnnormalizedKernel(logdensity), UserDensity),
}
STATE, ACTION = [0.3, -1.2, 2.0], 0.7
POINTS = [[0.1, 0.2, -0.4], [-1.0, 2.0, 3.0], [0.9, -2.5, 1.0]]  # inside, on the walls, beyond the seam


def density_of(name, dtype):
    kernel, kind = KERNELS[name]
    density = kernel.at(GRID, jnp.asarray(STATE, dtype), jnp.asarray(ACTION, dtype))
    assert isinstance(density, kind)
    return density


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("point", POINTS)
def test_gradient_against_finite_differences(x64, name, point):
    density, point, h = density_of(name, jnp.float64), jnp.asarray(point), 1e-5
    # Fourth order, so that rounding and truncation meet near 1e-10.
    shifts = np.asarray([1, -1, 2, -2])[:, None, None] * h * np.eye(3)
    both = jax.jit(lambda at, points: (density.gradient(at), jax.vmap(jax.vmap(density.log))(points)))
    gradient, logs = (np.asarray(found) for found in both(point, np.asarray(point) + shifts))
    numeric = (8 * (logs[0] - logs[1]) - logs[2] + logs[3]) / (12 * h)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_curvature_against_autodiff(x64, name):
    density, point = density_of(name, jnp.float64), jnp.asarray(POINTS[0])
    both = jax.jit(lambda point: (density.curvature(point), -jax.hessian(density.log)(point)))
    curvature, wanted = (np.asarray(found) for found in both(point))
    full = np.diag(curvature) if curvature.ndim == 1 else curvature
    np.testing.assert_allclose(full, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_float32_stays_float32_and_agrees(name):

    def values(point):
        density = density_of(name, point.dtype)
        return density.log(point), density.gradient(point), density.curvature(point)

    single = jax.jit(values)(jnp.asarray(POINTS[0], jnp.float32))
    assert [value.dtype for value in single] == [jnp.float32] * 3
    with jax.enable_x64(True):
        wanted = [np.asarray(value) for value in jax.jit(values)(jnp.asarray(POINTS[0]))]
    np.testing.assert_allclose(single[0], wanted[0], rtol=1e-5)
    np.testing.assert_allclose(single[1], wanted[1], rtol=1e-4, atol=1e-5)


def test_the_three_ways_to_give_a_covariance_agree(x64):
    state, action, point = jnp.asarray(STATE), jnp.asarray(ACTION), jnp.asarray(POINTS[0])
    given = np.asarray(variances(state, action))
    ways = [list(given), np.diag(given), variances, lambda s, a: jnp.diag(variances(s, a))]
    logs = [GaussianKernel(mean, way).at(GRID, state, action).log(point) for way in ways]
    np.testing.assert_allclose(logs, logs[0], rtol=1e-12)


def test_a_full_covariance_keeps_its_cholesky_and_precision(x64):
    density = density_of("full", jnp.float64)
    np.testing.assert_allclose(density.cholesky @ density.cholesky.T, MATRIX, rtol=1e-12)
    np.testing.assert_allclose(density.precision @ jnp.asarray(MATRIX), np.eye(3), atol=1e-12)


def test_a_user_density_is_a_function_on_the_circle(x64):
    density = density_of("user", jnp.float64)
    point = jnp.asarray([0.1, 1.5, 0.0])
    turn = jnp.asarray([0.0, 4.0, 0.0])
    np.testing.assert_allclose(density.log(point + turn), density.log(point), rtol=1e-12)
    np.testing.assert_allclose(density.gradient(point - turn), density.gradient(point), rtol=1e-9)


@pytest.mark.parametrize(
    ("covariance", "sentence"),
    [
        ([[1.0, 0.0]], r"covariance has shape \(1, 2\); give a vector of variances \[d\] or a matrix \[d, d\]"),
        (np.ones((2, 2, 2)), r"covariance has shape \(2, 2, 2\)"),
        (0.5, r"covariance has shape \(\)"),
        ([1.0, 0.0], r"has the variance 0\.0; every variance must be above 0"),
        ([1.0, -2.0], r"has the variance -2\.0"),
        ([1.0, np.nan], r"holds a value that is not finite"),
        ([1.0, np.inf], r"holds a value that is not finite"),
        ([[1.0, 0.5], [0.4, 1.0]], r"is not symmetric; symmetrise it"),
        ([[1.0, 2.0], [2.0, 1.0]], r"not positive definite, its smallest eigenvalue is -1; add noise"),
        ([[1.0, 0.0], [0.0, 0.0]], r"not positive definite, its smallest eigenvalue is 0"),
        ([[1.0, 1.0], [1.0, 1.0 + 1e-13]], r"condition number .* above 1e\+12|not positive definite"),
        ([1.0, 1e-13], r"condition number 1e\+13, above 1e\+12; rescale the coordinates"),
        ([1j, 1], r"must hold real numbers, got dtype complex128"),
        (["a", "b"], r"must hold real numbers"),
        ([True, True], r"must hold real numbers, got dtype bool"),
        ([], r"covariance has shape \(0,\)"),
    ],
)
def test_covariance_refusals(as_user, covariance, sentence):
    with pytest.raises(ValueError, match=sentence):
        GaussianKernel(mean, covariance)


def test_rounding_is_not_asymmetry():
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))
    covariance = rotation @ np.diag([1.0, 1.0, 1.0, 1.0]) @ rotation.T
    covariance[0, 1], covariance[1, 0] = 1e-17, -2e-17
    GaussianKernel(mean, covariance)


def test_functions_are_functions(as_user):
    with pytest.raises(ValueError, match=r"mean must be a function of \(state, action\), got 3"):
        GaussianKernel(3, [1.0])
    with pytest.raises(ValueError, match=r"logdensity must be a function of \(next_state, state, action\), got 'x'"):
        UnnormalizedKernel("x")
