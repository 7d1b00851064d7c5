"""How far V is from its own backup, |max_a Q(s, a) − V(s)|, on four kinds of states.

    nodes      random nodes of the grid, where V was to be its own backup; none of them was used by the solver
    between    random states of the box: how well V between the nodes is what one backup there would give
    visited    states of rollouts: where the policy takes the system
    searched   nodes found by going uphill on the residual: from the worst random nodes, the best node of one axis after the
               other; a maximum over random states alone says little about the largest one

All numbers are parts of the rms of V over the random nodes. With the largest residual of ALL nodes, δ, |V − V*| ≤ δ/(1 − γ);
no search finds δ for sure, so that this is not a bound. What can be said with a stated confidence is how much of the
grid has a residual above x (`quantile_bound`).

A solver that backs up with sampled next states finds a V for these draws. `sampler` and `key` back up with others, and
more of them: the residual then holds the error of the draws as well.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax.random as jr
import numpy as np
from jaxtyping import Float, Int

from hamq.certificates.partial import quantile_bound
from hamq.control.rollouts import random_starts
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.tensor.backup import Bellman, Engine
from hamq.tensor.expectation import make_expectation, require_honoured
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqError, Key, as_key, require_count

SHARE, CONFIDENCE = 0.05, 0.99
NUM_CLIMBED, NUM_SWEEPS = 8, 2

Missing = Callable[[Float[np.ndarray, "B d"]], Float[np.ndarray, " B"]]


@runtime_checkable
class ValueFunction(Protocol):
    """V and one backup of it: `TensorSolution`, or anything else that has both."""

    @property
    def problem(self) -> Problem: ...

    def value(self, states: Any) -> Float[np.ndarray, " B"]: ...

    def backup(self, states: Any) -> Float[np.ndarray, " B"]: ...


@dataclasses.dataclass(frozen=True)
class Residual:
    """|backup − V| over one kind of states, as parts of the rms of V.

    quantile    95 % of these states are below
    bound       with 99 % confidence at most 5 % of ALL such states are above; None where states are not drawn independently
    """

    count: int
    rms: float
    quantile: float
    largest: float
    bound: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals by kind of state; `scale` is the rms of V, `worst` the node that was found for `searched`."""

    nodes: Residual
    between: Residual
    visited: Residual | None
    searched: Residual
    scale: float
    worst: Float[np.ndarray, " d"]

    @property
    def sentence(self) -> str:
        bound = self.nodes.bound
        assert bound is not None
        found = f"the largest found is {self.searched.largest:.2%}"
        if math.isinf(bound):
            return f"{self.nodes.count} nodes are too few for a statement about 5 % of them; {found}"
        return f"with 99 % confidence at most 5 % of the nodes have a residual above {bound:.2%} of V; {found}"


def tensor_residuals(
    solution: ValueFunction,
    *,
    count: int = 1000,
    visited: Any = None,
    sampler: AbstractSampler | None = None,
    key: Key | int = 1,
) -> Residuals:
    """Residuals of V on `count` states of each kind.

    visited     states `[N, d]`, such as `rolled.visited("tensor")`; `count` of them are picked
    sampler     back up with fresh draws of this sampler; None: with those that V was solved with
    """
    require_count("tensor_residuals: count", count)
    node_key, between_key, visited_key, sampler_key = jr.split(as_key(key), 4)
    problem = solution.problem
    with_draws = solution if sampler is None else resampled(solution, sampler, key=sampler_key)

    def missing(states):
        return np.abs(with_draws.backup(states) - solution.value(states))

    indices = random_nodes(problem.grid, count, key=node_key)
    nodes = states_at(problem.grid, indices)
    scale = max(math.sqrt(np.mean(solution.value(nodes) ** 2)), 1e-30)
    at_nodes = missing(nodes)
    found, climbed = search(problem.grid, missing, indices[np.argsort(-at_nodes)[:NUM_CLIMBED]])
    between = missing(random_starts(problem, count, key=between_key))
    seen = None if visited is None else missing(_picked(problem, visited, count, key=visited_key))
    return Residuals(
        nodes=_summary(at_nodes / scale, is_independent=True),
        between=_summary(between / scale, is_independent=True),
        visited=None if seen is None else _summary(seen / scale),
        searched=_summary(climbed / scale),
        scale=scale,
        worst=states_at(problem.grid, found[[int(np.argmax(climbed))]])[0],
    )


def search(grid: Grid, missing: Missing, starts: Int[np.ndarray, "W d"]) -> tuple[np.ndarray, Float[np.ndarray, " W"]]:
    """(nodes, residuals) uphill from each start: the best node of one axis after the other."""
    indices, found = starts.copy(), missing(states_at(grid, starts))
    for _ in range(NUM_SWEEPS):
        for axis, n in enumerate(grid.points):
            tried = np.repeat(indices[:, None, :], n, axis=1)
            tried[:, :, axis] = np.arange(n)
            values = missing(states_at(grid, tried.reshape(-1, grid.dimension))).reshape(len(indices), n)
            best = np.argmax(values, axis=1)
            indices, found = tried[np.arange(len(tried)), best], values[np.arange(len(tried)), best]
    return indices, found


def resampled(solution: Any, sampler: AbstractSampler, *, key: Key | int) -> TensorSolution:
    """The same V with a backup by fresh draws of another sampler."""
    if not isinstance(solution, TensorSolution):
        raise HamqError(
            f"tensor_residuals: sampler needs a TensorSolution, got {type(solution).__name__}; give one that backs up with "
            "the draws you want."
        )
    require_honoured("tensor_residuals", sampler)
    bellman, seed = solution.engine.bellman, int(jr.randint(as_key(key), (), 0, 2**31 - 1))
    expectation = make_expectation(bellman.problem, sampler, bellman.choices, bellman.order, seed)
    fresh = Bellman(bellman.problem, bellman.choices, expectation, bellman.order)
    return dataclasses.replace(solution, engine=Engine(fresh, len(solution.engine.starts)))


def random_nodes(grid: Grid, count: int, *, key: Key | int) -> Int[np.ndarray, "B d"]:
    """Multi-indices, axis by axis independent and uniform."""
    keys = jr.split(as_key(key), grid.dimension)
    columns = [np.asarray(jr.randint(each, (count,), 0, n)) for each, n in zip(keys, grid.points, strict=True)]
    return np.stack(columns, axis=1)


def states_at(grid: Grid, indices: Int[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
    columns = [grid.axis_nodes(axis)[indices[:, axis]] for axis in range(grid.dimension)]
    return np.stack(columns, axis=1).astype(np.float32)


def _picked(problem: Problem, visited: Any, count: int, *, key: Key) -> Float[np.ndarray, "B d"]:
    visited = np.asarray(visited, np.float32)
    if visited.ndim != 2 or visited.shape[1] != problem.grid.dimension or not len(visited):
        raise HamqError(
            f"tensor_residuals: visited must have the shape [N, {problem.grid.dimension}], got {list(visited.shape)}."
        )
    return visited[np.asarray(jr.permutation(key, len(visited)))[:count]]


def _summary(values: Float[np.ndarray, " B"], is_independent: bool = False) -> Residual:
    bound = quantile_bound(values, share=SHARE, confidence=CONFIDENCE) if is_independent else None
    rms = math.sqrt(np.mean(values**2))
    return Residual(len(values), rms, float(np.quantile(values, 1 - SHARE)), float(values.max()), bound)
