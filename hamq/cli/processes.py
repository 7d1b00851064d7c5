"""Several processes that solve one problem: how they join, and what process 0 tells the others.

Process 0 has the run folder and does all the talking; the others compute. Between process 0 and each of the others is a
connection, on which both say every few seconds that they live. A process that dies closes it, and one that is stopped falls
silent: both are noticed while the others are still at work and wait for nobody yet. Losing any process ends process 0, and
losing process 0 ends all.
"""

import contextlib
import io
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from hamq.cli.messages import say
from hamq.cli.place import Place
from hamq.errors import HamqError
from hamq.learning.devices import LOST, Devices, LostProcessError, broadcast, choose_devices, end_when_lost, lost_sentence

JOINING_SECONDS = 60
"""That a process waits for the others to start."""
HOST_DEVICES = "xla_force_host_platform_device_count"
BEAT = 2.0
"""Seconds between two signs of life."""
SILENCE = 30.0
"""Seconds without any after which a process counts as lost."""
GRACE = 2.0
"""Seconds for what the main thread has to say: it may have been refused for the same reason, or interrupted."""
LIVES, FAREWELL = b".", b"!"
TOKEN_BYTES = 16


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


class Lifeline:
    """`watch` a connection until the other end says farewell; `close` says it to all."""

    def __init__(self, end: Callable[[int], Any] = os._exit):
        self._end = end
        self._connections: list[socket.socket] = []
        self._is_closed = threading.Event()

    def watch(self, connection: socket.socket, whom: str) -> None:
        self._connections.append(connection)
        threading.Thread(target=self._listen, args=(connection, whom), daemon=True).start()

    def close(self) -> None:
        self._is_closed.set()
        for connection in self._connections:
            try:
                connection.sendall(FAREWELL)
                connection.close()
            except OSError:
                pass  # it has gone already

    def _listen(self, connection: socket.socket, whom: str) -> None:
        connection.settimeout(BEAT)
        last = time.monotonic()
        while not self._is_closed.is_set():
            heard = _exchanged(connection)
            if heard is None and time.monotonic() - last > SILENCE:
                return self._lose(f"has heard nothing of {whom} for {SILENCE:.0f} s")
            if heard == b"":
                self._is_closed.wait(GRACE)
                return self._lose(f"lost the connection to {whom}")
            if heard is not None:
                if FAREWELL in heard:
                    return None
                last = time.monotonic()
                self._is_closed.wait(BEAT)

    def _lose(self, what: str) -> None:
        if not self._is_closed.is_set():
            say(lost_sentence(what))
            self._end(LOST)


def _exchanged(connection: socket.socket) -> bytes | None:
    """What the other end said; None where it said nothing in time, b"" where it has gone."""
    try:
        connection.sendall(LIVES)
        return connection.recv(64)
    except TimeoutError:
        return None
    except OSError:
        return b""


def connect(devices: Devices, host: str | None, index: int, num: int) -> Lifeline:
    """The lifeline of this process; `host` is where process 0 is, if that was given."""
    lifeline = Lifeline()
    if index == 0:
        _accept(lifeline, devices, host, num)
        return lifeline
    address, port, token = broadcast(devices, None).decode().rsplit(" ", 2)
    try:
        connection = socket.create_connection((address, int(port)), timeout=SILENCE)
    except OSError as error:
        raise HamqError(
            f"process 0 cannot be reached at {address}:{port} ({error}); name its host by --coordinator HOST:PORT."
        ) from error
    connection.sendall(bytes.fromhex(token))
    lifeline.watch(connection, "process 0")
    return lifeline


def _accept(lifeline: Lifeline, devices: Devices, host: str | None, num: int) -> None:
    is_dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_dual else socket.AF_INET
    with socket.create_server(("", 0), family=family, dualstack_ipv6=is_dual) as server:
        server.settimeout(SILENCE)
        token = secrets.token_bytes(TOKEN_BYTES)
        broadcast(devices, f"{host or socket.gethostname()} {server.getsockname()[1]} {token.hex()}".encode())
        found = 0
        while found < num - 1:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                raise HamqError(f"{num - 1 - found} of {num} processes did not connect to process 0.") from None
            connection.settimeout(SILENCE)
            if _is_known(connection, token):
                lifeline.watch(connection, "another process")
                found += 1


def _is_known(connection: socket.socket, token: bytes) -> bool:
    """Whether this is one of ours; anybody can knock at a port."""
    try:
        return secrets.compare_digest(connection.recv(TOKEN_BYTES, socket.MSG_WAITALL), token)
    except OSError:
        return False
