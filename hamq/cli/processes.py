"""Several processes that solve one problem: how they join, and what process 0 tells the others.

Process 0 has the run folder and does all the talking; the others compute.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from hamq.cli.lifeline import connect
from hamq.cli.messages import say
from hamq.cli.place import Place
from hamq.errors import HamqError
from hamq.learning.devices import LOST, Devices, LostProcessError, broadcast, choose_devices, end_when_lost

JOINING_SECONDS = 60
"""That a process waits for the others to start."""
HOST_DEVICES = "xla_force_host_platform_device_count"


@contextlib.contextmanager
def joined(place: Place, devices: int | None) -> Iterator[Devices]:
    """Around all that needs JAX: the devices of all processes. What goes wrong inside says in which process."""
    if devices is not None and devices < 1:
        raise HamqError(f"--devices must be a whole number of at least 1, got {devices}.")
    if devices is not None and devices > 1 and HOST_DEVICES not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):  # JAX has started; `choose_devices` says what that means
            jax.config.update("jax_num_cpu_devices", devices)
    if place.num == 1:
        yield choose_devices(devices)
        return
    _keep_stdout()
    end_when_lost(os._exit)
    try:
        _join(place, devices)
        found = choose_devices(devices)
        lifeline = connect(found, place.host, place.index, place.num)
        if jax.default_backend() == "cpu":
            # Everybody is connected: JAX's own watch, which aborts with pages of stack traces, is not needed any more.
            jax.distributed.shutdown()
        yield found
        lifeline.close()
    except LostProcessError as error:
        say(str(error))
        sys.stdout.flush()
        os._exit(LOST)  # JAX would wait at its exit for the process that was lost
    except (Exception, KeyboardInterrupt) as error:
        error.args = (f"{place.name}: {error}" if str(error) else place.name,)
        raise
    jax.distributed.shutdown()


def _join(place: Place, devices: int | None) -> None:
    num_local = devices or 1
    own = None if place.local is None else range(place.local * num_local, (place.local + 1) * num_local)
    try:
        jax.distributed.initialize(
            coordinator_address=place.coordinator,
            num_processes=place.num,
            process_id=place.index,
            local_device_ids=own,
            initialization_timeout=JOINING_SECONDS,
        )
    except RuntimeError as error:
        where = f" at {place.coordinator}" if place.coordinator else ""
        reason = str(error).partition("\n")[0]
        raise HamqError(
            f"could not join the other processes{where} within {JOINING_SECONDS} s ({reason}); start all of them, with the "
            "same --coordinator and --num-processes and with ids from 0, and choose a port that is free."
        ) from error


def _keep_stdout() -> None:
    """Gloo, which connects CPUs, prints to the standard output; results alone belong there."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdout = os.fdopen(kept, "w", encoding=sys.stdout.encoding)


class Order(NamedTuple):
    """What process 0 tells the others before anything is computed; `refused` says why not, `is_done` that all is."""

    config: str
    start: dict[str, np.ndarray] | None = None
    refused: str = ""
    is_done: bool = False
    converged: bool = False


def give(devices: Devices, order: Order) -> None:
    """From process 0 to the others, who `receive` it."""
    if devices.is_alone:
        return
    words = json.dumps(order._asdict() | {"start": order.start is not None})
    file = io.BytesIO()
    arrays: dict[str, Any] = {f"start/{name}": array for name, array in (order.start or {}).items()}
    np.savez(file, words=np.asarray(words), **arrays)
    broadcast(devices, file.getvalue())


def receive(devices: Devices, config: str) -> Order:
    """In the other processes; refuses where process 0 was given something else to do."""
    with np.load(io.BytesIO(broadcast(devices, None))) as file:
        words: dict[str, Any] = json.loads(str(file["words"]))
        arrays = {name.removeprefix("start/"): file[name] for name in file.files if name != "words"}
    words["start"] = arrays if words["start"] else None
    order = Order(**words)
    if order.refused:
        raise HamqError(f"process 0 stopped: {order.refused}")
    if order.config != config:
        raise HamqError(
            "process 0 was given another problem or other options; processes that join solve one problem together and need "
            "the same ones. Tasks that have nothing to do with each other are kept apart by --num-processes 1."
        )
    return order
