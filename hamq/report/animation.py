"""Rollouts that the page plays: what the policies of runs do from one start, with the same random numbers for all of them.

Their steps come from `hamq.control.rollouts.traces`. Their pictures are drawn here, from `problem.scene`, so that the page
needs to know lines, discs and boxes and nothing of pendulums. Without a scene only the curves are shown.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hamq.control.rollouts import Policy, Trace, traces
from hamq.problem.problem import Problem
from hamq.problem.scene import TONES, Box, Disc, Line, Scene, Shape
from hamq.types import HamqError, Key

KINDS = (Line, Disc, Box)
"""Their places here are their numbers in the page, as those of tones are their places in TONES."""
UNITS = 8192
"""Lengths in the page are whole numbers, so many for the longer side of the view: finer than any screen, in two bytes."""
LARGEST = 2**15 - 1


class Rollout(NamedTuple):
    """One policy's, with a picture of every step: `frames[t]` are its shapes; None without a scene."""

    steps: Trace
    frames: tuple[tuple[Shape, ...], ...] | None

    def data(self, unit: float) -> dict[str, Any]:
        one, length = self.steps, len(self.steps.states)
        actions = one.actions.reshape(length, -1)
        arrays = {"states": one.states, "actions": actions, "rewards": one.rewards, "returns": one.returns}
        drawn = None if self.frames is None else _packed(_whole_numbers(self.frames, unit), "<i2")
        head = {"name": one.name, "length": length, "hasEnded": one.has_ended, "frames": drawn}
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
    """What `hamq.control.rollouts.traces` gives, with its pictures."""
    made = [Rollout(one, _frames(problem.scene, one)) for one in traces(problem, policies, start, steps, key)]
    return Animation(tuple(made), None if problem.scene is None else problem.scene.view)


def _frames(scene: Scene | None, rollout: Trace) -> tuple[tuple[Shape, ...], ...] | None:
    """None without a scene."""
    if scene is None:
        return None
    pairs = zip(rollout.states, rollout.actions, strict=True)
    frames = tuple(tuple(scene.shapes(state, action)) for state, action in pairs)
    for state, frame in zip(rollout.states, frames, strict=True):
        for shape in frame:
            if not isinstance(shape, KINDS) or shape.tone not in TONES or not np.all(np.isfinite(_coordinates(shape))):
                raise HamqError(
                    f"animation: the scene draws {shape!r} at the state {state.tolist()}; shapes are Line, Disc and "
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
