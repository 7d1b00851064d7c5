"""Observed → Completion: what step 3 of Algorithm 1 found on Ω, and the full table that step 4 makes of it, eq. (10).

Rows and columns of the table without any observation are not identified: no completion knows anything about them (the
nuclear norm sets them to exactly 0). What happens to them is a policy, applied here for all methods alike.
"""

import abc
from typing import Any, Literal, NamedTuple, cast, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.completion.planning import AbstractPilot, Plan
from hamq.completion.selection import FRACTION, Pairs, Selection, chosen
from hamq.problem.problem import Problem
from hamq.types import HamqError, Key, require_one_of

Unidentified = Literal["keep", "zero", "error"]
Part = Literal["expectation", "increment", "table"]
"""What is completed: E[V], Q̂ − Q^t, or Q̂ itself."""


class Observed(NamedTuple):
    """The values found on Ω; off the mask `values` may hold anything, NaN included."""

    values: Float[np.ndarray, "S A"]
    mask: Bool[np.ndarray, "S A"]


class Completion(NamedTuple):
    """A full table with what is known about its quality; `memory` warm-starts the next completion."""

    q: Float[np.ndarray, "S A"]
    rank: int
    num_unidentified: int
    """Rows (states) without any observation."""
    residual: float
    """max |q − values| on Ω over max |values| on Ω."""
    gap: float
    """Certified distance from the optimum, relative; nan where the method has none."""
    iterations: int
    converged: bool
    result: str
    memory: tuple[np.ndarray, ...]


class Mixing(NamedTuple):
    """E[V] of all actions as a mixture of the columns that every state has, with weights that all states share.

    columns         None: all, and nothing is mixed
    states, tried   entries that say what the weights are: W with X[states, columns]·W ≈ X[states, tried] in least squares
    continuation    from the actions that are tried to all of them; None where they are all
    """

    columns: Int[np.ndarray, " k"] | None
    states: Int[np.ndarray, " m"]
    tried: Int[np.ndarray, " T"]
    continuation: Float[np.ndarray, "T A"] | None


class AbstractCompletion(eqx.Module):
    """How the table is made from the part of it that was backed up, and which part that is.

    A completion of your own is one class with `complete`. The three names below are what it selects and completes where it
    says nothing else: overwrite them as fields, or as constants of the class.
    """

    selection = "per_state"
    """Ω_t, see selection.py."""
    fraction = FRACTION
    """Of the pairs, with `per_state` and `bernoulli`."""
    completes = "increment"
    """What `complete` is given: the "expectation" E[V] on Ω_t, the "increment" Q̂ − Q^t, or the "table" Q̂."""

    @property
    def is_fixed(self) -> bool:
        """Whether Ω_t is the same in every iteration."""
        return self.selection == "all"

    @property
    def is_optional(self) -> bool:
        """Whether the solver may leave it out, where every entry can be backed up at little cost."""
        return False

    @property
    def few_actions(self) -> int | None:
        """Backups of a state that it is expected to need, where `plan` decides."""
        return None

    def plan(self, pilot: AbstractPilot) -> Plan:
        """What completes the table, decided once, before the first iteration, by a few draws."""
        del pilot
        return Plan(self)

    def choose(self, problem: Problem, *, key: Key) -> tuple[Pairs, ...]:
        """Ω_t, as blocks of states that have the same number of actions each; every iteration has a key of its own."""
        return (chosen(problem, cast(Selection, self.selection), self.fraction, key=key),)

    def missed(self, observed: Observed, table: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "m A"] | None:
        """What the completed table misses in states where all actions were observed; None where there are none."""
        del observed, table
        return None

    @property
    def mixing(self) -> Mixing | None:
        """Where states are completed one by one, from their own entries, so that devices can share them; else None."""
        return None

    @abc.abstractmethod
    def complete(
        self, observed: Observed, previous: Float[np.ndarray, "S A"], memory: tuple[np.ndarray, ...] = ()
    ) -> Completion:
        """The full table from its observed entries; `previous` is what unidentified rows and columns may keep."""


class Posed(NamedTuple):
    """A checked problem in units of about its largest value, turned so that it has at least as many rows as columns."""

    values: Float[np.ndarray, "m n"]
    """Divided by `scale`; 0 off Ω."""
    mask: Bool[np.ndarray, "m n"]
    identified: Bool[np.ndarray, "m n"]
    """True where both the row and the column have an observation."""
    scale: float
    is_turned: bool

    def turn(self, table: np.ndarray) -> np.ndarray:
        """Between the order of the user and the order of the solver; its own inverse."""
        return table.T if self.is_turned else table


def pose(observed: Observed, previous: np.ndarray, unidentified: Unidentified) -> Posed:
    """Refuse what has no answer, and scale the rest."""
    values, mask = (np.asarray(part) for part in observed)
    if mask.dtype != bool:
        raise HamqError(
            f"Observed.mask must be boolean, got dtype {mask.dtype}; write mask.astype(bool) if 1 means observed."
        )
    if mask.ndim != 2 or values.shape != mask.shape or np.shape(previous) != mask.shape:
        raise HamqError(
            f"Observed.values, Observed.mask and previous must be tables of one shape [S, A], got {values.shape}, "
            f"{mask.shape} and {np.shape(previous)}."
        )
    if not mask.any():
        raise HamqError(
            f"Observed.mask of shape {mask.shape} has no observed entry; observe at least one (a larger fraction)."
        )
    require_finite("Observed.values", values, mask)
    values = np.where(mask, values, 0).astype(np.float64)
    identified = np.any(mask, axis=1, keepdims=True) & np.any(mask, axis=0, keepdims=True)
    if unidentified == "error" and not identified.all():
        raise HamqError(
            f"{count_unidentified(mask)} had no observation, the first of them {first_unidentified(mask)}; observe every "
            "row and column (selection='per_state'), or choose unidentified='keep' or 'zero'."
        )
    if unidentified == "keep":
        require_finite("previous", np.asarray(previous), ~identified)
    largest = np.abs(values).max()
    # A power of two: scaling back and forth then changes no bit of an observed value.
    scale = float(np.ldexp(1.0, np.frexp(largest)[1] - 1)) if largest > 0 else 1.0
    is_turned = mask.shape[1] > mask.shape[0]
    values, mask, identified = (table.T if is_turned else table for table in (values / scale, mask, identified))
    return Posed(values, mask, identified, scale, is_turned)


def finish(
    table: Float[np.ndarray, "m n"],
    posed: Posed,
    previous: np.ndarray,
    unidentified: Unidentified,
    result: str,
    **quality,
) -> Completion:
    """The Completion of a solver's table: back in the user's units and order, with the policy for what is not identified."""
    is_kept = unidentified == "keep"
    misses = (table - posed.values) * posed.mask  # several times faster than max(…, where=mask)
    residual = max(misses.max(), -misses.min()) / (max(posed.values.max(), -posed.values.min()) or 1.0)
    mask, identified = posed.turn(posed.mask), posed.turn(posed.identified)
    q = np.where(identified, posed.turn(table) * posed.scale, np.asarray(previous, np.float64) if is_kept else 0.0)
    if not identified.all():
        result += f" {count_unidentified(mask)} had no observation and {'kept their values' if is_kept else 'are 0'}."
    num_unidentified = int(np.sum(~mask.any(axis=1)))
    return Completion(q=q, num_unidentified=num_unidentified, residual=float(residual), result=result, **quality)


def recall(memory: tuple[np.ndarray, ...], num_tables: int, posed: Posed) -> list[np.ndarray]:
    """The tables of a warm start in the solver's order, 0 where nothing is identified; zeros for a cold one."""
    if not memory:
        return [np.zeros(posed.mask.shape) for _ in range(num_tables)]
    shape = posed.turn(posed.mask).shape
    shapes = [np.shape(table) for table in memory]
    if shapes != [shape] * num_tables or not all(np.isfinite(table).all() for table in memory):
        raise HamqError(
            f"memory must be () or {num_tables} finite tables of shape {shape}, got shapes {shapes}; pass Completion.memory "
            "of the same method."
        )
    return [np.where(posed.identified, posed.turn(np.asarray(table, np.float64)), 0.0) for table in memory]


def verdict(gap: float, tolerance: float, iterations: int, unit: str) -> str:
    if gap <= tolerance:
        return f"Reached: duality gap {gap:.1e} of the {unit} (tolerance {tolerance:g}) after {iterations} iterations."
    return (
        f"Stopped after {iterations} iterations with a duality gap of {gap:.1e} of the {unit}, above the tolerance "
        f"{tolerance:g}; raise max_iterations or tolerance."
    )


def require_settings(name: str, tolerance: float, max_iterations: int, unidentified: str) -> None:
    if not 0 < tolerance < 1:
        raise HamqError(f"{name}: tolerance must lie between 0 and 1 (a relative duality gap), got {tolerance!r}; try 1e-5.")
    if not isinstance(max_iterations, int) or isinstance(max_iterations, bool) or max_iterations < 1:
        raise HamqError(f"{name}: max_iterations must be an integer of at least 1, got {max_iterations!r}.")
    if unidentified not in get_args(Unidentified):
        raise HamqError(f"{name}: unidentified must be one of {', '.join(get_args(Unidentified))}, got {unidentified!r}.")


def require_selection(name: str, selection: Any, fraction: Any) -> None:
    require_one_of(f"{name}: selection", selection, Selection)
    is_number = isinstance(fraction, (int, float, np.number)) and not isinstance(fraction, bool)
    if not (is_number and 0 < fraction <= 1):
        raise HamqError(f"{name}: fraction must lie above 0 and be at most 1, got {fraction!r}.")
    if selection == "all" and fraction != FRACTION:
        raise HamqError(
            f"{name}: fraction = {fraction} has no meaning with selection='all'; it belongs to 'per_state' and 'bernoulli'."
        )


def require_part(name: str, completes: Any) -> None:
    require_one_of(f"{name}: completes", completes, Part)


def require_finite(name: str, table: np.ndarray, where: np.ndarray) -> None:
    bad = where & ~np.isfinite(table)
    if bad.any():
        state, action = np.argwhere(bad)[0]
        raise HamqError(
            f"{name} must be finite where it is used, got {table[state, action]} at state {state}, action {action} "
            f"({bad.sum()} such entries); look at the reward and the backup of that pair."
        )


def count_unidentified(mask: np.ndarray) -> str:
    return f"{np.sum(~mask.any(axis=1))} states and {np.sum(~mask.any(axis=0))} actions"


def first_unidentified(mask: np.ndarray) -> str:
    has_all_states = mask.any(axis=1).all()
    return f"action {np.argmin(mask.any(axis=0))}" if has_all_states else f"state {np.argmin(mask.any(axis=1))}"
