"""Networks of one state, or one state and one action; callers batch.

A coordinate of the state is scaled to [−1, 1] by the grid's box, a periodic one enters as (cos, sin); actions are scaled by
the range of the problem's. The paper says nothing of its networks; states are low-dimensional, so they are MLPs.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.control.action_range import action_range
from hamq.deep.config import DeepConfig
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.types import HamqError, Key

SPREAD = 3.0
"""Scale of the output in standard deviations of the reward: Q* varies by 1.5 to 3 of them on the paper's problems."""
ACTIVATIONS: dict[str, Callable] = {"relu": jax.nn.relu, "tanh": jnp.tanh, "silu": jax.nn.silu}


class Output(eqx.Module):
    """Q = offset + scale · output of the network."""

    offset: float = eqx.field(static=True)
    scale: float = eqx.field(static=True)


class QNetwork(eqx.Module):
    """state → Q of each action."""

    mlp: eqx.nn.MLP
    output: Output
    grid: Grid

    def __call__(self, state: Float[Array, " d"]) -> Float[Array, " A"]:
        return self.output.offset + self.output.scale * self.mlp(features(self.grid, state))


class StateValue(eqx.Module):
    """state → V."""

    mlp: eqx.nn.MLP
    output: Output
    grid: Grid

    def __call__(self, state: Float[Array, " d"]) -> Float[Array, ""]:
        return self.output.offset + self.output.scale * self.mlp(features(self.grid, state))


class Critic(eqx.Module):
    """(state, action) → Q; `low` and `high` are the ends of each coordinate of the actions."""

    mlp: eqx.nn.MLP
    output: Output
    grid: Grid
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, state: Float[Array, " d"], action: Float[Array, " k"]) -> Float[Array, ""]:
        low, high = jnp.asarray(self.low, action.dtype), jnp.asarray(self.high, action.dtype)
        scaled = (2 * action - low - high) / (high - low)
        return self.output.offset + self.output.scale * self.mlp(jnp.concatenate([features(self.grid, state), scaled]))


class Actor(eqx.Module):
    """state → action inside the range of the problem's."""

    mlp: eqx.nn.MLP
    grid: Grid
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, state: Float[Array, " d"]) -> Float[Array, " k"]:
        share = jnp.tanh(self.mlp(features(self.grid, state)))
        low, high = jnp.asarray(self.low, share.dtype), jnp.asarray(self.high, share.dtype)
        return (low + high) / 2 + (high - low) / 2 * share


def features(grid: Grid, state: Float[Array, " d"]) -> Float[Array, " f"]:
    """Each coordinate in [−1, 1]; periodic ones as cos and sin of the angle."""
    parts = []
    for i, (low, width) in enumerate(zip(grid.lower, grid.widths, strict=True)):
        share = (state[i] - low) / width
        angle = 2 * jnp.pi * share
        parts += [jnp.cos(angle), jnp.sin(angle)] if grid.periodic[i] else [2 * share - 1]
    return jnp.stack(parts)


def make_output(problem: Problem, config: DeepConfig, rewards: Float[np.ndarray, "S A"]) -> Output:
    """`raw`: (0, 1). `reward`: the value of the mean reward for ever, and what Q varies by."""
    if config.output == "raw":
        return Output(0.0, 1.0)
    spread = float(rewards.std())
    return Output(float(rewards.mean()) / (1 - problem.discount), SPREAD * spread if spread > 0 else 1.0)


def make_q_network(problem: Problem, config: DeepConfig, output: Output, *, key: Key) -> QNetwork:
    mlp = _mlp(config, _num_features(problem.grid), problem.num_actions, key=key)
    return QNetwork(mlp, output, problem.grid)


def make_state_value(problem: Problem, config: DeepConfig, output: Output, *, key: Key) -> StateValue:
    return StateValue(_mlp(config, _num_features(problem.grid), "scalar", key=key), output, problem.grid)


def make_critic(problem: Problem, config: DeepConfig, output: Output, *, key: Key) -> Critic:
    low, high = varying_range(problem)
    return Critic(_mlp(config, _num_features(problem.grid) + len(low), "scalar", key=key), output, problem.grid, low, high)


def make_actor(problem: Problem, config: DeepConfig, *, key: Key) -> Actor:
    low, high = varying_range(problem)
    return Actor(_mlp(config, _num_features(problem.grid), len(low), key=key), problem.grid, low, high)


def varying_range(problem: Problem) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The lowest and the highest action, coordinate by coordinate; refused where one does not vary."""
    low, high = action_range(problem)
    if np.any(low >= high):
        raise HamqError(
            f"ddpg: the actions of {problem.name} do not vary (coordinate {int(np.argmax(low >= high))}); an actor needs at "
            "least 2 different ones; use dqn."
        )
    return tuple(low.tolist()), tuple(high.tolist())


def _num_features(grid: Grid) -> int:
    return grid.dimension + sum(grid.periodic)


def _mlp(config: DeepConfig, num_inputs: int, num_outputs, *, key: Key) -> eqx.nn.MLP:
    activation = ACTIVATIONS[config.activation]
    return eqx.nn.MLP(num_inputs, num_outputs, config.width, config.depth, activation=activation, key=key)
