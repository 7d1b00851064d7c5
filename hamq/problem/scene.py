"""What a state looks like: lines, discs and boxes in a plane, for animations and rendered frames. Solvers never look at it.

scene = Scene(view=(-1.2, 1.2, -1.2, 1.2), shapes=lambda state, action: [Line((0, 0), (np.sin(state[0]), np.cos(state[0])))])
problem = hamq.Problem(..., scene=scene, axis_names=["angle", "velocity"])
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Num

from hamq.types import HamqError

Tone = Literal["body", "accent", "ground", "force"]
"""Colours are the drawer's: things that move, things that matter most, what stands still, and what the action does."""
TONES = ("body", "accent", "ground", "force")
Point = tuple[float, float]


class Line(NamedTuple):
    """From `start` to `end`, `width` in the units of the view."""

    start: Point
    end: Point
    width: float = 0.06
    tone: Tone = "body"


class Disc(NamedTuple):
    centre: Point
    radius: float
    tone: Tone = "body"


class Box(NamedTuple):
    """An upright rectangle around `centre`."""

    centre: Point
    width: float
    height: float
    tone: Tone = "body"


Shape = Line | Disc | Box


@dataclass(frozen=True)
class Scene:
    """`shapes(state, action)`: what is drawn of one state `[d]` and one action, in NumPy, the lowest first.

    `view` is (left, right, bottom, top) of the plane that is shown; one unit is as long across as up.
    """

    view: tuple[float, float, float, float]
    shapes: Callable[[Num[np.ndarray, " d"], Any], Sequence[Shape]]

    def __post_init__(self):
        view = tuple(float(v) for v in self.view)
        if len(view) != 4 or not all(map(math.isfinite, view)) or view[0] >= view[1] or view[2] >= view[3]:
            raise HamqError(
                f"Scene: view must be (left, right, bottom, top) with left < right and bottom < top, got {self.view}."
            )
        if not callable(self.shapes):
            raise HamqError(f"Scene: shapes must be a function of (state, action), got {self.shapes!r}.")
        object.__setattr__(self, "view", view)
