"""Deep deterministic policy gradient: critic Q(s, a) on r + γ E[Q'(s', π'(s'))], actor π along ∇_a Q(s, π(s)).

The critic is trained on a few of the problem's actions, spread evenly; it is a function of the action, and is tabulated
on all of them. The actor's action is rounded to the nearest of the problem's where the number of an action is needed.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.control.action_range import action_table
from hamq.deep.config import DeepConfig
from hamq.deep.learner import AbstractLearner, Batch, Parameters
from hamq.deep.networks import Output, make_actor, make_critic, varying_range
from hamq.problem.problem import Problem
from hamq.types import Key


class Pair(NamedTuple):
    """Parameters, or networks."""

    critic: Any
    actor: Any


class DDPG(AbstractLearner):
    """A critic and an actor; `trained` are the actions of the critic's pairs, `frame` the networks without parameters."""

    problem: Problem
    config: DeepConfig = eqx.field(static=True)
    output: Output
    trained: Float[np.ndarray, "K k"]
    frame: Pair

    def init(self, *, key: Key) -> Parameters:
        return eqx.filter(make_networks(self.problem, self.config, self.output, key=key), eqx.is_array)

    def gradient(self, parameters: Parameters, batch: Batch) -> Parameters:
        critic, actor = parameters
        return Pair(jax.grad(self.critic_loss)(critic, actor, batch), jax.grad(self.actor_loss)(actor, critic, batch))

    def critic_loss(self, critic: Parameters, actor: Parameters, batch: Batch) -> Float[Array, ""]:
        """Mean square of (Q(s, a) − target)/scale."""
        network = self._complete(critic, actor).critic
        actions = jnp.asarray(self.trained, batch.states.dtype)[batch.action]
        q = jax.vmap(jax.vmap(network, in_axes=(None, 0)))(batch.states, actions)
        return jnp.mean(((q - batch.targets) / self.output.scale) ** 2)

    def actor_loss(self, actor: Parameters, critic: Parameters, batch: Batch) -> Float[Array, ""]:
        """−mean of Q(s, π(s))/scale over the states of the batch."""
        networks = self._complete(critic, actor)
        q = jax.vmap(networks.critic)(batch.states, jax.vmap(networks.actor)(batch.states))
        return -jnp.mean((q - self.output.offset) / self.output.scale)

    def value(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, " N"]:
        networks = self._complete(*parameters)
        return jax.vmap(lambda state: networks.critic(state, networks.actor(state)))(states)

    def table(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, "N A"]:
        critic = self._complete(*parameters).critic
        actions = jnp.asarray(action_table(self.problem), states.dtype)
        return jax.vmap(lambda state: jax.vmap(lambda action: critic(state, action))(actions))(states)

    def actions(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, "N k"]:
        return jax.vmap(self._complete(*parameters).actor)(states)

    def policy(self, q: Float[Array, "N A"], actions: Float[Array, "N k"]) -> Int[Array, " N"]:
        del q
        known = jnp.asarray(action_table(self.problem), actions.dtype)
        low, high = (jnp.asarray(end, actions.dtype) for end in varying_range(self.problem))
        distances = jnp.sum(((actions[:, None, :] - known[None, :, :]) / (high - low)[None, None, :]) ** 2, axis=2)
        return jnp.argmin(distances, axis=1).astype(jnp.int32)

    def _complete(self, critic: Parameters, actor: Parameters) -> Pair:
        return eqx.combine(Pair(critic, actor), self.frame)


def make_networks(problem: Problem, config: DeepConfig, output: Output, *, key: Key) -> Pair:
    critic_key, actor_key = jr.split(key)
    return Pair(make_critic(problem, config, output, key=critic_key), make_actor(problem, config, key=actor_key))


def make_ddpg(problem: Problem, config: DeepConfig, output: Output) -> tuple[DDPG, Int[np.ndarray, " K"]]:
    """The learner and the numbers of the actions that its critic trains on."""
    frame = eqx.filter(make_networks(problem, config, output, key=jr.key(0)), eqx.is_array, inverse=True)
    num = min(config.num_train_actions, problem.num_actions)
    chosen = np.unique(np.linspace(0, problem.num_actions - 1, num).round().astype(np.int64))
    return DDPG(problem, config, output, action_table(problem)[chosen], frame), chosen
