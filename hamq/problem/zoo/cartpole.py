"""Pole on a cart, θ = 0 upright; the paper's equations are those of Barto, Sutton and Anderson:

    l (4/3 (m + M) − m cos²θ) θ̈ = (m + M) g sin θ − (a + m l θ̇² sin θ) cos θ
    (m + M) ẍ = a + m l (θ̇² sin θ − θ̈ cos θ)

The paper calls l the length of the pole; in these equations it is half of it.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.problem.problem import Problem
from hamq.problem.zoo.preset import Preset, Sourced, build, inferred_covariance
from hamq.problem.zoo.scenes import cart_scene
from hamq.types import Law

TIME_STEP = Sourced(0.1, "authors' code")
POLE_MASS = Sourced(0.1, "paper")
CART_MASS = Sourced(1.0, "paper")
POLE_LENGTH = Sourced(0.5, "paper")
GRAVITY = Sourced(9.8, "paper")


def accelerations(state: Float[Array, "4"], action: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(θ̈, ẍ)."""
    angle, angular, _, _ = state
    m, l, g = POLE_MASS.value, POLE_LENGTH.value, GRAVITY.value  # noqa: E741
    total = m + CART_MASS.value
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    swing = m * l * angular**2 * sin
    angle_acceleration = (total * g * sin - (action + swing) * cos) / (l * (4 / 3 * total - m * cos**2))
    return angle_acceleration, (action + swing - m * l * angle_acceleration * cos) / total


def mean(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, "4"]:
    angle_acceleration, cart_acceleration = accelerations(state, action)
    return state + TIME_STEP.value * jnp.stack([state[1], angle_acceleration, state[3], cart_acceleration])


def reward(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, ""]:
    del action  # free, as printed
    return jnp.cos(15 * state[0]) ** 4


PAPER = Preset(
    lower=Sourced((-math.pi / 2, -3.0, -2.4, -3.5), "paper"),
    upper=Sourced((math.pi / 2, 3.0, 2.4, 3.5), "paper"),
    covariance=Sourced((0.641, 0.848, 0.759, 0.917), "paper"),
    action_range=Sourced((-10.0, 10.0), "paper"),
    time_step=TIME_STEP,
    physics={
        "pole_mass": POLE_MASS,
        "cart_mass": CART_MASS,
        "pole_length": POLE_LENGTH,
        "gravity": GRAVITY,
    },
    mean=mean,
    reward=reward,
    axis_names=("pole angle", "angular velocity", "cart position", "cart velocity"),
    scene=cart_scene(2, (0,), (2 * POLE_LENGTH.value,), strongest=10.0, reach=2.4),
    expected=("aliasing",),
)
PRESETS = {
    "paper": PAPER,
    "corrected": dataclasses.replace(PAPER, covariance=inferred_covariance(PAPER.lower.value, PAPER.upper.value)),
}


def cartpole(
    preset: str = "paper",
    points: int | Sequence[int] = 5,
    num_actions: int = 10,
    noise: float = 1.0,
    discount: float = 0.95,
    law: Law = "cell",
    periodic: bool | Sequence[bool] = False,
) -> Problem:
    """Keep a pole upright on a cart: state (θ, θ̇, x, ẋ), force a ∈ [−10, 10], reward cos⁴(15θ).

    The reward has 15 peaks in the box and aliases: on the paper's 5 points it is cos⁴θ (0, ¼, 1, ¼, 0),
    another function. 53 % of the pairs have a mean outside the box. Preset `paper` has Σ = 0.641 for θ as
    printed; `corrected` has the rule's 0.614. The time step 0.1 is from the authors' code. The box holds
    half a turn of θ, so `periodic` must stay False. Options: `hamq.problem.zoo.preset.build`.
    """
    return build("cartpole", PRESETS, preset, points, num_actions, noise, discount, law, periodic)
