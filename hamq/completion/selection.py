"""Step 1 of Algorithm 1: Ω_t, the pairs that are backed up in iteration t.

Pairs come as blocks of states, each with the same number of actions, which is how draws are batched. Selections:

per_state  the same number of actions in every state, chosen anew in every iteration: no row is ever empty
bernoulli  the paper's coins: each pair with probability `fraction`; at 0.2 and 10 actions 11 % of the rows are empty
all        every pair

Completions may choose Ω themselves, as `Anchors` does: some actions in all states and all actions in some states.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Int

from hamq.problem.problem import Problem
from hamq.types import Key

Selection = Literal["per_state", "bernoulli", "all"]
FRACTION = 0.2
"""The paper's p, for `per_state` and `bernoulli`."""


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


def chosen(problem: Problem, selection: Selection, fraction: float, *, key: Key) -> Pairs:
    """Ω_t by its name."""
    if selection == "all":
        return all_pairs(problem)
    return (per_state if selection == "per_state" else bernoulli)(problem, fraction, key=key)


def as_mask(problem: Problem, blocks: tuple[Pairs, ...]) -> Bool[np.ndarray, "S A"]:
    mask = np.zeros((problem.num_states, problem.num_actions), bool)
    for block in blocks:
        mask[block.states[:, None], block.actions] = True
    return mask


def _first_of_shuffled(problem: Problem, key: Key) -> np.ndarray:
    numbers = jr.uniform(key, (problem.num_states, problem.num_actions))
    return np.asarray(jax.jit(jnp.argsort)(numbers))
