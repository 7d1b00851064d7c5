"""Rollouts that the page plays: what policies do from one start, with the same random numbers for all of them.

    animation = make_animation(problem, {"greedy": table_policy(problem, solution.q)})
    page = make_page(..., animations=[animation])

A rollout is one of `hamq.rollouts`, in the problem's own model. Its pictures are drawn here, from `problem.scene`, so that
the page needs to know lines, discs and boxes and nothing of pendulums. Without a scene only the curves are shown.

Frame t holds s_t, a_t, r(s_t, a_t) and Σ_{i≤t} γⁱ r_i. A rollout that reaches a terminal state has one last frame there,
paid nothing.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from hamq.control.rollouts import Policy, random_starts, rollouts
from hamq.problem.problem import Problem
from hamq.problem.scene import TONES, Box, Disc, Line, Scene, Shape
from hamq.tensor.backup import ended
from hamq.types import HamqError, Key

KINDS = (Line, Disc, Box)
"""Their places here are their numbers in the page, as those of tones are their places in TONES."""
UNITS = 8192
"""Lengths in the page are whole numbers, so many for the longer side of the view: finer than any screen, in two bytes."""
LARGEST = 2**15 - 1
NUM_STARTS, SPREAD = 64, 0.5
"""Where no start is given: the first of so many random states in the middle of the box that is not terminal."""


@dataclass(frozen=True, eq=False)
class Rollout:
    """One policy's; `returns[t]` is what it got up to and with step t. `frames[t]`: shapes, or None without a scene."""

    name: str
    states: Float[np.ndarray, "T d"]
    actions: Float[np.ndarray, "T k"]
    rewards: Float[np.ndarray, " T"]
    returns: Float[np.ndarray, " T"]
    has_ended: bool
    frames: tuple[tuple[Shape, ...], ...] | None

    def data(self, unit: float) -> dict[str, Any]:
        arrays = {"states": self.states, "actions": self.actions, "rewards": self.rewards, "returns": self.returns}
        drawn = None if self.frames is None else _packed(_whole_numbers(self.frames, unit), "<i2")
        head = {"name": self.name, "length": len(self.states), "hasEnded": self.has_ended, "frames": drawn}
        return head | {name: _packed(array, "<f4") for name, array in arrays.items()}


@dataclass(frozen=True, eq=False)
class Animation:
    """Rollouts on one problem; `view` is that of its scene."""

    rollouts: tuple[Rollout, ...]
    view: tuple[float, float, float, float] | None

    def data(self) -> dict[str, Any]:
        """What animation.js reads; `unit` is the length of 1 in its frames."""
        left, right, bottom, top = self.view or (0.0, 1.0, 0.0, 1.0)
        unit = max(right - left, top - bottom) / UNITS
        return {"view": self.view, "unit": unit, "rollouts": [rollout.data(unit) for rollout in self.rollouts]}


def make_animation(
    problem: Problem, policies: Mapping[str, Policy], start: Any = None, steps: int = 200, key: Key | int = 0
) -> Animation:
    """One rollout of each policy, states `[B, d]` → actions, from `start` `[d]`, by default a random state.

    With law="cell" the start is moved to its nearest node, as all states after it are.
    """
    start = _start(problem, start, key)
    taken: dict[str, list[np.ndarray]] = {name: [] for name in policies}
    watched = {name: _watched(policy, taken[name]) for name, policy in policies.items()}
    found = rollouts(problem, watched, starts=start[None, :], steps=steps, key=key)
    made = [_rollout(problem, name, found.states[name][:-1, 0], np.stack(taken[name])[:, 0]) for name in policies]
    return Animation(tuple(made), None if problem.scene is None else problem.scene.view)


def _start(problem: Problem, start: Any, key: Key | int) -> Float[np.ndarray, " d"]:
    d = problem.grid.dimension
    if start is None:
        candidates = random_starts(problem, NUM_STARTS, spread=SPREAD, key=key)
    else:
        candidates = np.atleast_2d(np.asarray(start, np.float32))
    if candidates.shape[1:] != (d,) or (start is not None and len(candidates) != 1):
        raise HamqError(f"make_animation: start must be one state of {d} coordinates, got {start!r}.")
    if not np.all(np.isfinite(candidates)):
        raise HamqError(f"make_animation: start must be finite, got {start!r}.")
    if problem.law != "linear":
        near = jax.vmap(problem.grid.coordinates)(jnp.asarray(candidates))
        candidates = np.asarray(problem.grid.lower) + np.asarray(problem.grid.spacing) * np.asarray(near)
    candidates = candidates.astype(np.float32)
    return candidates[int(np.argmin(np.asarray(ended(problem, jnp.asarray(candidates)))))]


def _watched(policy: Policy, taken: list[np.ndarray]) -> Policy:
    """The policy, with a list of the actions that it took."""

    def watched(states: Any) -> Any:
        taken.append(np.asarray(policy(states), np.float32))
        return taken[-1]

    return watched


def _rollout(problem: Problem, name: str, states: Float[np.ndarray, "T d"], actions: Float[np.ndarray, "T *k"]) -> Rollout:
    is_over = np.asarray(ended(problem, jnp.asarray(states)))
    length = int(np.argmax(is_over)) + 1 if is_over.any() else len(states)
    reward = jax.jit(jax.vmap(lambda state, action: jnp.asarray(problem.reward(state, action))))
    paid = np.where(is_over, 0, np.asarray(reward(jnp.asarray(states), jnp.asarray(actions)), np.float64))[:length]
    states, actions = states[:length], actions[:length]
    return Rollout(
        name=name,
        states=states,
        actions=actions.reshape(length, -1),
        rewards=paid,
        returns=np.cumsum(problem.discount ** np.arange(length) * paid),
        has_ended=bool(is_over.any()),
        frames=None if problem.scene is None else _drawn(problem.scene, states, actions),
    )


def _drawn(scene: Scene, states: Float[np.ndarray, "T d"], actions: Float[np.ndarray, "T *k"]) -> tuple:
    frames = tuple(tuple(scene.shapes(state, action)) for state, action in zip(states, actions, strict=True))
    for state, frame in zip(states, frames, strict=True):
        for shape in frame:
            if not isinstance(shape, KINDS) or shape.tone not in TONES or not np.all(np.isfinite(_coordinates(shape))):
                raise HamqError(
                    f"make_animation: the scene draws {shape!r} at the state {state.tolist()}; shapes are Line, Disc and "
                    f"Box with finite numbers and one of the tones {', '.join(TONES)}."
                )
    return frames


def _coordinates(shape: Shape) -> list[float]:
    if isinstance(shape, Line):
        return [*shape.start, *shape.end, shape.width]
    return [*shape.centre, *((shape.radius,) if isinstance(shape, Disc) else (shape.width, shape.height))]


def _whole_numbers(frames: Sequence[Sequence[Shape]], unit: float) -> list[int]:
    """All frames in one list: the number of shapes, then of each its kind and tone in one number and its coordinates."""
    numbers: list[int] = []
    for frame in frames:
        numbers.append(len(frame))
        for shape in frame:
            numbers.append(len(TONES) * KINDS.index(type(shape)) + TONES.index(shape.tone))
            numbers += [max(-LARGEST, min(LARGEST, round(number / unit))) for number in _coordinates(shape)]
    return numbers


def _packed(numbers: Any, kind: str) -> str:
    """base64 of little endian numbers; `Fields.decode` reads those of float32."""
    return base64.b64encode(np.asarray(numbers, kind).tobytes()).decode("ascii")
