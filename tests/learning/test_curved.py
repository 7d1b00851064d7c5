"""Curved laws in three dimensions, and one with a corner: draws of HMC are worth hundreds of independent ones."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.learning.draws import draw_each
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC

SHIFT = np.asarray([0.3, -0.15, 0.1])


def ridge(u, xp):
    across = (u[..., 1] - 1.2 * u[..., 0] ** 2 + 0.3) / 0.12
    return -0.5 * (u[..., 0] / 0.6) ** 2 - 0.5 * across**2 - 0.5 * ((u[..., 2] - 0.5 * u[..., 1]) / 0.25) ** 2


def shell(u, xp):
    return -0.5 * ((xp.sqrt(xp.sum(u**2, axis=-1) + 1e-12) - 0.8) / 0.08) ** 2 + 0.8 * u[..., 0]


def corner(u, xp):
    return xp.where(xp.all(u > -0.4, axis=-1), -3 * xp.sum(u + 0.4, axis=-1), -xp.inf)


def masses(law, states, actions):
    """The law of the next cell of 5³, by the midpoint rule with 20 nodes per cell and axis, in NumPy."""
    num = 80
    x = -2 + 4 * (np.arange(num) + 0.5) / num
    first = np.flatnonzero(np.diff(np.rint(x + 2), prepend=-1.0))
    points = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1)
    found = []
    for state, action in itertools.product(states, actions):
        logs = law(points - 0.5 * state - SHIFT * action, np)
        table = np.exp(logs - logs.max())
        for axis in range(3):
            table = np.add.reduceat(table, first, axis=axis)
        found.append(table.ravel() / table.sum())
    return np.reshape(found, (len(states), len(actions), -1))


@pytest.mark.slow
@pytest.mark.parametrize(("law", "judged"), [(ridge, "smooth"), (shell, "smooth"), (corner, "cut")])
def test_draws_are_worth_hundreds(law, judged):
    """At 10,600 gradients per pair; the mean squared error of 48 pairs and 3 keys has a deviation of about 20 %."""

    def logdensity(next_state, state, action):
        return law(next_state - 0.5 * state - jnp.asarray(SHIFT, jnp.float32) * action, jnp)

    actions = jnp.asarray([-1.0, 0.0, 1.0])
    problem = Problem(Grid([-2.0] * 3, [2.0] * 3, 5), actions, UnnormalizedKernel(logdensity), lambda s, a: s[0], 0.9)
    chosen = np.arange(0, 125, 8)
    nodes = problem.grid.states()
    value = np.sin(2 * nodes[:, 0]) + 0.5 * np.cos(nodes[:, 1] * nodes[:, 2])
    law_of = masses(law, nodes[chosen], np.asarray(actions))
    mean, square = law_of @ value, law_of @ value**2
    errors = []
    for key in range(3):
        drawn = draw_each(problem, HMC(2400), chosen, key=key)
        assert isinstance(drawn.sampler, HMC) and drawn.sampler.judged == judged
        num = 2400 * drawn.sampler.gradients_per_draw(problem)
        weights = drawn.draws.log_weights
        at = value[np.asarray(drawn.draws.locations)]
        found = at.mean(axis=-1) if weights is None else (np.exp(np.asarray(weights)) * at).sum(axis=-1)
        errors.append((found - mean) ** 2 * num / 10_600)
    effective = np.mean(square - mean**2) / np.mean(errors)
    assert effective > 250, effective
