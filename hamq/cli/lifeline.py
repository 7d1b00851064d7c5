"""Connections between process 0 and each of the others, on which both say every few seconds that they live.

A process that dies closes its connection, and one that is stopped falls silent: both are noticed while the others are still
at work and wait for nobody yet. Losing any process ends process 0, and losing process 0 ends all.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from hamq.cli.messages import say
from hamq.errors import HamqError
from hamq.learning.devices import LOST, Devices, broadcast, lost_sentence

BEAT = 2.0
"""Seconds between two signs of life."""
SILENCE = 30.0
"""Seconds without any after which a process counts as lost."""
GRACE = 2.0
"""Seconds for what the main thread has to say: it may have been refused for the same reason, or interrupted."""
LIVES, FAREWELL = b".", b"!"
TOKEN_BYTES = 16


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
