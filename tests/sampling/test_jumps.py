"""Proposals of jumps: the law that is drawn is the law that is written down."""

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


def posed(name):
    walls, logdensity, periodic = TARGETS[name]
    grid = box(periodic=periodic)
    potential = make_potential(walls, user_density(logdensity, grid), grid, 1.0)
    modes = find_modes(potential, jnp.asarray([0.2, -0.4]))
    return potential, jax.tree.map(lambda a: a[..., None], modes)  # shared by all lanes


def spread(potential, num, key):
    """Points of a known law over chain coordinates (wider than the modes), and their log density, axis by axis `[n, d]`."""
    lower, width = np.asarray(LOWER), np.asarray(UPPER) - LOWER
    is_line = ~potential.circle  # proposals may leave a box that reflects
    u = np.asarray(jr.uniform(key, (num, 2), minval=1e-6, maxval=1 - 1e-6), np.float64)
    y = np.where(is_line, stats.t.ppf(u, 2), lower + width * u)
    return jnp.asarray(y, jnp.float32), np.where(is_line, stats.t.logpdf(y, 2), -np.log(width))


def test_student_quantiles_equal_scipy(x64):
    u = np.concatenate([[1e-7, 1e-3, 0.5, 1 - 1e-7], np.linspace(0.01, 0.99, 50)])
    np.testing.assert_allclose(student_quantile(jnp.asarray(u)), stats.t.ppf(u, 4), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", TARGETS)
def test_proposals_follow_their_density(name):
    """E_q[1] = 1 by points of another law, and E_q[h] the same for proposals and for those points, weighted."""
    potential, modes = posed(name)
    u, box = uniforms((6, NUM), key=jr.key(0)), box_of(potential)
    y = propose(box, modes, JumpNoise(u[:2], student_quantile(u[2:4]), u[4:], u[0])).T
    points, logs = spread(potential, NUM, jr.key(1))
    weights = np.exp(np.asarray(log_proposal(box, modes, points.T)) - logs.sum(axis=1))
    assert_same_law(potential, np.asarray(y, np.float64), np.asarray(points, np.float64), weights)


@pytest.mark.parametrize("name", TARGETS)
def test_coordinate_proposals_follow_their_density(name):
    potential, modes = posed(name)
    u, box, marginals = uniforms((5, NUM), key=jr.key(2)), box_of(potential), marginals_of(modes)
    coordinate = choose_coordinate(box, marginals, u[0])
    value = propose_coordinate(marginals, coordinate, CoordinateNoise(u[0], u[1:3], normal_quantile(u[3]), u[4], u[0]))
    points, logs = spread(potential, NUM, jr.key(3))
    at = np.arange(NUM), np.asarray(coordinate.index)
    weights = np.exp(np.asarray(log_marginal(box, coordinate, points[at])) - logs[at])
    for i in (0, 1):
        mine = at[1] == i
        found, other = (np.zeros((mine.sum(), 2)) for _ in range(2))
        found[:, i], other[:, i] = np.asarray(value)[mine], np.asarray(points)[at][mine]
        assert_same_law(potential, found, other, weights[mine])


def assert_same_law(potential, found, points, weights):
    """Bounded functions of each axis (the same at both ends of a circle) and their product."""

    def functions(y):
        turn = np.where(potential.circle, 2 * np.pi / np.asarray(potential.grid.widths), 1)
        waves = np.sin(turn * y + 0.4)
        return np.concatenate([np.ones((len(y), 1)), waves, np.prod(waves, axis=1, keepdims=True)], axis=1)

    assert np.all(np.isfinite(found)) and np.all(np.isfinite(weights))
    num = min(len(found), len(points))
    assert_mean_equals(functions(found)[:num] - functions(points)[:num] * weights[:num, None], 0.0, resolution=0.1)
