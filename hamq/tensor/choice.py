"""The best action of a state: all of them where they are few, else one actuator after the other, from several starts.

An action is a vector of level numbers, one per actuator; a set that is no product is one actuator whose levels are its
actions. Coordinate ascent ends where no change of a single actuator is better; whether that is the best of all is
measured against enumeration on some states (`TensorSolution.action_gap`).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.problem.problem import Problem

MAX_ENUMERATED = 32
"""Actions up to which a product set is enumerated; beyond, coordinates are cheaper."""
NUM_SWEEPS = 2

Values = Callable[[Int[Array, "T C k"]], Float[Array, "T C"]]
ValuesAndMore = Callable[[Int[Array, "T C k"]], tuple[Float[Array, "T C"], Any]]


class Choices(eqx.Module):
    """The set of actions, as numbers of levels: `tables[i]` are the levels of actuator i, padded by its last one."""

    tables: Float[Array, "k L *parts"]
    sizes: tuple[int, ...] = eqx.field(static=True)
    is_product: bool = eqx.field(static=True)

    @property
    def num_actuators(self) -> int:
        return len(self.sizes)

    def action(self, levels: Int[Array, " k"]) -> Float[Array, "*k"]:
        """The action that user functions are called with."""
        if self.is_product:
            return self.tables[jnp.arange(self.num_actuators), levels]
        return self.tables[0, levels[0]]

    def actions(self, levels: Int[np.ndarray, "B k"]) -> Float[np.ndarray, "B *k"]:
        """The same for many, on the host, where nothing is compiled for their number."""
        tables = np.asarray(self.tables)
        return tables[np.arange(self.num_actuators), levels] if self.is_product else tables[0, levels[:, 0]]

    def middle(self) -> Int[np.ndarray, " k"]:
        return np.asarray([n // 2 for n in self.sizes], np.int32)

    def starts(self, count: int) -> Int[np.ndarray, "starts k"]:
        """Where coordinate ascent begins: the middle, then random levels; the same for all states."""
        draws = np.random.default_rng(0).integers(0, self.sizes, (max(count - 1, 0), self.num_actuators))
        return np.concatenate([self.middle()[None, :], draws]).astype(np.int32)[:count]

    def random(self, generator: np.random.Generator, count: int) -> Int[np.ndarray, "count k"]:
        return generator.integers(0, self.sizes, (count, self.num_actuators)).astype(np.int32)


def make_choices(problem: Problem, max_enumerated: int = MAX_ENUMERATED) -> Choices:
    levels = problem.action_levels
    if levels is None or problem.num_actions <= max_enumerated:
        return Choices(jax.device_put(np.asarray(problem.actions, np.float32)[None]), (problem.num_actions,), False)
    sizes = tuple(len(of_one) for of_one in levels)
    table = [[*of_one, *[of_one[-1]] * (max(sizes) - len(of_one))] for of_one in levels]
    return Choices(jax.device_put(np.asarray(table, np.float32)), sizes, True)


def best(choices: Choices, values: Values, starts: Int[Array, "T k"]) -> tuple[Float[Array, " T"], Int[Array, "T k"]]:
    """(value, levels) of the best action found for each state, from one start per state."""
    return best_and_more(choices, lambda levels: (values(levels), ()), starts[None], ())[:2]


def best_and_more(
    choices: Choices,
    values: ValuesAndMore,
    starts: Int[Array, "W T k"],
    nothing: Any,
    is_fixed: Bool[Array, " T"] | bool = False,
) -> tuple[Float[Array, " T"], Int[Array, "T k"], Any]:
    """(value, levels, what `values` gave beside it) of the best action found, from some starts per state.

    `nothing` has the shapes of that for one action per state. All starts share one loop: what is in it is compiled once.
    A state that `is_fixed` keeps the action of its first start: the same program then asks for one pair.
    """
    own, is_fixed = starts[0], jnp.broadcast_to(jnp.asarray(is_fixed), starts.shape[1:2])
    sizes = jnp.asarray(choices.sizes, jnp.int32)
    levels = jnp.arange(max(choices.sizes), dtype=jnp.int32)

    def improve(i, chosen):
        tried = jnp.minimum(levels, sizes[i] - 1)
        candidates = jnp.broadcast_to(chosen[:, None, :], (chosen.shape[0], len(levels), chosen.shape[1]))
        candidates = jnp.where(jnp.arange(chosen.shape[1])[None, None, :] == i, tried[None, :, None], candidates)
        found, more = values(candidates)
        top = jnp.where(is_fixed, own[:, i], jnp.argmax(found, axis=1))
        value, more = jax.tree.map(lambda leaf: leaf[jnp.arange(len(top)), top], (found, more))
        return value, chosen.at[:, i].set(tried[top]), more

    if choices.num_actuators == 1:
        return improve(0, own)
    num_steps = NUM_SWEEPS * choices.num_actuators

    def step(number, carry):
        chosen, (value, best_levels, kept) = carry
        start = jnp.where(is_fixed[:, None], own, starts[number // num_steps])
        chosen = jnp.where(number % num_steps == 0, start, chosen)
        found, chosen, more = improve(number % choices.num_actuators, chosen)
        is_last = (number + 1) % num_steps == 0
        is_better = is_last & (found > value)

        def better(new, old):
            return jnp.where(is_better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

        value = jnp.where(is_last, jnp.maximum(value, found), value)  # where one start has no number, the state has none
        return chosen, (value, better(chosen, best_levels), jax.tree.map(better, more, kept))

    empty = jnp.full((starts.shape[1],), -jnp.inf, jnp.float32)
    return jax.lax.fori_loop(0, len(starts) * num_steps, step, (own, (empty, own, nothing)))[1]
