"""Densities that are not nearly normal, for NumPy or jax.numpy, and quadrature and value iteration for them in NumPy."""

import jax.numpy as jnp
import numpy as np

from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem

HALF, ACTIONS, DISCOUNT = 6.0, (-1.0, 0.0, 1.0), 0.9


def away(xp, next_state, state, action):
    """The noise: the next state without what state and action do to it."""
    return next_state - 0.8 * state - action * xp.asarray([0.7, -0.4], state.dtype)


def gumbel(xp):
    """Smooth, log-concave and skewed: standard deviation 1.28."""

    def logdensity(next_state, state, action):
        u = away(xp, next_state, state, action)
        return xp.sum(-u - xp.exp(-u), axis=-1)

    return logdensity


def lognormal(xp):
    """Nothing below, a heavy tail above."""

    def logdensity(next_state, state, action):
        u = away(xp, next_state, state, action) + 2
        log = xp.log(xp.maximum(u, 1e-6))
        return xp.sum(xp.where(u > 0, -log - 0.5 * (log / 0.8) ** 2, -xp.inf), axis=-1)

    return logdensity


def bimodal(xp):
    """Two normal laws, five and more standard deviations apart."""

    def logdensity(next_state, state, action):
        u = away(xp, next_state, state, action)
        first, second = (-0.5 * xp.sum((u - 2) ** 2, axis=-1) / 0.16, 0.3 - 0.5 * xp.sum((u + 2) ** 2, axis=-1) / 0.25)
        return xp.logaddexp(first, second)

    return logdensity


def gap(xp):
    """A normal law with a forbidden strip through it."""

    def logdensity(next_state, state, action):
        u = away(xp, next_state, state, action)
        return xp.where((u[..., 0] > -0.3) & (u[..., 0] < 0.8), -xp.inf, -0.5 * xp.sum(u**2, axis=-1))

    return logdensity


DENSITIES = {"gumbel": gumbel, "lognormal": lognormal, "bimodal": bimodal, "gap": gap}


def reward(xp):
    return lambda state, action: -0.3 * xp.sum((state - 1) ** 2, axis=-1) + xp.sin(state[..., 0]) - 0.1 * action**2


def pose(name, points=9):
    return Problem(
        Grid([-HALF] * 2, [HALF] * 2, [points] * 2),
        ACTIONS,
        UnnormalizedKernel(DENSITIES[name](jnp)),
        reward(jnp),
        DISCOUNT,
        law="linear",
        name=name,
        expected=("outside", "noise", "aliasing"),
    )


def on_box(logdensity, state, action, fine):
    """(midpoints `[2, fine²]`, masses that sum to one)."""
    middles = -HALF + (np.arange(fine) + 0.5) * 2 * HALF / fine
    points = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1)
    with np.errstate(all="ignore"):
        logs = logdensity(points, state, action)
    masses = np.exp(logs - logs.max())
    return points.reshape(-1, 2).T, (masses / masses.sum()).ravel()


def optimal_value(name, points=9, fine=240):
    """(states `[S, 2]`, V*) of the problem on its grid, V linear between the nodes: midpoints, then value iteration."""
    axis = np.linspace(-HALF, HALF, points)
    states = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    place = (np.arange(fine) + 0.5) * (points - 1) / fine
    left = np.minimum(place.astype(int), points - 2)
    hats = np.zeros((points, fine))
    hats[left, np.arange(fine)], hats[left + 1, np.arange(fine)] = 1 - (place - left), place - left
    logdensity, kernel = DENSITIES[name](np), np.empty((len(states), len(ACTIONS), len(states)))
    for i, state in enumerate(states):
        for k, action in enumerate(ACTIONS):
            masses = on_box(logdensity, state, action, fine)[1].reshape(fine, fine)
            kernel[i, k] = (hats @ masses @ hats.T).ravel()
    rewards = np.stack([reward(np)(states, action) for action in ACTIONS], axis=1)
    value = np.zeros(len(states))
    for _ in range(300):
        value = (rewards + DISCOUNT * kernel @ value).max(axis=1)
    return states, value
