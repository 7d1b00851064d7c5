"""Small problems whose noise is not normal, and their laws in plain NumPy."""

import functools

import jax.numpy as jnp
import numpy as np

import hamq

EXPECTED = ("aliasing", "noise", "outside")


def income(following, state, action):
    """log s' ~ N(log(.6 s + a + .2), ½²)."""
    return -jnp.log(following[0]) - 2 * (jnp.log(following[0]) - jnp.log(0.6 * state[0] + action + 0.2)) ** 2


def gumbel(following, state, action):
    z = (following - 0.6 * state - 0.3 * action) / jnp.asarray([0.3, 0.5], following.dtype)
    return jnp.sum(-z - jnp.exp(-z))


def bimodal(following, state, action):
    """Two ridges, one of three times the other's mass."""
    first = -0.5 * ((following[0] - 0.3 * state[0] + 0.9) / 0.2) ** 2 + jnp.log(0.25)
    second = -0.5 * ((following[0] - 0.3 * state[0] - 0.7 - 0.2 * action) / 0.2) ** 2 + jnp.log(0.75)
    return jnp.logaddexp(first, second) - 0.5 * ((following[1] - 0.5 * state[1]) / 0.6) ** 2


def exponential(following, state, action):
    u = following - 0.5 * state - 0.2 * action + 0.8
    return jnp.where(jnp.all(u >= 0), -jnp.sum(u) / 0.5, -jnp.inf)


def forbidden(following, state, action):
    """A normal law without a disc."""
    inside = jnp.sum(following**2) < 0.6**2
    return jnp.where(inside, -jnp.inf, -0.5 * jnp.sum(((following - 0.5 * state - 0.2 * action) / 0.5) ** 2))


def curved(following, state, action):
    """A ridge in four dimensions."""
    u = following - 0.5 * state - 0.2 * action
    bend = (u[1] - u[0] ** 2 + 0.3) / 0.25
    return -0.5 * ((u[0] / 0.6) ** 2 + bend**2 + (u[2] / 0.5) ** 2 + ((u[3] - 0.5 * u[2]) / 0.3) ** 2)


def narrow(following, state, action):
    """A ridge that bends more and is half as wide."""
    u = following - 0.5 * state - 0.2 * action
    bend = ((u[1] - 1.2 * u[0] ** 2 + 0.3) / 0.12) ** 2
    return -0.5 * ((u[0] / 0.6) ** 2 + bend + ((u[2] - 0.5 * u[1]) / 0.25) ** 2 + (u[3] / 0.3) ** 2)


PLANE = {each.__name__: each for each in (gumbel, bimodal, exponential, forbidden)}


@functools.cache  # one problem, so that it is compiled once
def pose(name: str, law="cell") -> hamq.Problem:
    if name == "income":
        return _problem(hamq.Grid([0.2], [6.0], [30]), [0.1, 0.4], income, law)
    if name in ("curved", "narrow"):
        density = {"curved": curved, "narrow": narrow}[name]
        return _problem(hamq.Grid([-2.0] * 4, [2.0] * 4, [9] * 4), [-1.0, 1.0], density, law)
    return _problem(hamq.Grid([-2.0, -2.0], [2.0, 2.0], [9, 9]), [-1.0, 0.0, 1.0], PLANE[name], law)


def reward(state, action):
    return jnp.log(1 + state[0] ** 2) - action


def _problem(grid, actions, logdensity, law) -> hamq.Problem:
    kernel = hamq.UnnormalizedKernel(logdensity)
    return hamq.Problem(grid, actions, kernel, reward, 0.9, law=law, name=logdensity.__name__, expected=EXPECTED)


def fine_law(problem, state, action, num):
    """(middles `[N, d]`, masses `[N]`) of `num` small cells along each axis, by the midpoint rule in NumPy's float64."""
    axes = [
        low + (high - low) * (np.arange(num) + 0.5) / num
        for low, high in zip(problem.grid.lower, problem.grid.upper, strict=True)
    ]
    middles = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    logs = REFERENCES[problem.name](middles, np.asarray(state, float), float(action))
    masses = np.exp(logs - logs.max())
    return middles, masses / masses.sum()


def coarse(problem, middles, masses, edges):
    """Masses of the boxes between the edges of each axis."""
    which = [
        np.clip(np.searchsorted(edge, x, "right") - 1, 0, len(edge) - 2) for edge, x in zip(edges, middles.T, strict=True)
    ]
    shape = [len(edge) - 1 for edge in edges]
    return np.bincount(np.ravel_multi_index(which, shape), masses, int(np.prod(shape)))


def _income(x, s, a):
    return -np.log(x[:, 0]) - 2 * (np.log(x[:, 0]) - np.log(0.6 * s[0] + a + 0.2)) ** 2


def _gumbel(x, s, a):
    z = (x - 0.6 * s - 0.3 * a) / np.array([0.3, 0.5])
    return np.sum(-z - np.exp(-z), axis=1)


def _bimodal(x, s, a):
    first = 0.25 * np.exp(-0.5 * ((x[:, 0] - 0.3 * s[0] + 0.9) / 0.2) ** 2)
    second = 0.75 * np.exp(-0.5 * ((x[:, 0] - 0.3 * s[0] - 0.7 - 0.2 * a) / 0.2) ** 2)
    return np.log(first + second + 1e-300) - 0.5 * ((x[:, 1] - 0.5 * s[1]) / 0.6) ** 2


def _exponential(x, s, a):
    u = x - 0.5 * s - 0.2 * a + 0.8
    return np.where((u >= 0).all(axis=1), -u.sum(axis=1) / 0.5, -np.inf)


def _forbidden(x, s, a):
    off = ((x - 0.5 * s - 0.2 * a) / 0.5) ** 2
    return np.where((x**2).sum(axis=1) < 0.36, -np.inf, -0.5 * off.sum(axis=1))


REFERENCES = {
    "income": _income,
    "gumbel": _gumbel,
    "bimodal": _bimodal,
    "exponential": _exponential,
    "forbidden": _forbidden,
}
