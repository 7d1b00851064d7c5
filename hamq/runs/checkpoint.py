"""A checkpoint: the arrays that a solver continues from, with the history up to them.

The history is stored beside the arrays, not read from history.csv: it keeps its dtypes, and in a finished run
history.csv may have rows beyond the last checkpoint.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hamq.runs.encoding import decode, encode_arrays
from hamq.runs.errors import RunError, damaged
from hamq.runs.storage import CHECKPOINT
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
