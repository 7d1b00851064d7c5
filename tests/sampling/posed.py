"""Targets, problems and exact laws that the tests of `sampling` and `learning` share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import CorrelatedDensity, GaussianKernel, ProductDensity
from hamq.problem.kernels.unnormalized import UnnormalizedKernel, UserDensity
from hamq.problem.problem import Problem

LOWER, UPPER = (-1.0, -2.0), (1.0, 1.0)
STD = (0.5, 0.7)
MATRIX = ((0.25, 0.2), (0.2, 0.49))
MEANS = {"inside": (0.3, -0.2), "face": (1.0, -0.6), "outside": (2.0, -3.4)}
WALLS = ("logit", "reflect", "sigmoid")


def box(points=(4, 3), periodic=(False, False)) -> Grid:
    return Grid(LOWER, UPPER, list(points), list(periodic))


def gaussian(kind: str, mean):
    """A product or a correlated normal, in the precision that is on."""
    dtype = jnp.result_type(float)
    mean = jnp.asarray(mean, dtype)
    if kind == "product":
        return ProductDensity(mean, jnp.asarray(STD, dtype))
    matrix = np.asarray(MATRIX)
    return CorrelatedDensity(mean, jnp.asarray(np.linalg.cholesky(matrix), dtype), jnp.asarray(np.linalg.inv(matrix), dtype))


def gaussian_log(kind: str, mean, x):
    """log of the same density by NumPy at points `[..., 2]`."""
    covariance = np.diag(np.square(STD)) if kind == "product" else np.asarray(MATRIX)
    offset = x - np.asarray(mean)
    return -0.5 * np.einsum("...i,ij,...j->...", offset, np.linalg.inv(covariance), offset)


def soft_walls_log(sharpness: float, x):
    """log of the product in eq. (6)."""
    below, above = np.logaddexp(0, sharpness * (LOWER - x)), np.logaddexp(0, sharpness * (x - UPPER))
    return -(below + above).sum(axis=-1)


def two_modes(next_state, state, action):
    """A narrow normal with a third of the mass far out on a broad one; neither end of the box is symmetric."""
    narrow = jnp.sum(((next_state - jnp.asarray([0.55, -1.3], next_state.dtype) - 0.1 * action) / 0.06) ** 2)
    broad = jnp.sum(((next_state - 0.3 * state - jnp.asarray([-0.4, 0.1], next_state.dtype)) / 0.5) ** 2)
    return jnp.logaddexp(np.log(0.5) - 2 * np.log(0.06) - 0.5 * narrow, -2 * np.log(0.5) - 0.5 * broad)


def two_modes_on_a_circle(next_state, state, action):
    """The same on a circle of length 2 (first axis); the narrow mode lies across the seam at ±1."""
    x, y = next_state

    def on_circle(centre, width):
        return (jnp.cos(np.pi * (x - centre)) - 1) / (np.pi * width) ** 2

    narrow = on_circle(0.98 + 0.05 * action, 0.07) - 0.5 * ((y + 1.2) / 0.1) ** 2 - np.log(0.07 * 0.1)
    broad = on_circle(0.2 + 0.3 * state[0], 0.4) - 0.5 * ((y - 0.1) / 0.6) ** 2 - np.log(0.4 * 0.6)
    return jnp.logaddexp(np.log(0.5) + narrow, broad)


def user_density(logdensity, grid: Grid, state=(0.2, -0.4), action=0.5) -> UserDensity:
    dtype = jnp.result_type(float)
    return UserDensity(logdensity, grid, jnp.asarray(state, dtype), jnp.asarray(action, dtype))


def user_log(logdensity, x, state=(0.2, -0.4), action=0.5):
    """A user's log-density by vmap in float64 at points `[n, 2]`."""
    with jax.enable_x64(True):
        state, action = jnp.asarray(state), jnp.asarray(action)
        return np.asarray(jax.jit(jax.vmap(lambda point: logdensity(point, state, action)))(jnp.asarray(x)))


class ExactLaw:
    """Draws and cell masses of a density on a rectangle, by its values on 800 × 800 little cells."""

    def __init__(self, log_density, lower=LOWER, upper=UPPER, size=800, bins=6):
        self.log_density, self.lower = log_density, np.asarray(lower)
        self.widths = (np.asarray(upper) - self.lower) / size
        self.size, self.bins = size, bins
        middles = np.stack(np.meshgrid(*[np.arange(size) + 0.5] * 2, indexing="ij"), axis=-1)
        self.middle_logs = log_density((self.lower + self.widths * middles).reshape(-1, 2)).ravel()
        self.masses = np.exp(self.middle_logs - self.middle_logs.max())
        self.masses /= self.masses.sum()
        # Bins of about equal marginal mass, whose edges are edges of little cells.
        table = self.masses.reshape(size, size)
        self.edges = [
            np.unique(np.searchsorted(np.cumsum(table.sum(axis=1 - i)), np.arange(1, bins) / bins)) for i in (0, 1)
        ]
        parts = [np.searchsorted(edges, np.arange(size), side="right") for edges in self.edges]
        self.probabilities = np.zeros((bins, bins))
        np.add.at(self.probabilities, (parts[0][:, None], parts[1][None, :]), table)

    def draw(self, num: int, seed: int) -> np.ndarray:
        """`num` exact draws: a little cell by its mass, a point in it, accepted by the true density."""
        rng = np.random.default_rng(seed)
        cells = rng.choice(self.masses.size, size=2 * num, p=self.masses)
        corners = np.stack(np.unravel_index(cells, (self.size, self.size)), axis=-1)
        points = self.lower + self.widths * (corners + rng.random((2 * num, 2)))
        ratios = np.exp(self.log_density(points).ravel() - self.middle_logs[cells])
        assert ratios.max() < 1.5, "the little cells are too large for this density"
        points = points[rng.random(2 * num) < ratios / 1.5]
        assert len(points) >= num
        return points[:num]

    def counts(self, points) -> np.ndarray:
        cells = np.floor((np.asarray(points, np.float64) - self.lower) / self.widths)
        parts = [np.searchsorted(edges, cells[:, i], side="right") for i, edges in enumerate(self.edges)]
        counts = np.zeros((self.bins, self.bins))
        np.add.at(counts, tuple(parts), 1)
        return counts


def _mean(state, action):
    return 0.7 * state + 0.4 * action


def _reward(state, action):
    return state[0] - 0.1 * action**2


KERNELS = {
    "product": (GaussianKernel(_mean, (0.16, 0.5)), (False, False)),
    "periodic": (GaussianKernel(_mean, (0.16, 0.5)), (True, False)),
    "correlated": (GaussianKernel(_mean, ((0.16, 0.2), (0.2, 0.5))), (False, False)),
    "correlated-periodic": (GaussianKernel(_mean, ((0.16, 0.2), (0.2, 0.5))), (True, False)),
    "two-modes": (UnnormalizedKernel(two_modes), (False, False)),
    "circle-two-modes": (UnnormalizedKernel(two_modes_on_a_circle), (True, False)),
}


@functools.cache
def pose(kernel: str, law: str = "cell", points: tuple[int, int] = (7, 6)) -> Problem:
    """A small problem with two actions."""
    density, periodic = KERNELS[kernel]
    return Problem(
        grid=box(points, periodic),
        actions=[-1.0, 0.5],
        kernel=density,
        reward=_reward,
        discount=0.9,
        name=kernel,
        law=law,
    )
