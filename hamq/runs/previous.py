"""The checkpoint before the last one: what a run goes on from where the last one is damaged.

`previous.npz` is the content that `checkpoint.npz` had before: the same file under another name, so that it costs no
writing. It is read only where it is needed: damage to it alone changes nothing. A run that goes back to it has neither the
rows nor the result that came later; both are computed again, with the same bits.
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

from hamq.runs import storage
from hamq.runs.checkpoint import decode_checkpoint
from hamq.runs.encoding import encode_history
from hamq.runs.errors import DamagedError, damaged
from hamq.runs.manifest import Manifest, read_manifest
from hamq.runs.storage import CHECKPOINT, CONFIG, HISTORY, NAMES, PREVIOUS


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
