"""Sets of actions: a list, or the product of one list per actuator, which need not be written out.

The product of the levels L₁, …, L_k holds the vectors (a₁, …, a_k) with aᵢ in Lᵢ: ∏|Lᵢ| of them, in the order of
`itertools.product`, the last coordinate fastest. With 9 levels for each of 20 actuators that is 10¹⁹ actions; they can be
described and picked one by one, and only what must list them refuses.
"""

import math
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from hamq.types import HamqError, as_count, as_power

MAX_LISTED = 10**6
"""Actions that are written out; larger products stay lazy."""

Levels = tuple[tuple[float, ...], ...]


class ProductActions(eqx.Module):
    """All vectors with one of `levels[i]` in coordinate i."""

    levels: Levels = eqx.field(static=True)

    def __init__(self, levels: Any):
        if not isinstance(levels, Iterable) or not (given := list(levels)):
            raise HamqError(f"ProductActions: levels must be a list with the levels of each actuator, got {levels!r}.")
        self.levels = tuple(_checked(i, of_one) for i, of_one in enumerate(given))

    @property
    def dimension(self) -> int:
        return len(self.levels)

    @property
    def size(self) -> int:
        """∏|Lᵢ|, a Python int (`len` stops at 2⁶³)."""
        return math.prod(len(of_one) for of_one in self.levels)

    def enumerate(self) -> Float[np.ndarray, "A k"]:
        """All actions, last coordinate fastest."""
        self.require_enumerable("ProductActions.enumerate()")
        return _listed(self.levels)

    def at(self, index: int | np.integer) -> Float[np.ndarray, " k"]:
        """The action with this number in the order of `enumerate`."""
        if not 0 <= index < self.size:
            raise HamqError(f"ProductActions: there is no action {index}; they are 0 to {as_count(self.size - 1)}.")
        values, rest = [], int(index)
        for of_one in reversed(self.levels):
            rest, position = divmod(rest, len(of_one))
            values.append(of_one[position])
        return np.asarray(values[::-1])

    def index(self, action: Any) -> int:
        """The number of an action in the order of `enumerate`: `index(at(i)) == i`."""
        values = np.asarray(action, np.float64)
        if values.shape != (self.dimension,):
            raise HamqError(f"ProductActions: an action has {self.dimension} numbers, got shape {values.shape}.")
        number = 0
        for i, (value, of_one) in enumerate(zip(values.tolist(), self.levels, strict=True)):
            if value not in of_one:
                raise HamqError(f"ProductActions: actuator {i} has no level {value}; its levels are {of_one}.")
            number = number * len(of_one) + of_one.index(value)
        return number

    def require_enumerable(self, what: str) -> None:
        if self.size > MAX_LISTED:
            raise HamqError(
                f"{what} must list the {as_power(self.size)} actions of {self.dimension} actuators, more than "
                f"{as_power(MAX_LISTED)}; use fewer levels or actuators, or hamq.solve_tensor."
            )

    def __repr__(self) -> str:
        return f"ProductActions({as_count(self.size)} actions of {self.dimension} actuators)"


def check_actions(actions: Any) -> np.ndarray | ProductActions:
    """The actions as Problem keeps them: a float64 array `[A]` or `[A, k]`, or a product too large to be listed."""
    if isinstance(actions, ProductActions):
        return actions if actions.size > MAX_LISTED else actions.enumerate()
    actions = np.asarray(actions)
    if actions.ndim not in (1, 2) or actions.size == 0 or actions.dtype.kind not in "iuf":
        raise HamqError(
            f"Problem: actions must be numbers of shape [A] or [A, k] with at least one action, got shape {actions.shape} "
            f"and dtype {actions.dtype}."
        )
    actions = actions.astype(np.float64)
    if not np.all(np.isfinite(actions)):
        raise HamqError(f"Problem: action {int(np.argwhere(~np.isfinite(actions))[0][0])} is not finite.")
    unique, counts = np.unique(actions, axis=0, return_counts=True)
    if len(unique) < len(actions):
        twice = unique[counts > 1][0]
        raise HamqError(f"Problem: the action {twice} is given {counts.max()} times; give each action once.")
    return actions


def find_levels(actions: np.ndarray | ProductActions) -> Levels | None:
    """The levels of a product of at least two coordinates that vary; None for other sets, or in another order."""
    if isinstance(actions, ProductActions):
        levels = actions.levels
    elif actions.ndim == 2:
        levels = _listed_levels(actions)
    else:
        return None
    return levels if levels is not None and sum(len(of_one) > 1 for of_one in levels) >= 2 else None


def _listed_levels(actions: np.ndarray) -> Levels | None:
    """Levels in the order in which they appear, if these rows are their product in its order."""
    levels = tuple(tuple(dict.fromkeys(column.tolist())) for column in actions.T)
    if math.prod(len(of_one) for of_one in levels) != len(actions):
        return None
    return levels if np.array_equal(_listed(levels), actions) else None


def count(actions: Any) -> int:
    return actions.size if isinstance(actions, ProductActions) else len(actions)


def action_at(actions: Any, index: int) -> Any:
    """One action: a number, or a vector `[k]`."""
    return actions.at(index) if isinstance(actions, ProductActions) else actions[index]


def action_shape(actions: Any) -> tuple[int, ...]:
    """() where actions are numbers, (k,) where they are vectors."""
    return (actions.dimension,) if isinstance(actions, ProductActions) else actions.shape[1:]


def is_same_set(actions: np.ndarray | ProductActions, others: np.ndarray | ProductActions) -> bool:
    """Whether these are the same actions in the same order."""
    if isinstance(actions, ProductActions) or isinstance(others, ProductActions):
        return isinstance(actions, ProductActions) and isinstance(others, ProductActions) and actions.levels == others.levels
    return np.array_equal(actions, others)


def _listed(levels: Levels) -> Float[np.ndarray, "A k"]:
    """The product of the levels, row by row."""
    columns, num_before, num_after = [], 1, math.prod(len(of_one) for of_one in levels)
    for of_one in levels:
        num_after //= len(of_one)
        columns.append(np.tile(np.repeat(of_one, num_after), num_before))
        num_before *= len(of_one)
    return np.stack(columns, axis=-1)


def _checked(actuator: int, levels: Any) -> tuple[float, ...]:
    values = np.asarray(levels)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
        raise HamqError(f"ProductActions: levels[{actuator}] must be a list of at least one number, got {levels!r}.")
    values = values.astype(np.float64)
    if not np.all(np.isfinite(values)):
        raise HamqError(f"ProductActions: levels[{actuator}] must be finite, got {values.tolist()}.")
    unique, counts = np.unique(values, return_counts=True)
    if len(unique) < len(values):
        twice = float(unique[counts > 1][0])
        raise HamqError(
            f"ProductActions: levels[{actuator}] has the level {twice} {counts.max()} times; give each level once."
        )
    return tuple(values.tolist())
