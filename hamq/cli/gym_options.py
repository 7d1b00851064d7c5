"""Options of `hamq evaluate` and of the models of Gymnasium's environments, as options.py has those of the others."""

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class GymOptions:
    """A model of an environment whose actions are given."""

    points: str = "6"
    """Grid points per axis: one number, or one for each axis (8,6,11,11)."""
    noise: float = 1.0
    """Factor of the standard deviations; one for each axis as --set noise=[1,1,2,2]."""
    discount: float = 0.98
    """γ."""
    law: Literal["cell", "linear", "point"] = "linear"
    """How the next state meets the grid."""


@dataclasses.dataclass(frozen=True)
class ContinuousGymOptions(GymOptions):
    """A model of an environment whose actions are a range."""

    num_actions: int = 11
    """Spread evenly over the range of the action."""


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """The environment, how an action is read from Q, and what is printed; see docs/environments.md."""

    env: str | None = None
    """The id of the environment, such as Pendulum-v1."""
    episodes: int = 100
    """How many; episode i has seed + i."""
    decoder: Literal["nearest", "interpolate", "lookahead"] = "lookahead"
    """argmax of Q at the nearest node, of Q between the nodes, or of one step through the model."""
    seed: int = 0
    """Of the first episode."""
    json: bool = False
    """Print one JSON object on stdout."""
