"""Proposals of jumps: the law that is drawn is the law that is written down."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from hamq.sampling.jumps import (
    CoordinateNoise,
    JumpNoise,
    box_of,
    choose_coordinate,
    log_marginal,
    log_proposal,
    marginals_of,
    normal_quantile,
    propose,
    propose_coordinate,
    student_quantile,
)
from hamq.sampling.modes import find_modes
from hamq.sampling.noise import uniforms
from hamq.sampling.walls import make_potential
from tests.sampling.posed import LOWER, UPPER, box, two_modes, two_modes_on_a_circle, user_density
from tests.stats import assert_mean_equals

NUM = 100_000
TARGETS = {
    "logit": ("logit", two_modes, (False, False)),
    "circle": ("logit", two_modes_on_a_circle, (True, False)),
    "reflect": ("reflect", two_modes, (False, False)),
}


@functools.cache
def posed(name):
    walls, logdensity, periodic = TARGETS[name]
    grid = box(periodic=periodic)
    return make_potential(walls, user_density(logdensity, grid), grid, 1.0)


@functools.cache
def proposed(name):
    """Proposals of whole vectors and of coordinates, and their log densities at the points of `spread`: one program."""
    potential = posed(name)
    found_box = box_of(potential)

    def run(key, points, others):
        modes = jax.tree.map(lambda a: a[..., None], find_modes(potential, jnp.asarray([0.2, -0.4])))  # shared by all lanes
        u, v = jnp.split(uniforms((11, NUM), key=key), [6])
        y = propose(found_box, modes, JumpNoise(u[:2], student_quantile(u[2:4]), u[4:], u[0]))
        marginals = marginals_of(modes)
        coordinate = choose_coordinate(found_box, marginals, v[0])
        noise = CoordinateNoise(v[0], v[1:3], normal_quantile(v[3]), v[4], v[0])
        value, at = propose_coordinate(marginals, coordinate, noise), others[jnp.arange(NUM), coordinate.index]
        whole = y.T, log_proposal(found_box, modes, points.T)
        return whole, (coordinate.index, value, log_marginal(found_box, coordinate, at))

    points, others = (spread(potential, NUM, seed) for seed in (1, 3))
    found = jax.jit(run)(jr.key(0), points[0], others[0])
    return *jax.tree.map(np.asarray, found), points, others


def spread(potential, num, seed):
    """Points of a known law over chain coordinates (wider than the modes), and their log density, axis by axis `[n, d]`."""
    lower, width = np.asarray(LOWER), np.asarray(UPPER) - LOWER
    is_line = ~potential.circle  # proposals may leave a box that reflects
    u = np.random.default_rng(seed).uniform(1e-6, 1 - 1e-6, (num, 2))
    y = np.where(is_line, stats.t.ppf(u, 2), lower + width * u)
    return y.astype(np.float32), np.where(is_line, stats.t.logpdf(y, 2), -np.log(width))


def test_student_quantiles_equal_scipy(x64):
    u = np.concatenate([[1e-7, 1e-3, 0.5, 1 - 1e-7], np.linspace(0.01, 0.99, 50)])
    np.testing.assert_allclose(jax.jit(student_quantile)(u), stats.t.ppf(u, 4), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", TARGETS)
def test_proposals_follow_their_density(name):
    """E_q[1] = 1 by points of another law, and E_q[h] the same for proposals and for those points, weighted."""
    (y, log_density), _, (points, logs), _ = proposed(name)
    weights = np.exp(log_density - logs.sum(axis=1))
    assert_same_law(posed(name), y.astype(np.float64), points.astype(np.float64), weights)


@pytest.mark.parametrize("name", TARGETS)
def test_coordinate_proposals_follow_their_density(name):
    _, (index, value, log_density), _, (points, logs) = proposed(name)
    at = np.arange(NUM), index
    weights = np.exp(log_density - logs[at])
    for i in (0, 1):
        mine = index == i
        found, other = (np.zeros((mine.sum(), 2)) for _ in range(2))
        found[:, i], other[:, i] = value[mine], points[at][mine]
        assert_same_law(posed(name), found, other, weights[mine])


def assert_same_law(potential, found, points, weights):
    """Bounded functions of each axis (the same at both ends of a circle) and their product."""

    def functions(y):
        turn = np.where(potential.circle, 2 * np.pi / np.asarray(potential.grid.widths), 1)
        waves = np.sin(turn * y + 0.4)
        return np.concatenate([np.ones((len(y), 1)), waves, np.prod(waves, axis=1, keepdims=True)], axis=1)

    assert np.all(np.isfinite(found)) and np.all(np.isfinite(weights))
    num = min(len(found), len(points))
    assert_mean_equals(functions(found)[:num] - functions(points)[:num] * weights[:num, None], 0.0, resolution=0.1)
