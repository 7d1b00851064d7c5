"""The step size of a density that is not the Gaussian it was scaled for, found on a few pairs before the draws that count.

All candidates run at once on the same pairs, which are chosen by the key alone: the same step whatever the batching.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from hamq.problem.actions import ProductActions
from hamq.problem.problem import Problem, action_values
from hamq.sampling.draws import AbstractSampler, Info, Target
from hamq.types import Key

CANDIDATES = tuple(0.7 * 0.75**k for k in range(10))
NUM_PAIRS = 24
NUM_DRAWS = 16
GOAL = 0.8


def adapted_step_size(problem: Problem, sampler: AbstractSampler, *, key: Key) -> tuple[Array, int, int]:
    """The largest candidate with a mean acceptance of 0.8 or more, and the density and gradient evaluations spent.

    `sampler` makes the short chains that are tried; its `step_size` is replaced by each candidate.
    """
    pair_key, chain_key = jr.split(key)
    states, actions = pilot_pairs(problem, key=pair_key)
    info = _trials(problem, sampler, states, actions, jr.split(chain_key, NUM_PAIRS), jnp.asarray(CANDIDATES))
    means = np.nan_to_num(np.asarray(info.acceptance)).mean(axis=0)
    good = np.flatnonzero(means >= GOAL)
    best = int(good[0]) if len(good) else len(CANDIDATES) - 1
    densities, gradients = (int(np.asarray(c).sum()) for c in (info.density_evaluations, info.gradient_evaluations))
    # An array: a float would be a constant of the compiled draws, and each new one would compile them again.
    return jnp.asarray(CANDIDATES[best]), densities, gradients


@eqx.filter_jit
def _trials(problem: Problem, sampler: AbstractSampler, states: Array, actions: Array, keys: Key, steps: Array) -> Info:
    def trial(state, action, key, step):
        tried = eqx.tree_at(lambda s: s.step_size, sampler, step)
        return tried.draw(Target(problem, state, action), key=key)[1]

    over_steps = jax.vmap(trial, in_axes=(None, None, None, 0))
    return jax.vmap(over_steps, in_axes=(0, 0, 0, None))(states, actions, keys, steps)


def pilot_pairs(problem: Problem, *, key: Key) -> tuple[Array, Array]:
    """States on grid points and actions, chosen axis by axis, so that a grid of any size can be asked."""
    state_key, action_key = jr.split(key)
    grid = problem.grid
    states = _combined([grid.axis_nodes(i) for i in range(grid.dimension)], key=state_key)
    if isinstance(problem.actions, ProductActions):
        return states, _combined(problem.actions.levels, key=action_key)
    return states, jr.choice(action_key, action_values(problem), (NUM_PAIRS,))


def _combined(axes: Sequence[Any], *, key: Key) -> Array:
    """One value of each axis, chosen independently, for every pilot pair."""
    columns = [
        jr.choice(axis_key, jnp.asarray(values, jnp.result_type(float)), (NUM_PAIRS,))
        for values, axis_key in zip(axes, jr.split(key, len(axes)), strict=True)
    ]
    return jnp.stack(columns, axis=-1)
