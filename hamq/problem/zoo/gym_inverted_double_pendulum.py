"""Gymnasium's InvertedDoublePendulum-v5 (MuJoCo): two poles of 4 kg on top of each other on a cart of 10 kg.

Motions in gym_mujoco.py, steps of 0.05 s, forces up to 500 N. With (x, y) the tip, at most 1.2 above the cart, a step pays

    10 − 0.01 x² − (y − 2)² − 0.001 θ̇₁² − 0.005 θ̇₂²     where it leads, while y > 1,

θ₂ being from the first pole; y ≤ 1 is the end. At rest that is 9.36, and to bring back a start costs less than 1 in all:
what a policy needs of the value function is hardly visible beside its level. In the six joint coordinates 31,104 and 60,025
nodes did not show it (40 and 29 steps on average); other coordinates do with 7,350.

A state here is z = COORDINATES·(x, θ₁, θ₂, ẋ, θ̇₁, θ̇₂), a fixed linear map made from the linear model about upright. The
linear-quadratic value with this reward (`hamq.lqr_policy`, discount 0.99) is minus a sum of five squares; a sixth is missing
because actions cost nothing. Rows 1 to 5 are these squares' roots, turned so that an action moves the first alone, the
others in the order of how far the starts spread along them; row 6 is the mode that dies out fastest (0.63 in each step).

So these axes know a good part of the answer: the regulator's own rule is to bring the first coordinate to 0 in every step.
Less knowing ones were tried without noise, on a rail without ends: with the principal axes of the same value (18,432 nodes)
and with the modes of the linear model (14,400) the poles stand for 300 steps, but the cart drifts 1.5 and 13 m away.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel, times
from hamq.problem.problem import Problem
from hamq.problem.scene import Scene
from hamq.problem.zoo.gym_mujoco import CartPoles, Pole, capsule, step
from hamq.problem.zoo.gym_pendulum import standard_deviations
from hamq.problem.zoo.scenes import cart_scene
from hamq.types import Law, require_count

POLE = Pole(capsule(0.045, 0.6), 0.3, 0.6)
MODEL = CartPoles(
    cart=capsule(0.1, 0.2),
    poles=(POLE, POLE),
    damping=0.05,
    gear=500.0,
    gravity=9.81,
    sideways=1e-5,
    time_step=0.01,
    frame_skip=5,
)
LARGEST_ACTION = 1.0
ALIVE = 10.0
LOWEST = 1.0
"""Height of the tip at the end."""
COORDINATES = (
    (0.11, 1.94, 3.51, 0.19, 0.67, 0.50),
    (-0.30, -2.70, -2.08, -0.40, -0.67, -0.37),
    (0.29, -0.24, -0.31, 0.41, 0.30, 0.08),
    (0.32, 0.10, -0.06, 0.00, -0.08, -0.06),
    (0.08, -0.02, -0.02, -0.08, 0.05, 0.07),
    (0.00, -0.79, 1.00, 0.00, 0.09, -0.11),
)
"""z = COORDINATES·joints, to two digits."""
UPPER = (0.9, 0.9, 0.7, 0.35, 0.22, 1.0)
"""Of the box, which is symmetric: where the linear-quadratic regulator takes the starts, and a third more."""
NOISE = (0.01, 0.01, 0.01, 0.01, 0.005, 0.01)
"""Standard deviations after one step, with noise=1."""
AXES = ("pushed", "falling", "moving", "away", "swaying", "fading")


def to_coordinates(joints: Any) -> Float[np.ndarray, "B 6"]:
    """States z `[B, 6]` from (x, θ₁, θ₂, ẋ, θ̇₁, θ̇₂)."""
    return np.asarray(joints, np.float64).reshape(-1, 6) @ np.asarray(COORDINATES).T


def to_joints(states: Any) -> Float[np.ndarray, "B 6"]:
    """(x, θ₁, θ₂, ẋ, θ̇₁, θ̇₂) from states z `[B, 6]`."""
    return np.asarray(states, np.float64).reshape(-1, 6) @ np.linalg.inv(np.asarray(COORDINATES)).T


def mean(state: Float[Array, "6"], action: Float[Array, ""]) -> Float[Array, "6"]:
    return times(jnp.asarray(COORDINATES, state.dtype), step(MODEL, joints_of(state), action))


def joints_of(state: Float[Array, "6"]) -> Float[Array, "6"]:
    """(x, θ₁, θ₂, ẋ, θ̇₁, θ̇₂) of one state."""
    return times(jnp.asarray(np.linalg.inv(np.asarray(COORDINATES)), state.dtype), state)


def tip(joints: Float[Array, "6"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """(x, y) of the end of the second pole."""
    first, second = joints[1], joints[1] + joints[2]
    return (
        joints[0] + POLE.length * (jnp.sin(first) + jnp.sin(second)),
        POLE.length * (jnp.cos(first) + jnp.cos(second)),
    )


def reward(state: Float[Array, "6"], action: Float[Array, ""]) -> Float[Array, ""]:
    """The environment's, of the mean next state, but that MuJoCo takes the tip from its last Runge-Kutta stage, 1e-4 off."""
    joints = step(MODEL, joints_of(state), action)
    across, height = tip(joints)
    alive = jnp.where(height > LOWEST, ALIVE, 0.0)
    return alive - 0.01 * across**2 - (height - 2) ** 2 - 0.001 * joints[4] ** 2 - 0.005 * joints[5] ** 2


def terminal(state: Float[Array, "6"]) -> Bool[Array, ""]:
    """Fallen, as the environment has it, or about to: at the walls of the first two coordinates."""
    is_lost = jnp.max(jnp.abs(state[:2]) / jnp.asarray(UPPER[:2], state.dtype)) > 0.999
    return (tip(joints_of(state))[1] <= LOWEST) | is_lost


def gym_inverted_double_pendulum(
    points: int | Sequence[int] = (7, 7, 5, 5, 3, 2),
    num_actions: int = 11,
    noise: Any = 1.0,
    discount: float = 0.95,
    law: Law = "linear",
) -> Problem:
    """A model of Gymnasium's InvertedDoublePendulum-v5 in coordinates of its own, see the module; actions in [−1, 1].

    The reward is the environment's. The walls of the first two coordinates are an end as well: the box keeps what leaves it
    at its walls, and without an end there two of its corners would look like places to rest. `noise` multiplies the standard
    deviations 0.01 (0.005 of the fifth coordinate), or is one factor for each axis. States are z; `to_coordinates` and
    `to_joints` of the module translate. Score a policy with `hamq.evaluate(solution, "InvertedDoublePendulum-v5")`: with ten
    draws a pair `lookahead` gets 9358 in each of 100 episodes, `interpolate` 242 on average; LQR gets 9360.
    """
    name = "gym_inverted_double_pendulum"
    require_count(f"{name}: num_actions", num_actions, 2, "they are spread evenly over [-1, 1]")
    stds = standard_deviations(name, noise, NOISE)
    return Problem(
        grid=Grid([-bound for bound in UPPER], UPPER, points),
        actions=np.linspace(-LARGEST_ACTION, LARGEST_ACTION, num_actions),
        kernel=GaussianKernel(mean, [std**2 for std in stds]),
        reward=reward,
        discount=discount,
        terminal=terminal,
        name=name,
        law=law,
        expected=("noise", "outside", "aliasing"),
        axis_names=AXES,
        scene=_scene(),
    )


@functools.cache
def _scene() -> Scene:
    joints = cart_scene(0, (1, 2), (POLE.length, POLE.length), LARGEST_ACTION, 1.0, is_relative=True)
    return Scene(joints.view, lambda state, action: joints.shapes(to_joints(state)[0], action))
