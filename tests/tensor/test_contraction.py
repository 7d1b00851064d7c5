"""Padded trains in JAX against dense multilinear interpolation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from hamq.problem.grid import Grid
from hamq.tensor import train
from hamq.tensor.contraction import contract, hat_weights, interpolate, make_axes, padded
from tests.tensor.posed import random_train, shapes

GRID = Grid([-1.0, 0.0, -np.pi, 2.0], [1.0, 5.0, np.pi, 3.0], [4, 6, 5, 2], [False, False, True, False])
ORDER = (2, 0, 3, 1)


def permuted(order, seed=0):
    """(cores in JAX, values of the grid's states, axes): a train whose cores follow `order`."""
    points = tuple(GRID.points[axis] for axis in order)
    given = random_train(points, (3, 4, 2), seed)
    values = train.dense(given).transpose(np.argsort(order)).ravel()
    return jnp.asarray(padded(given, 5)), jnp.asarray(values, jnp.float32), make_axes(GRID, order)


def at(order, points):
    """V at states `[B, d]`, and what Grid.interpolate says."""
    cores, values, axes = permuted(order)
    points = jnp.asarray(points, jnp.float32)
    ours = jax.jit(interpolate)(cores, axes, points.T[jnp.asarray(order)])
    theirs = jax.jit(jax.vmap(lambda point: GRID.interpolate(values, point)))(points)
    return np.asarray(ours), np.asarray(theirs)


@settings(max_examples=30)
@given(shapes())
def test_contraction_is_the_sum_over_all_nodes(shape):
    points, ranks, seed = shape
    given = random_train(points, ranks, seed)
    generator = np.random.default_rng(seed)
    weights = np.zeros((len(points), max(points), 3))
    for k, n in enumerate(points):
        weights[k, :n] = generator.uniform(-1, 1, (n, 3))
    expected = []
    for b in range(3):
        total = train.dense(given)
        for k, n in enumerate(points):
            total = np.tensordot(weights[k, :n, b], total, 1)
        expected.append(total)
    found = jax.jit(contract)(jnp.asarray(padded(given, 4)), jnp.asarray(weights, jnp.float32))
    scale = np.prod([np.abs(core).sum() for core in given])
    np.testing.assert_allclose(found, expected, atol=1e-6 * scale)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), ORDER])
def test_nodes_are_entries(order):
    states = GRID.states()
    ours, theirs = at(order, states)
    _, values, _ = permuted(order)
    np.testing.assert_allclose(ours, np.asarray(values), atol=2e-4)
    np.testing.assert_allclose(ours, theirs, atol=2e-4)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), ORDER])
def test_between_nodes_and_outside(order):
    """Twice the box on every side: constant beyond walls, wrapped round circles."""
    width, low = np.asarray(GRID.widths), np.asarray(GRID.lower)
    points = low + width * np.random.default_rng(0).uniform(-2, 3, (500, 4))
    inside = (points[:, [0, 1, 3]] > low[[0, 1, 3]]) & (points[:, [0, 1, 3]] < (low + width)[[0, 1, 3]])
    assert np.sum(inside.all(axis=1)) > 0 and not inside.all()
    ours, theirs = at(order, points)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_a_full_turn_changes_nothing():
    points = np.asarray(GRID.lower) + np.asarray(GRID.widths) * np.random.default_rng(1).uniform(0, 1, (50, 4))
    turned = points + np.asarray([0, 0, 2 * np.pi, 0])
    np.testing.assert_allclose(at(ORDER, points)[0], at(ORDER, turned)[0], atol=1e-3)


def test_the_rank_of_the_padding_does_not_matter():
    given = random_train((3, 4, 2), (2, 3), 0)
    weights = jnp.asarray(np.random.default_rng(0).uniform(0, 1, (3, 4, 7)), jnp.float32)
    small, large = (contract(jnp.asarray(padded(given, rank)), weights) for rank in (3, 8))
    np.testing.assert_allclose(small, large, rtol=1e-5)


def test_constants_and_slopes_are_reproduced():
    """V = 3 has no slope inside, V = 2·x₀ + 5 has slope 2 on axis 0 and 0 on the others; beyond the wall all are 0."""
    axes = make_axes(GRID, ORDER)
    points = tuple(GRID.points[axis] for axis in ORDER)
    flat = jnp.asarray(padded(train.constant(points, 3.0), 2))
    ones = [np.ones(n) for n in points]
    line = train.from_vectors([2 * GRID.axis_nodes(0) if axis == 0 else ones[k] for k, axis in enumerate(ORDER)])
    sloped = jnp.asarray(padded(train.add(line, train.constant(points, 5.0)), 2))

    @jax.jit
    def value(cores, point):
        return interpolate(cores, axes, point[jnp.asarray(ORDER)][:, None])[0]

    inside, outside = jnp.asarray([0.13, 2.2, 1.0, 2.4]), jnp.asarray([1.7, 2.2, 1.0, 2.4])
    assert float(value(flat, inside)) == pytest.approx(3, rel=1e-6)
    assert float(value(flat, outside)) == pytest.approx(3, rel=1e-6)
    assert float(value(sloped, inside)) == pytest.approx(2 * 0.13 + 5, rel=1e-6)
    assert float(value(sloped, outside)) == pytest.approx(7, rel=1e-6)
    gradient = jax.jit(jax.grad(value, argnums=1))
    np.testing.assert_allclose(gradient(flat, inside), 0, atol=1e-5)
    np.testing.assert_allclose(gradient(sloped, inside), [2, 0, 0, 0], atol=1e-4)
    np.testing.assert_allclose(gradient(sloped, outside), 0, atol=1e-4)


@pytest.mark.parametrize("k", range(4))
def test_hats_are_shares(k):
    """Not negative, summing to one, the mean of the nodes is the point; what is padding has zeros in the cores."""
    axis = ORDER[k]
    own = jax.tree.map(lambda leaf: leaf[k], make_axes(GRID, ORDER))
    nodes = GRID.axis_nodes(axis)
    points = np.random.default_rng(k).uniform(nodes[0], nodes[-1], 40).astype(np.float32)
    weights = np.asarray(hat_weights(own, jnp.asarray(points), 6), np.float64)[: len(nodes)]
    assert weights.min() >= 0 and np.all(np.sum(weights > 0, axis=0) <= 2)
    np.testing.assert_allclose(weights.sum(axis=0), 1, atol=2e-6)
    np.testing.assert_allclose(nodes @ weights, points, atol=1e-5)
