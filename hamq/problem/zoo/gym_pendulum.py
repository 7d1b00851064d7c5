"""Gymnasium's Pendulum-v1: swing a rod up and hold it, with a torque too weak to lift it at once.

State (θ, ω), θ = 0 upright, with g = 10, m = l = 1, τ = 0.05, |u| ≤ 2 and |ω| ≤ 8:

    ω' = clip(ω + τ (3g/2l·sin θ + 3/(ml²)·u)),    θ' = θ + τ ω',    reward −(θ² + 0.1 ω² + 0.001 u²), θ in [−π, π),

word for word the environment's own step, with which `tests/problem/test_gym_models.py` compares it. The environment has no
noise; ours is there because a density is what is sampled, and small against the spacing of the grid.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.zoo.preset import is_number
from hamq.problem.zoo.scenes import pendulum_scene
from hamq.types import HamqError, Law, require_count

GRAVITY = 10.0
MASS = 1.0
LENGTH = 1.0
TIME_STEP = 0.05
LARGEST_TORQUE = 2.0
LARGEST_VELOCITY = 8.0
NOISE = (0.01, 0.05)
"""Standard deviations of angle and velocity after one step, with noise=1."""
AXES = ("angle", "velocity")


def mean(state: Float[Array, "2"], action: Float[Array, ""]) -> Float[Array, "2"]:
    """Semi-implicit Euler: the angle moves with the new, clipped velocity."""
    angle, velocity = state
    acceleration = 3 * GRAVITY / (2 * LENGTH) * jnp.sin(angle) + 3 / (MASS * LENGTH**2) * action
    faster = jnp.clip(velocity + TIME_STEP * acceleration, -LARGEST_VELOCITY, LARGEST_VELOCITY)
    return jnp.stack([angle + TIME_STEP * faster, faster])


def reward(state: Float[Array, "2"], action: Float[Array, ""]) -> Float[Array, ""]:
    angle = (state[0] + math.pi) % (2 * math.pi) - math.pi
    return -(angle**2 + 0.1 * state[1] ** 2 + 0.001 * action**2)


def standard_deviations(name: str, noise: Any, of_one: Sequence[float]) -> list[float]:
    """`noise` times those of noise=1, one factor for all axes or one for each."""
    factors = list(noise) if isinstance(noise, (list, tuple, np.ndarray)) else [noise] * len(of_one)
    if len(factors) != len(of_one) or not all(is_number(factor) and factor > 0 for factor in factors):
        raise HamqError(
            f"{name}: noise must be a number above 0 or {len(of_one)} of them, one per axis, got {noise!r}; it multiplies "
            f"the standard deviations {', '.join(f'{std:g}' for std in of_one)}."
        )
    return [float(factor) * std for factor, std in zip(factors, of_one, strict=True)]


def gym_pendulum(
    points: int | Sequence[int] = 25,
    num_actions: int = 11,
    noise: Any = 1.0,
    discount: float = 0.97,
    law: Law = "linear",
) -> Problem:
    """A model of Gymnasium's Pendulum-v1: state (angle from upright, velocity), torques in [−2, 2].

    `noise` multiplies the standard deviations 0.01 of the angle and 0.05 of the velocity, or is one factor for each axis.
    Score a policy with `hamq.evaluate(solution, "Pendulum-v1")`.
    """
    name = "gym_pendulum"
    require_count(f"{name}: num_actions", num_actions, 2, "they are spread evenly over [-2, 2]")
    stds = standard_deviations(name, noise, NOISE)
    return Problem(
        grid=Grid([-math.pi, -LARGEST_VELOCITY], [math.pi, LARGEST_VELOCITY], points, [True, False]),
        actions=np.linspace(-LARGEST_TORQUE, LARGEST_TORQUE, num_actions),
        kernel=GaussianKernel(mean, [std**2 for std in stds]),
        reward=reward,
        discount=discount,
        name=name,
        law=law,
        expected=("noise",),
        axis_names=AXES,
        scene=pendulum_scene(0, LENGTH, LARGEST_TORQUE, is_clockwise=False),
    )
