"""Step 3 of Algorithm 1: E[V(s')] from draws, for many pairs at once.

The sum over draws is the last axis and stays inside one tile, so that its bits do not depend on the batching.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hamq.learning.draws import TILE, PairDraws
from hamq.problem.problem import Problem


class Stock(NamedTuple):
    """Draws made ready for any number of backups: weights instead of their logs, None where even, rows padded to tiles."""

    locations: Shaped[Array, "tiles tile K *d n"]
    weights: Float[Array, "tiles tile K n"] | None
    num: int

    def expected(self, problem: Problem, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "num K"]:
        """Σ_i w_i V(s'_i) of every pair: V at the cell of the draw, or interpolated (linear law)."""
        with np.errstate(over="ignore"):  # becomes inf, which the caller stops at and names
            single = np.asarray(value, np.float32)
        return np.asarray(_expected(problem, self.locations, self.weights, jnp.asarray(single)))[: self.num]


def make_stock(draws: PairDraws, is_rounded: bool = False) -> Stock:
    """`is_rounded`: to a power of two of tiles, so that a changing number of pairs does not compile a backup each time."""
    num = len(draws.locations)
    missing = -num % TILE
    if is_rounded:
        missing = TILE * 2 ** math.ceil(math.log2(max(-(-num // TILE), 1))) - num

    def tiles(leaf):
        leaf = np.asarray(leaf)  # in NumPy, which compiles nothing
        return np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)]).reshape(-1, TILE, *leaf.shape[1:])

    logs = draws.log_weights
    is_even = logs is None or bool(np.all(np.asarray(logs) == np.asarray(logs)[:1, :1, :1]))
    weights = None if is_even else jnp.asarray(np.exp(tiles(logs)))
    return Stock(jnp.asarray(tiles(draws.locations)), weights, num)


def expected_values(problem: Problem, draws: PairDraws, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "drawn K"]:
    """Σ_i w_i V(s'_i) of every pair; eq. (9) without r and γ."""
    return make_stock(draws).expected(problem, value)


@eqx.filter_jit
def _expected(
    problem: Problem, locations: Array, weights: Array | None, value: Float[Array, " S"]
) -> Float[Array, "drawn K"]:
    def tile_expectation(tile):
        locations, weights = tile
        if problem.law == "linear":
            at = jax.vmap(lambda point: problem.grid.interpolate(value, point), in_axes=1)
            values = jax.vmap(jax.vmap(at))(locations)
        else:
            values = value[locations.astype(jnp.int32)]
        return jnp.mean(values, axis=-1) if weights is None else jnp.sum(weights * values, axis=-1)

    return jax.lax.map(tile_expectation, (locations, weights)).reshape(-1, locations.shape[2])
