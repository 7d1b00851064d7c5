"""Files that change together or not at all, whatever instant the process dies at.

A change of a run (`commit`) goes through these steps; a kill or a power cut may come between any two of them:

1. Each new content is written aside, to `checkpoint.npz.next`, fsynced, and renamed to `checkpoint.npz.<SHA-256>.next`:
   what has that name is complete. The manifest does not name this SHA-256 yet, so it does not count.
2. The new manifest is written aside, fsynced, and renamed into place. From here on the new contents count.
3. They are renamed to their own names (`settle`). Until then readers find them under the names with the SHA-256.

Contents that no manifest names are leftovers: ignored when reading, removed when the folder is next written.
Readers need no lock; one that meets a commit reads again. Nothing outside of the folder is ever written: what is written
aside is a new file, never one behind a link that somebody put there.

One writer per run folder.

The lock is the kernel's (flock on `hamq.lock`): it ends with the process that holds it, however that dies, so there is
nothing to clean up. The file itself stays: removing it would let two processes lock two files of one name.
"""

import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hamq.errors import START_AGAIN, RunError, damaged
from hamq.runs.manifest import MANIFEST, Manifest, read_manifest, sha256

CONFIG = "config.json"
HISTORY = "history.csv"
CHECKPOINT = "checkpoint.npz"
PREVIOUS = "previous.npz"
"""The checkpoint before, which checkpoint.py reads where the last one is damaged."""
TABLES = "result.npz"
RESULT = "result.json"
CERTIFICATE = "certificate.json"
BOUNDS = "certificate.npz"
NAMES = (CONFIG, HISTORY, PREVIOUS, CHECKPOINT, TABLES, RESULT, CERTIFICATE, BOUNDS)
NEXT = ".next"
GO_BACK = "continue with --resume, which goes on from the checkpoint before it"


def commit(
    folder: Path, manifest: Manifest, contents: Mapping[str, bytes], kept: Mapping[str, Path] = MappingProxyType({})
) -> None:
    """Makes `manifest` the folder's; `contents` are the files of it that changed. The caller holds the lock.

    `kept` are names that take over the content that another file has until now.
    """
    signed = manifest.encode()
    try:
        _write(folder, manifest, signed, contents, kept)
    except OSError as error:
        num_bytes = sum(map(len, contents.values())) + len(signed)
        raise RunError(
            f"{folder} could not be written ({error.strerror}): {num_bytes} bytes are needed; what was saved before is "
            "still there; make room and continue with --resume."
        ) from error


def _write(folder: Path, manifest: Manifest, signed: bytes, contents: Mapping[str, bytes], kept: Mapping[str, Path]) -> None:
    try:
        for name in (*kept, *contents):
            if name in kept:
                _keep(kept[name], folder / (name + NEXT))
            else:
                write_synced(folder / (name + NEXT), contents[name])
            os.replace(folder / (name + NEXT), folder / _aside(name, manifest))
        write_synced(folder / (MANIFEST + NEXT), signed)
        sync_folder(folder)
        os.replace(folder / (MANIFEST + NEXT), folder / MANIFEST)
        sync_folder(folder)
    finally:
        # Looks at the manifest on disk: an interrupt may come between the rename and Python's next line.
        settle(folder)


def settle(folder: Path) -> None:
    """Gives the contents that count their own names and removes leftovers. The caller holds the lock."""
    if (folder / MANIFEST).exists():
        try:
            manifest = read_manifest(folder)
        except RunError:
            return  # nobody can tell what counts
        for name in NAMES:
            if name not in manifest.files:
                (folder / name).unlink(missing_ok=True)
            elif (folder / _aside(name, manifest)).exists():
                os.replace(folder / _aside(name, manifest), folder / name)
    for leftover in leftovers(folder):
        leftover.unlink()
    sync_folder(folder)


def leftovers(folder: Path) -> list[Path]:
    """What a writer may have left aside."""
    return [path for name in (*NAMES, MANIFEST) for path in folder.glob(f"{name}*{NEXT}")]


def read_all(folder: Path) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest and the content of every file that it names, each verified; not of the spare checkpoint."""
    while True:
        manifest = read_manifest(folder)
        if CONFIG not in manifest.files:
            raise damaged(folder, MANIFEST, f"it does not name {CONFIG}")
        try:
            return manifest, {name: read_verified(folder, manifest, name) for name in manifest.files if name != PREVIOUS}
        except RunError:
            if read_manifest(folder) == manifest:
                raise
            # A writer has moved on meanwhile; what it wrote is read instead.


def read_verified(folder: Path, manifest: Manifest, name: str) -> bytes:
    """The content of one file; RunError if it is not the one that the manifest names."""
    remedy = GO_BACK if name == CHECKPOINT and PREVIOUS in manifest.files else START_AGAIN
    for path in places(folder, manifest, name):
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device never ends
                raise damaged(folder, name, "it is not a file", remedy)
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RunError(f"{name} of {folder} cannot be read: {error.strerror}; check its permissions.") from error
        if sha256(content) != manifest.files[name]:
            raise damaged(folder, name, f"the SHA-256 of its {len(content)} bytes is not the one in {MANIFEST}", remedy)
        return content
    raise damaged(folder, name, "it is missing", remedy)


def places(folder: Path, manifest: Manifest, name: str) -> tuple[Path, Path]:
    """Where the content may be that the manifest names: the first of them that exists counts."""
    return folder / _aside(name, manifest), folder / name


def write_synced(path: Path, content: bytes) -> None:
    """Returns when the content, though not yet the name, is on the disk."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep(source: Path, target: Path) -> None:
    """A second name for the content of a file, or a copy of it where the disk knows no second names."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        write_synced(target, source.read_bytes())


def sync_folder(folder: Path) -> None:
    """Returns when the names in the folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _aside(name: str, manifest: Manifest) -> str:
    return f"{name}.{manifest.files[name]}{NEXT}"


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
