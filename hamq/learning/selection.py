"""Step 1 of Algorithm 1: Ω_t, the pairs that are backed up in iteration t.

Pairs come as blocks of states, each with the same number of actions, which is how draws are batched. Selections:

per_state  the same number of actions in every state, chosen anew in every iteration: no row is ever empty
bernoulli  the paper's coins: each pair with probability `fraction`; at 0.2 and 10 actions 11 % of the rows are empty
anchors    some actions in all states and all actions in some states, the same in every iteration
all        every pair
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Int

from hamq.problem.problem import Problem
from hamq.types import Key


class Pairs(NamedTuple):
    """The pairs (states[i], actions[i, j]), by their indices."""

    states: Int[np.ndarray, " R"]
    actions: Int[np.ndarray, "R K"]

    @property
    def num(self) -> int:
        return self.actions.size


def all_pairs(problem: Problem) -> Pairs:
    return some_actions(problem, np.arange(problem.num_actions))


def some_actions(problem: Problem, actions: Int[np.ndarray, " K"]) -> Pairs:
    """These actions in all states."""
    return Pairs(np.arange(problem.num_states), np.broadcast_to(actions, (problem.num_states, len(actions))))


def some_states(problem: Problem, states: Int[np.ndarray, " R"]) -> Pairs:
    """All actions in these states."""
    return Pairs(states, np.broadcast_to(np.arange(problem.num_actions), (len(states), problem.num_actions)))


def per_state(problem: Problem, fraction: float, *, key: Key) -> Pairs:
    """max(1, round(fraction·A)) actions of each state, drawn without replacement."""
    num = max(1, round(fraction * problem.num_actions))
    return Pairs(np.arange(problem.num_states), _first_of_shuffled(problem, key)[:, :num])


def bernoulli(problem: Problem, fraction: float, *, key: Key) -> Pairs:
    """Each pair with probability `fraction`, one row per pair."""
    coins = np.asarray(jr.uniform(key, (problem.num_states, problem.num_actions))) < fraction
    states, actions = np.nonzero(coins)
    return Pairs(states, actions[:, None])


def as_mask(problem: Problem, blocks: tuple[Pairs, ...]) -> Bool[np.ndarray, "S A"]:
    mask = np.zeros((problem.num_states, problem.num_actions), bool)
    for block in blocks:
        mask[block.states[:, None], block.actions] = True
    return mask


def _first_of_shuffled(problem: Problem, key: Key) -> np.ndarray:
    numbers = jr.uniform(key, (problem.num_states, problem.num_actions))
    return np.asarray(jax.jit(jnp.argsort)(numbers))
