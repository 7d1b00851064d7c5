"""Gymnasium's InvertedPendulum-v5 (MuJoCo): a pole of 5 kg on a cart of 10 kg, to be kept upright by a motor.

State (x, θ, ẋ, θ̇), the environment's observation; motions in gym_mujoco.py, steps of 0.04 s; the pole leans by 0.001 over
its 0.6 m. A step pays 1 while |θ| ≤ 0.2 where it leads, and is the last where not. Nothing in that says where the cart
should be. The rail has soft stops at |x| = 1, which are not in the model: here they are an end as well. Without that end the
same solver's policy ran into a stop and fell after 62 steps.

The motor could throw the cart to the stop within 0.3 s; the actions here are a third of its range at most. As in
gym_cartpole.py the walls lie a little beyond the ends, so that the outermost nodes in x and θ are terminal.
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
from hamq.problem.zoo.gym_mujoco import CartPoles, Pole, capsule, step
from hamq.problem.zoo.gym_pendulum import standard_deviations
from hamq.problem.zoo.scenes import cart_scene
from hamq.types import Law, require_count

LENGTH = math.hypot(0.6, 0.001)
MODEL = CartPoles(
    cart=capsule(0.1, 0.2),
    poles=(Pole(capsule(0.049, LENGTH), LENGTH / 2, LENGTH, math.atan(0.001 / 0.6)),),
    damping=1.0,
    gear=100.0,
    gravity=9.81,
    sideways=0.0,
    time_step=0.02,
    frame_skip=2,
)
LARGEST_POSITION = 0.95
LARGEST_ANGLE = 0.2
LARGEST_ACTION = 1.0
"""Of those used; the environment takes up to 3."""
UPPER = (1.0, 0.22, 2.0, 2.0)
"""Of the box, which is symmetric."""
NOISE = (0.005, 0.002, 0.02, 0.02)
"""Standard deviations after one step, with noise=1."""
AXES = ("position", "angle", "velocity", "angular velocity")


def mean(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, "4"]:
    return step(MODEL, state, action)


def reward(state: Float[Array, "4"], action: Float[Array, ""]) -> Float[Array, ""]:
    """The environment's: 1 where the pole still stands after the step."""
    return (jnp.abs(mean(state, action)[1]) <= LARGEST_ANGLE).astype(state.dtype)


def terminal(state: Float[Array, "4"]) -> Bool[Array, ""]:
    return (jnp.abs(state[0]) > LARGEST_POSITION) | (jnp.abs(state[1]) > LARGEST_ANGLE)


def gym_inverted_pendulum(
    points: int | Sequence[int] = 6,
    num_actions: int = 11,
    noise: Any = 1.0,
    discount: float = 0.98,
    law: Law = "linear",
) -> Problem:
    """A model of Gymnasium's InvertedPendulum-v5: state (position, angle, velocity, angular velocity), actions in [−1, 1].

    The reward is the environment's; |x| > 0.95 is an end as well as |θ| > 0.2. `noise` multiplies the standard deviations
    0.005, 0.002, 0.02 and 0.02, or is one factor for each axis. Score a policy with `hamq.evaluate(solution,
    "InvertedPendulum-v5")`: with ten draws a pair `lookahead` gets 1000 in each of 100 episodes, `interpolate` 75.
    """
    name = "gym_inverted_pendulum"
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
        expected=("noise", "outside"),
        axis_names=AXES,
        scene=cart_scene(0, (1,), (0.6,), LARGEST_ACTION, 1.0),
    )
