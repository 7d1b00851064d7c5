"""A run folder that this process writes: config, history, checkpoints, result, manifest.

    config.json     what was asked for: a dict that only its author understands
    history.csv     one row per iteration
    checkpoint.npz  the arrays that the solver continues from, and the history up to them
    previous.npz    the checkpoint before, in case that the last one is damaged (checkpoint.py)
    result.npz      the table or the tensor train (summary.py); only in a finished run
    result.json     the result sentence, whether it converged, the error bound or residual, and the caller's summary
    certificate.*   what `hamq certify` found out about the table (certificate.py), until the run goes on
    manifest.json   which contents count (manifest.py)
    hamq.lock       held by the writer (storage.py)

Other files in the folder are nobody's business here: they are neither read nor removed.
"""

import os
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from hamq.certificates.certificate import Certificate, PartialCertificate
from hamq.errors import RunError
from hamq.runs import storage
from hamq.runs.certificate import encode_certificate, fingerprint
from hamq.runs.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint, read_sound, require_like
from hamq.runs.config import FREE_FIELDS, require_same_config
from hamq.runs.encoding import decode, encode_arrays, encode_history, encode_json, plain
from hamq.runs.manifest import FORMAT, MANIFEST, Manifest, package_versions, read_manifest, sha256
from hamq.runs.storage import BOUNDS, CERTIFICATE, CHECKPOINT, CONFIG, HISTORY, LOCK, PREVIOUS, RESULT, TABLES, Lock
from hamq.runs.summary import arrays_of, outcome_of
from hamq.solution import History, Solution
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqWarning


class RunFolder:
    """Made by `create`, `resume` or `open`; holds the lock until it is closed. A context manager."""

    def __init__(self, path: Path, lock: Lock):
        self.path = path
        self._lock = lock

    @classmethod
    def create(
        cls, path: str | os.PathLike, config: dict[str, Any], problem_hash: str, *, overwrite: bool = False
    ) -> "RunFolder":
        """A new run. `overwrite` replaces an old one, which counts until the new one is on the disk."""
        content = encode_json(plain(config, "config"))
        folder = Path(path).absolute()
        _require_free(folder, overwrite)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            storage.sync_folder(folder.parent)
        except OSError as error:
            raise RunError(f"{folder} cannot be made: {error.strerror}; choose another folder.") from error
        run = cls(folder, Lock(folder))
        try:
            _require_free(folder, overwrite)  # again: a second writer may have come between look and lock
            manifest = Manifest(problem_hash, package_versions(), {CONFIG: sha256(content)})
            storage.commit(folder, manifest, {CONFIG: content})
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike,
        config: dict[str, Any],
        problem_hash: str,
        *,
        free: Collection[str] = FREE_FIELDS,
    ) -> "RunFolder":
        """The run of this folder, every file verified, to be continued. Only the `free` config fields may differ.

        Where the last checkpoint is damaged, the run goes back to the one before, with a warning.
        """
        config = plain(config, "config")
        folder = Path(path).absolute()
        read_manifest(folder)  # what is not a run folder gets no lock file
        run = cls(folder, Lock(folder))
        try:
            sound = read_sound(folder)
            manifest = sound.manifest
            if manifest.problem != problem_hash:
                raise RunError(
                    f"{folder} holds a run of the problem with hash {manifest.problem}, not {problem_hash}; "
                    "resume with the problem it was started with, or choose another folder."
                )
            require_same_config(folder, decode(folder, CONFIG, sound.contents[CONFIG]), config, free)
            _warn_of_other_versions(folder, manifest.versions)
            run._commit({CONFIG: encode_json(config), **sound.restored}, sound.dropped)
            if sound.said:
                warnings.warn(sound.said, HamqWarning, stacklevel=2)
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def open(cls, path: str | os.PathLike) -> "RunFolder":
        """The run of this folder as it is, every file verified, to say more about its result."""
        folder = Path(path).absolute()
        read_manifest(folder)
        run = cls(folder, Lock(folder))
        try:
            storage.read_all(folder)
        except BaseException:
            run.close()
            raise
        return run

    def save_checkpoint(self, arrays: Mapping[str, np.ndarray], history: History) -> None:
        """Replaces the last checkpoint, which stays as the one before.

        A finished run is unfinished again: its result was that of fewer iterations.
        """
        contents = {CHECKPOINT: encode_checkpoint(arrays, history), HISTORY: encode_history(history)}
        self._commit(contents, dropped=(TABLES, RESULT, CERTIFICATE, BOUNDS))

    def load_checkpoint(self, like: Mapping[str, np.ndarray] | None = None) -> Checkpoint | None:
        """The last checkpoint, None before the first; refused unless names, shapes and dtypes are those of `like`."""
        manifest = read_manifest(self.path)
        if CHECKPOINT not in manifest.files:
            return None
        checkpoint = decode_checkpoint(self.path, storage.read_verified(self.path, manifest, CHECKPOINT))
        if like is not None:
            require_like(self.path, checkpoint.arrays, like)
        return checkpoint

    def finish(
        self,
        solution: Solution | TensorSolution,
        summary: dict[str, Any],
        arrays: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Writes the result. `arrays`: the last state of the solver, for those who resume with more iterations."""
        result = outcome_of(solution)
        if taken := sorted(result.keys() & summary.keys()):
            raise RunError(f"summary must not have the fields {', '.join(taken)}: they come from the solution.")
        contents = {
            HISTORY: encode_history(solution.history),
            TABLES: encode_arrays(arrays_of(solution)),
            RESULT: encode_json(plain(result | summary, "summary")),
        }
        if arrays is not None:
            contents[CHECKPOINT] = encode_checkpoint(arrays, solution.history)
        self._commit(contents, dropped=(CERTIFICATE, BOUNDS))

    def save_certificate(self, certificate: Certificate | PartialCertificate, q: np.ndarray) -> None:
        """Replaces the certificate of the result. Refused unless its table is `q`, the one that was certified."""
        manifest = read_manifest(self.path)
        is_table = TABLES in manifest.files
        held = decode(self.path, TABLES, storage.read_verified(self.path, manifest, TABLES)) if is_table else {}
        if "q" not in held or fingerprint(held["q"]) != fingerprint(q):
            raise RunError(f"{self.path} does not hold the table that was certified; certify the one that it holds.")
        # The versions stay those that solved: a run that goes on is compared with them.
        self._commit(encode_certificate(certificate, q), dropped=(CERTIFICATE, BOUNDS), versions=manifest.versions)

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _commit(
        self, contents: Mapping[str, bytes], dropped: Collection[str] = (), versions: dict[str, str] | None = None
    ) -> None:
        if not self._lock.is_held:
            raise RunError(f"{self.path} was closed; write before the end of its `with`, or open it again by resume.")
        old = read_manifest(self.path)
        kept = {name: digest for name, digest in old.files.items() if name not in dropped}
        new = kept | {name: sha256(content) for name, content in contents.items()}
        last = None
        if CHECKPOINT in contents and CHECKPOINT in old.files and PREVIOUS not in dropped:
            last = next((path for path in storage.places(self.path, old, CHECKPOINT) if path.exists()), None)
        if last is not None:
            new[PREVIOUS] = old.files[CHECKPOINT]
        manifest = Manifest(old.problem, versions or package_versions(), new)
        storage.commit(self.path, manifest, contents, {} if last is None else {PREVIOUS: last})


def _require_free(folder: Path, overwrite: bool) -> None:
    """Refuses a folder that holds something, unless it is a run and may be replaced."""
    if holds_nothing(folder):
        return
    if not folder.is_dir():
        raise RunError(f"{folder} is a file; choose another name for the run folder.")
    if not _is_run_folder(folder):
        raise RunError(
            f"{folder} is not empty and not a run folder: it holds {_others(folder)[0]!r}; choose another folder."
        )
    if not overwrite:
        raise RunError(
            f"{folder} already holds a run; continue it with --resume, replace it with --overwrite, "
            "or choose another folder."
        )


def holds_nothing(folder: Path) -> bool:
    """Whether a run can start here: there is no folder, or only what a writer left that came to no first write."""
    return not folder.exists() or (folder.is_dir() and not _others(folder))


def _others(folder: Path) -> list[str]:
    """Names in the folder that are neither a lock nor a leftover."""
    ours = {LOCK, *(path.name for path in storage.leftovers(folder))}
    return sorted(path.name for path in folder.iterdir() if path.name not in ours)


def _is_run_folder(folder: Path) -> bool:
    """Also one with a damaged manifest, so that it can be overwritten."""
    manifest = folder / MANIFEST
    return (folder / LOCK).exists() or (manifest.is_file() and FORMAT.encode() in manifest.read_bytes())


def _warn_of_other_versions(folder: Path, versions: Mapping[str, str]) -> None:
    now = package_versions()
    changed = [
        f"{name} {versions.get(name)}, now {version}" for name, version in now.items() if versions.get(name) != version
    ]
    if changed:
        warnings.warn(
            f"{folder} was written with {'; '.join(changed)}: the run continues, but perhaps not bit for bit.",
            HamqWarning,
            stacklevel=3,
        )
