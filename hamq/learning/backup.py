"""Step 3 of Algorithm 1: E[V(s')] from draws, for many pairs at once.

The sum over draws is the last axis and stays inside one tile, so that its bits do not depend on the batching.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.learning.draws import TILE, PairDraws
from hamq.problem.problem import Problem


def expected_values(problem: Problem, draws: PairDraws, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "drawn A"]:
    """Σ_i w_i V(s'_i) of every pair: V at the cell of the draw, or interpolated (linear law); eq. (9) without r and γ."""
    num = len(draws.locations)
    padded = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.repeat(leaf[-1:], -num % TILE, axis=0)]), draws)
    return np.asarray(_expected(problem, padded, jnp.asarray(value, jnp.float32)))[:num]


@eqx.filter_jit
def _expected(problem: Problem, draws: PairDraws, value: Float[Array, " S"]) -> Float[Array, "drawn A"]:
    tiles = jax.tree.map(lambda leaf: leaf.reshape(-1, TILE, *leaf.shape[1:]), draws)

    def tile_expectation(tile: PairDraws):
        if problem.law == "linear":
            at = jax.vmap(lambda point: problem.grid.interpolate(value, point), in_axes=1)
            values = jax.vmap(jax.vmap(at))(tile.locations)
        else:
            values = value[tile.locations.astype(jnp.int32)]
        if tile.log_weights is None:
            return jnp.mean(values, axis=-1)
        return jnp.sum(jnp.exp(tile.log_weights) * values, axis=-1)

    return jax.lax.map(tile_expectation, tiles).reshape(-1, problem.num_actions)
