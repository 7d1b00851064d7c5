"""Weighted draws of densities without a normaliser: the fitted normal law, and expectations against quadrature."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import times
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.tensor.gaussian import shared_normals
from hamq.tensor.tilted import fit_law, normal_at, tilted_draws
from tests.stats import assert_mean_equals

COVARIANCE = np.asarray([[0.09, 0.03, -0.02], [0.03, 0.06, 0.01], [-0.02, 0.01, 0.08]])
PRECISION = np.linalg.inv(COVARIANCE)
STEP = 0.4


def straight(state, action):
    return 0.6 * state + 0.2 * jnp.stack([action, -action, 0 * action])


def curved(state, action):
    return 0.6 * jnp.sin(2 * state) + 0.3 * jnp.cos(state) * action


def pose(mean):
    """A correlated Gaussian that the library knows nothing about."""

    def logdensity(next_state, state, action):
        away = next_state - mean(state, action)
        return -0.5 * jnp.sum(away * times(jnp.asarray(PRECISION, away.dtype), away))

    return Problem(
        Grid([-1.0] * 3, [1.0] * 3, [3] * 3),
        [-1.0, 0.0, 1.0],
        UnnormalizedKernel(logdensity),
        lambda s, a: jnp.sum(s),
        0.9,
        law="linear",
        expected=("outside", "noise", "aliasing"),
    )


def scalar_actions(generator, count):
    return generator.choice([-1.0, 0.0, 1.0], count)


@functools.cache
def gaussian_law(mean):
    problem = pose(mean)
    return problem, fit_law(problem, scalar_actions, 64, 0, STEP, 0)


@pytest.mark.parametrize(("mean", "allowed"), [(straight, 1e-4), (curved, 0.05)])
def test_a_gaussian_is_recovered(mean, allowed):
    """Exactly where the mean is linear; else up to what the regression's 2048 points leave: a few per cent of σ."""
    problem, law = gaussian_law(mean)
    variances = np.diag(COVARIANCE)
    scale = np.sqrt(np.outer(variances, variances))
    covariance = np.asarray(law.root) @ np.asarray(law.root).T
    assert np.abs(covariance - COVARIANCE).max() <= (allowed * scale).max()
    np.testing.assert_allclose(covariance @ np.asarray(law.precision), np.eye(3), atol=1e-4)
    states = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (40, 3)), jnp.float32)
    action = jnp.float32(1.0)

    def found(state):
        return normal_at(law, problem.density(state, action), state, action, problem.grid).mean

    differences = jax.jit(jax.vmap(lambda state: found(state) - mean(state, action)))(states)
    errors = np.abs(np.asarray(differences))
    assert errors.max() <= 2 * allowed * np.sqrt(variances.max())


def test_draws_of_a_gaussian_have_even_weights():
    """Also where its mean leaves the box; there the walls are in the draws, not in the weights."""
    problem, law = gaussian_law(curved)
    states = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (40, 3)), jnp.float32)
    _, weights = jax.jit(jax.vmap(lambda state: tilted_draws(problem, law, state, jnp.float32(1.0))))(states)
    assert np.min(1 / np.sum(np.asarray(weights) ** 2, axis=1)) >= 0.9 * 64


@functools.cache
def repelling_law():
    problem = hamq.problems.repelling_agents(2, law="linear", points=5)

    def actions(generator, count):
        return generator.choice([-1.0, 0.0, 1.0], (count, 2))

    return problem, fit_law(problem, actions, 256, 0, STEP, 0)


@functools.partial(jax.jit, static_argnums=0)
def log_densities(logdensity, points, state, action):
    return jax.vmap(lambda point: logdensity(point, state, action))(points)


def by_quadrature(problem, state, action):
    """E[x], E[x·xᵀ] and E|x₀ − x₁| in float64: midpoints of 800² squares (walls and kink cost 1e-6)."""
    x = -1 + (np.arange(800) + 0.5) / 400
    points = np.stack([axis.ravel() for axis in np.meshgrid(x, x, indexing="ij")], axis=1)
    with jax.enable_x64(True):
        logs = np.asarray(log_densities(problem.kernel.logdensity, points, np.asarray(state), np.asarray(action)))
    weights = np.exp(logs - logs.max())
    return features(points.T) @ (weights / weights.sum())


def features(points):
    x, y = points
    return np.stack([x, y, x**2, x * y, y**2, np.abs(x - y)])


NEAR_A_WALL, SIDE_BY_SIDE, APART = (([-0.8, 0.3], [-1.0, 0.0]), ([0.05, 0.0], [0.0, 1.0]), ([-0.4, 0.9], [1.0, 1.0]))


@pytest.mark.parametrize("num_leapfrog", [0, 4])
def test_expectations_under_repulsion(num_leapfrog):
    """300 independent sets of 256 draws, one mode or two; false alarm 1e-6 for each of three pairs.

    The law is taken without its Newton step: with it one set in two misses a mode of SIDE_BY_SIDE, and the bias of
    self-normalised weights, O(1/n), is no longer small against the standard error.
    """
    problem, law = repelling_law()
    law = dataclasses.replace(law, is_corrected=False)
    seeds = range(1000, 1000 + 300 * (num_leapfrog + 1))
    sets = np.stack([shared_normals(256, 2, seed) for seed in seeds]).reshape(300, num_leapfrog + 1, 2, 256)
    normals, momenta = (jnp.asarray(part, jnp.float32) for part in (sets[:, 0], sets[:, 1:]))

    @jax.jit
    def replicates(state, action):
        def one(normals, momenta):
            other = eqx.tree_at(lambda law: (law.numbers, law.momenta), law, (normals, momenta))
            return tilted_draws(problem, other, state, action)

        return jax.vmap(one)(normals, momenta)

    for state, action in (NEAR_A_WALL, SIDE_BY_SIDE, APART):
        points, weights = replicates(jnp.asarray(state), jnp.asarray(action))
        points, weights = np.asarray(points, np.float64), np.asarray(weights, np.float64)
        assert np.abs(points).max() <= 1
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
        found = np.stack([features(p) @ w for p, w in zip(points, weights, strict=True)])
        assert_mean_equals(found, by_quadrature(problem, state, action), resolution=0.005)


def test_both_modes_are_held():
    """Agents side by side: a fitted law that holds both orders leaves half of the draws."""
    problem, law = repelling_law()
    _, weights = jax.jit(lambda s, a: tilted_draws(problem, law, s, a))(*(jnp.asarray(v) for v in SIDE_BY_SIDE))
    assert 1 / np.sum(np.asarray(weights) ** 2) > 0.4 * 256
