"""A neural V fitted to the same backups that `solve_tensor` makes: what a network does with the same knowledge.

    each round, until the backups are spent:
        random nodes of the grid, backed up with the draws of the tensor code: y = max_a r + γ·E[V(s')]
        y + γ/(1 − γ)·mean(y − V): what is missing everywhere is missing 1/(1 − γ) times, as in `solve_tensor`
        Adam on (V − y)², over these nodes

The budget is counted as there: one backup is one state whose best action is sought. Product laws, which the tensor code
sums exactly, are drawn. The nodes of a round are fresh, so that rms(y − V) before the fit is an honest residual.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.certificates.tensor_residual import random_nodes, states_at
from hamq.deep.config import DeepConfig
from hamq.deep.networks import StateValue, make_output, make_state_value
from hamq.errors import MissingExtraError
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.iid import IID
from hamq.solution import History
from hamq.tensor.backup import ended
from hamq.tensor.choice import Choices, best, make_choices
from hamq.tensor.expectation import AbstractExpectation, Cloud, best_sampler, make_expectation, require_honoured
from hamq.types import HamqError, Key, as_key, require_count

try:
    import optax
except ImportError as error:
    raise MissingExtraError("hamq.deep needs optax: pip install 'hamq[deep]'.") from error

NUM_PRODUCT = 128
"""Draws of a product law."""
EVALUATIONS_PER_TILE = 8192


@dataclasses.dataclass(frozen=True)
class FittedConfig:
    """Settings of fitted value iteration."""

    backups_per_round: int = 2048
    """Nodes that are backed up before the network is fitted again."""
    steps_per_round: int = 300
    """Steps of Adam per round."""
    batch_size: int = 512
    """Nodes per step of Adam."""
    learning_rate: float = 3e-3
    """Of Adam; it falls to 0 along a cosine."""
    width: int = 64
    """Units of each hidden layer."""
    depth: int = 2
    """Hidden layers."""

    def __post_init__(self):
        for name in ("backups_per_round", "steps_per_round", "batch_size", "width", "depth"):
            require_count(f"FittedConfig: {name}", getattr(self, name))
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise HamqError(f"FittedConfig: learning_rate must be a positive number, got {self.learning_rate!r}.")


class Operator(eqx.Module):
    """All that a backup needs but V."""

    problem: Problem
    choices: Choices
    expectation: AbstractExpectation

    def greedy(self, network: StateValue, states: Float[Array, "T d"]) -> tuple[Float[Array, " T"], Int[Array, "T k"]]:
        """(value, levels) of the best action found in each state."""
        start = jnp.broadcast_to(jnp.asarray(self.choices.middle())[None, :], (len(states), self.choices.num_actuators))
        values, levels = best(self.choices, lambda tried: self._action_values(network, states, tried), start)
        return jnp.where(ended(self.problem, states), 0, values), levels

    def _action_values(self, network: StateValue, states: Array, levels: Int[Array, "T C k"]) -> Float[Array, "T C"]:
        discount = jnp.asarray(self.problem.discount, states.dtype)

        def pair(state, chosen):
            action = self.choices.action(chosen)
            cloud = self.expectation.prepare(state, action)
            assert isinstance(cloud, Cloud)
            expected = jnp.sum(cloud.weights * value_at(self.problem, network, cloud.points.T))
            return jnp.asarray(self.problem.reward(state, action)) + discount * expected

        return jax.vmap(jax.vmap(pair, (None, 0)))(states, levels)


def value_at(problem: Problem, network: StateValue, states: Float[Array, "N d"]) -> Float[Array, " N"]:
    """V, 0 in terminal states."""
    return jnp.where(ended(problem, states), 0, jax.vmap(network)(states))


@eqx.filter_jit
def _backups(operator: Operator, network: StateValue, tiles: Float[Array, "tiles T d"]):
    return jax.lax.map(lambda states: operator.greedy(network, states), tiles)


@eqx.filter_jit
def _values(problem: Problem, network: StateValue, states: Float[Array, "B d"]) -> Float[Array, " B"]:
    return value_at(problem, network, states)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkSolution:
    """V as a network, and one backup of it: what `rollouts` and `tensor_residuals` ask for.

    `history` has one row per round: backups (so far), residual (rms of backup − V over the fresh nodes of the round,
    before the fit, as a part of the rms of V).
    """

    problem: Problem
    network: StateValue
    operator: Operator
    history: History

    def value(self, states: Any) -> Float[np.ndarray, " B"]:
        return np.asarray(_values(self.problem, self.network, jnp.asarray(states, jnp.float32)), np.float64)

    def backup(self, states: Any) -> Float[np.ndarray, " B"]:
        """max_a Q(s, a)."""
        return np.asarray(self._greedy(states)[0], np.float64)

    def actions(self, states: Any) -> Float[np.ndarray, "B *k"]:
        """The best actions found: `[B]`, or `[B, k]` with several actuators."""
        return self.operator.choices.actions(self._greedy(states)[1]).astype(np.float64)

    def __repr__(self) -> str:
        spent, residual = int(self.history.backups[-1]), float(self.history.residual[-1])
        return f"NetworkSolution({self.problem.name!r}: residual {residual:.2%} of V after {spent:,} backups)"

    def _greedy(self, states: Any) -> tuple[np.ndarray, np.ndarray]:
        return backup_each(self.operator, self.network, np.asarray(states, np.float32))


def backup_each(operator: Operator, network: StateValue, states: Float[np.ndarray, "B d"]) -> tuple[np.ndarray, np.ndarray]:
    """(values, levels) in tiles of one size, the last one filled up."""
    per_state = operator.expectation.cost.samples * max(operator.choices.sizes)
    tile = max(1, min(len(states), EVALUATIONS_PER_TILE // max(per_state, 1)))
    filled = np.resize(np.arange(len(states)), (-(-len(states) // tile), tile))
    values, levels = _backups(operator, network, jnp.asarray(states[filled]))
    flat = np.asarray(values).reshape(-1), np.asarray(levels).reshape(-1, operator.choices.num_actuators)
    return flat[0][: len(states)], flat[1][: len(states)]


def fit_value_network(
    problem: Problem,
    *,
    max_backups: int,
    config: FittedConfig | None = None,
    sampler: AbstractSampler | None = None,
    key: Key | int = 0,
) -> NetworkSolution:
    """Fitted value iteration with at most `max_backups` backups, whole rounds of them.

    sampler     None: what `solve_tensor` takes, and IID(128) for product laws
    """
    config = FittedConfig() if config is None else config
    require_count("fit_value_network: max_backups", max_backups)
    num_rounds = max_backups // config.backups_per_round
    if num_rounds < 1:
        raise HamqError(
            f"fit_value_network: max_backups = {max_backups} is less than one round of {config.backups_per_round}; "
            "raise it, or lower backups_per_round."
        )
    init_key, reward_key, draw_key, round_key = jr.split(as_key(key), 4)
    operator = make_operator(problem, sampler, key=draw_key)
    network = first_network(operator, config, init_key=init_key, reward_key=reward_key)
    optimiser = _adam(config.learning_rate, num_rounds * config.steps_per_round)
    memory = optimiser.init(eqx.filter(network, eqx.is_array))
    pull, residuals = problem.discount / (1 - problem.discount), []
    for number in range(num_rounds):
        node_key, batch_key = jr.split(jr.fold_in(round_key, number))
        states = states_at(problem.grid, random_nodes(problem.grid, config.backups_per_round, key=node_key))
        targets = backup_each(operator, network, states)[0].astype(np.float64)
        values = np.asarray(_values(problem, network, jnp.asarray(states)), np.float64)
        residuals.append(math.sqrt(np.mean((targets - values) ** 2)) / max(math.sqrt(np.mean(values**2)), 1e-30))
        wanted = jnp.asarray(targets + pull * np.mean(targets - values), jnp.float32)
        nodes = Nodes(jnp.asarray(states), wanted)
        network, memory = _fit(optimiser, config, problem, network, memory, nodes, key=batch_key)
    spent = np.arange(1, num_rounds + 1) * config.backups_per_round
    return NetworkSolution(problem, network, operator, History(backups=spent, residual=np.asarray(residuals)))


@functools.lru_cache(maxsize=8)
def _adam(learning_rate: float, num_steps: int) -> optax.GradientTransformation:
    """One for the same settings: the programs that were compiled for it are found again."""
    return optax.adam(optax.cosine_decay_schedule(learning_rate, num_steps))


class Nodes(NamedTuple):
    """The states of a round and what V should be there."""

    states: Float[Array, "P d"]
    targets: Float[Array, " P"]


@eqx.filter_jit
def _fit(optimiser, config: FittedConfig, problem: Problem, network: StateValue, memory, nodes: Nodes, *, key: Key):
    """(network, memory of Adam) after the steps of one round."""
    weights, rest = eqx.partition(network, eqx.is_array)

    def loss(weights, states, targets):
        missing = value_at(problem, eqx.combine(weights, rest), states) - targets
        return jnp.mean((missing / network.output.scale) ** 2)

    def step(carry, number):
        weights, memory = carry
        picked = jr.randint(jr.fold_in(key, number), (config.batch_size,), 0, len(nodes.targets))
        gradient = jax.grad(loss)(weights, nodes.states[picked], nodes.targets[picked])
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in integers
            change, memory = optimiser.update(gradient, memory, weights)
        return (optax.apply_updates(weights, change), memory), None

    numbers = jnp.arange(config.steps_per_round)
    (weights, memory), _ = jax.lax.scan(step, (weights, memory), numbers)
    return eqx.combine(weights, rest), memory


def make_operator(problem: Problem, sampler: AbstractSampler | None, *, key: Key) -> Operator:
    sampler = best_sampler(problem) if sampler is None else sampler
    require_honoured("fit_value_network", sampler)
    if sampler.is_exhaustive:
        sampler = IID(NUM_PRODUCT)  # a network has no sums over nodes
    choices, order = make_choices(problem), tuple(range(problem.grid.dimension))
    seed = int(jr.randint(key, (), 0, 2**31 - 1))
    return Operator(problem, choices, make_expectation(problem, sampler, choices, order, seed))


def first_network(operator: Operator, config: FittedConfig, *, init_key: Key, reward_key: Key) -> StateValue:
    """Scaled by the rewards of random pairs."""
    problem, choices = operator.problem, operator.choices
    states = states_at(problem.grid, random_nodes(problem.grid, 1024, key=reward_key))
    levels = choices.random(np.random.default_rng(0), len(states))
    rewards = jax.jit(jax.vmap(lambda s, chosen: jnp.asarray(problem.reward(s, choices.action(chosen)))))
    found = np.asarray(rewards(jnp.asarray(states), jnp.asarray(levels)), np.float64)[:, None]
    shape = DeepConfig(width=config.width, depth=config.depth)
    return make_state_value(problem, shape, make_output(problem, shape, found), key=init_key)
