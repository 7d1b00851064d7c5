"""What every solver returns: the table, how it was reached, what that cost, and how far it can be from the answer.

Tables and tensor trains answer the same calls (`AbstractSolution`). What a higher layer does with a solution is a method
here and a function there, imported when it is called for: `_upstairs` is the one way up.
"""

import abc
import dataclasses
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from hamq.notebook import card, held, map_of, slice_of
from hamq.problem.problem import Problem, pair_name
from hamq.types import HamqError, as_count


class Cost(NamedTuple):
    """What was spent, preparation and mode search included; Python ints."""

    samples: int
    density_evaluations: int
    gradient_evaluations: int

    def plus(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))


@dataclasses.dataclass(frozen=True, eq=False, init=False, repr=False)
class History:
    """One row per iteration, columns as arrays: `history.residual` or `history["residual"]`; row t is `history[t]`."""

    columns: dict[str, Num[np.ndarray, " rows"]]

    def __init__(self, **columns):
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise HamqError(f"History: columns must have one length, got {lengths}.")
        for array in arrays.values():
            array.setflags(write=False)
        object.__setattr__(self, "columns", arrays)

    def __getattr__(self, name: str) -> np.ndarray:
        columns = self.__dict__.get("columns", {})  # absent while a copy is being unpickled
        if name not in columns:
            raise AttributeError(f"History has the columns {', '.join(columns)}, not {name!r}.")
        return columns[name]

    def __getitem__(self, key: str | int) -> np.ndarray | dict[str, float | int]:
        """A column by its name, or one row by its number."""
        if isinstance(key, str):
            return getattr(self, key)
        return {name: column[key].item() for name, column in self.columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __repr__(self) -> str:
        return f"History({len(self)} rows: {', '.join(self.columns)})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Health:
    """How well the sampler did in each state, as the mean over the pairs of the state that were drawn; NaN where none was.

    acceptance  mean acceptance probability of the trajectories; NaN for samplers that accept everything
    stuck       share of the chains that never moved; NaN for samplers without chains
    effective   effective number of draws per pair (learning/health.py says of what)
    """

    acceptance: Float[np.ndarray, " S"]
    stuck: Float[np.ndarray, " S"]
    effective: Float[np.ndarray, " S"]

    def __repr__(self) -> str:
        return f"Health({len(self.acceptance)} states: acceptance, stuck, effective)"


class AbstractSolution(abc.ABC):
    """What tables and tensor trains have in common. States are `[B, d]`, or one state `[d]`, anywhere in the box."""

    problem: Problem
    history: History
    result: str
    converged: bool

    @abc.abstractmethod
    def value_at(self, states: Any) -> Any:
        """V of each state: `[B]`, or a number."""

    @abc.abstractmethod
    def q_at(self, states: Any) -> Any:
        """Q of every action in each state: `[B, A]`, or `[A]`."""

    @abc.abstractmethod
    def act(self, states: Any) -> Any:
        """The action to take in each state: `[B]` or `[B, k]`, or one action."""

    @abc.abstractmethod
    def table(self) -> Float[np.ndarray, "S A"]:
        """Q at all nodes; of a tensor train by one backup of V, refused where there are too many to list."""

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Writes a run folder, as `out=` of the solver and the shell do; `hamq.load` and all commands read it.

        A run that is there already is refused, or replaced with `overwrite`.
        """
        _upstairs("runs.loading", "save")(self, path, overwrite=overwrite)

    @abc.abstractmethod
    def _map(self) -> str:
        """What a notebook shows beside the sentence."""

    def _repr_html_(self) -> str:
        problem = self.problem
        size = f"{as_count(problem.num_states, ',')} states × {as_count(problem.num_actions)} actions"
        bound = getattr(self, "error", None)
        facts = [("iterations", f"{len(self.history):,}"), *([] if bound is None else [("|q − Q*|", f"≤ {bound:.3g}")])]
        return card(f"{problem.name}: {size}", f"{self.result}.", facts, self._map())


def for_each(function: Callable[[np.ndarray], np.ndarray], states: Any) -> Any:
    """`function` of states `[B, d]`; of one state `[d]` without the first axis, a number as a Python float."""
    states = np.asarray(states)
    if states.ndim != 1:
        return function(states)
    found = function(states[None, :])[0]
    return found.item() if found.ndim == 0 else found


def _upstairs(module: str, name: str) -> Callable[..., Any]:
    return getattr(importlib.import_module(f"hamq.{module}"), name)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Solution(AbstractSolution):
    """A table of action values with its certificate, where there is one.

    `error` bounds ‖q − Q*‖∞ and lower ≤ Q* ≤ upper holds entry by entry; all three are None without a certificate.
    `health` is that of the draws that `solve` made once and reused, and `expected_error` the root of the mean of (q − Q*)²
    that they leave to expect, as a part of the range of V; None where none were. `origin` is what made it, as its run folder
    says it (runs/config.py).
    """

    problem: Problem
    q: Float[np.ndarray, "S A"]
    history: History
    result: str
    converged: bool
    lower: Float[np.ndarray, "S A"] | None = None
    upper: Float[np.ndarray, "S A"] | None = None
    error: float | None = None
    health: Health | None = None
    expected_error: float | None = None
    origin: Any = None

    @property
    def policy(self) -> Int[np.ndarray, " S"]:
        """argmax_a q(s, a), the first one where several are equal."""
        return np.argmax(self._checked(), axis=1)

    @property
    def value(self) -> Float[np.ndarray, " S"]:
        """max_a q(s, a)."""
        return np.max(self._checked(), axis=1)

    def value_at(self, states: Any) -> Any:
        """V of each state: of the nearest node, or interpolated between the nodes with law="linear"."""
        return for_each(lambda many: _upstairs("control.decoders", "value_at")(self, many), states)

    def q_at(self, states: Any) -> Any:
        """Q of every action in each state: of the nearest node, or interpolated between the nodes with law="linear"."""
        return for_each(lambda many: _upstairs("control.decoders", "q_at")(self, many), states)

    def act(self, states: Any) -> Any:
        """The action to take in each state: argmax_a r(s, a) + γ E[V(s')] by the problem's own model, from the state itself.

        Where the law has no such expectation, argmax_a of Q interpolated between the nodes. `hamq.control.decoders` has the
        choice of ways (docs/environments.md compares them).
        """
        return for_each(lambda many: _upstairs("control.decoders", "act")(self, many), states)

    def table(self) -> Float[np.ndarray, "S A"]:
        """`q`."""
        return self.q

    def _map(self) -> str:
        names, points = (*self.problem.axis_names, ""), self.problem.grid.points
        policy = slice_of(np.argmax(self.q, axis=1), points)
        return map_of(policy, (names[0], names[1]), "greedy action by its number" + held(points))

    def _checked(self) -> np.ndarray:
        # argmax takes a NaN for the largest number.
        bad = np.isnan(self.q)
        if np.any(bad):
            s, a = (int(v) for v in np.argwhere(bad)[0])
            raise HamqError(
                f"q of {self.problem.name} is NaN in {int(bad.sum())} entries, first at "
                f"{pair_name(self.problem, s, a)}; no action can be chosen from it."
            )
        return self.q

    def __repr__(self) -> str:
        bound = "no bound" if self.error is None else f"|q - Q*| <= {self.error:.2g}"
        size = " × ".join(str(n) for n in self.q.shape)
        return f"Solution({self.problem.name!r}: {size}, {bound}, {len(self.history)} iterations; {self.result})"
