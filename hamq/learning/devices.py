"""Which devices the states of a problem live on: a line of them, in one process or in several.

States are dealt out to the devices in order, draws and backups are made where their states live, and in every iteration
everybody is told what the others found (`exchanged`). What computes is compiled for one device, and what all devices do
together only moves numbers: results have the same bits on 1, 2 or 8 devices and in any number of processes, on one kind of
processor. (A program for several devices is optimised in another order than that for one: computing inside `shard_map`
changed the last bit of half of the weights between 1 and 2 devices.)

Several processes must have joined each other before (`jax.distributed.initialize`, or `hamq solve --coordinator`), and all
of them must make the same calls. A process that dies breaks the connections to it, and one that hangs is waited for in
vain: both are said in a sentence (`waiting`), and end the others where the command line runs them (`end_when_lost`).
"""

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hamq.types import HamqError

AXIS = "states"
PATIENCE = 45.0
"""Seconds that a process waits for the others, or twice as long as it ever worked alone, if that is more."""
PIECE = 2**20
"""Bytes that are sent at a time, however long the message is: one shape, compiled once."""
OF_CONNECTIONS = ("Gloo", "NCCL", "onnection", "UNAVAILABLE", "DEADLINE_EXCEEDED")
"""Words of errors that mean another process; all others are our own."""
LOST = 70
"""Exit status of a process that lost another one."""


class LostProcessError(RuntimeError):
    """Another process of the same solve died or hangs."""


class Devices(NamedTuple):
    """`whole` is the line of devices of all processes, `own` those of them that this process computes on."""

    whole: Mesh
    own: tuple[Any, ...]

    @property
    def num(self) -> int:
        return self.whole.size

    @property
    def own_part(self) -> slice:
        """Places of the own devices in the line."""
        first = list(self.whole.devices.flat).index(self.own[0])
        return slice(first, first + len(self.own))

    @property
    def is_alone(self) -> bool:
        """Whether this process has all devices."""
        return self.num == len(self.own)

    def dealt(self, parts: list[Any]) -> jax.Array:
        """One array, dealt out along its first axis, from the own parts: one per own device, all of one shape."""
        if self.num == 1:
            return parts[0] if isinstance(parts[0], jax.Array) else jax.device_put(parts[0], self.own[0])
        shape = (self.num * parts[0].shape[0], *parts[0].shape[1:])
        placed = [jax.device_put(part, device) for part, device in zip(parts, self.own, strict=True)]
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.whole, PartitionSpec(AXIS)), placed)

    def parts(self, array: jax.Array) -> list[jax.Array]:
        """What the own devices have of an array, in their order."""
        if self.num == 1:
            return [array]
        by_device = {shard.device: shard.data for shard in array.addressable_shards}
        return [by_device[device] for device in self.own]

    def known(self, array: np.ndarray) -> jax.Array:
        """An array that all devices have in full; every process must give the same."""
        if self.num == 1:
            return jax.device_put(array, self.own[0])
        return jax.make_array_from_callback(array.shape, NamedSharding(self.whole, PartitionSpec()), lambda at: array[at])

    def exchanged(self, tree: Any) -> Any:
        """Dealt arrays, in full on every device."""
        if self.num == 1:
            return tree
        with waiting():
            return _exchange(tree, self.whole)

    def gather(self, tree: Any) -> Any:
        """Dealt arrays as NumPy arrays, in full, in every process."""
        if self.is_alone:
            return jax.device_get(tree)
        with waiting():
            return jax.tree.map(lambda leaf: np.asarray(leaf.addressable_shards[0].data), self.exchanged(tree))


@functools.partial(jax.jit, static_argnums=1)
def _exchange(tree: Any, mesh: Mesh) -> Any:
    def of_own(own):
        return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS, tiled=True), own)

    return jax.shard_map(of_own, mesh=mesh, in_specs=PartitionSpec(AXIS), out_specs=PartitionSpec(), check_vma=False)(tree)


def own_device() -> Devices:
    """The first device of this process alone, however many processes there are."""
    device = jax.local_devices()[0]
    return Devices(Mesh(np.asarray([device]), (AXIS,)), (device,))


def choose_devices(devices: int | None = None) -> Devices:
    """The first so many devices of every process (1 where nothing is said)."""
    num = 1 if devices is None else devices
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise HamqError(f"solve: devices must be a whole number of at least 1, got {devices!r}.")
    by_process: dict[int, list[Any]] = {}
    for device in jax.devices():
        by_process.setdefault(device.process_index, []).append(device)
    least = min(len(found) for found in by_process.values())
    if num > least:
        remedy = (
            f"on a CPU call jax.config.update('jax_num_cpu_devices', {num}) before anything else of JAX (hamq solve "
            "--devices does)"
            if jax.default_backend() == "cpu"
            else "use fewer"
        )
        raise HamqError(f"solve: devices = {num}, and JAX has {least} of kind {jax.default_backend()}; {remedy}.")
    whole = np.asarray([found[:num] for _, found in sorted(by_process.items())])
    _watch.heard()  # what comes now is work
    return Devices(Mesh(whole.ravel(), (AXIS,)), tuple(whole[jax.process_index()]))


def broadcast(devices: Devices, message: bytes | None) -> bytes:
    """What process 0 says, in every process; the others give None."""
    if devices.is_alone:
        assert message is not None
        return message
    size = int.from_bytes(_of_first(devices, np.frombuffer(len(message or b"").to_bytes(8), np.uint8)).tobytes())
    given = np.zeros(size + -size % PIECE, np.uint8)
    if message is not None:
        given[:size] = np.frombuffer(message, np.uint8)
    found = [_of_first(devices, piece) for piece in given.reshape(-1, PIECE)]
    return b"".join(piece.tobytes() for piece in found)[:size]


def _of_first(devices: Devices, own: np.ndarray) -> np.ndarray:
    return devices.gather(devices.dealt([own[None]] * len(devices.own)))[0]


def is_any(devices: Devices, flag: bool) -> bool:
    """Whether it is true in one of the processes; the same answer in all of them."""
    if devices.is_alone:
        return flag
    return bool(devices.gather(devices.dealt([np.asarray([flag])] * len(devices.own))).any())


class _Watch:
    """When this process last heard of the others, and how long it worked between two such times."""

    def __init__(self):
        self.last_heard: float | None = None
        self.longest_work = 0.0
        self.end: Callable[[int], Any] | None = None

    def limit(self) -> float:
        now = time.monotonic()
        if self.last_heard is not None:
            self.longest_work = max(self.longest_work, now - self.last_heard)
        return max(PATIENCE, 2 * self.longest_work)

    def heard(self) -> None:
        self.last_heard = time.monotonic()


_watch = _Watch()


def end_when_lost(end: Callable[[int], Any] | None) -> None:
    """What is called with LOST, from another thread, where the other processes do not come; None: it is only said.

    A thread that waits inside of XLA cannot be interrupted, so `end` must leave without asking it, as `os._exit` does. Who
    owns the process decides that: the command line does.
    """
    _watch.end = end


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Around what needs the other processes. Where they do not come it says so, and calls what `end_when_lost` was given."""
    if jax.process_count() == 1:
        yield
        return
    limit = _watch.limit()

    def give_up() -> None:
        print(f"hamq: {lost_sentence(f'waited {limit:.0f} s for the other processes in vain')}", file=sys.stderr, flush=True)
        if _watch.end is not None:
            _watch.end(LOST)

    timer = threading.Timer(limit, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # ValueError: of gloo, which connects CPUs
        if not any(word in str(error) for word in OF_CONNECTIONS):
            raise
        raise LostProcessError(lost_sentence("lost the connection to another process")) from error
    finally:
        timer.cancel()
    _watch.heard()


def lost_sentence(what: str) -> str:
    return (
        f"process {jax.process_index()} of {jax.process_count()} {what}: one of them died or hangs; start all of them "
        "again with --resume (as many as you like), which goes on from the last checkpoint."
    )
