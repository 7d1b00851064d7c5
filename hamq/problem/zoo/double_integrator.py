"""Double integrator: ẍ = a."""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.problem.problem import Problem
from hamq.problem.zoo.preset import Preset, Sourced, build, inferred_covariance
from hamq.problem.zoo.scenes import slider_scene
from hamq.types import Law

TIME_STEP = Sourced(0.1, "peer")


def mean(state: Float[Array, "2"], action: Float[Array, ""]) -> Float[Array, "2"]:
    position, velocity = state
    return jnp.stack([position + TIME_STEP.value * velocity, velocity + TIME_STEP.value * action])


def reward(state: Float[Array, "2"], action: Float[Array, ""]) -> Float[Array, ""]:
    del action  # free, as printed
    return -0.5 * jnp.sum(state**2)


PAPER = Preset(
    lower=Sourced((-3.0, -3.0), "paper"),
    upper=Sourced((3.0, 3.0), "paper"),
    covariance=Sourced((0.848, 0.848), "paper"),
    action_range=Sourced((-1.0, 1.0), "paper"),
    time_step=TIME_STEP,
    physics={},
    mean=mean,
    reward=reward,
    axis_names=("position", "velocity"),
    scene=slider_scene(reach=3.0),
)
PRESETS = {
    "paper": PAPER,
    "corrected": dataclasses.replace(PAPER, covariance=inferred_covariance(PAPER.lower.value, PAPER.upper.value)),
}


def double_integrator(
    preset: str = "paper",
    points: int | Sequence[int] = 25,
    num_actions: int = 10,
    noise: float = 1.0,
    discount: float = 0.95,
    law: Law = "cell",
    periodic: bool | Sequence[bool] = False,
) -> Problem:
    """Bring a mass to rest at 0: state (x, ẋ), force a ∈ [−1, 1], reward −½(x² + ẋ²).

    The paper prints everything but the time step (0.1, from a peer's code for the same task) and the
    discount. The noise (σ = 0.92 on both axes) dwarfs what one action does (0.1): without the differences
    between actions, Q* is still right to 0.2 %. The presets' variances differ by less than 0.001. No axis
    is an angle, so `periodic` must stay False. Options: `hamq.problem.zoo.preset.build`.
    """
    return build("double_integrator", PRESETS, preset, points, num_actions, noise, discount, law, periodic)
