"""What the training loop asks of an algorithm; parameters are pytrees of arrays, `states` a batch.

Deep Q-network: regression of Q(s, a) on r + γ E[max_a' Q'(s', a')], Q' a copy that is renewed now and then.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.deep.config import DeepConfig
from hamq.deep.networks import Output, QNetwork, make_q_network
from hamq.problem.problem import Problem
from hamq.types import Key

Parameters = Any
"""A pytree of arrays."""


class Batch(NamedTuple):
    """R states, m pairs of each, and their targets; `action` is the number of a training action."""

    states: Float[Array, "R d"]
    action: Int[Array, "R m"]
    targets: Float[Array, "R m"]


class AbstractLearner(eqx.Module):
    """One algorithm on one problem."""

    @abc.abstractmethod
    def init(self, *, key: Key) -> Parameters:
        """Fresh networks."""

    @abc.abstractmethod
    def gradient(self, parameters: Parameters, batch: Batch) -> Parameters:
        """What the optimiser descends along."""

    @abc.abstractmethod
    def value(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, " N"]:
        """V'(s) in the target: what the policy gets in each state, by the networks."""

    @abc.abstractmethod
    def table(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, "N A"]:
        """Q of all actions of the problem."""

    @abc.abstractmethod
    def actions(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, "N k"] | None:
        """What the actor does; None without one."""

    @abc.abstractmethod
    def policy(self, q: Float[Array, "N A"], actions: Float[Array, "N k"] | None) -> Int[Array, " N"]:
        """The number of the problem's action that is taken in each state."""


class DQN(AbstractLearner):
    """One network with an output per action; `frame` is the network without its parameters."""

    problem: Problem
    config: DeepConfig = eqx.field(static=True)
    output: Output
    frame: QNetwork

    def init(self, *, key: Key) -> Parameters:
        return eqx.filter(make_q_network(self.problem, self.config, self.output, key=key), eqx.is_array)

    def gradient(self, parameters: Parameters, batch: Batch) -> Parameters:
        return jax.grad(self.loss)(parameters, batch)

    def loss(self, parameters: Parameters, batch: Batch) -> Float[Array, ""]:
        """Mean square of (Q(s, a) − target)/scale."""
        q = self.table(parameters, batch.states)
        errors = jnp.take_along_axis(q, batch.action, axis=1) - batch.targets
        return jnp.mean((errors / self.output.scale) ** 2)

    def value(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, " N"]:
        return jnp.max(self.table(parameters, states), axis=1)

    def table(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, "N A"]:
        return jax.vmap(self._complete(parameters))(states)

    def actions(self, parameters, states) -> None:
        del parameters, states

    def policy(self, q: Float[Array, "N A"], actions: None) -> Int[Array, " N"]:
        del actions
        return jnp.argmax(q, axis=1).astype(jnp.int32)

    def _complete(self, parameters: Parameters) -> QNetwork:
        return eqx.combine(parameters, self.frame)


def make_dqn(problem: Problem, config: DeepConfig, output: Output) -> tuple[DQN, Int[np.ndarray, " A"]]:
    """The learner and the numbers of the actions that it trains on: all of them."""
    frame = eqx.filter(make_q_network(problem, config, output, key=jr.key(0)), eqx.is_array, inverse=True)
    return DQN(problem, config, output, frame), np.arange(problem.num_actions)
