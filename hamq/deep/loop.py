"""The training loop as one pure function of a key.

    networks and target networks from the key; draws of the next state for every pair from the key
    each step t = 0, 1, …:
        every `target_period` steps, at t = 0 first: target networks ← networks
        a batch of pairs (s, a), uniform on grid × training actions, with one of their sets of draws
        y = r(s, a) + γ Σ_i w_i V'(s'_i),   V' = max_a Q' (DQN) or Q'(·, π'(·)) (DDPG) of the target networks
        one step of Adam on the batch

The model is known: every pair can be visited at will, so there is no exploration and no replay memory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.deep.config import DeepConfig
from hamq.deep.learner import Batch, Parameters
from hamq.deep.plan import Plan
from hamq.deep.targets import DrawSets, Spent, choose, draw_sets, expectations
from hamq.errors import MissingExtraError
from hamq.problem.problem import action_values
from hamq.types import Key

try:
    import optax
except ImportError as error:
    raise MissingExtraError("hamq.deep needs optax: pip install 'hamq[deep]'.") from error


class Curves(NamedTuple):
    """One row per record, the start first; distances are NaN where no exact table was given.

    frobenius   ‖Q − Q*‖_F/‖Q*‖_F; its square is the normalised mean squared error
    advantage   the same for Q − mean_a Q
    mse         mean (Q − Q*)²
    policies    the action that is taken in each state
    """

    step: Int[Array | np.ndarray, "*rows"]
    frobenius: Float[Array | np.ndarray, "*rows"]
    advantage: Float[Array | np.ndarray, "*rows"]
    mse: Float[Array | np.ndarray, "*rows"]
    policies: Int[Array | np.ndarray, "*rows S"]


class Trained(NamedTuple):
    """What training ends with, as arrays.

    `policy` is DQN's greedy action, for DDPG the one nearest to the actor's; `actions` is what the actor does (None for
    DQN); `greedy` is argmax of `q`, the same as `policy` for DQN.
    """

    q: Float[Array | np.ndarray, "S A"]
    policy: Int[Array | np.ndarray, " S"]
    greedy: Int[Array | np.ndarray, " S"]
    actions: Float[Array | np.ndarray, "S k"] | None
    curves: Curves
    spent: Spent
    parameters: Parameters


class State(NamedTuple):
    """What the next step needs; `value` is V' on the grid, None where it is evaluated at the draws."""

    parameters: Parameters
    target: Parameters
    value: Float[Array, " S"] | None
    optimiser: Any


def train_function(plan: Plan, exact_q: np.ndarray | None) -> Callable[[Key], Trained]:
    problem, config, learner = plan.problem, plan.config, plan.learner
    optimiser = optax.adam(_learning_rate(config))
    per_record = config.steps // config.num_records

    def train(key: Key) -> Trained:
        init_key, draw_key, batch_key = jr.split(key, 3)
        states = jnp.asarray(problem.grid.states(), jnp.float32)
        actions = action_values(problem)[plan.trained]
        sets, spent = draw_sets(problem, plan.sampler, actions, plan.num_sets, key=draw_key, snap=config.snap)
        step = make_step(plan, sets, states, optimiser, batch_key)
        parameters = learner.init(key=init_key)
        start = State(parameters, parameters, value_table(plan, parameters, states), optimiser.init(parameters))

        def record(state: State, steps: Int[Array, " steps"]):
            state, _ = jax.lax.scan(step, state, steps)
            return state, _row(plan, state.parameters, states, steps[-1] + 1, exact_q)

        first = _row(plan, parameters, states, jnp.zeros((), jnp.int32), exact_q)
        numbers = jnp.arange(config.steps, dtype=jnp.int32).reshape(config.num_records, per_record)
        state, rows = jax.lax.scan(record, start, numbers)
        curves = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)
        q = q_table(plan, state.parameters, states)
        done = learner.actions(state.parameters, states)
        greedy = jnp.argmax(q, axis=1).astype(jnp.int32)
        return Trained(q, learner.policy(q, done), greedy, done, curves, spent, state.parameters)

    return train


def make_step(plan: Plan, sets: DrawSets, states: Float[Array, "S d"], optimiser, batch_key: Key):
    """(State, number of the step) → State."""
    config, learner = plan.config, plan.learner
    rewards = jnp.asarray(plan.rewards[:, plan.trained], jnp.float32)
    discounts = jnp.full((len(states),), plan.problem.discount, jnp.float32)
    if plan.ended is not None:
        discounts = jnp.where(jnp.asarray(plan.ended), 0, discounts)

    def renewed(state: State) -> State:
        return state._replace(target=state.parameters, value=value_table(plan, state.parameters, states))

    def step(state: State, number: Int[Array, ""]) -> tuple[State, None]:
        # The number is the same for all seeds: under vmap this stays a branch.
        state = jax.lax.cond(number % config.target_period == 0, renewed, lambda state: state, state)
        key = jr.fold_in(batch_key, number)
        chosen = choose(len(states), len(plan.trained), plan.num_sets, config.batch_size, config.whole_rows, key=key)
        value = (lambda points: value_at(plan, state.target, points)) if state.value is None else state.value
        state_index = chosen.state[:, None]
        targets = rewards[state_index, chosen.action] + discounts[state_index] * expectations(sets, chosen, value)
        gradient = learner.gradient(state.parameters, Batch(states[chosen.state], chosen.action, targets))
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers
            change, memory = optimiser.update(gradient, state.optimiser, state.parameters)
        parameters = optax.apply_updates(state.parameters, change)
        return state._replace(parameters=parameters, optimiser=memory), None

    return step


def value_table(plan: Plan, parameters: Parameters, states: Float[Array, "S d"]) -> Float[Array, " S"] | None:
    """V' on the grid, 0 in terminal states; None where the draws are not snapped to it."""
    if not plan.config.snap:
        return None
    value = plan.learner.value(parameters, states)
    return value if plan.ended is None else jnp.where(jnp.asarray(plan.ended), 0, value)


def value_at(plan: Plan, parameters: Parameters, points: Float[Array, "N d"]) -> Float[Array, " N"]:
    """V' at any points, 0 in terminal states."""
    value, terminal = plan.learner.value(parameters, points), plan.problem.terminal
    return value if terminal is None else jnp.where(jax.vmap(terminal)(points), 0, value)


def q_table(plan: Plan, parameters: Parameters, states: Float[Array, "S d"]) -> Float[Array, "S A"]:
    q = plan.learner.table(parameters, states)
    return q if plan.ended is None else jnp.where(jnp.asarray(plan.ended)[:, None], 0, q)


def _row(plan: Plan, parameters: Parameters, states, number: Array, exact_q: np.ndarray | None) -> Curves:
    q = q_table(plan, parameters, states)
    policy = plan.learner.policy(q, plan.learner.actions(parameters, states))
    if exact_q is None:
        unknown = jnp.full((), jnp.nan, q.dtype)
        return Curves(number, unknown, unknown, unknown, policy)
    exact = jnp.asarray(exact_q, q.dtype)
    frobenius, advantage = _distance(q, exact), _distance(_centred(q), _centred(exact))
    return Curves(number, frobenius, advantage, jnp.mean((q - exact) ** 2), policy)


def _centred(q: Float[Array, "S A"]) -> Float[Array, "S A"]:
    return q - jnp.mean(q, axis=1, keepdims=True)


def _distance(q: Float[Array, "S A"], exact: Float[Array, "S A"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum((q - exact) ** 2) / jnp.sum(exact**2))


def _learning_rate(config: DeepConfig):
    if config.schedule == "constant":
        return config.learning_rate
    return optax.cosine_decay_schedule(config.learning_rate, config.steps)
