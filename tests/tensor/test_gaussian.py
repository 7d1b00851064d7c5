"""Shared draws of normal laws cut to a box: quantiles, masses, moments, even weights, and smoothness in the mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import CorrelatedDensity, ProductDensity
from hamq.tensor import gaussian
from hamq.tensor.gaussian import cut_draws, cut_mean, cut_normal, shared_normals, tilt_of
from tests.stats import assert_mean_equals

CUTS = [
    (-1e6, 1e6),
    (-1.0, 2.0),
    (-0.1, 0.05),
    (1.0, 1.5),
    (-9.0, -3.0),
    (4.0, 30.0),
    (-12.5, -9.5),
    (-14.0, -9.99),
    (-14.0, -10.01),
    (10.01, 10.03),
    (12.0, 25.0),
    (-60.0, -12.0),
    (20.0, 21.0),
    (-20.02, -20.0),
    (40.0, 1e6),
]
CORRELATED = np.asarray([[1.0, 0.7, -0.3], [0.7, 1.2, 0.2], [-0.3, 0.2, 0.8]])
BOX = Grid([-1.0, -1.0, -1.5], [1.0, 1.2, 1.0], [3, 3, 3])


def correlated(mean, covariance=CORRELATED):
    root = np.linalg.cholesky(covariance)
    mean, root, precision = (jnp.asarray(v, jnp.float32) for v in (mean, root, np.linalg.inv(covariance)))
    return CorrelatedDensity(mean, root, precision)


@jax.jit
def drawn(density, z):
    """Draws in BOX."""
    return cut_draws(density.normal, BOX, z)


@jax.jit
def drawn_each(density, sets):
    """The same for each of some sets."""
    return jax.vmap(lambda z: cut_draws(density.normal, BOX, z))(sets)


def weights_of(log_weights):
    return special.softmax(np.asarray(log_weights, np.float64), axis=-1)


@pytest.mark.parametrize(("num_samples", "dimension"), [(20, 4), (9, 3), (2, 5), (1, 2)])
def test_shared_normals_come_in_pairs(num_samples, dimension):
    z = shared_normals(num_samples, dimension, 3)
    assert z.shape == (dimension, num_samples)
    half = num_samples // 2
    np.testing.assert_array_equal(z[:, -half:] if half else z[:, :0], -z[:, :half])


@pytest.mark.parametrize(("num_samples", "dimension"), [(20, 4), (8, 4), (64, 10)])
def test_second_moments_are_exact(num_samples, dimension):
    z = shared_normals(num_samples, dimension, 0)
    np.testing.assert_allclose(z @ z.T / num_samples, np.eye(dimension), atol=1e-10)
    np.testing.assert_allclose(z.mean(axis=1), 0, atol=1e-14)


def test_shared_normals_are_normal_and_differ_by_seed():
    """Fourth moments of 200 independent sets: 3 (1 − O(1/n)); the scaling to exact second moments costs the O(1/n)."""
    sets = np.stack([shared_normals(400, 2, seed) for seed in range(200)])
    n = 200  # independent ones in a set
    # Coordinates of uniform points on a sphere of radius √n in n dimensions have E z⁴ = 3n/(n + 2).
    assert_mean_equals((sets**4).mean(axis=2), np.full(2, 3 * n / (n + 2)), resolution=0.3)
    assert not np.allclose(sets[0], sets[1])


def log_mass_of(lower, upper):
    """log(Φ(upper) − Φ(lower)) in float64, from the tail where that has the digits."""
    if lower * upper <= 0:
        return np.log(stats.norm.cdf(upper) - stats.norm.cdf(lower))
    near, far = sorted((abs(lower), abs(upper)))
    return stats.norm.logsf(near) + np.log1p(-np.exp(stats.norm.logsf(far) - stats.norm.logsf(near)))


@pytest.mark.parametrize(("lower", "upper"), CUTS)
def test_quantiles(lower, upper):
    """Against scipy in float64; a tail is right to 0.3 % of its width and 0.03 % of its mass, also beyond 10 σ."""
    z = np.linspace(-2.5, 2.5, 41).astype(np.float32)
    found, log_mass = jax.jit(cut_normal)(z, np.full(41, lower, np.float32), np.full(41, upper, np.float32))
    law = stats.truncnorm(lower, upper)
    shares = stats.norm.cdf(z.astype(np.float64))
    expected = law.ppf(shares)
    np.testing.assert_allclose(found, expected, atol=2.5e-3 * law.std(), rtol=1e-6)
    np.testing.assert_allclose(log_mass, log_mass_of(lower, upper), atol=3e-4, rtol=1e-6)


@pytest.mark.parametrize(("lower", "upper"), CUTS)
def test_mean_of_a_cut(lower, upper):
    found = float(jax.jit(cut_mean)(jnp.float32(lower), jnp.float32(upper)))
    law = stats.truncnorm(lower, upper)
    assert found == pytest.approx(law.mean(), abs=2e-3 * law.std() + 1e-6 * abs(law.mean()))


def test_draws_stay_inside():
    z = jnp.asarray(shared_normals(200, 3, 0), jnp.float32)
    for mean in ([0.0, 0, 0], [3.0, -2, 0], [30.0, 0, -30], [0.9, 1.2, -1.5]):
        points, log_weights = drawn(correlated(mean), z)
        points = np.asarray(points)
        assert np.all(np.isfinite(log_weights))
        slack = 1e-4
        assert np.all(points >= np.asarray(BOX.lower)[:, None] - slack)
        assert np.all(points <= np.asarray(BOX.upper)[:, None] + slack)


def moments(mean, covariance, grid):
    """E[x] and E[x·xᵀ] of the cut normal by Gauss–Legendre in float64."""
    t, w = np.polynomial.legendre.leggauss(40)
    axes = [low + (high - low) * (t + 1) / 2 for low, high in zip(grid.lower, grid.upper, strict=True)]
    x = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    weights = np.einsum("i,j,k->ijk", w, w, w).ravel()
    away = x - np.asarray(mean)[:, None]
    weights = weights * np.exp(-0.5 * np.sum(away * np.linalg.solve(covariance, away), axis=0))
    weights = weights / weights.sum()
    return np.concatenate([x @ weights, ((x * weights) @ x.T).ravel()])


@pytest.mark.parametrize("mean", [[0.2, -0.3, 0.1], [1.6, 0.5, -0.2], [-1.5, 1.8, 0.5], [4.0, -3.0, 0.0]])
def test_moments(mean):
    """E[x] and E[x·xᵀ] over 400 independent sets of 128 draws; false alarm 1e-6 over the 12 components."""
    z = jnp.asarray(np.stack([shared_normals(128, 3, seed) for seed in range(400)]), jnp.float32)
    points, log_weights = drawn_each(correlated(mean), z)
    points, weights = np.asarray(points, np.float64), weights_of(log_weights)
    first = np.einsum("rdn,rn->rd", points, weights)
    second = np.einsum("rdn,ren,rn->rde", points, points, weights)
    found = np.concatenate([first, second.reshape(len(first), -1)], axis=1)
    assert_mean_equals(found, moments(mean, CORRELATED, BOX), resolution=0.01)


def test_product_laws_have_even_weights():
    std = np.sqrt(np.diag(CORRELATED))
    mean = np.asarray([0.4, 2.5, -3.0])
    density = ProductDensity(jnp.asarray(mean, jnp.float32), jnp.asarray(std, jnp.float32))
    z = jnp.asarray(shared_normals(2000, 3, 0), jnp.float32)
    points, log_weights = drawn(density, z)
    assert np.all(np.asarray(log_weights) == 0)
    low, high = (np.asarray(end) for end in (BOX.lower, BOX.upper))
    expected = stats.truncnorm.mean((low - mean) / std, (high - mean) / std, mean, std)
    np.testing.assert_allclose(np.asarray(points).mean(axis=1), expected, atol=0.01)


def test_circles_are_not_cut():
    grid = Grid([-1.0, -1.0], [1.0, 1.0], [4, 4], [True, False])
    covariance = np.asarray([[4.0, 1.0], [1.0, 1.0]])
    z = jnp.asarray(shared_normals(500, 2, 0), jnp.float32)
    points, log_weights = jax.jit(lambda z: cut_draws(correlated([0.0, 0.0], covariance).normal, grid, z))(z)
    assert np.abs(np.asarray(points[0])).max() > 3 and np.abs(np.asarray(points[1])).max() <= 1 + 1e-5
    # E[x₀ | x₁] = x₁ whatever x₁ is cut to, so that Cov(x₀, x₁) = Var(x₁).
    weights, points = weights_of(log_weights), np.asarray(points, np.float64)
    assert points[0] * points[1] @ weights == pytest.approx(points[1] ** 2 @ weights, abs=0.15)


def test_far_from_walls_nothing_is_cut():
    wide = Grid([-100.0] * 3, [100.0] * 3, [3, 3, 3])
    z = shared_normals(32, 3, 0)
    points, log_weights = jax.jit(lambda z: cut_draws(correlated([1.0, 2.0, 3.0]).normal, wide, z))(
        jnp.asarray(z, jnp.float32)
    )
    np.testing.assert_allclose(points, np.asarray([1.0, 2, 3])[:, None] + np.linalg.cholesky(CORRELATED) @ z, atol=2e-5)
    np.testing.assert_allclose(weights_of(log_weights), 1 / 32, rtol=1e-4)


def share(mean, covariance, grid):
    """Effective sample size as a part of the number of draws."""
    d = len(mean)
    z = jnp.asarray(shared_normals(512, d, 0), jnp.float32)
    weights = weights_of(jax.jit(lambda z: cut_draws(correlated(mean, covariance).normal, grid, z))(z)[1])
    return 1 / np.sum(weights**2) / len(weights)


def test_the_tilt_looks_ahead(monkeypatch):
    """The mean lies 5 σ outside in the last two coordinates, which are correlated with the first two."""
    covariance = 0.4 * np.eye(4) + 0.6 * np.ones((4, 4))
    grid = Grid([-3.0] * 4, [3.0] * 4, [3] * 4)
    mean = [2.0, 2.0, 8.0, 8.0]
    assert share(mean, covariance, grid) >= 0.9
    monkeypatch.setattr(gaussian, "tilt_of", lambda mean, root, lower, upper: jnp.zeros_like(mean))
    assert share(mean, covariance, grid) < 0.5


def test_no_tilt_where_nothing_is_cut():
    wide, none = np.full(3, 50.0, np.float32), np.zeros(3, np.float32)
    eta = jax.jit(tilt_of)(none, np.linalg.cholesky(CORRELATED).astype(np.float32), -wide, wide)
    np.testing.assert_allclose(eta, 0, atol=1e-6)


def test_the_weighted_mean_is_smooth_in_the_mean():
    """The mean crosses two walls and goes 12 σ beyond: every difference quotient of E[x] stays near [0, 1]."""
    z = jnp.asarray(shared_normals(64, 3, 0), jnp.float32)
    steps = np.linspace(-2.0, 14.0, 1601)
    direction = np.asarray([1.0, 0.8, 0.0])

    def weighted(t):
        density = correlated([0.0, 0.0, 0.0])
        density = CorrelatedDensity(t * jnp.asarray(direction, jnp.float32), density.cholesky, density.precision)
        points, log_weights = cut_draws(density.normal, BOX, z)
        return jnp.sum(points * jax.nn.softmax(log_weights)[None, :], axis=1)

    path = np.asarray(jax.jit(jax.vmap(weighted))(jnp.asarray(steps, jnp.float32)), np.float64)
    slopes = np.diff(path, axis=0) / np.diff(steps)[:, None]
    # d E[x]/dμ = Cov(cut)·Σ⁻¹ has norms below about 1; float32 and 64 draws add a little, a jump of 0.02 would add 2.
    assert np.abs(slopes).max() < 1.5
    assert path[-1, 0] > 0.9 and path[0, 0] < -0.3
