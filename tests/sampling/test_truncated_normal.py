"""Quantiles of truncated normals against SciPy, and acrobot, whose means lie far outside the box."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from hamq.exact.value_iteration import outside_distances
from hamq.learning.draws import draw_each
from hamq.problem import cells, zoo
from hamq.problem.tables import mean_table
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.truncated_normal import truncated_normal

U = np.concatenate([[1e-6, 1e-3], np.linspace(0.02, 0.98, 25), [0.999, 1 - 1e-6]])
quantiles = jax.jit(jax.vmap(truncated_normal, in_axes=(0, None, None, None, None)))


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("outside", [-30.0, -1.0, 0.0, 0.5, 3.0, 8.0, 20.0, 80.0])
def test_quantiles_equal_scipy(outside, side):
    """`outside` standard deviations of 0.5 beyond the wall of the box [-1, 2]; float32."""
    std, lower, upper = 0.5, -1.0, 2.0
    mean = upper + outside * std if side > 0 else lower - outside * std
    found = np.asarray(quantiles(jnp.asarray(U, jnp.float32), mean, std, lower, upper))
    a, b = (lower - mean) / std, (upper - mean) / std
    exact = scipy.stats.truncnorm.ppf(U.astype(np.float32).astype(np.float64), a, b, mean, std)
    assert found.dtype == np.float32
    assert np.all((found >= lower) & (found <= upper))
    # Far out the law has the width σ/distance: errors are measured in it, and in the ulps of the coordinate.
    width = scipy.stats.truncnorm.std(a, b, mean, std) if outside < 20 else std / outside
    inner = (U > 1e-4) & (U < 1 - 1e-4)
    np.testing.assert_allclose(found[inner], exact[inner], atol=0.01 * width + 1e-6)
    np.testing.assert_allclose(found, exact, atol=0.2 * width + 1e-6)


@pytest.mark.parametrize("outside", [8.0, 80.0])
def test_mean_far_outside(outside):
    """Midpoint rule over the quantiles: the mean lies one Mills ratio inside the wall."""
    u = (np.arange(4000) + 0.5) / 4000
    found = np.asarray(quantiles(jnp.asarray(u, jnp.float32), 1 + outside, 1.0, -1.0, 1.0), np.float64)
    expected = np.exp(scipy.stats.norm.logpdf(outside) - scipy.stats.norm.logsf(outside)) - outside
    np.testing.assert_allclose(1 - found.mean(), expected, rtol=5e-3)


def test_acrobot_does_not_underflow():
    """On the pairs whose means lie furthest outside: no NaN, draws in the box, at the exact rows' mean."""
    problem = zoo.acrobot()
    distances = outside_distances(problem, mean_table(problem)).max(axis=(1, 2))
    states = np.sort(np.argsort(distances)[-8:])
    assert distances[states].min() > 10
    for sampler in (Exhaustive(), IID(50), HMC(50, num_leapfrog=2)):
        drawn = draw_each(problem, sampler, states, key=0)
        assert not np.any(drawn.info.has_failed)
        assert np.mean(drawn.info.acceptance) >= 0.9
        located = np.asarray(drawn.draws.locations, np.int64)
        points = problem.grid.states_at(located.ravel()).reshape(*located.shape, -1)
        weights = np.full(located.shape, 1 / located.shape[-1]) if drawn.draws.log_weights is None else 0
        weights = weights if drawn.draws.log_weights is None else np.exp(np.asarray(drawn.draws.log_weights, np.float64))
        assert np.all(np.isfinite(weights))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-4)
        found = np.einsum("san,sand->sad", weights, points)
        exact = exact_means(problem, states)
        spread = np.asarray(problem.grid.widths)
        assert np.max(np.abs(found - exact) / spread) < (1e-4 if isinstance(sampler, Exhaustive) else 0.25)


def exact_means(problem, states):
    num, actions = problem.num_actions, np.asarray(problem.actions)
    pairs = np.repeat(problem.grid.states_at(states), num, axis=0), np.concatenate([actions] * len(states))
    rows = cells.rows_of(problem, *pairs, 1e-6).masses
    return (rows @ problem.grid.states()).reshape(len(states), num, -1)
