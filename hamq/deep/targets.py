"""Targets r + γ E[V'(s')] whose expectation comes from a sampler.

Every pair (s, a) that is trained on gets `num_sets` independent sets of draws, made at the start from the key of the run; a
visit of the pair takes one of its sets at random. A set of `IID(1)` is the one transition of the usual algorithms. Draws are
kept as grid states (`snap=True`), so that all samplers and Q* share the law of the problem, or as points (`snap=False`), at
which the target network is evaluated.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, Shaped

from hamq.learning.layout import smallest_integer
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler, Target
from hamq.types import Key

LANES = 256
"""Sets that are drawn side by side, at least where there are so many: a state has A · num_sets."""


class DrawSets(NamedTuple):
    """Draws of S states × K actions × sets, the draw axis last.

    `locations` are grid indices `[S, K, sets, n]` (snap), points `[S, K, sets, d, n]`, or None: each of the S grid states
    once, in order (`is_exhaustive`).
    """

    locations: Shaped[Array, "S K sets *d n"] | None
    weights: Float[Array, "S K sets n"]


class Spent(NamedTuple):
    """What drawing cost, per state: sums over actions and sets; `has_failed`: a pair has no valid draw."""

    density_evaluations: Int[Array, " S"]
    gradient_evaluations: Int[Array, " S"]
    has_failed: Bool[Array, " S"]


def draw_sets(
    problem: Problem,
    sampler: AbstractSampler,
    actions: Float[Array, "K"] | Float[Array, "K k"],
    num_sets: int,
    *,
    key: Key,
    snap: bool = True,
) -> tuple[DrawSets, Spent]:
    """`num_sets` independent sets of draws of a prepared sampler for these actions of every state; may be traced.

    Set i of a state has one key for all actions (coupled, as in `learning/draws.py`): their differences are less noisy.
    """
    is_exhaustive = sampler.is_exhaustive

    def draw_set(state, action, set_key):
        draws, info = sampler.draw(Target(problem, state, action), key=set_key)
        locations = None if is_exhaustive else draws.points
        if snap and not is_exhaustive:
            located = jax.vmap(problem.grid.locate, in_axes=1)(draws.points)
            locations = located.astype(smallest_integer(problem.num_states))
        return locations, jnp.exp(draws.log_weights), info

    def draw_state(row):
        state, index = row
        set_keys = jr.split(jr.fold_in(key, index), num_sets)
        of_an_action = jax.vmap(draw_set, in_axes=(None, None, 0))
        locations, weights, info = jax.vmap(of_an_action, in_axes=(None, 0, None))(state, actions, set_keys)
        spent = Spent(jnp.sum(info.density_evaluations), jnp.sum(info.gradient_evaluations), jnp.any(info.has_failed))
        return DrawSets(locations, weights), spent

    states = jnp.asarray(problem.grid.states(), jnp.float32)
    num_states, tile = len(states), max(1, LANES // (len(actions) * num_sets))
    if num_states <= tile:
        return jax.vmap(draw_state)((states, jnp.arange(num_states)))
    # The last tile is filled up: what is left over would be a second program.
    rows = jnp.resize(jnp.arange(num_states), (-(-num_states // tile), tile))
    tiles = jax.lax.map(jax.vmap(draw_state), (states[rows], rows))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:num_states], tiles)


def settled_sets(sampler: AbstractSampler, num_samples: int, num_sets: int | None, draws_per_pair: int) -> int:
    """The number of sets: what was asked for, else as many as make `draws_per_pair`; one where nothing is random."""
    if sampler.is_exhaustive:
        return 1
    return num_sets or -(-draws_per_pair // num_samples)


class Chosen(NamedTuple):
    """The pairs of one batch, m of each of R states, and the set that each takes, by their numbers."""

    state: Int[Array, " R"]
    action: Int[Array, "R m"]
    set: Int[Array, "R m"]


def choose(num_states: int, num_actions: int, num_sets: int, batch_size: int, whole_rows: bool, *, key: Key) -> Chosen:
    """`batch_size` pairs drawn uniformly, each with one of its sets; or whole rows of states, one set for a row."""
    state_key, action_key, set_key = jr.split(key, 3)
    num = -(-batch_size // num_actions) if whole_rows else batch_size
    state, of_set = jr.randint(state_key, (num,), 0, num_states), jr.randint(set_key, (num, 1), 0, num_sets)
    if not whole_rows:
        return Chosen(state, jr.randint(action_key, (num, 1), 0, num_actions), of_set)
    shape = (num, num_actions)
    return Chosen(state, jnp.broadcast_to(jnp.arange(num_actions), shape), jnp.broadcast_to(of_set, shape))


ValueAt = Callable[[Float[Array, "N d"]], Float[Array, " N"]]


def expectations(sets: DrawSets, chosen: Chosen, value: Float[Array, " S"] | ValueAt) -> Float[Array, "R m"]:
    """E[V'(s')] of each chosen pair: Σ_i w_i V'(s'_i), with V' a table on the grid, or a function of points.

    It is summed as V̄ + Σ_i w_i (V' − V̄), so that what is rounded is as small as V' varies.
    """
    pairs = (chosen.state[:, None], chosen.action, chosen.set)
    weights = sets.weights[pairs]
    if callable(value):
        assert sets.locations is not None
        points = jnp.moveaxis(sets.locations[pairs], -2, -1)
        values = value(points.reshape(-1, points.shape[-1])).reshape(weights.shape)
        middle = jnp.mean(values)
        return middle + jnp.sum(weights * (values - middle), axis=-1)
    middle = jnp.mean(value)
    if sets.locations is None:
        return middle + jnp.matmul(weights, value - middle, precision="highest")
    return middle + jnp.sum(weights * (value - middle)[sets.locations[pairs]], axis=-1)
