"""Two uniform rods on a cart, angles absolute from upright: D(θ) q̈ + C(θ, q̇) q̇ + G(θ) = (a, 0, 0).

The paper gives the box and the reward; its supplement, where the equations should be, has none. Ours are
the standard ones of q = (x, θ₁, θ₂) for rods of masses m₁, m₂ and lengths l₁, l₂ on a cart of mass M:

    D = [ M + m₁ + m₂   b₁ cos θ₁             b₂ cos θ₂           ]    b₁ = (m₁/2 + m₂) l₁,   b₂ = m₂ l₂ / 2,
        [     ·         (m₁/3 + m₂) l₁²       b₂ l₁ cos(θ₁ − θ₂)  ]
        [     ·             ·                 m₂ l₂² / 3          ]    G = −g (0, b₁ sin θ₁, b₂ sin θ₂)

    C q̇ = (−b₁ θ̇₁² sin θ₁ − b₂ θ̇₂² sin θ₂,  b₂ l₁ θ̇₂² sin(θ₁ − θ₂),  −b₂ l₁ θ̇₁² sin(θ₁ − θ₂)).
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

TIME_STEP = Sourced(0.1, "assumed")
CART_MASS = Sourced(1.0, "assumed")
ROD_MASSES = Sourced((0.1, 0.1), "assumed")
ROD_LENGTHS = Sourced((0.5, 0.5), "assumed")
GRAVITY = Sourced(9.8, "assumed")


def accelerations(state: Float[Array, "6"], action: Float[Array, ""]) -> tuple[Float[Array, ""], ...]:
    """(ẍ, θ̈₁, θ̈₂): x eliminated from the symmetric 3 × 3 system, then Cramer's rule."""
    _, _, angle1, velocity1, angle2, velocity2 = state
    (m1, m2), (l1, l2), g = ROD_MASSES.value, ROD_LENGTHS.value, GRAVITY.value
    b1, b2 = (m1 / 2 + m2) * l1, m2 * l2 / 2
    total = CART_MASS.value + m1 + m2
    sin1, sin2, sin12 = jnp.sin(angle1), jnp.sin(angle2), jnp.sin(angle1 - angle2)
    x1, x2 = b1 * jnp.cos(angle1), b2 * jnp.cos(angle2)

    force = action + b1 * velocity1**2 * sin1 + b2 * velocity2**2 * sin2
    torque1 = g * b1 * sin1 - b2 * l1 * velocity2**2 * sin12 - x1 / total * force
    torque2 = g * b2 * sin2 + b2 * l1 * velocity1**2 * sin12 - x2 / total * force
    d11 = (m1 / 3 + m2) * l1**2 - x1**2 / total
    d12 = b2 * l1 * jnp.cos(angle1 - angle2) - x1 * x2 / total
    d22 = m2 * l2**2 / 3 - x2**2 / total
    determinant = d11 * d22 - d12**2
    acceleration1 = (d22 * torque1 - d12 * torque2) / determinant
    acceleration2 = (d11 * torque2 - d12 * torque1) / determinant
    return (force - x1 * acceleration1 - x2 * acceleration2) / total, acceleration1, acceleration2


def mean(state: Float[Array, "6"], action: Float[Array, ""]) -> Float[Array, "6"]:
    cart, first, second = accelerations(state, action)
    return state + TIME_STEP.value * jnp.stack([state[1], cart, state[3], first, state[5], second])


def reward(state: Float[Array, "6"], action: Float[Array, ""]) -> Float[Array, ""]:
    del action  # free, as printed
    return jnp.cos(15 * state[2]) ** 4 + jnp.cos(15 * state[4]) ** 4


_LOWER = (-2.4, -3.5, -math.pi, -3.0, -math.pi, -3.0)
_UPPER = (2.4, 3.5, math.pi, 3.0, math.pi, 3.0)
PAPER = Preset(
    lower=Sourced(_LOWER, "paper"),
    upper=Sourced(_UPPER, "paper"),
    covariance=Sourced(tuple(((b - a) / 6) ** 2 for a, b in zip(_LOWER, _UPPER, strict=True)), "paper"),
    action_range=Sourced((-10.0, 10.0), "paper"),
    time_step=TIME_STEP,
    physics={
        "cart_mass": CART_MASS,
        "rod_masses": ROD_MASSES,
        "rod_lengths": ROD_LENGTHS,
        "gravity": GRAVITY,
    },
    mean=mean,
    reward=reward,
    axis_names=(
        "cart position",
        "cart velocity",
        "pole 1 angle",
        "pole 1 velocity",
        "pole 2 angle",
        "pole 2 velocity",
    ),
    scene=cart_scene(0, (2, 4), ROD_LENGTHS.value, strongest=10.0, reach=2.4),
    circles=(2, 4),
    expected=("aliasing",),
)
PRESETS = {
    "paper": PAPER,
    "corrected": dataclasses.replace(PAPER, covariance=inferred_covariance(_LOWER, _UPPER)),
}


def cart_double_pendulum(
    preset: str = "paper",
    points: int | Sequence[int] = 5,
    num_actions: int = 10,
    noise: float = 1.0,
    discount: float = 0.95,
    law: Law = "cell",
    periodic: bool | Sequence[bool] = False,
) -> Problem:
    """Balance two rods on a cart: state (x, ẋ, θ₁, θ̇₁, θ₂, θ̇₂), force a ∈ [−10, 10].

    The reward cos⁴(15θ₁) + cos⁴(15θ₂) aliases: on the paper's 5 points over [−π, π] each term is 1, 0, 1,
    0, 1, so hanging pays as much as standing upright. 77 % of the pairs have a mean outside the box. Box,
    reward and "the range equals 6·sqrt(Σ)" are the paper's; equations, masses, lengths and the time step
    0.1 are assumed. Preset `paper`: variances (range/6)²; `corrected`: sqrt(0.12·range), the rule that the
    printed covariances of the other problems follow. Options: `hamq.problem.zoo.preset.build`.
    """
    return build("cart_double_pendulum", PRESETS, preset, points, num_actions, noise, discount, law, periodic)
