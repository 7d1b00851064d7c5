"""A run folder as it is on the disk, finished or not; needs no lock."""

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.errors import damaged
from hamq.runs import storage
from hamq.runs.certificate import RunCertificate, certificate_of
from hamq.runs.config import RunConfig, config_of
from hamq.runs.encoding import decode, is_number
from hamq.runs.manifest import MANIFEST, Manifest
from hamq.runs.storage import CONFIG, HISTORY, RESULT, TABLES
from hamq.runs.summary import RunSummary, fields_of, outcome_names, summary_of
from hamq.solution import Cost, History

NUMBERS = ("error", "expected_error", "residual", "seconds", "iterations", "reads", *Cost._fields)
"""Of result.json, where they are there: they are shown and compared."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Run:
    """What `read_run` returns. An unfinished run has neither `q` nor `cores`, `result` and `converged`: they are None.

    A run of `solve` or `exact` has `q`; one of `solve-tensor` has `cores`, each of axis `order[k]`, and `residual` (see
    `TensorSolution`; `load_tensor` makes one). `health` holds the arrays of `Health` by name, where draws were reused; None
    in runs of versions that did not write it. `certificate` is what `hamq certify` found out about `q`.

    `config` and `summary` are the JSON of config.json and result.json, `setup` and `outcome` the records that they hold.
    """

    path: Path
    config: dict[str, Any]
    history: History
    manifest: Manifest
    q: Float[np.ndarray, "S A"] | None = None
    lower: Float[np.ndarray, "S A"] | None = None
    upper: Float[np.ndarray, "S A"] | None = None
    error: float | None = None
    expected_error: float | None = None
    health: dict[str, Float[np.ndarray, " S"]] | None = None
    cores: tuple[np.ndarray, ...] | None = None
    order: tuple[int, ...] | None = None
    residual: float | None = None
    certificate: RunCertificate | None = None
    result: str | None = None
    converged: bool | None = None
    summary: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        return self.result is not None

    @functools.cached_property
    def setup(self) -> RunConfig:
        """What was asked for; DamagedError where config.json is not that of a solver."""
        return config_of(self.path, self.config)

    @functools.cached_property
    def outcome(self) -> RunSummary:
        """What is known of a finished run without its arrays."""
        return summary_of(self.path, self.summary)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {len(self.history)} iterations; {self.result or 'unfinished'})"


def read_run(path: str | os.PathLike) -> Run:
    """The run of this folder; RunError with the file's name if any byte of any file is not what was written."""
    folder = Path(path).absolute()
    manifest, contents = storage.read_all(folder)
    # A checkpoint is what only the solver can read.
    found = {name: decode(folder, name, content) for name, content in contents.items() if name != storage.CHECKPOINT}
    summary = found.get(RESULT, {})
    _require_outcome(folder, found)
    held = fields_of(folder, found[TABLES]) if TABLES in found else {}
    return Run(
        path=folder,
        config=found[CONFIG],
        history=found.get(HISTORY, History()),
        manifest=manifest,
        **held,
        certificate=certificate_of(folder, found, held.get("q")),
        **{name: summary.pop(name) for name in outcome_names("cores" in held) if name in summary},
        summary=summary,
    )


def _require_outcome(folder: Path, found: dict[str, Any]) -> None:
    """Refuses half a result, or one that says nothing: only somebody who means harm writes them."""
    if (TABLES in found) != (RESULT in found):
        raise damaged(folder, MANIFEST, f"it names one of {TABLES} and {RESULT} without the other")
    if RESULT in found:
        kinds = {"result": str, "converged": bool}
        if wrong := [name for name, kind in kinds.items() if not isinstance(found[RESULT].get(name), kind)]:
            raise damaged(folder, RESULT, f"its {wrong[0]} is not a {kinds[wrong[0]].__name__}")
        given = {name: found[RESULT].get(name) for name in NUMBERS}
        if wrong := [name for name, value in given.items() if value is not None and not is_number(value)]:
            raise damaged(folder, RESULT, f"its {wrong[0]} is {given[wrong[0]]!r:.60}, not a number")
