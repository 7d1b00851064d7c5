"""Step 3 of Algorithm 1: E[V(s')] from draws, for many pairs at once.

Draws are kept for any number of backups (`Stock`), or made and used up call by call (`Recipe`): fresh ones in every
iteration, or the same ones again from their keys, where they do not fit into memory. The sum over draws is the last axis and
stays inside one tile, so that its bits do not depend on the batching.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hamq.learning import draws as drawing
from hamq.learning.devices import Devices, own_device
from hamq.learning.draws import Cost, Drawn, PairDraws, Progress, Rows, draw_tile, in_calls, lay_out, over_tiles
from hamq.learning.selection import Pairs
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler, Info
from hamq.types import Key


class Stock(NamedTuple):
    """Draws made ready for any number of backups: weights instead of their logs, None where even; they live where their
    states do."""

    locations: Shaped[Array, "tiles tile K *d n"]
    weights: Float[Array, "tiles tile K n"] | None
    rows: Rows
    devices: Devices

    def dealt(self, problem: Problem, value: Float[Array, " S"]) -> Float[Array, "tiles tile K"]:
        """Σ_i w_i V(s'_i) of every pair, where it lives; V is known to all devices."""
        parts = self.devices.parts
        weights = [None] * len(self.devices.own) if self.weights is None else parts(self.weights)
        given = zip(parts(self.locations), weights, parts(value), strict=True)
        return self.devices.dealt([_expected(problem, *own) for own in given])

    def expected(self, problem: Problem, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "num K"]:
        """Σ_i w_i V(s'_i) of every pair: V at the cell of the draw, or interpolated (linear law)."""
        found = self.dealt(problem, self.devices.known(single(value)))
        return self.rows.pairs(self.devices.gather(found))


class Recipe(NamedTuple):
    """Draws that are made when they are needed, and not kept."""

    sampler: AbstractSampler
    pairs: Pairs
    rows: Rows
    key: Key
    coupled: bool
    devices: Devices

    def expected(
        self, problem: Problem, value: Float[np.ndarray, " S"], progress: Progress | None = None
    ) -> tuple[Float[np.ndarray, "num K"], Info, Cost]:
        """E[V] of every pair, what the sampler says of them, and what the draws cost."""
        compute = functools.partial(
            _draw_and_back_up, problem, self.sampler, value=single(value), key=self.key, coupled=self.coupled
        )
        (found, num), info = in_calls(problem, self.rows, compute, self.devices, progress)
        info = drawing.checked_info(problem, *self.pairs, self.rows, info, self.devices)
        cost = drawing.cost_of(info, int(self.devices.parts(num)[0][0]))
        return self.rows.pairs(self.devices.gather(found)), info, cost


def make_recipe(
    sampler: AbstractSampler, pairs: Pairs, *, key: Key, coupled: bool = True, devices: Devices | None = None
) -> Recipe:
    devices = devices or own_device()
    return Recipe(sampler, pairs, lay_out(*pairs, devices), key, coupled, devices)


def stock_of(drawn: Drawn, devices: Devices | None = None) -> Stock:
    weights = None if drawn.log_weights is None else _exponential(drawn.log_weights)
    return Stock(drawn.locations, weights, drawn.rows, devices or own_device())


def draw_stock(
    problem: Problem,
    sampler: AbstractSampler,
    pairs: Pairs,
    *,
    key: Key,
    coupled: bool,
    devices: Devices,
    side_by_side: int,
    progress: Progress | None = None,
) -> tuple[Stock, Info, Cost]:
    """`stock_of(draw_pairs(…))` in half of the memory: logs become weights call by call, and are never there as a whole."""
    rows = lay_out(*pairs, devices, side_by_side)

    def draw(*given):
        (locations, logs), info = drawing.draw_tiles(problem, sampler, *given, key=key, coupled=coupled)
        return (locations, None if logs is None else _exponential(logs)), info

    (locations, weights), info = in_calls(problem, rows, draw, devices, progress)
    info = drawing.checked_info(problem, *pairs, rows, info, devices)
    return Stock(locations, weights, rows, devices), info, drawing.cost_of(info, locations.shape[-1])


def make_stock(draws: PairDraws) -> Stock:
    """Of draws that come pair by pair, on one device."""
    num, width = draws.locations.shape[:2]
    devices = own_device()
    states, actions = np.arange(num), np.broadcast_to(np.arange(width), (num, width))
    rows = lay_out(states, actions, devices)

    def tiles(leaf):
        leaf = np.pad(np.asarray(leaf), ((0, 0), (0, -width % rows.pieces), *((0, 0),) * (leaf.ndim - 2)), mode="edge")
        leaf = leaf.reshape(num * rows.pieces, -1, *leaf.shape[2:])
        whole = np.pad(leaf, ((0, rows.index.size - len(leaf)), *((0, 0),) * (leaf.ndim - 1)), mode="edge")
        return devices.dealt([whole.reshape(-1, rows.index.shape[-1], *leaf.shape[1:])])

    logs = draws.log_weights
    is_even = logs is None or bool(np.all(np.asarray(logs) == np.asarray(logs)[:1, :1, :1]))
    return Stock(tiles(draws.locations), None if is_even else _exponential(tiles(logs)), rows, devices)


def expected_values(problem: Problem, draws: PairDraws, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "drawn K"]:
    """Σ_i w_i V(s'_i) of every pair; eq. (9) without r and γ."""
    return make_stock(draws).expected(problem, value)


def single(value: Float[np.ndarray, "*J S"]) -> Float[np.ndarray, "*J S"]:
    with np.errstate(over="ignore"):  # becomes inf, which the caller stops at and names
        return np.asarray(value, np.float32)


@jax.jit
def _exponential(logs: Array) -> Array:
    return jnp.exp(logs)


@eqx.filter_jit
def _expected(problem: Problem, locations: Array, weights: Array | None, value: Float[Array, " S"]) -> Array:
    return over_tiles(lambda at, of: _of_tile(problem, at, of, value), locations, weights)


@eqx.filter_jit
def _draw_and_back_up(problem, sampler, states, index, action, *, value, key, coupled: bool):
    """((E[V] of every pair, the number of draws of one), info)."""

    def of_tile(*rows):
        (locations, logs), info = draw_tile(problem, sampler, rows, key, coupled)
        expected = _of_tile(problem, locations, None if logs is None else jnp.exp(logs), value)
        return (expected, jnp.asarray(locations.shape[-1])), info

    return over_tiles(of_tile, states, index, action)


def _of_tile(problem: Problem, locations: Any, weights: Any, value: Float[Array, " S"]) -> Float[Array, "tile K"]:
    if problem.law == "linear":
        at = jax.vmap(lambda point: problem.grid.interpolate(value, point), in_axes=1)
        values = jax.vmap(jax.vmap(at))(locations)
    else:
        values = value[locations.astype(jnp.int32)]
    return jnp.mean(values, axis=-1) if weights is None else jnp.sum(weights * values, axis=-1)
