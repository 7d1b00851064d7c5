"""What computed masses are wrong by, where float64 and finite sums show: less than the law says, and not much less."""

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.exact.bellman import make_operator
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem


def pose(grid, covariance) -> Problem:
    kernel = GaussianKernel(lambda state, action: state, covariance)
    return Problem(grid, np.zeros((1, 1)), kernel, lambda s, a: s[0], 0.9, law="point", name="one", expected=("noise",))


def rows_of(problem) -> np.ndarray:
    """Masses `[S, S]` of the only action."""
    law = make_operator(problem).law
    return np.stack([law(unit)[:, 0] for unit in np.eye(problem.num_states)], axis=-1)


def density_rows(problem, covariance, shifts) -> np.ndarray:
    """Masses of the nodes in 80 bits, every image of every node summed."""
    nodes = problem.grid.states().astype(np.longdouble)
    (a, b), (_, c) = np.asarray(covariance, np.longdouble)
    total = np.zeros((len(nodes), len(nodes)), np.longdouble)
    for shift in np.asarray(shifts, np.longdouble):
        x, y = np.moveaxis(nodes[None] + shift - nodes[:, None], -1, 0)
        total += np.exp(-(c * x * x - 2 * b * x * y + a * y * y) / (2 * (a * c - b * b)))
    return total / total.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("inflation", [1e6, 1e8])
def test_entangled_noise(inflation):
    rho = np.sqrt(1 - 1 / inflation)
    covariance = np.outer([0.7, 1.1], [0.7, 1.1]) * np.array([[1, rho], [rho, 1]])
    problem = pose(Grid([0.0, 0.0], [1e-3, 1e-3], [5, 5]), covariance)
    wrong = float(np.abs(rows_of(problem) - density_rows(problem, covariance, [(0, 0)])).sum(axis=1).max() / 2)
    assert 1e-13 < wrong <= make_operator(problem).law.error < 1e4 * wrong


def test_images_that_are_left_out():
    """Noise that varies is taken to be narrow beside its circle, and here is twice as wide."""
    covariance = [[4.0, 0.9], [0.9, 0.3]]
    grid = Grid([0.0, 0.0], [1.0, 1.0], [6, 5], periodic=[True, False])
    problem = pose(grid, lambda state, action: jnp.asarray(covariance, state.dtype))
    shifts = [(k, 0) for k in range(-40, 41)]
    wrong = float(np.abs(rows_of(problem) - density_rows(problem, covariance, shifts)).sum(axis=1).max() / 2)
    assert 1e-6 < wrong <= make_operator(problem).law.error
