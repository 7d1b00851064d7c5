"""Trains and problems that the tests share."""

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem


def random_train(points, ranks, seed):
    """Cores of standard normals."""
    generator, bonds = np.random.default_rng(seed), (1, *ranks, 1)
    return tuple(generator.standard_normal((a, n, b)) for a, n, b in zip(bonds[:-1], points, bonds[1:], strict=True))


@st.composite
def shapes(draw, min_axes=1, max_axes=5):
    """(points, ranks, seed): 1 to 5 axes of 1 to 4 nodes, ranks 1 to 4."""
    points = draw(st.lists(st.integers(1, 4), min_size=min_axes, max_size=max_axes))
    ranks = draw(st.lists(st.integers(1, 4), min_size=len(points) - 1, max_size=len(points) - 1))
    return tuple(points), tuple(ranks), draw(st.integers(0, 2**16))


def bond_spectra(whole):
    """The singular values of every unfolding of a dense tensor."""
    sizes = np.cumprod(whole.shape)[:-1]
    return [np.linalg.svd(whole.reshape(size, -1), compute_uv=False) for size in sizes]


def pose_plane(law="linear", discount=0.9, terminal=None, reward=None, points=(6, 7)):
    """A product law on an uneven plane whose means leave the box on either side; 3 actions."""

    def mean(state, action):
        turned = jnp.stack([state[0] + 0.4 * state[1] + 0.1 * action, state[1] - 0.3 * state[0] + 0.5 * action])
        return 1.2 * turned

    def pay(state, action):
        return jnp.cos(state[0]) + state[1] - 0.2 * action**2

    grid = Grid([-1.0, -2.0], [1.5, 1.0], points)
    kernel = GaussianKernel(mean, [0.2**2, 0.4**2])
    return Problem(
        grid,
        [-1.0, 0.5, 1.0],
        kernel,
        pay if reward is None else reward,
        discount,
        terminal,
        law=law,
        expected=("outside", "noise", "aliasing"),
    )
