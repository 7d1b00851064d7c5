"""One density of the bank: a frozen record that knows nothing of the library.

`logdensity(xp, next_state, state, action)` is written once for NumPy and for `jax.numpy` (`xp`). It only indexes its
arguments (`next_state[0]`): JAX calls it with vectors `[d]`, NumPy with d arrays that broadcast. Parameters are Python
numbers, deliberately no multiples of a spacing or of half a cell.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def wave_reward(xp, state, action):
    """The reward of the issue, cut to the dimension at hand; on a line the action costs less, or nobody would brake."""
    if len(state) == 1:
        return xp.sin(2.0 * state[0]) - 0.03 * action**2
    return xp.sin(2.0 * state[0]) + 0.5 * xp.cos(state[1] * (state[2] if len(state) > 2 else 1.3)) - 0.1 * action**2


@dataclasses.dataclass(frozen=True)
class Density:
    """A log-density up to a constant, its grid, and what the reference needs in order to integrate it.

    centre      (state, action) → d numbers about which the mass lies
    scale       length over which the density changes smoothly: the width of a panel of the reference's quadrature
    reach       distance from the centre, on every axis, beyond which less than 1e-7 of the mass lies; None: the whole box
    breaks      (state, action) → for every axis the places where the density jumps or has a kink, parallel to the axes
    order       Gauss points per panel and axis
    """

    name: str
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    points: tuple[int, ...]
    logdensity: Function
    centre: Function
    scale: float
    traits: tuple[str, ...]
    note: str = ""
    reach: float | None = None
    breaks: Function | None = None
    order: int = 4
    periodic: tuple[bool, ...] | None = None
    actions: tuple[float, ...] = (-1.0, 0.0, 1.0)
    reward: Function = wave_reward
    discount: float = 0.9
    law: str = "cell"

    @property
    def dimension(self) -> int:
        return len(self.points)

    @property
    def circles(self) -> tuple[bool, ...]:
        return self.periodic or (False,) * self.dimension

    @property
    def widths(self) -> tuple[float, ...]:
        return tuple(high - low for low, high in zip(self.lower, self.upper, strict=True))

    @property
    def num_states(self) -> int:
        return math.prod(self.points)


def normal(u, std):
    """log of a normal density at u, with its constant: mixtures need it."""
    return -0.5 * (u / std) ** 2 - math.log(std)


def mixture(xp, *parts):
    """log Σ wᵢ exp(lᵢ) of pairs (wᵢ, lᵢ)."""
    total = math.log(parts[0][0]) + parts[0][1]
    for weight, log in parts[1:]:
        total = xp.logaddexp(total, math.log(weight) + log)
    return total


def where(xp, condition, log):
    """`log` where the condition holds, nothing elsewhere."""
    return xp.where(condition, log, -xp.inf)
