"""One writer per run folder.

The lock is the kernel's (flock on `hamq.lock`): it ends with the process that holds it, however that dies, so there is
nothing to clean up. The file itself stays: removing it would let two processes lock two files of one name.
"""

import os
import socket
from pathlib import Path

from hamq.runs.errors import RunError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK = "hamq.lock"


class Lock:
    """Held from its creation until `release`, or until the process ends."""

    def __init__(self, folder: Path, name: str = LOCK):
        if fcntl is None:
            raise RunError(f"{folder} cannot be locked: this system has no flock; write runs on Linux or macOS.")
        try:
            descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise RunError(f"{folder} cannot be written: {error.strerror}; choose another folder.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            note = f"process {os.getpid()} on {socket.gethostname()}".encode()
            os.pwrite(descriptor, note, 0)
            os.ftruncate(descriptor, len(note))
        except BlockingIOError as error:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise RunError(f"{folder} is being written by {holder}; wait for it or choose another folder.") from error
        except OSError as error:
            os.close(descriptor)
            raise RunError(
                f"{folder} cannot be locked: {error.strerror}; choose a folder with room on a disk of this machine."
            ) from error
        self._descriptor: int | None = descriptor

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        if fcntl is not None and self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # closing is not enough where a forked child has a copy
            os.close(self._descriptor)
            self._descriptor = None
