"""Environments that others wrote: how their observations become states of our models, and our actions theirs.

A state map takes observations `[B, o]` and gives states `[B, d]` with the axes of the model in the zoo; an action map takes
the model's actions `[B]` (or `[B, k]`) and gives one action of the environment for each.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.problem.zoo.gym_inverted_double_pendulum import AXES as DOUBLE_PENDULUM_AXES
from hamq.problem.zoo.gym_inverted_double_pendulum import to_coordinates

StateMap = Callable[[Any], Any]
ActionMap = Callable[[Any], Any]


class Known(NamedTuple):
    """The maps of one environment, and the model of the zoo whose axes its states have."""

    problem: str
    axis_names: tuple[str, ...]
    state_map: StateMap
    action_map: ActionMap


def pendulum_state(observations: Float[np.ndarray, "B 3"]) -> Float[np.ndarray, "B 2"]:
    """(cos θ, sin θ, ω) → (θ, ω)."""
    cos, sin, velocity = observations.T
    return np.stack([np.arctan2(sin, cos), velocity], axis=1)


def acrobot_state(observations: Float[np.ndarray, "B 6"]) -> Float[np.ndarray, "B 4"]:
    """(cos θ₁, sin θ₁, cos θ₂, sin θ₂, ω₁, ω₂) → (θ₁, θ₂, ω₁, ω₂)."""
    cos1, sin1, cos2, sin2, velocity1, velocity2 = observations.T
    return np.stack([np.arctan2(sin1, cos1), np.arctan2(sin2, cos2), velocity1, velocity2], axis=1)


def double_pendulum_state(observations: Float[np.ndarray, "B o"]) -> Float[np.ndarray, "B 6"]:
    """(x, sin θ₁, sin θ₂, cos θ₁, cos θ₂, ẋ, ω₁, ω₂, …) → the model's coordinates of (x, θ₁, θ₂, ẋ, ω₁, ω₂)."""
    x, sin1, sin2, cos1, cos2, velocity, velocity1, velocity2 = observations.T[:8]
    joints = [x, np.arctan2(sin1, cos1), np.arctan2(sin2, cos2), velocity, velocity1, velocity2]
    return to_coordinates(np.stack(joints, axis=1))


def same_state(observations: Float[np.ndarray, "B o"]) -> Float[np.ndarray, "B o"]:
    return observations


def push_left_or_right(actions: Float[np.ndarray, " B"]) -> Any:
    """A force to the right is 1, every other 0."""
    return (np.asarray(actions) > 0).astype(np.int64)


def three_torques(actions: Float[np.ndarray, " B"]) -> Any:
    """−1, 0, 1 → 0, 1, 2."""
    return np.rint(np.clip(actions, -1, 1)).astype(np.int64) + 1


def as_vectors(actions: Float[np.ndarray, "B *k"]) -> Any:
    """Numbers as vectors of length 1, in float32."""
    actions = np.asarray(actions, np.float32)
    return actions.reshape(len(actions), -1)


KNOWN = {
    "Pendulum-v1": Known("gym_pendulum", ("angle", "velocity"), pendulum_state, as_vectors),
    "CartPole-v1": Known(
        "gym_cartpole", ("position", "velocity", "angle", "angular velocity"), same_state, push_left_or_right
    ),
    "Acrobot-v1": Known(
        "gym_acrobot", ("first angle", "second angle", "first velocity", "second velocity"), acrobot_state, three_torques
    ),
    "InvertedPendulum-v5": Known(
        "gym_inverted_pendulum", ("position", "angle", "velocity", "angular velocity"), same_state, as_vectors
    ),
    "InvertedDoublePendulum-v5": Known(
        "gym_inverted_double_pendulum",
        DOUBLE_PENDULUM_AXES,
        double_pendulum_state,
        as_vectors,
    ),
}
"""By the id under which Gymnasium makes them."""
