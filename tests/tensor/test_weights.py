"""Expected hat functions against quadrature in float64 and against the library's own masses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_ndtr

import hamq
from hamq.problem.cells import log_masses
from hamq.problem.grid import Grid
from hamq.tensor.choice import make_choices
from hamq.tensor.contraction import make_axes
from hamq.tensor.expectation import ExactExpectation
from hamq.tensor.weights import expected_weights

GRID = Grid([-2.0, 0.0], [2.0, 6.0], [5, 6], [False, True])
NUM_PADDED = 7


def by_quadrature(axis, mean, std):
    """E[hat_i] in float64: Gauss–Legendre on short pieces; circles are laid out over many turns."""
    nodes, h, width = GRID.axis_nodes(axis), GRID.spacing[axis], GRID.widths[axis]
    circle = GRID.periodic[axis]
    turns = int(np.ceil(9 * std / width)) + 1 if circle else 0
    first, last = (nodes[0] - turns * width, nodes[0] + (turns + 1) * width) if circle else (nodes[0], nodes[-1])
    centre = GRID.lower[axis] + (mean - GRID.lower[axis]) % width if circle else mean
    near = np.clip(centre, first, last)
    cuts = np.concatenate([np.arange(first, last + h / 2, h), near + std * np.linspace(-12, 12, 97)])
    cuts = np.unique(np.clip(cuts, first, last))
    t, w = np.polynomial.legendre.leggauss(12)
    x = (cuts[:-1, None] + np.diff(cuts)[:, None] * (t + 1) / 2).ravel()
    log_density = -0.5 * ((x - centre) / std) ** 2
    mass = (np.diff(cuts)[:, None] * w / 2).ravel() * np.exp(log_density - log_density.max())
    away = np.abs(x[None, :] - nodes[:, None])
    if circle:
        away = away % width
        away = np.minimum(away, width - away)
    hats = np.maximum(1 - away / h, 0)
    return hats @ mass / mass.sum()


@jax.jit
def both_axes(mean, std):
    return jax.vmap(lambda axis: expected_weights(axis, mean, std, NUM_PADDED))(make_axes(GRID, (0, 1)))


def ours(axis, mean, std):
    return np.asarray(both_axes(jnp.float32(mean), jnp.float32(std))[axis], np.float64)


def test_quadrature_itself():
    """Against closed forms: a law so wide that it is even, and the outermost hats of a standard normal."""
    weights = by_quadrature(0, 0.3, 1e3)
    np.testing.assert_allclose(weights, [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8], atol=1e-5)
    weights = by_quadrature(0, 0.0, 1.0)
    mean = GRID.axis_nodes(0) @ weights
    assert mean == pytest.approx(0, abs=1e-12)
    # The hat of the last node is x − 1 on [1, 2]: φ(1) − φ(2) − (Φ(2) − Φ(1)), over the mass of the box.
    phi, cdf = np.exp(-0.5 * np.asarray([1.0, 4.0])) / np.sqrt(2 * np.pi), np.exp(log_ndtr(np.asarray([1.0, 2.0])))
    end = (phi[0] - phi[1] - (cdf[1] - cdf[0])) / (2 * cdf[1] - 1)
    assert weights[0] == pytest.approx(end, rel=1e-9)


@pytest.mark.parametrize(("std", "allowed"), [(0.02, 3e-6), (0.3, 3e-6), (1.0, 3e-6), (5.0, 3e-6), (20.0, 5e-5)])
@pytest.mark.parametrize("mean", [0.0, 0.37, -1.0, 1.9, 2.0, -2.0])
def test_cut_normal(mean, std, allowed):
    """Where σ is many spacings h the first moments of the intervals cancel: 1e-7·(σ/h)² is lost."""
    np.testing.assert_allclose(ours(0, mean, std)[:5], by_quadrature(0, mean, std), atol=allowed)


@pytest.mark.parametrize("std", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(("away", "allowed"), [(1, 1e-5), (3, 1e-4), (5, 2e-3), (9, 5e-3)])
def test_mean_outside(side, away, std, allowed):
    """Far out the masses of an interval are differences of tails: digits are lost, but not more than this."""
    mean = side * (2 + away * std)
    np.testing.assert_allclose(ours(0, mean, std)[:5], by_quadrature(0, mean, std), atol=allowed)


@pytest.mark.parametrize("away", [12, 100, 1e4])
def test_far_outside_is_the_wall(away):
    weights = ours(0, 2 + away * 0.3, 0.3)
    assert weights[4] == pytest.approx(1, abs=0.3 / 10 + 1e-3) and weights.min() >= -1e-5


@pytest.mark.parametrize(("std", "allowed"), [(0.05, 1e-5), (1.0, 1e-5), (3.0, 1e-5), (4.5, 1.5e-4), (12.0, 1.5e-4)])
@pytest.mark.parametrize("mean", [0.0, 0.4, 3.0, 5.9, 6.0, -7.3, 100.2])
def test_wrapped_normal(mean, std, allowed):
    np.testing.assert_allclose(ours(1, mean, std)[:6], by_quadrature(1, mean, std), atol=allowed)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_to_one_without_padding(axis):
    n = GRID.points[axis]
    for mean in np.linspace(-8, 8, 33):
        for std in (0.05, 0.5, 5.0):
            weights = ours(axis, mean, std)
            assert np.all(weights[n:] == 0)
            assert weights.sum() == pytest.approx(1, abs=1e-5) and weights.min() > -1e-4


@pytest.mark.parametrize("periodic", [False, True])
def test_rows_are_those_of_the_table(periodic):
    """The outer product of the weights is the row of law="linear" that the exact solver uses, in any order of axes."""
    problem = hamq.problems.pendulum(points=[7, 5], law="linear", num_actions=3, periodic=periodic)
    exact = eqx.filter_jit(ExactExpectation(problem, (1, 0)).prepare)
    row = eqx.filter_jit(lambda state, action: log_masses(problem, state, action))
    actions = make_choices(problem).tables[0]
    for state in problem.grid.states()[::4]:
        state = jnp.asarray(state, jnp.float32)
        for action in actions:
            weights = np.asarray(exact(state, action).weights, np.float64)
            joint = np.outer(weights[1, :7], weights[0, :5]).ravel()
            np.testing.assert_allclose(joint, np.exp(np.asarray(row(state, action))), atol=1e-4)
