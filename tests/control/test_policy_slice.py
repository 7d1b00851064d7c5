"""Slices of a grid: the node that is held is the nearest."""

import numpy as np

from hamq.control.policy_slice import held_nodes
from hamq.problem.grid import Grid


def test_circles_wrap():
    grid = Grid([0.0, 0.0], [4.0, 1.0], [4, 3], [True, False])
    for state, nodes in (([3.9, 0.6], [0, 1]), ([9.0, 1.0], [1, 2]), ([-1.1, 0.0], [3, 0])):
        np.testing.assert_array_equal(held_nodes(grid, state), nodes)
