"""Independent noise on each of five axes, and value iteration for it in NumPy: a product law, summed axis by axis."""

import functools

import jax.numpy as jnp
import numpy as np

from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem

DIMENSION, HALF, POINTS, ACTIONS, DISCOUNT = 5, 6.0, 5, (-1.0, 0.0, 1.0), 0.9


def gumbel(u, xp):
    """Skewed, on every axis."""
    return -u - xp.exp(-u)


def bimodal(u, xp):
    """Two modes on the first axis, normal on the others."""
    two = xp.logaddexp(-0.5 * ((u - 2) / 0.4) ** 2, 0.3 - 0.5 * ((u + 2) / 0.5) ** 2)
    return xp.where(xp.arange(u.shape[-1]) == 0, two, -0.5 * (u / 0.8) ** 2)


def student(u, xp):
    """Heavy tails, with three degrees of freedom."""
    return -2 * xp.log1p((u / 0.7) ** 2 / 3)


def exponential(u, xp):
    """A jump on every axis."""
    return xp.where(u > -1, -u, -xp.inf)


NOISE = {"gumbel": gumbel, "bimodal": bimodal, "student": student, "exponential": exponential}


def pose(name):
    def logdensity(next_state, state, action):
        return jnp.sum(NOISE[name](next_state - 0.5 * state - 0.3 * action, jnp))

    return Problem(
        Grid([-HALF] * DIMENSION, [HALF] * DIMENSION, [POINTS] * DIMENSION),
        ACTIONS,
        UnnormalizedKernel(logdensity),
        lambda state, action: jnp.sum(jnp.cos(0.5 * state) + 0.1 * state) - 0.1 * action**2,
        DISCOUNT,
        law="linear",
        name=name,
        expected=("outside", "noise", "aliasing"),
    )


@functools.cache
def optimal_value(name, fine=6000):
    """(states `[S, d]`, V* `[S]`) by midpoints on each axis."""
    nodes = np.linspace(-HALF, HALF, POINTS)
    x = -HALF + 2 * HALF * (np.arange(fine) + 0.5) / fine
    hats = np.maximum(1 - np.abs(x[:, None] - nodes) / (nodes[1] - nodes[0]), 0)
    away = x[None, None, :] - 0.5 * nodes[None, :, None] - 0.3 * np.asarray(ACTIONS)[:, None, None]
    with np.errstate(divide="ignore"):
        masses = np.exp(NOISE[name](np.repeat(away[..., None], DIMENSION, axis=-1), np))  # [A, node, fine, axis]
    masses /= masses.sum(axis=2, keepdims=True)
    weights = np.einsum("asfk,fj->kasj", masses, hats)  # E[hat_j] on axis k
    states = np.stack([m.ravel() for m in np.meshgrid(*[nodes] * DIMENSION, indexing="ij")], axis=-1)
    rewards = np.sum(np.cos(0.5 * states) + 0.1 * states, axis=1)
    value = np.zeros((POINTS,) * DIMENSION)
    for _ in range(300):  # 0.9^300 is 2·10⁻¹⁴
        found = []
        for i, action in enumerate(ACTIONS):
            expected = value
            for k in range(DIMENSION):  # axis 0 is summed away and comes back last
                expected = np.tensordot(expected, weights[k, i], (0, 1))
            found.append(rewards.reshape(value.shape) - 0.1 * action**2 + DISCOUNT * expected)
        value = np.max(found, axis=0)
    return states, value.ravel()
