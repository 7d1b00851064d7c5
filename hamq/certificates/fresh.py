"""Fresh draws for any list of pairs, looked at through a few functions of the next state, a round at a time.

The key of a round is folded in with the index of the state: the actions of a state share their random numbers (unless
`coupled` is False), and rounds share none, neither among themselves nor with the draws that a table was learnt from.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int

from hamq.certificates.variates import has_conditionals, has_stein, look
from hamq.learning import draws as drawing
from hamq.learning.backup import single
from hamq.learning.devices import own_device
from hamq.learning.draws import Drawing
from hamq.learning.layout import lay_out
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.sampling.cell_table import CELLS
from hamq.sampling.draws import AbstractSampler, Target
from hamq.solution import Cost
from hamq.types import HamqError, Key


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
    prepare_key, draw_key = (jr.fold_in(key, i) for i in range(2))
    sampler, cost = drawing.prepare(problem, sampler, key=prepare_key)
    # Draws from masses are nodes, not states of the density: nothing that is known of it holds for them.
    variates = variates and not sampler.draws_nodes
    # A density that jumps has terms at its jumps that nobody knows.
    conditions = variates and has_conditionals(problem)
    stein = variates and sampler.obeys_identities and has_stein(problem)
    if sampler.is_cut and problem.grid.dimension not in CELLS:
        raise HamqError(
            f"certify: the density of {problem.name} jumps or is cut to zero inside of the box, and in "
            f"{problem.grid.dimension} dimensions no chain is known to cross such places; compare solutions of "
            "several seeds, or use method='exact' on a coarser grid."
        )
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
    rows, known = lay_out(states, actions[:, None], devices), single(functions)

    def looked_at(made, call):
        given = made.points(), call.states, call.actions, known
        seen = program(("look", *_constants(source)), problem.kernel.functions, functools.partial(_look, source), *given)
        return (seen(*given), made.locations if keeps_locations else None), made.info

    draws = Drawing(problem, source.sampler, rows, devices, jr.fold_in(source.key, number), source.coupled)
    (looked, locations), info = draws.each(looked_at)
    info = drawing.checked_info(problem, states, actions[:, None], rows, info, devices)
    cost = drawing.cost_of(info, source.per_round)
    if source.uses_stein:
        cost = cost.plus(Cost(0, 0, len(states) * source.per_round))

    def of_pairs(table):
        return None if table is None else rows.pairs(devices.gather(table))[:, 0]

    looked = [None if table is None else np.asarray(of_pairs(table), np.float64) for table in looked]
    return Seen(*looked, None if locations is None else np.asarray(of_pairs(locations)), cost)


def _constants(source: Source) -> tuple[Any, ...]:
    """What `_look` depends on beside the user's functions."""
    return source.problem.constants, source.conditions, source.uses_stein


def _look(source: Source, points, states, actions, functions) -> Any:
    """What is seen of the draws of one call."""

    def of_pair(points, state, action):
        target = Target(source.problem, state, action)
        return look(target, points, functions, source.conditions, source.uses_stein)

    return jax.vmap(jax.vmap(of_pair))(points, states, actions)
