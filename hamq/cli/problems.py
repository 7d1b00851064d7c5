"""PROBLEM on the command line: the zoo with its options, and what makes a problem, and makes it again.

A field of a dataclass is an option: `num_actions` is `--num-actions`; tests/cli/test_options.py holds them to the functions
of the zoo. Nothing here imports JAX, so that `--help` is quick.
"""

import ast
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hamq.errors import HamqError


@dataclasses.dataclass(frozen=True)
class OwnOptions:
    """Keyword arguments of the function that makes the problem."""

    set: tuple[str, ...] = ()
    """name=value; may be repeated. A problem of the zoo takes lists this way: --set periodic=[True,False]."""


@dataclasses.dataclass(frozen=True)
class PaperOptions:
    """One of the paper's problems."""

    preset: Literal["paper", "corrected"] = "paper"
    """Constants as printed, or with what is known to be wrong mended."""
    points: str = "5"
    """Grid points per axis: one number, or one for each axis (9,9,5,5)."""
    num_actions: int = 10
    """Spread evenly over the range of the action."""
    noise: float = 1.0
    """Factor of the standard deviations."""
    discount: float = 0.95
    """γ."""
    law: Literal["cell", "linear", "point"] = "cell"
    """How the next state meets the grid."""
    periodic: bool = False
    """Make circles of the angles whose box is a full turn."""


@dataclasses.dataclass(frozen=True)
class AgentsOptions:
    """Agents on a line."""

    num_agents: int = 2
    """The dimension of the state."""
    strength: float = 3.0
    """Of the repulsion; 0 means none."""
    points: str = "9"
    """Grid points per axis: one number, or one for each axis (9,9)."""
    per_agent: bool | None = None
    """An action for each agent, or a common one; None: each up to 3 agents."""
    discount: float = 0.95
    """γ."""
    law: Literal["cell", "linear", "point"] = "cell"
    """How the next state meets the grid."""


@dataclasses.dataclass(frozen=True)
class SpringChainOptions:
    """Masses on springs."""

    num_masses: int = 2
    """Half of the dimension of the state."""
    num_actuators: int = 1
    """Masses that are pushed, spread evenly."""
    points: str = "9"
    """Grid points per axis: one number, or one for each axis (9,9,5,5)."""
    num_actions: int = 9
    """Levels of each actuator."""
    discount: float = 0.9
    """γ."""
    law: Literal["cell", "linear", "point"] = "linear"
    """How the next state meets the grid."""
    noise: float = 1.0
    """Factor of the standard deviations."""


@dataclasses.dataclass(frozen=True)
class PendulumChainOptions:
    """Pendulums side by side."""

    num_pendulums: int = 2
    """Half of the dimension of the state."""
    num_actuators: int | None = None
    """Pendulums with a motor, spread evenly; None: every second one."""
    points: str = "11"
    """Grid points per axis: one number, or one for each axis (9,9,5,5)."""
    num_actions: int = 9
    """Levels of each motor."""
    discount: float = 0.95
    """γ."""
    law: Literal["cell", "linear", "point"] = "linear"
    """How the next state meets the grid."""
    noise: float = 1.0
    """Factor of the standard deviations."""


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
class Entry:
    """A problem of the zoo as `hamq list` shows it."""

    dimension: int
    num_actions: int
    options: PaperOptions | AgentsOptions | SpringChainOptions | PendulumChainOptions | GymOptions
    description: str

    @property
    def num_states(self) -> int:
        points = [int(n) for n in self.options.points.split(",")]
        return math.prod(points) if len(points) > 1 else points[0] ** self.dimension


ZOO = {
    "pendulum": Entry(2, 10, PaperOptions(points="25"), "Swing a pendulum up and hold it"),
    "double_integrator": Entry(2, 10, PaperOptions(points="25"), "Bring a mass to rest at 0"),
    "cartpole": Entry(4, 10, PaperOptions(), "Keep a pole upright on a cart"),
    "acrobot": Entry(4, 10, PaperOptions(), "Swing two links up by the torque between them"),
    "cart_double_pendulum": Entry(6, 10, PaperOptions(), "Balance two rods on a cart"),
    "repelling_agents": Entry(2, 9, AgentsOptions(), "Agents that keep apart: a density without a closed normaliser"),
    "spring_chain": Entry(4, 9, SpringChainOptions(), "Bring masses on springs to rest, in any dimension"),
    "pendulum_chain": Entry(4, 9, PendulumChainOptions(), "Hold coupled pendulums upright, half of them driven"),
    "gym_pendulum": Entry(2, 11, ContinuousGymOptions("25", discount=0.97), "Gymnasium's Pendulum-v1"),
    "gym_cartpole": Entry(4, 2, GymOptions(), "Gymnasium's CartPole-v1"),
    "gym_acrobot": Entry(4, 3, GymOptions("8,6,11,11", discount=0.99), "Gymnasium's Acrobot-v1"),
    "gym_inverted_pendulum": Entry(4, 11, ContinuousGymOptions(), "Gymnasium's InvertedPendulum-v5 (MuJoCo)"),
    "gym_inverted_double_pendulum": Entry(
        6, 11, ContinuousGymOptions("7,7,5,5,3,2", discount=0.95), "Gymnasium's InvertedDoublePendulum-v5 (MuJoCo)"
    ),
}


def named(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """(name, keyword arguments) of what makes the problem; a file has its absolute path, the zoo all of its options."""
    given = dict(_assignment(text) for text in options["own"].set)
    if name in ZOO:
        own = dataclasses.asdict(options["problem"])
        return name, own | {"points": _points(own["points"])} | given
    source, _, function = name.rpartition(":")
    if source.endswith(".py"):
        source = str(Path(source).absolute())
    return f"{source}:{function}", given


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise HamqError(f"--set takes name=value, got {text!r}.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word


def _points(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise HamqError(f"--points takes a whole number, or one for each axis (9,9,5,5), got {text!r}.") from None
    return numbers[0] if len(numbers) == 1 else numbers
