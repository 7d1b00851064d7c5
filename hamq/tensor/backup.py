"""The Bellman backup at single states, in JAX: Q(s, a) = r(s, a) + γ·E[V(s')], V a tensor train.

States come in chunks of one size, the last one padded, so that each function is compiled once per rank; inside a chunk a
CPU works through small tiles, two or more chunks side by side in threads. Functions of one chunk are pure; `Engine` is
the Python around them. Compiled programs are kept as long as the user's functions (`programs.py`).
"""

import concurrent.futures
import dataclasses
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.problem.problem import Problem
from hamq.problem.programs import compile_beside, program
from hamq.tensor.choice import NUM_SWEEPS, Choices, best_and_more
from hamq.tensor.contraction import Axes, Order, interpolate, make_axes
from hamq.tensor.expectation import AbstractExpectation, PairCost, expected, shares_of
from hamq.types import NonFiniteError, is_cpu

EVALUATIONS_PER_TILE = 4096
"""Evaluations of V at a time: what fits into the cache of a core."""
EVALUATIONS_PER_CALL = 2**20
"""On an accelerator."""
STATES_PER_CHUNK = 128
"""On a CPU: enough to hide what a call costs, and few, because a short fiber is padded to a whole chunk."""


class Bellman(eqx.Module):
    """All that a backup needs but V."""

    problem: Problem
    choices: Choices
    expectation: AbstractExpectation
    order: Order

    @property
    def axes(self) -> Axes:
        return make_axes(self.problem.grid, self.order)


class Kept(NamedTuple):
    """What is kept of a state and its chosen action: reward, prepared expectation, terminal or not."""

    rewards: Float[Array, "*batch"]
    prepared: Any
    is_ended: Bool[Array, "*batch"]


class Greedy(NamedTuple):
    """A state's best action found, its value, the effective share of its draws, and what is kept of both."""

    values: Float[Array, "*batch"]
    levels: Int[Array, "*batch k"]
    shares: Float[Array, "*batch"]
    kept: Kept


def action_values(bellman: Bellman, cores: Array, states: Float[Array, "T d"], levels: Int[Array, "T C k"]) -> Array:
    """Q `[T, C]` of C actions for each state."""
    return _values_and_parts(bellman, cores, states, levels)[0]


def _values_and_parts(bellman: Bellman, cores: Array, states: Float[Array, "T d"], levels: Int[Array, "T C k"]):
    """(Q `[T, C]`, (the rewards and the prepared expectations that it was made of))."""
    problem, choices = bellman.problem, bellman.choices

    def pair(state, chosen):
        action = choices.action(chosen)
        return jnp.asarray(problem.reward(state, action)), bellman.expectation.prepare(state, action)

    rewards, prepared = jax.vmap(jax.vmap(pair, (None, 0)))(states, levels)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), prepared)
    values = expected(cores, bellman.axes, flat).reshape(rewards.shape)
    return rewards + jnp.asarray(problem.discount, rewards.dtype) * values, (rewards, prepared)


def greedy(
    bellman: Bellman, cores: Array, starts: Int[Array, "W k"], states: Float[Array, "T d"], own: Array, is_fixed: Array
) -> Greedy:
    """The best action of every state: from one of its own `[T, k]`, and from shared starts; its own one where it is fixed.

    What `evaluate` needs of it comes along: the user's functions are then in one program, and drawn once.
    """
    every = jnp.concatenate([own[None], jnp.broadcast_to(starts[:, None, :], (len(starts), *own.shape))])
    nothing = (jnp.zeros(len(states), jnp.float32), bellman.expectation.blank(len(states)))
    values, levels, (rewards, prepared) = best_and_more(
        bellman.choices, lambda levels: _values_and_parts(bellman, cores, states, levels), every, nothing, is_fixed
    )
    is_ended = ended(bellman.problem, states)
    shares = jnp.where(is_ended, 1, shares_of(prepared, len(states)))
    return Greedy(jnp.where(is_ended, 0, values), levels, shares, Kept(rewards, prepared, is_ended))


def keep(bellman: Bellman, states: Float[Array, "T d"], levels: Int[Array, "T k"]) -> Kept:
    def pair(state, chosen):
        action = bellman.choices.action(chosen)
        return jnp.asarray(bellman.problem.reward(state, action)), bellman.expectation.prepare(state, action)

    rewards, prepared = jax.vmap(pair)(states, levels)
    return Kept(rewards, prepared, ended(bellman.problem, states))


def evaluate(bellman: Bellman, cores: Array, kept: Kept) -> Float[Array, " T"]:
    """r + γ·E[V] of the kept actions."""
    discount = jnp.asarray(bellman.problem.discount, kept.rewards.dtype)
    return jnp.where(kept.is_ended, 0, kept.rewards + discount * expected(cores, bellman.axes, kept.prepared))


def ended(problem: Problem, states: Float[Array, "T d"]) -> Bool[Array, " T"]:
    if problem.terminal is None:
        return jnp.zeros(states.shape[0], bool)
    return jax.vmap(problem.terminal)(states)


def evaluate_anew(bellman: Bellman, cores: Array, states: Float[Array, "T d"], levels: Int[Array, "T k"]) -> Array:
    return evaluate(bellman, cores, keep(bellman, states, levels))


def value_at(bellman: Bellman, cores: Array, states: Float[Array, "T d"]) -> Float[Array, " T"]:
    return interpolate(cores, bellman.axes, states.T[jnp.asarray(bellman.order)])


def _split(bellman: Bellman) -> tuple[list[Array], Callable[[list[Array]], Bellman]]:
    """(its arrays, how to put it together from them): programs take arrays, and hold on to nothing else."""
    order = jax.device_put(np.asarray(bellman.order, np.int32))
    expectation = dataclasses.replace(bellman.expectation, order=order)  # type: ignore[type-var]
    arrays, rest = eqx.partition(
        Bellman(bellman.problem, bellman.choices, expectation, order), lambda leaf: isinstance(leaf, jax.Array)
    )
    leaves, structure = jax.tree.flatten(arrays)
    return leaves, lambda given: eqx.combine(jax.tree.unflatten(structure, given), rest)


def _tiled(function: Callable[..., Any], together: Callable[[list[Array]], Bellman], tile: int) -> Callable[..., Any]:
    """The function of the rows of arrays, tile by tile, and of what they share."""

    def trace(arrays, shared, rows):
        bellman = together(arrays)
        num_tiles = jax.tree.leaves(rows)[0].shape[0] // tile
        tiles = jax.tree.map(lambda a: a.reshape(num_tiles, tile, *a.shape[1:]), rows)
        done = jax.lax.map(lambda of_tile: function(bellman, *shared, *of_tile), tiles)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), done)

    return trace


class Engine:
    """Backups of any number of states, counted."""

    def __init__(self, bellman: Bellman, num_starts: int = 1):
        self.bellman = bellman
        self.starts = bellman.choices.starts(num_starts)
        self.reads = self.pairs = 0
        self.shares = np.ones(0)
        """Effective shares of the draws that belong to the best actions of the last states."""
        grid, choices = bellman.problem.grid, bellman.choices
        self._per_pair = max(1, bellman.expectation.cost.samples)
        per_state = self._per_pair * max(choices.sizes)
        if is_cpu():
            self._tile = max(1, EVALUATIONS_PER_TILE // per_state)
            self._chunk = self._tile * max(1, STATES_PER_CHUNK // self._tile)
        else:
            self._tile = self._chunk = max(1, min(4096, EVALUATIONS_PER_CALL // per_state))
        self._nodes = [grid.axis_nodes(axis) for axis in bellman.order]
        self._arrays, self._together = _split(bellman)
        self._pool = concurrent.futures.ThreadPoolExecutor((os.cpu_count() or 1) if is_cpu() else 1)

    def compile_beside(self, rank: int) -> None:
        """Starts to compile what a solve at this rank needs, all of which may be known but numbers."""
        grid, of = self.bellman.problem.grid, jax.ShapeDtypeStruct
        cores = of((grid.dimension, rank, max(grid.points) * rank), np.float32)
        states = of((self._chunk, grid.dimension), np.float32)
        levels = of((self._chunk, self.bellman.choices.num_actuators), np.int32)
        fixed = of((self._chunk,), bool)
        made = self._program(greedy, (cores, self.starts), (states, levels, fixed), compile_beside)
        if not is_cpu():  # which reads V at nodes off its cores
            self._program(value_at, (cores,), (states,), compile_beside)
        self._program(evaluate, (cores,), (made.kept,), compile_beside)

    @property
    def pairs_per_state(self) -> int:
        """Actions that are tried in one state."""
        choices = self.bellman.choices
        if choices.num_actuators == 1:
            return choices.sizes[0]
        return NUM_SWEEPS * choices.num_actuators * max(choices.sizes) * (1 + len(self.starts))

    @property
    def cost(self) -> PairCost:
        """Samples, densities and gradients spent so far."""
        return PairCost(*(self.pairs * each for each in self.bellman.expectation.cost))

    def states(self, indices: Int[np.ndarray, "P d"]) -> Float[np.ndarray, "P d"]:
        """The states at multi-indices in the order of the cores."""
        states = np.empty(indices.shape, np.float32)
        for k, (axis, nodes) in enumerate(zip(self.bellman.order, self._nodes, strict=True)):
            states[:, axis] = nodes[indices[:, k]]
        return states

    def greedy(self, cores: Array, states: np.ndarray, own: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(values, levels) of the best actions; `own` are levels to start from."""
        return self._greedy(cores, states, own, lambda done: done._replace(kept=None))[:2]

    def greedy_and_keep(
        self, cores: Array, states: np.ndarray, own: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, list[Kept]]:
        """The same, and what `evaluate` needs of these states with these actions, in chunks that stay on the device."""
        return self._greedy(cores, states, own, lambda done: done)

    def _greedy(self, cores, states, own, finish):
        if own is None:
            own = np.broadcast_to(self.bellman.choices.middle(), (len(states), self.bellman.choices.num_actuators))
        self.reads += len(states)
        self.pairs += len(states) * self.pairs_per_state
        chunks = self._chunks(greedy, (cores, self.starts), (states, own, np.zeros(len(states), bool)), finish)
        values, levels, self.shares = (_joined([chunk[i] for chunk in chunks], len(states)) for i in range(3))
        self._require_finite(values, states, levels)
        return np.asarray(values, np.float64), levels, [chunk.kept for chunk in chunks]

    def prepared(self, rank: int, states: np.ndarray, levels: np.ndarray) -> Any:
        """What the expectation prepares for given pairs, by the program of a solve at this rank: none is compiled for it."""
        grid = self.bellman.problem.grid
        cores = jax.device_put(np.zeros((grid.dimension, rank, max(grid.points) * rank), np.float32))
        rows = (states, levels, np.ones(len(states), bool))
        chunks = self._chunks(greedy, (cores, self.starts), rows, lambda done: done.kept.prepared)
        return jax.tree.map(lambda *parts: _joined(list(parts), len(states)), *chunks)

    def _require_finite(self, values: np.ndarray, states: np.ndarray, levels: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):
            return
        first = int(bad[0])
        state = ", ".join(f"{v:.6g}" for v in states[first])
        action = np.atleast_1d(self.bellman.choices.actions(levels[first][None])[0]).tolist()
        raise NonFiniteError(
            f"the backup is {values[first]} at state ({state}), action {action} ({len(bad)} of {len(values)} states); look "
            "at reward, mean and density there."
        )

    def num_bytes(self, count: int) -> int:
        """Of what `keep` keeps for so many states."""
        grid = self.bellman.problem.grid
        exact = self.bellman.expectation.cost.samples == 0
        return 4 * count * (grid.dimension + 1) * (max(grid.points) if exact else self._per_pair)

    def evaluate(self, cores: Array, kept: list[Kept], count: int) -> np.ndarray:
        """r + γ·E[V] with the actions that were kept."""
        self.reads += count
        return np.asarray(_joined(self._each(evaluate, (cores,), [(part,) for part in kept]), count), np.float64)

    def evaluate_anew(self, cores: Array, states: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """The same without anything kept."""
        self.reads += len(states)
        self.pairs += len(states)
        return self._map(evaluate_anew, cores, (states, levels))

    def action_values(self, cores: Array, states: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Q `[P, C]` of the given actions `[P, C, k]`."""
        self.pairs += levels.shape[0] * levels.shape[1]
        return self._map(action_values, cores, (states, levels))

    def interpolate(self, cores: Array, states: np.ndarray) -> np.ndarray:
        """V."""
        return self._map(value_at, cores, (states,))

    def _map(self, function, cores: Array, rows: tuple) -> np.ndarray:
        return np.asarray(_joined(self._chunks(function, (cores,), rows), len(rows[0])), np.float64)

    def _chunks(self, function, shared: tuple, rows: tuple, finish: Callable[[Any], Any] = lambda done: done) -> list:
        starts = range(0, len(rows[0]), self._chunk)
        return self._each(function, shared, [tuple(_chunk(a, start, self._chunk) for a in rows) for start in starts], finish)

    def _each(self, function, shared: tuple, parts: list[tuple], finish: Callable[[Any], Any] = lambda done: done) -> list:
        """`finish` of what the function makes of each chunk."""
        run, arrays = self._program(function, shared, parts[0], program), self._arrays
        return list(self._pool.map(lambda part: finish(jax.block_until_ready(run(arrays, shared, part))), parts))

    def _program(self, function, shared: tuple, rows: tuple, find: Callable[..., Any]):
        """What `find`, of `programs.py`, has for a function of the rows of a chunk and of what they share."""
        problem, choices, expectation = self.bellman.problem, self.bellman.choices, self.bellman.expectation
        functions = problem.functions
        of_problem = (problem.grid, problem.discount, problem.kernel.constants, problem.is_product, len(functions))
        job = (function, self._tile, of_problem, choices.sizes, choices.is_product, expectation.constants)
        return find(job, functions, _tiled(function, self._together, self._tile), self._arrays, shared, rows)


def _joined(parts: list[Any], count: int) -> np.ndarray:
    """The first rows of the parts, without what was padded."""
    return np.concatenate([np.asarray(part) for part in parts])[:count]


def _chunk(array: np.ndarray, start: int, size: int) -> np.ndarray:
    """Rows from `start` on, the last one repeated where there are too few."""
    part = array[start : start + size]
    return np.pad(part, ((0, size - len(part)), *((0, 0),) * (part.ndim - 1)), mode="edge")
