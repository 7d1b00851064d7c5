"""The step size of a density that is not the Gaussian it was scaled for, found on a few pairs before the draws that count.

All candidates run at once on the same pairs, which are chosen by the key alone: the same step whatever the batching.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from hamq.problem.problem import Problem, action_values
from hamq.sampling.draws import Target
from hamq.types import Key

CANDIDATES = tuple(0.7 * 0.75**k for k in range(10))
NUM_PAIRS = 24
NUM_DRAWS = 16
GOAL = 0.8


def adapted_step_size(problem: Problem, trial: Callable[..., tuple[Array, Array, Array]], *, key: Key) -> tuple[float, int, int]:
    """The largest candidate with mean acceptance of at least 0.8, and the density and gradient evaluations spent."""
    pair_key, chain_key = jr.split(key)
    targets = pilot_pairs(problem, key=pair_key)

    def acceptance(state, action, chain_key, step):
        return trial(Target(problem, state, action), step, NUM_DRAWS, key=chain_key)

    over_steps = jax.vmap(acceptance, in_axes=(None, None, None, 0))
    over_pairs = jax.jit(jax.vmap(over_steps, in_axes=(0, 0, 0, None)))
    found, densities, gradients = over_pairs(*targets, jr.split(chain_key, NUM_PAIRS), jnp.asarray(CANDIDATES))
    means = np.asarray(jnp.nan_to_num(found)).mean(axis=0)
    good = np.flatnonzero(means >= GOAL)
    best = int(good[0]) if len(good) else len(CANDIDATES) - 1
    return CANDIDATES[best], int(np.sum(densities)), int(np.sum(gradients))


def pilot_pairs(problem: Problem, *, key: Key) -> tuple[Array, Array]:
    """States on grid points and actions, chosen axis by axis, so that a grid of any size can be asked."""
    state_key, action_key = jr.split(key)
    grid = problem.grid
    columns = [
        jr.choice(axis_key, jnp.asarray(grid.axis_nodes(i), jnp.result_type(float)), (NUM_PAIRS,))
        for i, axis_key in enumerate(jr.split(state_key, grid.dimension))
    ]
    return jnp.stack(columns, axis=-1), jr.choice(action_key, action_values(problem), (NUM_PAIRS,))
