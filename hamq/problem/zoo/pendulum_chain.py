"""Pendulums side by side on one axis, springs between neighbouring bobs, to be held upright by motors on some of them.

State (θ₁, ω₁, …, θ_N, ω_N), angles from upright. A spring of no length between two bobs has the energy
spring·(1 − cos(θᵢ₊₁ − θᵢ)), so that with spring·sin(θᵢ₊₁ − θᵢ) from each neighbour that there is

    ω̇ᵢ = gravity·sin θᵢ + Σⱼ spring·sin(θⱼ − θᵢ) − damping·ωᵢ + torqueᵢ,    ω'ᵢ = ωᵢ + τ ω̇ᵢ,    θ'ᵢ = θᵢ + τ ω'ᵢ,

gravity 1, spring 1.2, damping 0.5, torques within ±3, τ = 0.1, noise of σ 0.1 on every coordinate.

A pendulum without a motor hangs on its neighbours' springs: at most 1.2 each, where holding it 60° off takes 0.87, and
less again once they are more than a right angle ahead. The linear model knows neither: it drives the neighbour on and loses
both. `linear_model` is what its controller (LQR, clipped to ±3) is made from.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.zoo.chain import axis_names, check_chain, make_actions, push_on_each, pushed_links
from hamq.problem.zoo.scenes import pendulums_scene
from hamq.types import Law

GRAVITY = 1.0
SPRING = 1.2
DAMPING = 0.5
TIME_STEP = 0.1
NOISE = 0.1
LARGEST_ANGLE = 2.0
LARGEST_VELOCITY = 3.0
LARGEST_TORQUE = 3.0
VELOCITY_COST = 0.05
ACTION_COST = 0.01


def acceleration(
    angles: Float[Array, " N"], velocities: Float[Array, " N"], action: Float[Array, "..."]
) -> Float[Array, " N"]:
    """ω̇ of every pendulum."""
    free = jnp.zeros(1, angles.dtype)
    pull = jnp.concatenate([free, SPRING * jnp.sin(angles[1:] - angles[:-1]), free])
    torque = push_on_each(action, angles.shape[0])
    return GRAVITY * jnp.sin(angles) + pull[1:] - pull[:-1] - DAMPING * velocities + torque


def mean(state: Float[Array, " d"], action: Float[Array, "..."]) -> Float[Array, " d"]:
    """One semi-implicit Euler step: the angles move with the new velocities."""
    angles, velocities = state.reshape(-1, 2).T
    faster = velocities + TIME_STEP * acceleration(angles, velocities, action)
    return jnp.stack([angles + TIME_STEP * faster, faster], axis=1).reshape(-1)


def reward(state: Float[Array, " d"], action: Float[Array, "..."]) -> Float[Array, ""]:
    """Σ (cos θᵢ − 1 − 0.05 ωᵢ²) − 0.01‖a‖²."""
    angles, velocities = state.reshape(-1, 2).T
    return jnp.sum(jnp.cos(angles) - 1 - VELOCITY_COST * velocities**2) - ACTION_COST * jnp.sum(action**2)


def linear_model(num_pendulums: int, num_actuators: int) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d k"]]:
    """(A, B) with mean(s, a) ≈ A s + B a near upright."""
    ends = np.eye(num_pendulums, k=-1) + np.eye(num_pendulums, k=1)
    stiffness = GRAVITY * np.eye(num_pendulums) + SPRING * (ends - np.diag(ends.sum(axis=1)))
    chosen = np.eye(num_pendulums)[:, list(pushed_links(num_pendulums, num_actuators))]
    of_angles = np.kron(stiffness, [[TIME_STEP**2, 0], [TIME_STEP, 0]])
    of_velocities = np.kron(
        np.eye(num_pendulums), [[1, TIME_STEP * (1 - DAMPING * TIME_STEP)], [0, 1 - DAMPING * TIME_STEP]]
    )
    return of_angles + of_velocities, np.kron(chosen, [[TIME_STEP**2], [TIME_STEP]])


def pendulum_chain(
    num_pendulums: int = 2,
    num_actuators: int | None = None,
    points: Any = 11,
    num_actions: int = 9,
    discount: float = 0.95,
    law: Law = "linear",
    noise: float = 1.0,
) -> Problem:
    """Coupled pendulums, to be held upright from up to 60° off: dimension 2·num_pendulums, |θ| ≤ 2, |ω| ≤ 3.

    Reward Σ (cos θ − 1 − 0.05 ω²) − 0.01‖a‖². Motors are spread evenly, the first at the first pendulum; None: one for every
    two pendulums. Each has `num_actions` levels in [−3, 3]; the actions of one motor are scalars, those of several a
    product. `noise` multiplies the standard deviations. Not in the paper: all constants are ours, and there are no presets.
    """
    name = "pendulum_chain"
    if num_actuators is None and isinstance(num_pendulums, int):
        num_actuators = (num_pendulums + 1) // 2
    check_chain(name, "num_pendulums", num_pendulums, num_actuators, num_actions, noise)
    assert num_actuators is not None
    upper = [LARGEST_ANGLE, LARGEST_VELOCITY] * num_pendulums
    return Problem(
        grid=Grid([-bound for bound in upper], upper, points),
        actions=make_actions(LARGEST_TORQUE, num_actions, num_actuators),
        kernel=GaussianKernel(mean, [(noise * NOISE) ** 2] * len(upper)),
        reward=reward,
        discount=discount,
        name=name,
        law=law,
        axis_names=axis_names("pendulum", ("angle", "velocity"), num_pendulums),
        scene=pendulums_scene(tuple(range(0, len(upper), 2)), pushed_links(num_pendulums, num_actuators), LARGEST_TORQUE),
    )
