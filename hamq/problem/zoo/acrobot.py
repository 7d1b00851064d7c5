"""Two links, torque at the joint between them; θ₁ = 0 hangs, θ₂ is relative to the first link.

    θ̈₂ = (a + D₂/D₁ φ₁ − m₂ l₁ l_c2 θ̇₁² sin θ₂ − φ₂) / (m₂ (l₂² + l_c2²) − D₂²/D₁)
    θ̈₁ = −(D₂ θ̈₂ + φ₁)/D₁

These are Sutton's equations with the moments of inertia mᵢ lᵢ², but for φ₁: the paper prints m₂ l_c2 where
the equations of motion have m₂ l₁ l_c2 before θ̇₂(θ̇₂ + 2θ̇₁) sin θ₂. With l₁ = 0.1 the printed term is ten
times too large, and the energy is not conserved without torque.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.problem.problem import Problem
from hamq.problem.zoo.preset import Preset, Sourced, build, inferred_covariance
from hamq.problem.zoo.scenes import acrobot_scene
from hamq.types import Law

TIME_STEP = Sourced(0.1, "assumed")
MASS = Sourced(0.1, "paper")
LENGTH = Sourced(0.1, "paper")
GRAVITY = Sourced(9.8, "paper")


def accelerations(
    state: Float[Array, "4"], action: Float[Array, ""], coriolis_arm: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(θ̈₁, θ̈₂); `coriolis_arm` is the factor of φ₁ that the paper leaves out (1) and mechanics wants (l₁)."""
    first, first_velocity, second, second_velocity = state
    m, l, g = MASS.value, LENGTH.value, GRAVITY.value  # both links are alike  # noqa: E741
    c = l / 2
    inertia = m * (l**2 + c**2)
    sin, cos = jnp.sin(second), jnp.cos(second)
    d1 = 2 * inertia + m * l**2 + 2 * m * l * c * cos
    d2 = inertia + m * l * c * cos
    phi2 = m * c * g * jnp.sin(first + second)
    coriolis = -m * coriolis_arm * c * second_velocity * (second_velocity + 2 * first_velocity) * sin
    phi1 = coriolis + (m * c + m * l) * g * jnp.sin(first) + phi2
    centrifugal = m * l * c * first_velocity**2 * sin
    second_acceleration = (action + d2 / d1 * phi1 - centrifugal - phi2) / (inertia - d2**2 / d1)
    return -(d2 * second_acceleration + phi1) / d1, second_acceleration


def paper_mean(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, "4"]:
    return _euler(state, *accelerations(state, action, 1.0))


def corrected_mean(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, "4"]:
    return _euler(state, *accelerations(state, action, LENGTH.value))


def _euler(state: Float[Array, "4"], first: Float[Array, ""], second: Float[Array, ""]) -> Float[Array, "4"]:
    return state + TIME_STEP.value * jnp.stack([state[1], first, state[3], second])


def reward(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, ""]:
    del action  # free, as printed
    return jnp.exp(-jnp.cos(state[0]) - 1) + jnp.exp(-jnp.cos(state[0] + state[2]) - 1)


PAPER = Preset(
    lower=Sourced((-math.pi, -10.0, -math.pi, -10.0), "paper"),
    upper=Sourced((math.pi, 10.0, math.pi, 10.0), "paper"),
    covariance=Sourced((0.686, 1.550, 0.686, 1.550), "paper"),
    action_range=Sourced((-1.0, 1.0), "paper"),
    time_step=TIME_STEP,
    physics={"mass": MASS, "length": LENGTH, "gravity": GRAVITY, "coriolis_arm": Sourced(1.0, "paper")},
    mean=paper_mean,
    reward=reward,
    axis_names=("link 1 angle", "link 1 velocity", "link 2 angle", "link 2 velocity"),
    scene=acrobot_scene((0, 2), (LENGTH.value, LENGTH.value)),
    circles=(0, 2),
    expected=("outside",),
)
PRESETS = {
    "paper": PAPER,
    "corrected": dataclasses.replace(
        PAPER,
        covariance=inferred_covariance(PAPER.lower.value, PAPER.upper.value),
        physics={**PAPER.physics, "coriolis_arm": Sourced(LENGTH.value, "peer")},
        mean=corrected_mean,
    ),
}


def acrobot(
    preset: str = "paper",
    points: int | Sequence[int] = 5,
    num_actions: int = 10,
    noise: float = 1.0,
    discount: float = 0.95,
    law: Law = "cell",
    periodic: bool | Sequence[bool] = False,
) -> Problem:
    """Swing two links up by the torque a ∈ [−1, 1] between them: state (θ₁, θ̇₁, θ₂, θ̇₂), upright at θ₁ = ±π.

    Reward exp(−cos θ₁ − 1) + exp(−cos(θ₁ + θ₂) − 1). Links of 0.1 kg and 0.1 m are far too light for such
    torques: in one time step (0.1, assumed) 97 % of the means leave the box, 86 % by more than 8 σ and some
    by 164 σ. The next velocities then sit at a wall, and Q* is not of low rank. The goal lies where the box
    ends; `periodic=True` joins the two ends. Preset `paper` has, as printed, Σ = 0.686 for the angles and
    φ₁ without its factor l₁; `corrected` has the rule's 0.868 and the standard φ₁.

    Options: `hamq.problem.zoo.preset.build`.
    """
    return build("acrobot", PRESETS, preset, points, num_actions, noise, discount, law, periodic)
