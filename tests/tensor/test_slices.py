"""Slices along the axes: draws of densities in five dimensions, against sums in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.tensor.expectation import TiltedExpectation
from hamq.tensor.law import survey
from hamq.tensor.slices import SliceLaw, directions_of, make_slice_law, regression_of
from tests.stats import assert_mean_equals
from tests.tensor.five import DIMENSION, HALF, NOISE, optimal_value, pose

STATE, MEAN = np.asarray([2.0, -1.0, 0.5, 3.0, -4.0], np.float32), 0.5
NUM_DRAWS = 256


def noisy():
    """One action for each law of noise, and one for normal noise with correlation 0.6: all share one program."""
    factor = np.linalg.inv(np.linalg.cholesky(correlated()))

    def logdensity(next_state, state, action):
        u = next_state - MEAN * state
        each = [jnp.sum(noise(u, jnp)) for noise in NOISE.values()]
        turned = jnp.asarray(factor, u.dtype) @ u
        return jnp.select([action == i for i in range(len(each))], each, -0.5 * jnp.sum(turned**2))

    actions = [float(i) for i in range(len(NOISE) + 1)]
    kernel, grid = UnnormalizedKernel(logdensity), Grid([-HALF] * DIMENSION, [HALF] * DIMENSION, [3] * DIMENSION)
    expected = ("outside", "noise", "aliasing")
    return Problem(grid, actions, kernel, lambda s, a: s[0], 0.9, law="linear", name="noisy", expected=expected)


def correlated():
    return 0.4 * np.eye(DIMENSION) + 0.6


def law_of(problem, seed, directions=None):
    regression = regression_of(problem.grid, np.zeros((1, DIMENSION)), np.zeros(1), np.zeros((1, DIMENSION)), np.zeros(1))
    return make_slice_law(problem.grid, NUM_DRAWS, 2 if directions is None else 4, seed, regression, directions)


@pytest.fixture(scope="module")
def drawn():
    problem = noisy()
    one = jax.jit(lambda law, action: law.draws(problem, jnp.asarray(STATE), action))

    def draw(seed, action, directions=None):
        points, weights = one(law_of(problem, seed, directions), jnp.asarray(float(action)))
        return np.asarray(points, np.float64), np.asarray(weights, np.float64)

    return draw


def features(points):
    return np.concatenate([points, points**2, np.cos(points), np.maximum(points, 0)])


def by_sums(name):
    """(means, standard deviations) of the features, axis by axis."""
    x = -HALF + 2 * HALF * (np.arange(20_000) + 0.5) / 20_000
    away = x[:, None] - MEAN * STATE[None, :].astype(float)
    with np.errstate(divide="ignore"):
        masses = np.exp(NOISE[name](away, np))
    masses /= masses.sum(axis=0)
    of_axes = features(np.repeat(x[None], DIMENSION, axis=0)).reshape(4, DIMENSION, -1)
    mean = np.einsum("akx,xk->ak", of_axes, masses)
    return mean.ravel(), np.sqrt(np.einsum("akx,xk->ak", of_axes**2, masses) - mean**2).ravel()


@pytest.mark.parametrize("name", list(NOISE))
def test_expectations_of_any_noise(drawn, name):
    """Scrambles: no bias above two hundredths of a standard deviation, four at jumps; false alarm 1e-6 for each noise.

    Independent draws err by 1/16 of a standard deviation; where the density jumps, ours are no worse. A law that forgot a
    weight would be biased by hundredths.
    """
    mean, std = by_sums(name)
    found = []
    for seed in range(400 if name == "exponential" else 100):
        points, weights = drawn(seed, list(NOISE).index(name))
        assert np.abs(points).max() <= HALF
        found.append((features(points) @ weights - mean) / std)
    found = np.asarray(found)
    assert_mean_equals(found, 0, resolution={"exponential": 0.04}.get(name, 0.02))
    assert np.sqrt(np.mean(found**2)) < {"exponential": 1 / 16}.get(name, 0.025)


def test_directions_follow_correlations(drawn):
    """Along the columns of its Cholesky factor a normal law is a product; along the axes it is not. All stay in the box."""
    action, factor = len(NOISE), np.linalg.cholesky(correlated())

    def effective(directions):
        points, weights = drawn(0, action, directions)
        assert np.abs(points).max() <= HALF
        return 1 / np.sum(weights**2)

    assert effective(directions_of(factor)) > 0.7 * NUM_DRAWS > 3 * effective(None)


def test_cut_slices_have_the_law_of_the_box():
    """A correlated normal law at a corner of the box, against independent draws that are thrown away outside of it."""
    problem, factor = noisy(), np.linalg.cholesky(correlated())
    state = np.full(DIMENSION, 10.0, np.float32)  # the mean is 5, one standard deviation from the walls
    one = jax.jit(lambda law: law.draws(problem, jnp.asarray(state), jnp.asarray(float(len(NOISE)))))
    found = []
    for seed in range(60):
        points, weights = one(law_of(problem, seed, directions_of(factor)))
        found.append(np.asarray(points, np.float64) @ np.asarray(weights, np.float64))
    free = 5 + np.random.default_rng(0).standard_normal((1_000_000, DIMENSION)) @ factor.T
    kept = free[np.all(np.abs(free) <= HALF, axis=1)]
    assert len(kept) > 300_000
    np.testing.assert_allclose(np.mean(found, axis=0), kept.mean(axis=0), atol=0.03)


def test_circles_are_left_alone():
    """A wrapped law across the end of its circle: draws on both sides, and no direction mixes them with others."""
    grid = Grid([0.0, -1.0], [2 * np.pi, 1.0], [4, 3], periodic=[True, False])
    kernel = UnnormalizedKernel(lambda x, s, a: 4 * jnp.cos(x[0] - s[0]) - 2 * x[1] ** 2)
    problem = Problem(grid, [0.0], kernel, lambda s, a: s[0], 0.9, law="linear", expected=("outside", "noise", "aliasing"))
    regression = regression_of(grid, np.zeros((1, 2)), np.zeros(1), np.zeros((1, 2)), np.zeros(1))
    law = make_slice_law(grid, NUM_DRAWS, 3, 0, regression, np.asarray([[1.0, 0.0], [0.5, 1.0]]))
    np.testing.assert_array_equal(law.directions, np.eye(2))
    points, weights = (
        np.asarray(part, np.float64) for part in law.draws(problem, jnp.asarray([0.1, 0.0]), jnp.asarray(0.0))
    )
    assert 1 / np.sum(weights**2) > 0.9 * NUM_DRAWS
    x = 2 * np.pi * (np.arange(5000) + 0.5) / 5000
    masses = np.exp(4 * np.cos(x - 0.1))
    expected = np.stack([np.cos(x), np.sin(x)]) @ masses / masses.sum()
    np.testing.assert_allclose(np.stack([np.cos(points[0]), np.sin(points[0])]) @ weights, expected, atol=0.01)


def test_pairs_that_no_probe_meets_begin_at_the_regression():
    """Exponential noise far in a corner: none of the points all over the box has any density there."""
    problem, generator = pose("exponential"), np.random.default_rng(0)
    states = generator.uniform(-HALF, HALF, (100, DIMENSION)).astype(np.float32)
    means = 0.5 * states + 0.3
    corner = np.full((1, DIMENSION), HALF, np.float32)
    blank = regression_of(problem.grid, states, np.ones(100), means, np.zeros(100))
    fitted = regression_of(problem.grid, states, np.ones(100), means, np.ones(100))
    np.testing.assert_allclose(
        fitted, np.concatenate([np.full((5, 1), 0.15), 0.5 * np.eye(5), np.full((5, 1), 0.15)], axis=1), atol=1e-6
    )
    found = [survey(problem, make_slice_law(problem.grid, NUM_DRAWS, 2, 0, r), corner, [1.0]) for r in (blank, fitted)]
    assert found[0].shares[0] == 0 and found[1].shares[0] > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", list(NOISE))
def test_five_dimensions_are_solved_like_by_sums(name):
    """V within 2 % of its range of value iteration by sums in NumPy, in every state, by default."""
    states, value = optimal_value(name)
    solution = hamq.solve_tensor(pose(name))
    expectation = solution.engine.bellman.expectation
    assert isinstance(expectation, TiltedExpectation) and isinstance(expectation.law, SliceLaw)
    off = np.abs(solution.value(states) - value).max()
    assert off < 0.02 * np.ptp(value), f"off by {off:.3g} in a range of {np.ptp(value):.3g}: {solution.result}"
