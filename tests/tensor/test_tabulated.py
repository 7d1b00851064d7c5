"""Draws of a table: any density in up to four dimensions, against sums in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.tensor.law import shares, survey, tilted_draws
from hamq.tensor.sobol import sobol
from hamq.tensor.tabulated import TableLaw, _moments, make_table_law
from tests.stats import assert_mean_equals
from tests.tensor.densities import DENSITIES, on_box, pose

STATE, ACTION = np.asarray([0.7, -1.9], np.float32), np.float32(1.0)


def features(points):
    x, y = points
    return np.stack([x, y, x**2, x * y, np.abs(x - y), np.cos(x + 2 * y), np.maximum(x, 0)])


def by_quadrature(name):
    """(means, standard deviations) of the features over 1,200² midpoints; a jump costs less than 0.2 % of the spread."""
    points, weights = on_box(DENSITIES[name](np), STATE.astype(float), float(ACTION), 1200)
    values = features(points)
    mean = values @ weights
    return mean, np.sqrt(values**2 @ weights - mean**2)


@pytest.mark.parametrize("name", ["gumbel", "lognormal", "bimodal", "gap"])
def test_expectations_of_any_density(name):
    """200 scrambles of 256 draws: no bias above 3 thousandths of a standard deviation; false alarm 1e-6 for each density.

    A law that forgot the weights, or took the table for the density, would be off by hundredths.
    """
    problem = pose(name)
    one = jax.jit(lambda law: tilted_draws(problem, law, jnp.asarray(STATE), jnp.asarray(ACTION)))
    mean, std = by_quadrature(name)
    found = []
    for seed in range(200):
        points, weights = (np.asarray(part, np.float64) for part in one(make_table_law(2, 256, 1, seed)))
        assert np.abs(points).max() <= 6
        found.append((features(points) @ weights - mean) / std)
    found = np.asarray(found)
    assert_mean_equals(found, 0, resolution=0.012)
    # Independent draws err by 1/16 of a standard deviation.
    assert np.sqrt(np.mean(found**2)) < {"gumbel": 0.01, "bimodal": 0.01, "lognormal": 0.02, "gap": 0.03}[name]


def test_random_numbers_of_the_caller():
    """Fresh uniform numbers instead of the shared points are draws too: what simulations use."""
    problem = pose("gumbel")
    one = jax.jit(lambda law: tilted_draws(problem, law, jnp.asarray(STATE), jnp.asarray(ACTION)))
    mean, std = by_quadrature("gumbel")
    found = []
    for seed in range(200):
        numbers = np.random.default_rng(seed).uniform(size=(2, 256)).astype(np.float32)
        points, weights = (np.asarray(part, np.float64) for part in one(TableLaw(jnp.asarray(numbers), jnp.asarray(1))))
        found.append((features(points) @ weights - mean) / std)
    found = np.asarray(found)
    # Weights that are scaled to sum to one have a bias of order 1/n.
    assert np.abs(found.mean(axis=0)).max() < 0.02 and np.sqrt(np.mean(found**2)) < 0.06


def test_smooth_in_the_state():
    """E[x·y] along a line of states: second differences of a step of .01 are those of a curve, not of noise.

    One draw of 256 that jumped by a standard deviation would show as 8e-3.
    """
    problem, law = pose("gumbel"), make_table_law(2, 256, 1, 0)
    line = np.stack([np.linspace(-1, 1, 201), np.linspace(0.5, -1.5, 201)], axis=1).astype(np.float32)

    def mean(state):
        points, weights = tilted_draws(problem, law, state, jnp.asarray(ACTION))
        return jnp.sum(weights * points[0] * points[1])

    values = np.asarray(jax.jit(lambda states: jax.lax.map(mean, states))(line), np.float64)
    assert np.abs(np.diff(values, 2)).max() < 3e-3


def narrow(xp, width):
    """Gumbel noise of so small a scale."""

    def logdensity(next_state, state, action):
        away = (next_state - 0.8 * state - 0.3 * action) / width
        return xp.sum(-away - xp.exp(-away), axis=-1)

    return logdensity


@pytest.mark.parametrize(("width", "level", "least"), [(0.05, 0, 0.2), (0.05, 2, 0.95), (0.004, 3, 0.95)])
def test_windows_narrow(width, level, least):
    """Noise of a twentieth or a hundredth of the distance of the first nodes: a smaller window finds it."""
    problem = pose_one(narrow(jnp, width), dimension=2)
    states = np.random.default_rng(0).uniform(-5, 5, (64, 2))
    found = survey(problem, make_table_law(2, 256, level, 0), states, np.zeros(64))
    if level == 0:
        assert np.median(found.shares) < least
    else:
        assert found.shares.min() > least
        # The mean of Gumbel noise is Euler's constant, its deviation π/√6.
        np.testing.assert_allclose(found.means, 0.8 * states + 0.5772 * width, atol=0.03 * width)
        np.testing.assert_allclose(found.stds, 1.2825 * width, rtol=0.02)


def pose_one(logdensity, dimension, periodic: tuple[bool, ...] | None = None, half=6.0):
    return Problem(
        Grid([-half] * dimension, [half] * dimension, [4] * dimension, periodic=periodic),
        [-1.0, 0.0, 1.0],
        UnnormalizedKernel(logdensity),
        lambda state, action: jnp.sum(state),
        0.9,
        law="linear",
        expected=("outside", "noise", "aliasing"),
    )


@pytest.mark.parametrize("dimension", [1, 3, 4])
def test_other_dimensions(dimension):
    problem = pose_one(narrow(jnp, 0.6), dimension)
    states = np.random.default_rng(0).uniform(-3, 3, (64, dimension))
    found = survey(problem, make_table_law(dimension, 256, 1, 0), states, np.zeros(64))
    assert np.quantile(found.shares, 0.05) > {1: 0.97, 3: 0.85, 4: 0.5}[dimension]
    np.testing.assert_allclose(found.means, 0.8 * states + 0.5772 * 0.6, atol=0.1 * 0.6)


def test_circles():
    """A narrow law about an angle that is the end of the box: the window crosses it."""

    def logdensity(next_state, state, action):
        return 40 * jnp.cos(jnp.pi / 6 * (next_state[0] - state[0])) - 0.5 * (next_state[1] + 0 * action) ** 2

    problem = pose_one(logdensity, 2, periodic=(True, False))
    states = np.asarray([[5.99, 0], [-5.99, 0], [0, 0], [3, 0]], np.float32)
    for level in (0, 2):
        found = survey(problem, make_table_law(2, 256, level, 0), states, np.zeros(4))
        assert found.shares.min() > 0.95
        angles = 2 * np.pi * (states[:, 0] + 6) / 12
        np.testing.assert_allclose(found.means[:, 0], np.sin(angles) * np.exp(-0.5 / 40), atol=0.01)


def test_moments_of_the_interpolant():
    """Against midpoints of 1,600² squares of the interpolant itself."""
    values = np.random.default_rng(0).uniform(size=(9, 9))
    x = (np.arange(1600) + 0.5) / 200
    left = np.minimum(x.astype(int), 7)
    hats = np.zeros((1600, 9))
    hats[np.arange(1600), left], hats[np.arange(1600), left + 1] = 1 - (x - left), x - left
    masses = hats @ values @ hats.T
    masses, away = masses / masses.sum(), x - 4
    wanted = np.asarray([masses.sum(1) @ away, masses.sum(0) @ away])
    mean, second = _moments(jnp.asarray(values, jnp.float32), [(0, 0), (0, 1), (1, 1)])
    np.testing.assert_allclose(mean, wanted, atol=1e-5)
    squares = [masses.sum(1) @ away**2, away @ masses @ away, masses.sum(0) @ away**2]
    products = [wanted[0] ** 2, wanted[0] * wanted[1], wanted[1] ** 2]
    np.testing.assert_allclose(second, np.subtract(squares, products), atol=1e-4)


def test_shares_of_no_numbers_are_none():
    """NaN in half of the pairs, a density of 0 in others: their share is 0, that of the rest is not."""

    def logdensity(next_state, state, action):
        smooth = -0.5 * jnp.sum((next_state - state) ** 2)
        return jnp.where(state[0] > 2, jnp.nan, jnp.where(state[0] < -2, -jnp.inf, smooth)) + 0 * action

    problem = pose_one(logdensity, 2)
    states = np.asarray([[3, 0], [-3, 0], [0, 0]])
    found = shares(problem, make_table_law(2, 64, 0, 0), states, np.zeros(3))
    assert found[0] == found[1] == 0 and found[2] > 0.9


def test_sobol_points():
    """Each of 64 strips of every axis holds one of 64 points, each of 8 × 8 squares of the first two axes as well."""
    points = sobol(64, 4, 3)
    for axis in points:
        np.testing.assert_array_equal(np.sort((64 * axis).astype(int)), np.arange(64))
    squares = np.ravel_multi_index(tuple((8 * points[:2]).astype(int)), (8, 8))
    np.testing.assert_array_equal(np.sort(squares), np.arange(64))
    assert np.abs(points - sobol(64, 4, 4)).max() > 0.1
    np.testing.assert_allclose(np.asarray(make_table_law(2, 64, 0, 3).numbers), points[:2], atol=1e-7)
