"""Fresh draws for any list of pairs, looked at through a few functions of the next state, a round at a time.

The key of a round is folded in with the index of the state: the actions of a state share their random numbers (unless
`coupled` is False), and rounds share none, neither among themselves nor with the draws that a table was learnt from.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int

from hamq.certificates.variates import has_conditionals, has_stein, look
from hamq.learning import draws as drawing
from hamq.learning.backup import single
from hamq.learning.devices import own_device
from hamq.learning.draws import Cost, in_calls, lay_out, over_tiles
from hamq.problem.problem import Problem, action_values
from hamq.sampling.draws import AbstractSampler, Target
from hamq.types import Key


class Source(NamedTuple):
    """Where draws come from: a prepared sampler, with what is looked at beside V and how many draws a round has per pair."""

    problem: Problem
    sampler: AbstractSampler
    key: Key
    per_round: int
    conditions: bool
    uses_stein: bool
    coupled: bool


class Seen(NamedTuple):
    """Of P pairs, in float64: `[P, J, n]`, `[P, J, n]`, `[P, k, n]`, and `[P, n]` or `[P, d, n]` where draws lie on the
    grid."""

    plain: Float[np.ndarray, "P J n"]
    conditional: Float[np.ndarray, "P J n"] | None
    stein: Float[np.ndarray, "P k n"] | None
    locations: np.ndarray | None
    cost: Cost


def make_source(
    problem: Problem, sampler: AbstractSampler, per_round: int, variates: bool, coupled: bool, *, key: Key
) -> tuple[Source, Cost]:
    prepare_key, draw_key = jr.split(key)
    sampler, cost = drawing.prepare(problem, sampler, key=prepare_key)
    # Draws from masses are nodes, not states of the density: nothing that is known of it holds for them.
    variates = variates and getattr(sampler, "method", None) != "masses"
    conditions, stein = variates and has_conditionals(problem), variates and has_stein(problem)
    return Source(problem, sampler, draw_key, per_round, conditions, stein, coupled), cost


def draw_round(
    source: Source,
    states: Int[np.ndarray, " P"],
    actions: Int[np.ndarray, " P"],
    functions: Float[np.ndarray, "J S"],
    number: int,
    *,
    keeps_locations: bool = False,
) -> Seen:
    """One round of draws of these pairs; the same number gives the same draws again."""
    problem, devices = source.problem, own_device()
    rows = lay_out(states, actions[:, None], devices)
    compute = functools.partial(
        _look_at_tiles,
        problem,
        source.sampler,
        functions=single(functions),
        key=jr.fold_in(source.key, number),
        conditions=source.conditions,
        uses_stein=source.uses_stein,
        coupled=source.coupled,
        keeps_locations=keeps_locations,
    )
    (looked, locations), info = in_calls(problem, rows, compute, devices)
    info = drawing.checked_info(problem, states, actions[:, None], rows, info, devices)
    cost = drawing.cost_of(info, source.per_round)
    if source.uses_stein:
        cost = cost.plus(Cost(0, 0, len(states) * source.per_round))

    def of_pairs(table):
        return None if table is None else rows.pairs(devices.gather(table))[:, 0]

    looked = [None if table is None else np.asarray(of_pairs(table), np.float64) for table in looked]
    return Seen(*looked, None if locations is None else np.asarray(of_pairs(locations)), cost)


@eqx.filter_jit
def _look_at_tiles(
    problem: Problem,
    sampler: AbstractSampler,
    states,
    index,
    action,
    *,
    functions,
    key,
    conditions: bool,
    uses_stein: bool,
    coupled: bool,
    keeps_locations: bool,
) -> tuple[Any, Any]:
    """((what was seen, where the draws lie), info) of rows of one action each."""
    actions = action_values(problem)

    def of_pair(state, index, chosen):
        target, pair_key = Target(problem, state, actions[chosen[0]]), jr.fold_in(key, index)
        draws, info = sampler.draw(target, key=pair_key if coupled else jr.fold_in(pair_key, chosen[0]))
        looked = look(target, draws.points, functions, conditions, uses_stein)
        locations = drawing.locations_of(problem, draws.points) if keeps_locations else None
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], ((looked, locations), info))

    return over_tiles(lambda *rows: jax.vmap(of_pair)(*rows), states, index, action)
