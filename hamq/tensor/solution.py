"""What `solve_tensor` returns: V as a train, and everything that one backup makes of it."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from hamq.notebook import held, map_of
from hamq.problem.actions import ProductActions
from hamq.problem.problem import Problem
from hamq.solution import AbstractSolution, History, for_each
from hamq.tensor import train
from hamq.tensor.backup import Bellman, Engine
from hamq.tensor.choice import make_choices
from hamq.tensor.contraction import padded
from hamq.tensor.effective import Effective
from hamq.tensor.train import Train
from hamq.types import HamqError

MAX_LISTED = 2**20
"""Values that `q` returns at most."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TensorSolution(AbstractSolution):
    """V between the nodes is multilinear; Q, policy and actions come from one backup of it with the solver's draws.

    `cores[k]` `[r, n, r']` belongs to axis `order[k]` of the grid. `residual` is the rms of (backup − V) over held-out
    states as a part of the rms of V; how far V can be from V* is another question (docs/high_dimension.md). `effective`
    says how many of the draws behind a backup carry its weight; None where the solution was loaded. `origin` is what made
    it, as its run folder says it (runs/config.py).
    """

    problem: Problem
    cores: Train
    order: tuple[int, ...]
    history: History
    result: str
    converged: bool
    residual: float
    engine: Engine
    effective: Effective | None = None
    origin: Any = None

    @property
    def ranks(self) -> tuple[int, ...]:
        return train.ranks(self.cores)

    def value_at(self, states: Any) -> Any:
        """V of each state, multilinear between the nodes: `[B]`, or a number."""
        return for_each(self.value, states)

    def q_at(self, states: Any) -> Any:
        """Q of every action in each state, one backup of V: `[B, A]`, or `[A]`; refused where there are too many to list."""
        return for_each(self.q, states)

    def act(self, states: Any) -> Any:
        """The best actions found, by one backup of V: `[B]` or `[B, k]`, or one action."""
        return for_each(self.actions, states)

    def table(self) -> Float[np.ndarray, "S A"]:
        """Q at all nodes, by one backup of V; refused where there are too many to list."""
        return self.q(self.problem.grid.states())

    def value(self, states: Any) -> Float[np.ndarray, " B"]:
        """V at states `[B, d]`, of the grid or between."""
        return self.engine.interpolate(self._padded, self._checked(states))

    def backup(self, states: Any) -> Float[np.ndarray, " B"]:
        """max_a Q(s, a)."""
        return self.engine.greedy(self._padded, self._checked(states))[0]

    def q(self, states: Any) -> Float[np.ndarray, "B A"]:
        """Q of every action; refused where there are too many to list."""
        states = self._checked(states)
        problem = self.problem
        if problem.num_actions * max(len(states), 1) > MAX_LISTED:
            raise HamqError(
                f"TensorSolution.q would list {problem.num_actions:.3g} actions for {len(states)} states, more than "
                f"{MAX_LISTED:,} values; use actions(states), which maximises one actuator after the other."
            )
        engine = _enumerating(self.engine)
        levels = np.arange(problem.num_actions, dtype=np.int32)[None, :, None]
        return engine.action_values(self._padded, states, np.broadcast_to(levels, (len(states), problem.num_actions, 1)))

    def policy(self, states: Any) -> Int[np.ndarray, " B"]:
        """Numbers of the best actions found, in the order of the problem's actions."""
        return self._numbers(self._levels(self._checked(states)))

    def actions(self, states: Any) -> Float[np.ndarray, "B *k"]:
        """The best actions found: `[B]`, or `[B, k]` with several actuators."""
        levels = self._levels(self._checked(states))
        return self.engine.bellman.choices.actions(levels).astype(np.float64)

    def action(self, state: Any) -> Any:
        """`act`, by its name of version 0.1."""
        return self.act(state)

    def action_gap(self, states: Any) -> Float[np.ndarray, " B"]:
        """max_a Q over all actions minus Q of the action that was found: what coordinate-wise search leaves."""
        best = self.q(states).max(axis=1)
        return np.maximum(best - self.backup(states), 0)

    def _map(self) -> str:
        """V, which is at hand; the policy would take a backup of every state that is shown."""
        names, points = self.problem.axis_names, self.problem.grid.points
        nodes = np.tile([n // 2 for n in points], (points[0] * points[1], 1))
        nodes[:, :2] = np.indices(points[:2]).reshape(2, -1).T
        values = train.entries(self.cores, nodes[:, list(self.order)]).reshape(points[:2])
        return map_of(values, (names[0], names[1]), "V" + held(points))

    def __repr__(self) -> str:
        return f"TensorSolution({self.problem.name!r}: ranks up to {max(self.ranks)}; {self.result})"

    @property
    def _padded(self) -> jax.Array:
        return jax.device_put(padded(self.cores, max(self.ranks)))

    def _levels(self, states: np.ndarray) -> np.ndarray:
        return self.engine.greedy(self._padded, states)[1]

    def _numbers(self, levels: Int[np.ndarray, "B k"]) -> np.ndarray:
        sizes = self.engine.bellman.choices.sizes
        if math.prod(sizes) >= 2**63:
            raise HamqError(
                f"TensorSolution.policy: {math.prod(sizes):.3g} actions have no numbers of 64 bits; use actions(states)."
            )
        return np.asarray(np.ravel_multi_index(tuple(levels.T), sizes))

    def _checked(self, states: Any) -> Float[np.ndarray, "B d"]:
        states, d = np.asarray(states, np.float32), self.problem.grid.dimension
        if states.ndim != 2 or states.shape[1] != d:
            raise HamqError(f"states must have the shape [B, {d}], got {list(states.shape)}; one state s is s[None].")
        if not np.all(np.isfinite(states)):
            raise HamqError(f"state {int(np.argwhere(~np.isfinite(states))[0][0])} is not finite.")
        return states


def _enumerating(engine: Engine) -> Engine:
    """The same backups with the actions as one list."""
    bellman = engine.bellman
    if isinstance(bellman.problem.actions, ProductActions):
        bellman.problem.actions.require_enumerable("TensorSolution.q")
    choices = make_choices(bellman.problem, max_enumerated=bellman.problem.num_actions)
    return Engine(Bellman(bellman.problem, choices, bellman.expectation, bellman.order), 0)
