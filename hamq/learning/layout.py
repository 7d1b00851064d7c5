"""How the pairs of a block are laid out for calls, and where what the calls find is put.

A call is a tile of rows of K lanes, one pair per lane: `[tile, K]`. The lanes of a row are actions of one state, and share
its random numbers; where states have one action each, they are K states. States of many actions take part in several
calls, their `pieces`. The last tile is padded. What is found goes to tables `[tiles, tile, width, …]` of whole states, whose
tiles are those of backups.
"""

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from hamq.learning.devices import Devices
from hamq.problem.grid import Grid
from hamq.types import HamqError, is_cpu

TILE = 128
"""Rows of a call on a CPU; small enough for the cache, and never a function of the batch."""
LANES = 2
"""Lanes of a row on a CPU: two for all blocks, so that all share what is compiled."""
PIECES_AT_ONCE = 4
"""Pieces that are drawn one after the other from random numbers that are made once."""
STATES_PER_TILE = 64
"""Of tables that are backed up on a CPU."""
ACCELERATOR_PAIRS = 2**15
"""Pairs that an accelerator draws for side by side: there a small call costs as much as a large one."""
ACCELERATOR_LANES = 16
ALIGNMENT = 64
"""Bytes: XLA's arrays on a CPU begin at multiples of it."""


class Rows(NamedTuple):
    """Pairs by the indices of their states and actions, dealt out to the devices in order; the last ones are padding."""

    states: Int[np.ndarray, "devices blocks tile K"]
    actions: Int[np.ndarray, "devices blocks pieces tile K"]
    num: int
    """States of the block."""
    width: int
    """Actions of each."""
    tile: int
    """States in a tile of the tables."""
    states_per_device: int

    @property
    def places(self) -> list[tuple[int, int, slice]]:
        """(own device, block, pieces) of what is done at a time, in the order of the states."""
        devices, blocks, pieces = self.actions.shape[:3]
        num = -(-pieces // PIECES_AT_ONCE)
        groups = [slice(g * pieces // num, (g + 1) * pieces // num) for g in range(num)]
        return [(i, b, group) for i in range(devices) for b in range(blocks) for group in groups]

    def pairs(self, table: Any) -> Any:
        """`[num, width, …]` from `[tiles, tile, width, …]`, without padding."""
        return table.reshape(-1, *table.shape[2:])[: self.num]


def pairs_at_once() -> int:
    """Pairs for which draws are made at the same time, more or less."""
    return TILE * LANES * PIECES_AT_ONCE * (os.cpu_count() or 1) if is_cpu() else ACCELERATOR_PAIRS


def call_shape() -> tuple[int, int]:
    """(tile, K) of all calls on a CPU."""
    return TILE, LANES


def lay_out(states: Int[np.ndarray, " S"], actions: Int[np.ndarray, "S width"], devices: Devices) -> Rows:
    """The same calls for any number of devices; only how many each of them gets depends on it."""
    num, width = actions.shape
    if not num:
        raise HamqError("no pairs to draw for: the selection is empty; raise fraction.")
    if is_cpu():
        rows, lanes, tile = TILE, LANES, STATES_PER_TILE
    else:
        lanes = min(width, ACCELERATOR_LANES)
        rows = tile = min(2 ** math.ceil(math.log2(num)), max(1, ACCELERATOR_PAIRS // lanes))
    per_device = -(-num // (devices.num * tile)) * tile
    in_block = rows if width > 1 else rows * lanes
    blocks = -(-per_device // in_block)
    states, actions = (
        _padded(_padded(a, per_device * devices.num).reshape(devices.num, per_device, -1), blocks * in_block, axis=1)
        for a in (states, actions)
    )
    if width == 1:
        shape = (devices.num, blocks, rows, lanes)
        return Rows(states.reshape(shape), actions.reshape(shape)[:, :, None], num, width, tile, per_device)
    pieces = -(-width // lanes)
    actions = _padded(actions, pieces * lanes, axis=2).reshape(devices.num, blocks, rows, pieces, lanes)
    states = np.broadcast_to(states.reshape(devices.num, blocks, rows, 1), (devices.num, blocks, rows, lanes))
    return Rows(states, np.moveaxis(actions, 3, 2), num, width, tile, per_device)


def _padded(array: np.ndarray, num: int, axis: int = 0) -> np.ndarray:
    missing = [(0, 0)] * array.ndim
    missing[axis] = (0, num - array.shape[axis])
    return np.pad(array, missing, mode="edge")


def over_tiles(compute: Callable[..., Any], *tiles: Any) -> Any:
    """`compute` of each tile: one after the other, in the shape of one tile, whatever their number."""
    return jax.lax.map(lambda tile: compute(*tile), tiles)


def locations_of(grid: Grid, law: str, points: Float[Array, "d n"]) -> Shaped[Array, "*d n"]:
    """What is kept of draws: their grid indices, or the points themselves (linear law)."""
    if law == "linear":
        return points
    return jax.vmap(grid.locate, in_axes=1)(points).astype(smallest_integer(grid.num_states))


def smallest_integer(num_states: int) -> type:
    """The smallest unsigned integer type that tells the states apart."""
    return jnp.uint8 if num_states <= 2**8 else jnp.uint16 if num_states <= 2**16 else jnp.uint32


class Filled:
    """Tables of what was found for each device, in NumPy: a changing number of calls compiles nothing.

    What a call found is copied into its place and is gone: the draws are in memory once.
    """

    def __init__(self, rows: Rows):
        self.rows = rows
        self.own: dict[int, Any] = {}

    def add(self, place: tuple[int, int, slice], found: list[Any]) -> None:
        """What was found for the pieces of a place, each `[tile, K, …]`."""
        i, block, pieces = place
        if i not in self.own:
            self.own[i] = jax.tree.map(self._room, found[0])
        for piece, of_piece in zip(range(pieces.start, pieces.stop), found, strict=True):
            for room, part in zip(jax.tree.leaves(self.own[i]), jax.tree.leaves(of_piece), strict=True):
                self._put(room, np.asarray(part), block, piece)

    def _room(self, part: Any) -> np.ndarray:
        return _aligned((self.rows.states_per_device, self.rows.width, *part.shape[2:]), part.dtype)

    def _put(self, room: np.ndarray, part: np.ndarray, block: int, piece: int) -> None:
        if self.rows.width == 1:
            part = part.reshape(-1, 1, *part.shape[2:])
        start, lanes = block * len(part), part.shape[1]
        here = room[start : start + len(part), piece * lanes : (piece + 1) * lanes]
        here[...] = part[: here.shape[0], : here.shape[1]]

    def dealt(self, devices: Devices) -> Any:
        def in_tiles(room):
            return room.reshape(-1, self.rows.tile, *room.shape[1:])

        own = [self.own[i] for i in sorted(self.own)]
        return jax.tree.map(lambda *parts: devices.dealt([in_tiles(part) for part in parts]), *own)


class Kept:
    """The same on accelerators, which keep what they found until it is joined there."""

    def __init__(self, rows: Rows):
        self.rows = rows
        self.own: dict[int, list[Any]] = {}

    def add(self, place: tuple[int, int, slice], found: list[Any]) -> None:
        self.own.setdefault(place[0], []).extend(found)

    def dealt(self, devices: Devices) -> Any:
        of_devices = [jax.tree.map(self._joined, *self.own[i]) for i in sorted(self.own)]
        return jax.tree.map(lambda *parts: devices.dealt(list(parts)), *of_devices)

    def _joined(self, *leaves: Any) -> Any:
        """`[tiles, tile, width, …]` from the pieces of one block after those of another."""
        rows, pieces = self.rows, self.rows.actions.shape[2]
        blocks = []
        for at in range(0, len(leaves), pieces):
            block = leaves[at] if pieces == 1 else jnp.concatenate(leaves[at : at + pieces], axis=1)
            blocks.append(block if block.shape[1] == rows.width else block[:, : rows.width])
        return blocks[0][None] if len(blocks) == 1 else jnp.stack(blocks)


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that begin where a CPU device would put them, so that it takes the array over and copies nothing."""
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(num_bytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + num_bytes].view(dtype).reshape(shape)
