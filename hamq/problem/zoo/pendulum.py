"""Inverted pendulum with friction: θ̈ = sin θ − θ̇ + a, θ = 0 upright."""

import dataclasses
import math
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.problem.problem import Problem
from hamq.problem.zoo.preset import Preset, Sourced, build, inferred_covariance
from hamq.problem.zoo.scenes import pendulum_scene
from hamq.types import Law

TIME_STEP = Sourced(0.3, "peer")
TORQUE_COST = Sourced(0.1, "paper")


def mean(state: Float[Array, "2"], action: Float[Array, ""]) -> Float[Array, "2"]:
    angle, velocity = state
    acceleration = jnp.sin(angle) - velocity + action
    return jnp.stack([angle + TIME_STEP.value * velocity, velocity + TIME_STEP.value * acceleration])


def reward(state: Float[Array, "2"], action: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.exp(jnp.cos(state[0]) - 1) - TORQUE_COST.value * action**2


PAPER = Preset(
    lower=Sourced((-math.pi, -10.0), "paper"),
    upper=Sourced((math.pi, 10.0), "paper"),
    covariance=Sourced((0.868, 1.550), "paper"),
    action_range=Sourced((-1.0, 1.0), "paper"),
    time_step=TIME_STEP,
    physics={"torque_cost": TORQUE_COST},
    mean=mean,
    reward=reward,
    axis_names=("angle", "angular velocity"),
    scene=pendulum_scene(),
    circles=(0,),
)
PRESETS = {
    "paper": PAPER,
    "corrected": dataclasses.replace(PAPER, covariance=inferred_covariance(PAPER.lower.value, PAPER.upper.value)),
}


def pendulum(
    preset: str = "paper",
    points: int | Sequence[int] = 25,
    num_actions: int = 10,
    noise: float = 1.0,
    discount: float = 0.95,
    law: Law = "cell",
    periodic: bool | Sequence[bool] = False,
) -> Problem:
    """Swing a pendulum up and hold it: state (θ, θ̇), torque a ∈ [−1, 1], reward exp(cos θ − 1) − 0.1 a².

    The paper prints everything but the time step (0.3, from a peer's code for the same task) and the
    discount. Its box cuts the circle at θ = ±π, where the pendulum hangs: it cannot pass there unless
    `periodic=True`. 25 % of the pairs have a mean outside the box. The presets' variances differ by less
    than 0.001. Options: `hamq.problem.zoo.preset.build`.
    """
    return build("pendulum", PRESETS, preset, points, num_actions, noise, discount, law, periodic)
