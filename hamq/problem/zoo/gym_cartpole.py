"""Gymnasium's CartPole-v1: keep a pole upright by pushing its cart to the left or to the right, never not at all.

State (x, ẋ, θ, θ̇), one explicit Euler step of τ = 0.02 with forces of −10 or 10,

    f = (a + m_p l θ̇² sin θ)/m,    θ̈ = (g sin θ − f cos θ)/(l (4/3 − m_p cos² θ/m)),    ẍ = f − m_p l θ̈ cos θ/m,

g = 9.8, m_p = 0.1, m = 1.1, l = 0.5; reward 1 in every step until |x| > 2.4 or |θ| > 12°.

The environment knows no bounds of the velocities; the box has some. Its walls in x and θ lie a little beyond the ends, so
that the outermost nodes are terminal: their value 0 is what the policy keeps away from. Where θ may lean much further, as
in the paper's box, a grid of a few points has no node between upright and fallen.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.zoo.gym_pendulum import standard_deviations
from hamq.problem.zoo.scenes import cart_scene
from hamq.types import Law

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
FORCE = 10.0
TIME_STEP = 0.02
LARGEST_POSITION = 2.4
LARGEST_ANGLE = 12 * 2 * math.pi / 360
UPPER = (2.5, 3.0, 0.22, 3.0)
"""Of the box, which is symmetric."""
NOISE = (0.005, 0.02, 0.002, 0.02)
"""Standard deviations after one step, with noise=1."""
AXES = ("position", "velocity", "angle", "angular velocity")


def mean(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, "4"]:
    _, velocity, angle, angular_velocity = state
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    arm = POLE_MASS * HALF_LENGTH
    push = (action + arm * angular_velocity**2 * sin) / TOTAL_MASS
    leverage = HALF_LENGTH * (4 / 3 - POLE_MASS * cos**2 / TOTAL_MASS)
    angular = (GRAVITY * sin - cos * push) / leverage
    linear = push - arm * angular * cos / TOTAL_MASS
    return state + TIME_STEP * jnp.stack([velocity, linear, angular_velocity, angular])


def reward(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, ""]:
    """1, also for the step that ends it."""
    del action
    return jnp.ones((), state.dtype)


def terminal(state: Float[Array, "4"]) -> Bool[Array, ""]:
    return (jnp.abs(state[0]) > LARGEST_POSITION) | (jnp.abs(state[2]) > LARGEST_ANGLE)


def gym_cartpole(
    points: int | Sequence[int] = 6,
    noise: Any = 1.0,
    discount: float = 0.98,
    law: Law = "linear",
) -> Problem:
    """A model of Gymnasium's CartPole-v1: state (position, velocity, angle, angular velocity), forces −10 and 10.

    `noise` multiplies the standard deviations 0.005, 0.02, 0.002 and 0.02, or is one factor for each axis. Velocities are
    cut at ±3; next states beyond lie at the wall. An even number of points per axis, without a node at rest, is best: with
    one, lookahead holds the pole so straight that the cart drifts (docs/environments.md). Score a policy with
    `hamq.evaluate(solution, "CartPole-v1")`.
    """
    name = "gym_cartpole"
    stds = standard_deviations(name, noise, NOISE)
    return Problem(
        grid=Grid([-bound for bound in UPPER], UPPER, points),
        actions=np.asarray([-FORCE, FORCE]),
        kernel=GaussianKernel(mean, [std**2 for std in stds]),
        reward=reward,
        discount=discount,
        terminal=terminal,
        name=name,
        law=law,
        expected=("noise", "outside"),
        axis_names=AXES,
        scene=cart_scene(0, (2,), (2 * HALF_LENGTH,), FORCE, LARGEST_POSITION),
    )
