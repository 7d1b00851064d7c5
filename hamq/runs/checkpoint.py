"""A checkpoint: the arrays that a solver continues from, with the history up to them.

The history is stored beside the arrays, not read from history.csv: it keeps its dtypes, and in a finished run
history.csv may have rows beyond the last checkpoint.

The checkpoint before the last one: what a run goes on from where the last one is damaged.

`previous.npz` is the content that `checkpoint.npz` had before: the same file under another name, so that it costs no
writing. It is read only where it is needed: damage to it alone changes nothing. A run that goes back to it has neither the
rows nor the result that came later; both are computed again, with the same bits.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hamq.errors import DamagedError, RunError, damaged
from hamq.runs import storage
from hamq.runs.encoding import decode, encode_arrays, encode_history
from hamq.runs.manifest import Manifest, read_manifest
from hamq.runs.storage import CHECKPOINT, CONFIG, HISTORY, NAMES, PREVIOUS
from hamq.solution import History

HISTORY_PREFIX = "history/"


class Checkpoint(NamedTuple):
    arrays: dict[str, np.ndarray]
    history: History


def encode_checkpoint(arrays: Mapping[str, np.ndarray], history: History) -> bytes:
    for name in arrays:
        if name.startswith(HISTORY_PREFIX):
            raise RunError(f"Checkpoint: the name {name} is taken by the history; start it with something else.")
    return encode_arrays({**arrays, **{HISTORY_PREFIX + name: column for name, column in history.columns.items()}})


def decode_checkpoint(folder: Path, content: bytes) -> Checkpoint:
    arrays = decode(folder, CHECKPOINT, content)
    columns = {name: arrays.pop(name) for name in list(arrays) if name.startswith(HISTORY_PREFIX)}
    try:
        history = History(**{name.removeprefix(HISTORY_PREFIX): column for name, column in columns.items()})
    except (TypeError, ValueError) as error:
        raise damaged(folder, CHECKPOINT, error) from error
    return Checkpoint(arrays, history)


def require_like(folder: Path, arrays: Mapping[str, np.ndarray], like: Mapping[str, np.ndarray]) -> None:
    """Refuses arrays that are not of the names, shapes and dtypes of `like`."""
    for name in sorted(arrays.keys() | like.keys()):
        found, wanted = (_kind(group[name]) if name in group else "missing" for group in (arrays, like))
        if found != wanted:
            raise RunError(
                f"{CHECKPOINT} of {folder} is of another solver: its array {name!r} is {found}, this run needs {wanted}; "
                "resume with the arguments it was started with, or choose another folder."
            )


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"


class Sound(NamedTuple):
    """What a run can be continued from: `contents` that are whole.

    Where it has to go back, `restored` are files to write, `dropped` those that no longer count, and `said` is why.
    """

    manifest: Manifest
    contents: dict[str, bytes]
    restored: dict[str, bytes]
    dropped: tuple[str, ...] = ()
    said: str = ""


def read_sound(folder: Path) -> Sound:
    """All files of the run, or the config and the checkpoint before where the last one is damaged. Needs the lock."""
    try:
        return Sound(*storage.read_all(folder), {})
    except DamagedError as error:
        manifest = read_manifest(folder)
        if error.name != CHECKPOINT or PREVIOUS not in manifest.files:
            raise
        kept = dataclasses.replace(manifest, files={name: manifest.files[name] for name in (CONFIG, PREVIOUS)})
        contents = {CONFIG: storage.read_verified(folder, kept, CONFIG)}
        try:
            last = storage.read_verified(folder, kept, PREVIOUS)
        except DamagedError:
            raise damaged(folder, CHECKPOINT, f"and so is {PREVIOUS}, the one before it") from error
        history = decode_checkpoint(folder, last).history
        said = (
            f"{CHECKPOINT} of {folder} is damaged: the run goes on from {PREVIOUS}, the checkpoint before it, of iteration "
            f"{len(history)}."
        )
        restored = {CHECKPOINT: last, HISTORY: encode_history(history)}
        return Sound(manifest, contents, restored, tuple(name for name in NAMES if name not in (CONFIG, *restored)), said)
