"""Draws for many pairs: the one place that batches samplers over states and actions.

Every state draws with a key folded from the seed and its own index. On a CPU states are processed in tiles of fixed size,
the last one padded: the bits do not depend on how the states are batched, or on how many devices share them. An
accelerator gets them in one large call, and keeps what it drew. All actions of a state share the key (coupled), so that the
noise of their backups cancels in the differences that decide the policy; `coupled=False` folds the action in.
"""

import concurrent.futures
import functools
import math
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from hamq.learning.devices import Devices, own_device
from hamq.problem.grid import Grid
from hamq.problem.lapack import calls_lapack
from hamq.problem.problem import Problem, action_values, pair_name
from hamq.problem.tables import check_covariances
from hamq.sampling.draws import AbstractSampler, Info, Target
from hamq.types import HamqWarning, Key, as_key, is_cpu

TILE = 16
"""States that a CPU draws for side by side; small enough for the cache, and never a function of the batch."""
MAX_ACTIONS = 16
"""Actions of a state that are drawn side by side; rows of fewer get larger tiles."""
TILES_PER_CALL = 2
"""Tiles in one compiled call; calls run side by side, one per core."""
ACCELERATOR_PAIRS = 2**15
"""Pairs that an accelerator draws for side by side: there a small call costs as much as a large one."""
ALIGNMENT = 64
"""Bytes: XLA's arrays on a CPU begin at multiples of it."""


Progress = Callable[[str, int, int], None]
"""Told (what is being done, how many parts are done, of how many)."""


class PairDraws(NamedTuple):
    """Draws of S states × A actions, the draw axis last.

    `locations` are grid indices `[S, A, n]` in the smallest integer type that fits (cell and point laws), or points
    `[S, A, d, n]` (linear law); `log_weights` is None where all draws count the same.
    """

    locations: Shaped[Array | np.ndarray, "S A *d n"]
    log_weights: Float[Array | np.ndarray, "S A n"] | None


class Cost(NamedTuple):
    """What was spent, preparation and mode search included; Python ints."""

    samples: int
    density_evaluations: int
    gradient_evaluations: int

    def plus(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))


class Rows(NamedTuple):
    """The pairs of a block as calls of tiles of rows: K actions of one state each, dealt out to the devices.

    Device i has the calls of the i-th part of all rows; the last rows are padding. Many actions are split into `pieces` rows
    of their own: a state's key, and so the coupling, stays the same.
    """

    index: Int[np.ndarray, "devices calls tiles tile"]
    action: Int[np.ndarray, "devices calls tiles tile K"]
    num: int
    width: int
    pieces: int

    def pairs(self, table: Any) -> Any:
        """`[num, width, …]` from `[tiles, tile, K, …]`: without padding, the pieces of a state put together."""
        return pairs_of(table, self.num, self.width, self.pieces)


def pairs_of(table: Any, num: int, width: int, pieces: int) -> Any:
    rows = table.reshape(-1, *table.shape[2:])[: num * pieces]
    return rows.reshape(num, -1, *table.shape[3:])[:, :width]


def pairs_at_once() -> int:
    """Pairs for which draws are made at the same time, more or less."""
    return TILES_PER_CALL * TILE * MAX_ACTIONS * (os.cpu_count() or 1) if is_cpu() else ACCELERATOR_PAIRS


class Drawn(NamedTuple):
    """Tables have the axes `[tiles, tile, K, …]` and live where their states do; `info` is `[S, K]`, on the host."""

    locations: Shaped[Array, "tiles tile K *d n"]
    log_weights: Float[Array, "tiles tile K n"] | None
    rows: Rows
    info: Info
    cost: Cost
    sampler: AbstractSampler

    @property
    def draws(self) -> PairDraws:
        """Of the pairs, in their order; on a CPU as NumPy arrays, which compile nothing."""
        tables = (self.locations, self.log_weights)
        locations, log_weights = jax.tree.map(self.rows.pairs, jax.device_get(tables) if is_cpu() else tables)
        return PairDraws(locations, log_weights)


def draw_each(
    problem: Problem,
    sampler: AbstractSampler,
    states: Int[np.ndarray, " S"] | None = None,
    *,
    key: Key | int,
    coupled: bool = True,
) -> Drawn:
    """Draws for all actions of the states with these indices (all states when None), with diagnostics per pair.

    Stops with the pair's name where a pair has no valid draw; warns of chains that never moved, modes that were not
    crossed, weights that collapsed and walls that leak.
    """
    prepare_key, draw_key = jr.split(as_key(key))
    sampler, preparation = prepare(problem, sampler, key=prepare_key)
    indices = np.arange(problem.num_states) if states is None else np.asarray(states)
    actions = np.broadcast_to(np.arange(problem.num_actions), (len(indices), problem.num_actions))
    drawn = draw_pairs(problem, sampler, indices, actions, key=draw_key, coupled=coupled)
    warn_of(problem, drawn.info)
    return drawn._replace(cost=drawn.cost.plus(preparation))


def prepare(problem: Problem, sampler: AbstractSampler, *, key: Key) -> tuple[AbstractSampler, Cost]:
    """The sampler with everything settled that is the same for all pairs, and what that cost."""
    problem.require_enumerable("Drawing for every state and action")
    check_covariances(problem)
    sampler, info = sampler.prepare(problem, key=key)
    return sampler, Cost(0, int(info.density_evaluations), int(info.gradient_evaluations))


def draw_pairs(
    problem: Problem,
    sampler: AbstractSampler,
    states: Int[np.ndarray, " S"],
    actions: Int[np.ndarray, "S K"],
    *,
    key: Key,
    coupled: bool = True,
    devices: Devices | None = None,
    side_by_side: int = MAX_ACTIONS,
    progress: Progress | None = None,
) -> Drawn:
    """Draws of a prepared sampler for K actions of each of the states, both given by their indices.

    `side_by_side` is how many actions are drawn at once: blocks that have it in common share what was compiled.
    """
    devices = devices or own_device()
    rows = lay_out(states, actions, devices, side_by_side)
    draw = functools.partial(draw_tiles, problem, sampler, key=key, coupled=coupled)
    (locations, log_weights), info = in_calls(problem, rows, draw, devices, progress)
    info = checked_info(problem, states, actions, rows, info, devices)
    return Drawn(locations, log_weights, rows, info, cost_of(info, locations.shape[-1]), sampler)


def checked_info(problem: Problem, states, actions, rows: Rows, info: Info, devices: Devices) -> Info:
    """What the sampler says, per pair and on the host; stops where a pair has no valid draw."""
    info = jax.tree.map(rows.pairs, devices.gather(info))
    _stop_at_failure(problem, states, actions, info)
    return info


def cost_of(info: Info, num_samples: int) -> Cost:
    spent = (int(np.sum(counts, dtype=np.int64)) for counts in (info.density_evaluations, info.gradient_evaluations))
    return Cost(info.acceptance.size * num_samples, *spent)


def lay_out(
    states: Int[np.ndarray, " S"], actions: Int[np.ndarray, "S K"], devices: Devices, side_by_side: int = MAX_ACTIONS
) -> Rows:
    """The same tiles for any number of devices; only how many each of them gets depends on it."""
    num, width = actions.shape
    if not num:
        raise ValueError("no pairs to draw for: the selection is empty; raise fraction.")
    pieces = -(-width // side_by_side)
    actions = np.pad(actions, ((0, 0), (0, -width % pieces)), mode="edge").reshape(num * pieces, -1)
    index = np.repeat(states, pieces)
    tiles, tile = _tiling(*actions.shape)
    missing = -len(index) % (devices.num * tiles * tile)
    index = np.pad(index, (0, missing), mode="edge").reshape(devices.num, -1, tiles, tile)
    actions = np.pad(actions, ((0, missing), (0, 0)), mode="edge").reshape(*index.shape, -1)
    return Rows(index, actions, num, width, pieces)


def _tiling(num: int, width: int) -> tuple[int, int]:
    """(tiles in a call, rows in a tile) for so many rows of so many actions; the number of devices has no say."""
    if is_cpu():
        return TILES_PER_CALL, TILE * max(1, MAX_ACTIONS // (2 * width))
    return 1, min(2 ** math.ceil(math.log2(num)), max(1, ACCELERATOR_PAIRS // width))


def in_calls(
    problem: Problem, rows: Rows, compute: Callable[..., Any], devices: Devices, progress: Progress | None = None
) -> Any:
    """`compute(states, index, action)` of all rows, call by call, as arrays that live where the states do.

    On a CPU one call compiles, then the others run in threads: XLA gives the small arrays of a tile one core only. All of
    them run on the first device, so that they compile once, and what they find is dealt out.
    """
    own = devices.own_part
    index, action = rows.index[own], rows.action[own]
    table, num_calls = _state_table(problem.grid), index.shape[1]

    def call(place):
        i, c = place
        given = table[index[i, c]], index[i, c].astype(np.int32), action[i, c].astype(np.int32)
        device = devices.own[0 if is_cpu() else i]
        done = compute(*(jax.device_put(array, device) for array in given))
        return jax.block_until_ready(done) if is_cpu() else done

    places = list(np.ndindex(len(devices.own), num_calls))
    found = _Filled(num_calls) if is_cpu() else _Kept(num_calls)
    found.add(call(places[0]))
    with concurrent.futures.ThreadPoolExecutor(_num_threads(problem)) as threads:
        for num_done, part in enumerate(threads.map(call, places[1:]), 2):
            found.add(part)
            if progress is not None:
                progress("drawing", num_done, len(places))
    return found.dealt(devices)


def _num_threads(problem: Problem) -> int | None:
    """LAPACK calls of two threads can wait for each other in XLA's pool for ever; only user functions make any."""
    return 1 if calls_lapack(problem) or not is_cpu() else os.cpu_count()


class _Filled:
    """Results of the calls of each device one after the other, in NumPy: a changing number of calls compiles nothing.

    What a call found is copied into its place and is gone: the draws are in memory once.
    """

    def __init__(self, num_calls: int):
        self.num_calls, self.num_added = num_calls, 0
        self.own: list[Any] = []

    def add(self, found: Any) -> None:
        i, c = divmod(self.num_added, self.num_calls)
        if c == 0:
            self.own.append(
                jax.tree.map(lambda part: _room((self.num_calls * len(part), *part.shape[1:]), part.dtype), found)
            )
        for room, part in zip(jax.tree.leaves(self.own[i]), jax.tree.leaves(found), strict=True):
            room[c * len(part) : (c + 1) * len(part)] = part
        self.num_added += 1

    def dealt(self, devices: Devices) -> Any:
        return jax.tree.map(lambda *parts: devices.dealt(list(parts)), *self.own)


class _Kept:
    """The same on accelerators, which keep what they found until it is joined there."""

    def __init__(self, num_calls: int):
        self.num_calls = num_calls
        self.found: list[Any] = []

    def add(self, found: Any) -> None:
        self.found.append(found)

    def dealt(self, devices: Devices) -> Any:
        return jax.tree.map(lambda *parts: self._dealt(parts, devices), *self.found)

    def _dealt(self, parts: tuple[Array, ...], devices: Devices) -> Array:
        own = [parts[start : start + self.num_calls] for start in range(0, len(parts), self.num_calls)]
        return devices.dealt([of_one[0] if self.num_calls == 1 else jnp.concatenate(of_one) for of_one in own])


def _room(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that begins where a CPU device would put it, so that it takes the array over and copies nothing."""
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(num_bytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + num_bytes].view(dtype).reshape(shape)


@functools.lru_cache(maxsize=4)
def _state_table(grid: Grid) -> Float[np.ndarray, "S d"]:
    return grid.states().astype(np.float32)


@eqx.filter_jit
def draw_tiles(problem, sampler, states, index, action, *, key: Key, coupled: bool) -> tuple[Any, Info]:
    return over_tiles(lambda *rows: draw_tile(problem, sampler, rows, key, coupled), states, index, action)


def over_tiles(compute: Callable[..., Any], *tiles: Any) -> Any:
    """`compute` of each tile: one after the other, in the shape of one tile, whatever their number."""
    return jax.lax.map(lambda tile: compute(*tile), tiles)


def draw_tile(
    problem: Problem,
    sampler: AbstractSampler,
    rows: tuple[Float[Array, "tile d"], Int[Array, " tile"], Int[Array, "tile K"]],
    key: Key,
    coupled: bool,
) -> tuple[tuple[Array, Array | None], Info]:
    """((locations, log-weights), info) of one tile of rows."""
    actions = action_values(problem)

    def draw_pair(state, action, pair_key):
        draws, info = sampler.draw(Target(problem, state, action), key=pair_key)
        return (locations_of(problem, draws.points), draws.log_weights if sampler.weighs else None), info

    def draw_row(state, index, chosen):
        state_key = jr.fold_in(key, index)
        states = jnp.broadcast_to(state, (len(chosen), len(state)))
        if coupled:
            return jax.vmap(draw_pair, in_axes=(0, 0, None))(states, actions[chosen], state_key)
        action_keys = jax.vmap(lambda a: jr.fold_in(state_key, a))(chosen)
        return jax.vmap(draw_pair)(states, actions[chosen], action_keys)

    return jax.vmap(draw_row)(*rows)


def locations_of(problem: Problem, points: Float[Array, "d n"]) -> Shaped[Array, "*d n"]:
    """What is kept of draws: their grid indices, or the points themselves (linear law)."""
    if problem.law == "linear":
        return points
    return jax.vmap(problem.grid.locate, in_axes=1)(points).astype(smallest_integer(problem.num_states))


def smallest_integer(num_states: int) -> type:
    """The smallest unsigned integer type that tells the states apart."""
    return jnp.uint8 if num_states <= 2**8 else jnp.uint16 if num_states <= 2**16 else jnp.uint32


def _stop_at_failure(problem: Problem, states: np.ndarray, actions: np.ndarray, info: Info) -> None:
    failed = np.argwhere(np.asarray(info.has_failed))
    if len(failed):
        s, a = (int(v) for v in failed[0])
        pair = pair_name(problem, int(states[s]), int(actions[s, a]))
        raise ValueError(
            f"no valid draw at {pair} ({len(failed)} pairs failed): the density has no "
            "finite value where the chain starts, or independent tries never fell into the box; check the log-density "
            "there, or use HMC with walls='logit'."
        )


def warn_of(problem: Problem, info: Info) -> None:
    """Says what is wrong with chains and weights, and what to change."""
    pairs = info.is_stuck.size
    stuck = int(np.sum(info.is_stuck))
    if stuck:
        _say(problem, f"{stuck} of {pairs} chains never moved; use a smaller step_size (None adapts it) or walls='logit'")
    uncrossed = int(np.sum((info.num_modes > 1) & (info.num_crossings == 0)))
    if uncrossed:
        _say(problem, f"{uncrossed} of {pairs} pairs have several modes that the chain did not cross; use more samples")
    collapsed = int(np.sum(info.weight_share < 0.1))
    if collapsed:
        _say(problem, f"the weights of {collapsed} of {pairs} pairs have an effective size below 0.1 of the draws; use HMC")
    outside = float(np.mean(info.outside))
    if outside > 0.01:
        _say(problem, f"{outside:.1%} of the draws lie outside the box; use a larger sharpness or walls='logit'")
    nonfinite = int(np.sum(info.num_nonfinite))
    if nonfinite > 0.01 * info.num_nonfinite.size:
        _say(problem, f"{nonfinite} trajectories ended in a non-finite energy and were rejected; use a smaller step_size")


def _say(problem: Problem, sentence: str) -> None:
    warnings.warn(f"{problem.name}: {sentence}.", HamqWarning, stacklevel=4)
