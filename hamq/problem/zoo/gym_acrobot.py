"""Gymnasium's Acrobot-v1: two links hang, a motor at the joint between them swings the tip above the bar.

State (θ₁, θ₂, ω₁, ω₂), θ₁ = 0 hangs, θ₂ relative to the first link; links of 1 kg and 1 m with their centres in the middle
and moments of inertia 1, g = 9.8, torques −1, 0, 1. With d₁, d₂, φ₁, φ₂ as in Sutton and Barto's book,

    θ̈₂ = (a + d₂/d₁ φ₁ − ½ω₁² sin θ₂ − φ₂)/(5/4 − d₂²/d₁),    θ̈₁ = −(d₂ θ̈₂ + φ₁)/d₁,

one step of Runge and Kutta's fourth-order rule over τ = 0.2; then |ω₁| ≤ 4π and |ω₂| ≤ 9π are bounds. Reward −1 in every
step but the one after which −cos θ₁ − cos(θ₁ + θ₂) > 1, the end.
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
from hamq.problem.zoo.scenes import acrobot_scene
from hamq.types import Law

GRAVITY = 9.8
MASS = 1.0
LENGTH = 1.0
CENTRE = 0.5
INERTIA = 1.0
TIME_STEP = 0.2
HEIGHT = 1.0
"""Of the tip above the bar, where the episode ends."""
LARGEST_VELOCITIES = (4 * math.pi, 9 * math.pi)
UPPER = (math.pi, math.pi, 1.5 * math.pi, 3 * math.pi)
"""Of the box: the velocities that a swing up needs."""
NOISE = (0.02, 0.02, 0.05, 0.1)
"""Standard deviations after one step, with noise=1."""
AXES = ("first angle", "second angle", "first velocity", "second velocity")


def rates(state: Float[Array, "4"], torque: Float[Array, ""]) -> Float[Array, "4"]:
    """Time derivatives; "book" in the environment's words."""
    first, second, first_velocity, second_velocity = state
    m, l, c, g = MASS, LENGTH, CENTRE, GRAVITY  # both links are alike  # noqa: E741
    sin, cos = jnp.sin(second), jnp.cos(second)
    d1 = m * c**2 + m * (l**2 + c**2 + 2 * l * c * cos) + 2 * INERTIA
    d2 = m * (c**2 + l * c * cos) + INERTIA
    phi2 = m * c * g * jnp.sin(first + second)
    coriolis = -m * l * c * second_velocity * (second_velocity + 2 * first_velocity) * sin
    phi1 = coriolis + (m * c + m * l) * g * jnp.sin(first) + phi2
    centrifugal = m * l * c * first_velocity**2 * sin
    of_second = (torque + d2 / d1 * phi1 - centrifugal - phi2) / (m * c**2 + INERTIA - d2**2 / d1)
    return jnp.stack([first_velocity, second_velocity, -(d2 * of_second + phi1) / d1, of_second])


def mean(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, "4"]:
    """One Runge–Kutta step, the velocities bounded."""
    h = TIME_STEP
    k1 = rates(state, action)
    k2 = rates(state + h / 2 * k1, action)
    k3 = rates(state + h / 2 * k2, action)
    k4 = rates(state + h * k3, action)
    moved = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    bounds = jnp.asarray(LARGEST_VELOCITIES, moved.dtype)
    return jnp.concatenate([moved[:2], jnp.clip(moved[2:], -bounds, bounds)])


def terminal(state: Float[Array, "4"]) -> Bool[Array, ""]:
    return -jnp.cos(state[0]) - jnp.cos(state[0] + state[1]) > HEIGHT


def reward(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, ""]:
    """0 where the step without noise ends it, −1 elsewhere."""
    return jnp.where(terminal(mean(state, action)), 0.0, -1.0).astype(state.dtype)


def gym_acrobot(
    points: int | Sequence[int] = (8, 6, 11, 11),
    noise: Any = 1.0,
    discount: float = 0.99,
    law: Law = "linear",
) -> Problem:
    """A model of Gymnasium's Acrobot-v1: state (first and second angle, first and second velocity), torques −1, 0 and 1.

    `noise` multiplies the standard deviations 0.02, 0.02, 0.05 and 0.1, or is one factor for each axis. The box has the
    velocities up to 1.5π and 3π; faster ones lie at the wall. Ten draws per pair are plenty (sampler=HMC(10)).
    Score a policy with `hamq.evaluate(solution, "Acrobot-v1")`.
    """
    name = "gym_acrobot"
    stds = standard_deviations(name, noise, NOISE)
    return Problem(
        grid=Grid([-bound for bound in UPPER], UPPER, points, [True, True, False, False]),
        actions=np.asarray([-1.0, 0.0, 1.0]),
        kernel=GaussianKernel(mean, [std**2 for std in stds]),
        reward=reward,
        discount=discount,
        terminal=terminal,
        name=name,
        law=law,
        expected=("aliasing", "noise", "outside"),
        axis_names=AXES,
        scene=acrobot_scene((0, 1), (LENGTH, LENGTH), 1.0, HEIGHT),
    )
