"""Exact draws of correlated normals in a box: cell masses by sums in NumPy; false alarm 1e-6 of each test."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import CorrelatedDensity, GaussianKernel
from hamq.problem.problem import Problem
from hamq.sampling.draws import Target
from hamq.sampling.iid import IID
from hamq.sampling.truncated_correlated import in_order, propose
from tests.sampling.posed import LOWER, MATRIX, UPPER, ExactLaw, box, gaussian, gaussian_log
from tests.stats import assert_distribution

MEANS = {"inside": (0.3, -0.2), "face": (0.2, 1.6), "corner": (5.0, -7.0), "along": (3.0, 3.0), "turned": (-5.0, 8.0)}
"""Outside by up to 12 standard deviations; in `face` and `turned` the second coordinate is drawn first."""


@eqx.filter_jit
def proposals(grid, density, uniforms):
    given = in_order(grid, density.normal)
    return jax.vmap(lambda u: propose(given, u))(uniforms), given.order


def kept(grid, density, num, seed=0):
    """Accepted proposals `[m, d]`, the share of them, and the order of the coordinates."""
    rng = np.random.default_rng(seed)
    uniforms = jnp.asarray(rng.uniform(1e-7, 1 - 1e-7, (num, grid.dimension)), jnp.float32)
    (points, log_kept), order = proposals(grid, density, uniforms)
    assert np.max(log_kept) < 1e-4, "no proposal is kept with a probability above 1"
    is_kept = np.log(rng.random(num)) < np.asarray(log_kept)
    return np.asarray(points)[is_kept], is_kept.mean(), np.asarray(order)


@pytest.mark.parametrize("place", MEANS)
def test_accepted_proposals_have_the_masses(place):
    points, share, order = kept(box(), gaussian("correlated", MEANS[place]), 20_000)
    assert np.all((points >= np.asarray(LOWER) - 1e-6) & (points <= np.asarray(UPPER) + 1e-6))
    assert share > 0.1
    law = ExactLaw(lambda x: gaussian_log("correlated", MEANS[place], x))
    assert_distribution(law.counts(points), law.probabilities, resolution=0.07)
    assert list(order) == ([1, 0] if place in ("face", "turned") else [0, 1])


def test_three_dimensions_have_the_masses():
    """The coordinate that hits least is the last one: the order is turned over and back again."""
    matrix = np.asarray([[0.3, 0.2, -0.1], [0.2, 0.4, 0.05], [-0.1, 0.05, 0.2]])
    mean, lower, upper = np.asarray([0.4, -1.2, 2.6]), np.asarray([-1.0, -1.0, 0.0]), np.asarray([1.0, 0.5, 1.0])
    parts = [jnp.asarray(a, jnp.float32) for a in (mean, np.linalg.cholesky(matrix), np.linalg.inv(matrix))]
    points, share, order = kept(Grid(lower, upper, 3), CorrelatedDensity(*parts), 30_000)
    assert order[0] == 2
    assert share > 0.1

    size, bins = 90, 3
    axes = [low + (high - low) * (np.arange(size) + 0.5) / size for low, high in zip(lower, upper, strict=True)]
    offset = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1) - mean
    density = np.exp(-0.5 * np.einsum("...i,ij,...j->...", offset, np.linalg.inv(matrix), offset))
    density /= density.sum()
    edges = [
        np.searchsorted(np.cumsum(density.sum(axis=tuple({0, 1, 2} - {i}))), np.arange(1, bins) / bins) for i in range(3)
    ]
    part = [np.searchsorted(edge, np.arange(size), side="right") for edge in edges]
    expected, counts = np.zeros((2, bins, bins, bins))
    np.add.at(expected, np.ix_(*part), density)
    cells = np.clip(np.floor((points - lower) / (upper - lower) * size).astype(int), 0, size - 1)
    np.add.at(counts, tuple(part[i][cells[:, i]] for i in range(3)), 1)
    assert_distribution(counts, expected, resolution=0.07)


@pytest.mark.slow
def test_circles_are_not_cut():
    """Coordinates on a circle go round it: the masses are those of the normal summed over its images."""
    grid, mean = box(periodic=(True, False)), (0.9, 0.6)
    points, share, _ = kept(grid, gaussian("correlated", mean), 20_000)
    assert share > 0.3
    assert np.any(points[:, 0] > 1), "nothing went round"
    points[:, 0] = (points[:, 0] - LOWER[0]) % 2 + LOWER[0]

    def log(x):
        images = [x + np.asarray([2 * turn, 0]) for turn in (-2, -1, 0, 1, 2)]
        return np.logaddexp.reduce([gaussian_log("correlated", mean, image) for image in images])

    law = ExactLaw(log)
    assert_distribution(law.counts(points), law.probabilities, resolution=0.07)


@pytest.fixture(scope="module")
def independent():
    """20,000 draws of the sampler, of a pair whose mean lies far outside: three of ten proposals are kept."""
    kernel = GaussianKernel(lambda state, action: state + action, MATRIX)
    problem = Problem(box(), [[0.0, 0.0]], kernel, lambda state, action: state[0] + action[0], 0.9, name="outside")
    sampler, _ = IID(20_000, "rejection").prepare(problem, key=jr.key(0))
    draw = eqx.filter_jit(lambda key: sampler.draw(Target(problem, jnp.asarray(MEANS["along"]), jnp.zeros(2)), key=key))
    return draw(jr.key(1))


def test_the_sampler_has_the_masses(independent):
    draws, info = independent
    assert not info.has_failed
    law = ExactLaw(lambda x: gaussian_log("correlated", MEANS["along"], x))
    assert_distribution(law.counts(np.asarray(draws.points).T), law.probabilities, resolution=0.07)


def test_draws_of_the_sampler_are_independent(independent):
    """A draw that is tried again starts anew: neighbours have no correlation; z = 5.3."""
    points = np.asarray(independent[0].points, np.float64)
    points = (points - points.mean(axis=1, keepdims=True)) / points.std(axis=1, keepdims=True)
    for i, j in itertools.product(range(2), repeat=2):
        assert abs(np.mean(points[i, 1:] * points[j, :-1])) < 5.3 / np.sqrt(20_000)
