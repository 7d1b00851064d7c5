"""What the problems of the paper have in common: constants with their sources, two presets, one way to build.

Preset `paper` holds what is printed. Preset `corrected` replaces the covariances by the rule
sqrt(0.12·range), which every printed entry follows within 0.001, but for two with swapped digits (cartpole
0.641 for 0.614, acrobot 0.686 for 0.868). The entries are variances: σ = sqrt(entry). The rule that the
paper states, range = 6·sqrt(Σ), fits none of the printed entries; it is used where nothing is printed, in
the `paper` preset of the cart double pendulum.

Next mean = s + τ·ṡ, explicit Euler as printed. It may lie outside the box: the density is cut there, the
mean is not.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.scene import Scene
from hamq.types import HamqError, Law, UserFunction, require_count

Source = Literal["paper", "authors' code", "peer", "assumed"]
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Sourced(Generic[Value]):
    """A constant and where it comes from.

    `paper`: printed there. `authors' code`: their public script. `peer`: others' code or textbook for the
    same task. `assumed`: nobody says; our choice.
    """

    value: Value
    source: Source


NUM_ACTIONS = Sourced(10, "paper")
ACTION_SPACING = Sourced("equal, both ends included", "assumed")
DISCOUNT = Sourced(0.95, "authors' code")


@dataclasses.dataclass(frozen=True)
class Preset:
    """All constants of one problem, its dynamics and its reward; `physics` holds what only this problem has.

    `circles` are the axes that may be periodic: angles whose box is one full turn.
    `expected` names the warnings that the preset is known to deserve. `axis_names` and `scene` are for pictures.
    """

    lower: Sourced[tuple[float, ...]]
    upper: Sourced[tuple[float, ...]]
    covariance: Sourced[tuple[float, ...]]
    action_range: Sourced[tuple[float, float]]
    time_step: Sourced[float]
    physics: Mapping[str, Sourced]
    mean: UserFunction
    reward: UserFunction
    axis_names: tuple[str, ...]
    scene: Scene
    circles: tuple[int, ...] = ()
    expected: tuple[str, ...] = ()
    num_actions: Sourced[int] = NUM_ACTIONS
    action_spacing: Sourced[str] = ACTION_SPACING
    discount: Sourced[float] = DISCOUNT

    def provenance(self) -> dict[str, Sourced]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in fields.items() if isinstance(value, Sourced)} | dict(self.physics)


def inferred_covariance(lower: Sequence[float], upper: Sequence[float]) -> Sourced[tuple[float, ...]]:
    """Variances sqrt(0.12·range): the rule behind the printed digits, which the paper does not state."""
    return Sourced(tuple(math.sqrt(0.12 * (b - a)) for a, b in zip(lower, upper, strict=True)), "assumed")


def build(
    name: str,
    presets: Mapping[str, Preset],
    preset: str,
    points: int | Sequence[int],
    num_actions: int,
    noise: float,
    discount: float,
    law: Law,
    periodic: bool | Sequence[bool],
) -> Problem:
    """One problem of the paper.

    `noise` multiplies the standard deviations: the covariance is multiplied by its square. `periodic=True`
    makes circles of the angles whose box is a full turn; a list says so axis by axis. A circle's nodes
    start at −π and leave π out: with an even number of points both 0 and −π are among them.
    """
    constants = find_preset(name, presets, preset)
    if not is_number(noise) or noise <= 0:
        raise HamqError(f"{name}: noise must be a finite number above 0, got {noise!r}; it multiplies every σ.")
    lower, upper = constants.lower.value, constants.upper.value
    grid = Grid(lower, upper, points, _circles(name, constants, periodic))
    variances = [noise**2 * variance for variance in constants.covariance.value]
    return Problem(
        grid=grid,
        actions=_actions(name, constants.action_range.value, num_actions),
        kernel=GaussianKernel(constants.mean, variances),
        reward=constants.reward,
        discount=discount,
        name=name,
        law=law,
        expected=constants.expected,
        axis_names=constants.axis_names,
        scene=constants.scene,
    )


def find_preset(name: str, presets: Mapping[str, Preset], preset: str) -> Preset:
    if preset not in presets:
        raise HamqError(f"{name}: preset must be one of {', '.join(presets)}, got {preset!r}.")
    return presets[preset]


def is_number(value: Any) -> bool:
    is_real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return is_real and math.isfinite(value)


def _actions(name: str, ends: tuple[float, float], num_actions: int) -> np.ndarray:
    low, high = ends
    require_count(f"{name}: num_actions", num_actions, 1, f"they are spread evenly over [{low:g}, {high:g}]")
    return np.linspace(low, high, num_actions) if num_actions > 1 else np.asarray([(low + high) / 2])


def _circles(name: str, constants: Preset, periodic: bool | Sequence[bool]) -> tuple[bool, ...]:
    d, allowed = len(constants.lower.value), constants.circles
    if isinstance(periodic, (bool, np.bool_)):
        if periodic and not allowed:
            raise HamqError(f"{name}: periodic must be False, got True; no axis of its box is a full turn of an angle.")
        return tuple(bool(periodic) and i in allowed for i in range(d))
    chosen = tuple(bool(circle) for circle in periodic)
    if len(chosen) != d:
        raise HamqError(f"{name}: periodic has {len(chosen)} entries for {d} axes; give True, False or one per axis.")
    for i, circle in enumerate(chosen):
        if circle and i not in allowed:
            raise HamqError(
                f"{name}: periodic is True on axis {i}, which is not a full turn of an angle; "
                f"axes that may be circles: {', '.join(map(str, allowed)) or 'none'}."
            )
    return chosen
