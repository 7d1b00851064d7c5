"""Peaks that draw all points of the quadrature to themselves, and hide others: found by climbing log p."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.cells import rows_of
from hamq.problem.summits import climb, places


def test_climbs_end_at_the_nearest_of_two_narrow_peaks():
    tops = np.asarray([[0.8, 0.3], [-0.7, -0.9]])

    def logs(pairs, points):
        return np.max([-0.5 * np.sum(((points - top) / 0.003) ** 2, axis=1) + pairs for top in tops], axis=0)

    lower, upper = np.full(2, -2.0), np.full(2, 2.0)
    ends, heights = climb(logs, np.arange(3), lower, upper)
    away = np.abs(ends[:, :, None] - tops).max(axis=-1)
    assert np.all(away.min(axis=2) < 0.003)
    assert np.all(away.min(axis=1) < 0.003), "each peak is found from somewhere, in each pair"
    np.testing.assert_allclose(heights, np.broadcast_to(np.arange(3)[:, None], heights.shape), atol=0.5)


def test_places_are_spread_over_the_box():
    found = places(np.asarray([0.0, 10.0]), np.asarray([1.0, 30.0]))
    assert np.all((found >= [0, 10]) & (found <= [1, 30]))
    assert np.ptp(found, axis=0)[0] > 0.7 and np.ptp(found, axis=0)[1] > 14


@functools.cache  # one problem for all tolerances, compiled once
def two_needles(width) -> hamq.Problem:
    def two(next_state, state, action):
        top = jnp.asarray([0.8, 0.8], next_state.dtype) + 0.1 * state
        first = -0.5 * jnp.sum(((next_state - top) / width) ** 2)
        second = -0.5 * jnp.sum(((next_state + top) / width) ** 2) + 0.5 * action
        return jnp.logaddexp(first, second)

    return hamq.Problem(
        hamq.Grid([-2, -2], [2, 2], [5, 5]), [-1.0, 1.0], hamq.UnnormalizedKernel(two), lambda s, a: s[0] + 0 * a, 0.9
    )


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("width", [0.004, 0.02])
def test_two_needles_keep_their_masses(tolerance, width):
    """Next to nothing but two peaks of 1/250 of a cell: one of them was lost at a tolerance of 1e-5."""
    problem = two_needles(width)
    states, actions = np.asarray([[0.0, 0.0], [1.0, -1.0], [-1.5, 0.5]]), np.asarray([-1.0, 1.0, -1.0])
    rows = rows_of(problem, states, actions, tolerance)
    share = 1 / (1 + np.exp(0.5 * actions))
    tops = np.asarray([0.8, 0.8]) + 0.1 * states
    for k in range(len(states)):
        nodes = [int(np.ravel_multi_index(np.rint(top + 2).astype(int), (5, 5))) for top in (tops[k], -tops[k])]
        np.testing.assert_allclose(rows.masses[k, nodes], [share[k], 1 - share[k]], atol=3 * tolerance)
