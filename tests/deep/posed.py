"""A small problem with an end, and small networks, that the tests of `deep` share."""

import jax.numpy as jnp

from hamq.deep.config import DeepConfig
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem

STD = (0.5, 0.7)


def mean(state, action):
    x, y = state
    return jnp.stack([0.7 * x + 0.3 * action, 0.5 * y + 0.2 * jnp.sin(x) - 0.4])


def reward(state, action):
    return jnp.cos(2 * state[0]) + 0.5 * state[1] - 0.3 * action**2


def ends(state):
    """True in the corner where both coordinates are high."""
    return (state[0] > 0.5) & (state[1] > 0.5)


def pose(points=(5, 4), num_actions=3, periodic=False, terminal=None, law="cell", discount=0.9) -> Problem:
    return Problem(
        Grid([-1.0, -2.0], [1.0, 1.0], list(points), [periodic, False]),
        jnp.linspace(-1.0, 1.0, num_actions),
        GaussianKernel(mean, [s**2 for s in STD]),
        reward,
        discount,
        terminal=terminal,
        law=law,
        name="posed",
        expected=("aliasing", "noise", "outside"),
    )


def tiny(**changes) -> DeepConfig:
    """One hidden layer of 3 units, 4 pairs per step, Adam with large steps."""
    settings = {
        "steps": 3,
        "num_records": 1,
        "learning_rate": 0.05,
        "schedule": "constant",
        "batch_size": 4,
        "whole_rows": False,
        "width": 3,
        "depth": 1,
        "num_sets": 2,
    }
    return DeepConfig(**{**settings, **changes})
