"""Draws of any sampler for the pairs of calls.

Chains are made some transitions at a time, picks from rows of masses on the host, all others in one program.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from hamq.learning.chunks import Call, Chains, Made
from hamq.learning.layout import call_shape, locations_of
from hamq.learning.tabulated import draw_from_rows
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.sampling.draws import AbstractSampler, Target
from hamq.types import Key


class Drawer:
    """Draws of a prepared sampler, in float32 whatever JAX's setting is."""

    def __init__(self, problem: Problem, sampler: AbstractSampler):
        self.problem, self.sampler = problem, sampler
        chains = sampler.in_chunks()
        self._chains = None if chains is None else Chains(problem, chains)

    def draw(self, calls: Sequence[Call], *, key: Key) -> list[Made]:
        """Draws for calls that share their streams of random numbers."""
        with jax.enable_x64(False):
            if self._chains is not None:
                return self._chains.draw(calls, key=key)
            if self.sampler.needs_rows(self.problem):
                return [draw_from_rows(self.problem, self.sampler, call, key) for call in calls]
            return [_draw_whole(self.problem, self.sampler, call, key) for call in calls]

    def compile_ahead(self) -> None:
        """Starts to compile what calls on a CPU need, where that is more than one program."""
        if self._chains is not None:
            with jax.enable_x64(False):
                self._chains.compile_ahead(call_shapes(self.problem))


def call_shapes(problem: Problem) -> Call:
    """Those of a call on a CPU."""
    shape, of = call_shape(), jax.ShapeDtypeStruct
    state, action = (*shape, problem.grid.dimension), (*shape, *problem.action_shape)
    return Call(of(state, np.float32), of(action, np.float32), of(shape, np.uint32), problem.num_actions > 1)


def _draw_whole(problem: Problem, sampler: AbstractSampler, call: Call, key: Key) -> Made:
    arrays, rest = eqx.partition(sampler, eqx.is_array)
    leaves, structure = jax.tree.flatten(rest)

    def trace(arrays, states, actions, streams, words):
        sampler = eqx.combine(arrays, rest)

        def of_pair(state, action, stream):
            pair_key = jr.fold_in(jr.wrap_key_data(words), stream)
            draws, info = sampler.draw(Target(problem, state, action), key=pair_key)
            weights = jnp.exp(draws.log_weights) if sampler.weighs else None
            return locations_of(problem.grid, problem.law, draws.points), draws.points, weights, info

        return jax.vmap(jax.vmap(of_pair))(states, actions, streams)

    kernel, given = problem.kernel, (arrays, call.states, call.actions, call.streams, jr.key_data(key))
    job = ("draw", tuple(leaves), structure, problem.constants)
    locations, points, weights, info = program(job, kernel.functions, trace, *given)(*given)
    return Made(locations, lambda: points, weights, info)
