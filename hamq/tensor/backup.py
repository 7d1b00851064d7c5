"""The Bellman backup at single states, in JAX: Q(s, a) = r(s, a) + γ·E[V(s')], V a tensor train.

States come in chunks of one size, the last one padded, so that each function is compiled once per rank; inside a chunk a
CPU works through small tiles, two or more chunks side by side in threads. Functions of one chunk are pure; `Engine` is
the Python around them.
"""

import concurrent.futures
import os
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.problem.problem import Problem
from hamq.tensor.choice import NUM_SWEEPS, Choices, best
from hamq.tensor.contraction import Axes, interpolate, make_axes
from hamq.tensor.expectation import AbstractExpectation, PairCost, expected
from hamq.types import NonFiniteError, is_cpu

EVALUATIONS_PER_TILE = 4096
"""Evaluations of V at a time: what fits into the cache of a core."""
EVALUATIONS_PER_CALL = 2**20
"""On an accelerator."""


class Bellman(eqx.Module):
    """All that a backup needs but V."""

    problem: Problem
    choices: Choices
    expectation: AbstractExpectation
    order: tuple[int, ...] = eqx.field(static=True)

    @property
    def axes(self) -> Axes:
        return make_axes(self.problem.grid, self.order)


class Greedy(NamedTuple):
    """A state's best action found, its value, and whether the state is terminal."""

    values: Float[Array, "*batch"]
    levels: Int[Array, "*batch k"]


class Kept(NamedTuple):
    """What is kept of a state and its chosen action: reward, prepared expectation, terminal or not."""

    rewards: Float[Array, "*batch"]
    prepared: Any
    is_ended: Bool[Array, "*batch"]


def action_values(bellman: Bellman, cores: Array, states: Float[Array, "T d"], levels: Int[Array, "T C k"]) -> Array:
    """Q `[T, C]` of C actions for each state."""
    problem, choices = bellman.problem, bellman.choices

    def pair(state, chosen):
        action = choices.action(chosen)
        return bellman.expectation.prepare(state, action), jnp.asarray(problem.reward(state, action))

    prepared, rewards = jax.vmap(jax.vmap(pair, (None, 0)))(states, levels)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), prepared)
    values = expected(cores, bellman.axes, flat).reshape(rewards.shape)
    return rewards + jnp.asarray(problem.discount, rewards.dtype) * values


def greedy(bellman: Bellman, cores: Array, states: Float[Array, "T d"], starts: Int[Array, "W k"], own: Array) -> Greedy:
    """The best action of every state: from shared starts, and from one of its own `[T, k]`."""

    def from_starts(given):
        return best(bellman.choices, lambda levels: action_values(bellman, cores, states, levels), given)

    values, levels = from_starts(own)
    if bellman.choices.num_actuators > 1:
        for start in starts:
            other, found = from_starts(jnp.broadcast_to(start[None, :], own.shape))
            levels = jnp.where((other > values)[:, None], found, levels)
            values = jnp.maximum(values, other)
    return Greedy(jnp.where(ended(bellman.problem, states), 0, values), levels)


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


@eqx.filter_jit
def _run(function, bellman: Bellman, tile: int, cores, arrays):
    """`function` on the rows of the arrays, tile by tile."""
    num_tiles = jax.tree.leaves(arrays)[0].shape[0] // tile
    tiles = jax.tree.map(lambda a: a.reshape(num_tiles, tile, *a.shape[1:]), arrays)
    done = jax.lax.map(lambda rows: function(bellman, cores, *rows), tiles)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), done)


class _GreedyFrom(eqx.Module):
    starts: Int[Array, "W k"]

    def __call__(self, bellman, cores, states, own):
        return greedy(bellman, cores, states, self.starts, own)


def _keep(bellman, cores, states, levels):
    del cores
    return keep(bellman, states, levels)


def _evaluate_anew(bellman, cores, states, levels):
    return evaluate(bellman, cores, keep(bellman, states, levels))


def _interpolate(bellman, cores, states):
    return interpolate(cores, bellman.axes, states.T[jnp.asarray(bellman.order)])


class Engine:
    """Backups of any number of states, counted."""

    def __init__(self, bellman: Bellman, num_starts: int = 1):
        self.bellman = bellman
        self.starts = jnp.asarray(bellman.choices.starts(num_starts))
        self.reads = self.pairs = 0
        grid, choices = bellman.problem.grid, bellman.choices
        self._nodes = [grid.axis_nodes(axis) for axis in bellman.order]
        self._per_pair = max(1, bellman.expectation.cost.samples)
        per_state = self._per_pair * max(choices.sizes)
        if is_cpu():
            self._tile = max(1, EVALUATIONS_PER_TILE // per_state)
            self._chunk = self._tile * max(1, 256 // self._tile)
        else:
            self._tile = self._chunk = max(1, min(4096, EVALUATIONS_PER_CALL // per_state))
        self._pool = concurrent.futures.ThreadPoolExecutor((os.cpu_count() or 1) if is_cpu() else 1)

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
        if own is None:
            own = np.broadcast_to(self.bellman.choices.middle(), (len(states), self.bellman.choices.num_actuators))
        self.reads += len(states)
        self.pairs += len(states) * self.pairs_per_state
        done = self._map(_GreedyFrom(self.starts), cores, (states, own))
        self._require_finite(done.values, states, done.levels)
        return np.asarray(done.values, np.float64), np.asarray(done.levels)

    def _require_finite(self, values: np.ndarray, states: np.ndarray, levels: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if not len(bad):
            return
        first = int(bad[0])
        state = ", ".join(f"{v:.6g}" for v in states[first])
        action = np.atleast_1d(np.asarray(self.bellman.choices.action(jnp.asarray(levels[first])))).tolist()
        raise NonFiniteError(
            f"the backup is {values[first]} at state ({state}), action {action} ({len(bad)} of {len(values)} states); look "
            "at reward, mean and density there."
        )

    def num_bytes(self, count: int) -> int:
        """Of what `keep` keeps for so many states."""
        grid = self.bellman.problem.grid
        exact = self.bellman.expectation.cost.samples == 0
        return 4 * count * (grid.dimension + 1) * (max(grid.points) if exact else self._per_pair)

    def keep(self, states: np.ndarray, levels: np.ndarray) -> list[Kept]:
        """What `evaluate` needs of these states with these actions, in chunks that stay on the device."""
        self.pairs += len(states)
        return self._chunks(_keep, jnp.zeros(()), (states, levels))

    def evaluate(self, cores: Array, kept: list[Kept], count: int) -> np.ndarray:
        """r + γ·E[V] with the actions that were kept."""
        self.reads += count
        done = self._pool.map(lambda part: self._run(evaluate, cores, (part,)), kept)
        return np.concatenate([np.asarray(v, np.float64) for v in done])[:count]

    def evaluate_anew(self, cores: Array, states: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """The same without anything kept."""
        self.reads += len(states)
        self.pairs += len(states)
        return np.asarray(self._map(_evaluate_anew, cores, (states, levels)), np.float64)

    def action_values(self, cores: Array, states: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Q `[P, C]` of the given actions `[P, C, k]`."""
        self.pairs += levels.shape[0] * levels.shape[1]
        return np.asarray(self._map(action_values, cores, (states, levels)), np.float64)

    def interpolate(self, cores: Array, states: np.ndarray) -> np.ndarray:
        """V."""
        return np.asarray(self._map(_interpolate, cores, (states,)), np.float64)

    def _map(self, function, cores, arrays: tuple):
        size = len(arrays[0])
        done = self._chunks(function, cores, arrays)
        return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves])[:size], *done)

    def _chunks(self, function, cores, arrays: tuple) -> list:
        starts = range(0, len(arrays[0]), self._chunk)
        parts = [tuple(jnp.asarray(_chunk(a, start, self._chunk)) for a in arrays) for start in starts]
        return list(self._pool.map(lambda part: self._run(function, cores, part), parts))

    def _run(self, function, cores, part):
        return jax.block_until_ready(_run(function, self.bellman, self._tile, cores, part))


def _chunk(array: np.ndarray, start: int, size: int) -> np.ndarray:
    """Rows from `start` on, the last one repeated where there are too few."""
    part = array[start : start + size]
    return np.pad(part, ((0, size - len(part)), *((0, 0),) * (part.ndim - 1)), mode="edge")
