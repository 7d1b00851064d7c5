"""Step 3 of Algorithm 1: E[V(s')] from draws, for many pairs at once.

Draws are kept for any number of backups (`Stock`), or made and used up call by call (`Recipe`): fresh ones in every
iteration, or the same ones again from their keys, where they do not fit into memory. The sum over draws is the last axis and
stays inside one tile, so that its bits do not depend on the batching.

XLA gives such a sum one core of a CPU, and runs what one thread asks for in turn. So the tiles of a large stock are divided
among threads, whose shares have one shape and one program.
"""

import concurrent.futures
import functools
import math
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hamq.completion.selection import Pairs
from hamq.learning import draws as drawing
from hamq.learning import layout
from hamq.learning.devices import Devices, own_device
from hamq.learning.draws import Drawing, Drawn, PairDraws, Progress
from hamq.learning.layout import Rows, lay_out, over_tiles
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.sampling.draws import AbstractSampler, Info
from hamq.solution import Cost
from hamq.types import Key, Law, is_cpu

SHARED = 2**20
"""Draws from which on the cores of a CPU share a backup: it then takes longer than to call threads."""


class Share(NamedTuple):
    """Some tiles of a stock, from tile `start` on."""

    start: int
    locations: Shaped[Array, "some tile K *d n"]
    weights: Float[Array, "some tile K n"] | None


class Stock(NamedTuple):
    """Draws made ready for any number of backups: weights instead of their logs, None where even; they live where their
    states do."""

    locations: Shaped[Array, "tiles tile K *d n"]
    weights: Float[Array, "tiles tile K n"] | None
    rows: Rows
    devices: Devices
    shares: tuple[Share, ...] = ()
    """The same draws once more, not copied, for the threads of a CPU."""

    def dealt(self, problem: Problem, value: Float[Array, " S"]) -> Float[Array, "tiles tile K"]:
        """Σ_i w_i V(s'_i) of every pair, where it lives; V is known to all devices."""
        parts = self.devices.parts
        if len(self.shares) > 1:
            return self.devices.dealt([_expected_in_threads(problem, self.shares, len(self.locations), value)])
        weights = [None] * len(self.devices.own) if self.weights is None else parts(self.weights)
        given = zip(parts(self.locations), weights, parts(value), strict=True)
        return self.devices.dealt([_expected(problem.grid, problem.law, *own) for own in given])

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
        known, nums = single(value), set()

        def back_up(made, _):
            nums.add(made.locations.shape[-1])
            return _expected(problem.grid, problem.law, made.locations[None], _first(made.weights), known)[0], made.info

        given = self.rows, self.devices, self.key, self.coupled, progress
        found, info = Drawing(problem, self.sampler, *given).each(back_up)
        info = drawing.checked_info(problem, *self.pairs, self.rows, info, self.devices)
        cost = drawing.cost_of(info, *nums)
        return self.rows.pairs(self.devices.gather(found)), info, cost


def make_recipe(
    sampler: AbstractSampler, pairs: Pairs, *, key: Key, coupled: bool = True, devices: Devices | None = None
) -> Recipe:
    devices = devices or own_device()
    return Recipe(sampler, pairs, lay_out(*pairs, devices), key, coupled, devices)


def stock_of(drawn: Drawn, devices: Devices | None = None) -> Stock:
    return _stock(drawn.locations, drawn.weights, drawn.rows, devices or own_device())


def _stock(locations: Array, weights: Array | None, rows: Rows, devices: Devices) -> Stock:
    """With a share for every thread that will back it up."""
    num, size = _division(locations.shape)
    if num == 1 or not is_cpu() or devices.num > 1:
        return Stock(locations, weights, rows, devices)

    def share(start: int) -> Share:
        def part(table: Array) -> Array:
            return jax.device_put(np.asarray(table)[start : start + size], devices.own[0])

        return Share(start, part(locations), None if weights is None else part(weights))

    # All have one size: the last one begins where it ends with the tiles, some of which are then in two shares.
    starts = [min(i * size, len(locations) - size) for i in range(num)]
    return Stock(locations, weights, rows, devices, tuple(share(start) for start in starts))


def _division(shape: tuple[int, ...]) -> tuple[int, int]:
    """(how many threads share the tiles of draws of this shape, tiles of each)."""
    num = os.cpu_count() or 1
    size = -(-shape[0] // num)
    return (1, shape[0]) if math.prod(shape) < SHARED else (-(-shape[0] // size), size)


def draw_stock(
    problem: Problem,
    sampler: AbstractSampler,
    pairs: Pairs,
    *,
    key: Key,
    coupled: bool,
    devices: Devices,
    progress: Progress | None = None,
) -> tuple[Stock, Info, Cost]:
    """`stock_of(draw_pairs(…))` in half of the memory: logs become weights call by call, and are never there as a whole."""
    rows = lay_out(*pairs, devices)

    draws = Drawing(problem, sampler, rows, devices, key, coupled, progress)
    (locations, weights), info = draws.each(lambda made, _: ((made.locations, made.weights), made.info))
    info = drawing.checked_info(problem, *pairs, rows, info, devices)
    return _stock(locations, weights, rows, devices), info, drawing.cost_of(info, locations.shape[-1])


def make_stock(draws: PairDraws) -> Stock:
    """Of draws that come pair by pair, on one device."""
    num, width = draws.locations.shape[:2]
    devices = own_device()
    states, actions = np.arange(num), np.broadcast_to(np.arange(width), (num, width))
    rows = lay_out(states, actions, devices)

    def tiles(leaf):
        leaf = np.asarray(leaf)
        whole = np.pad(leaf, ((0, rows.states_per_device - num), *((0, 0),) * (leaf.ndim - 1)), mode="edge")
        return devices.dealt([whole.reshape(-1, rows.tile, *leaf.shape[1:])])

    logs = draws.log_weights
    is_even = logs is None or bool(np.all(np.asarray(logs) == np.asarray(logs)[:1, :1, :1]))
    return _stock(tiles(draws.locations), None if is_even else tiles(np.exp(np.asarray(logs))), rows, devices)


def expected_values(problem: Problem, draws: PairDraws, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "drawn K"]:
    """Σ_i w_i V(s'_i) of every pair; eq. (9) without r and γ."""
    return make_stock(draws).expected(problem, value)


def single(value: Float[np.ndarray, "*J S"]) -> Float[np.ndarray, "*J S"]:
    with np.errstate(over="ignore"):  # becomes inf, which the caller stops at and names
        return np.asarray(value, np.float32)


def _first(weights: Any) -> Any:
    """As one tile."""
    return None if weights is None else weights[None]


def _expected_in_threads(problem: Problem, shares: tuple[Share, ...], num_tiles: int, value: Array) -> np.ndarray:
    """`_expected` of all tiles; the caller's thread does one of the shares."""
    first, is_double = shares[0], bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    job, trace = ("expected", problem.grid, problem.law), functools.partial(_expected, problem.grid, problem.law)
    run = program(job, (), trace, first.locations, first.weights, value)

    def of(share: Share) -> np.ndarray:
        with jax.enable_x64(is_double):  # a setting of the thread
            return np.asarray(run(share.locations, share.weights, value))

    others = [_threads().submit(of, share) for share in shares[1:]]
    parts = [of(first), *(other.result() for other in others)]
    found = np.empty((num_tiles, *parts[0].shape[1:]), parts[0].dtype)
    for share, part in zip(shares, parts, strict=True):
        found[share.start : share.start + len(part)] = part
    return found


@functools.lru_cache(maxsize=1)
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(os.cpu_count(), "hamq-backup")


@functools.partial(jax.jit, static_argnums=(0, 1))
def _expected(grid: Grid, law: Law, locations: Array, weights: Array | None, value: Float[Array, " S"]) -> Array:
    """Some pairs at a time, always the same number of them on a CPU: the bits depend neither on tiles nor on calls."""
    shape = locations.shape[:3]
    size = layout.STATES_PER_TILE if is_cpu() else math.prod(shape)
    parts = jax.tree.map(lambda a: a.reshape(-1, size, *a.shape[3:]), (locations, weights))
    return over_tiles(lambda at, of: _of_pairs(grid, law, at, of, value), *parts).reshape(shape)


def _of_pairs(grid: Grid, law: Law, locations: Any, weights: Any, value: Float[Array, " S"]) -> Float[Array, " P"]:
    if law == "linear":
        at = jax.vmap(lambda point: grid.interpolate(value, point), in_axes=1)
        values = jax.vmap(at)(locations)
    else:
        values = value[locations.astype(jnp.int32)]
    return jnp.mean(values, axis=-1) if weights is None else jnp.sum(weights * values, axis=-1)
