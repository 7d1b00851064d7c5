"""Settings of a solver as JSON, and samplers made of it again.

A sampler or a completion is its kind and its fields, an array its shape and SHA-256, a function its name: enough to see that
a run is continued with the same ones, and to make hamq's own again.
"""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hamq.runs.errors import RunError, damaged
from hamq.runs.storage import CONFIG
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance

SAMPLERS = {kind.__name__: kind for kind in (Exhaustive, HMC, IID, Importance)}


def described(value: Any) -> Any:
    """What config.json keeps of a setting."""
    if isinstance(value, (np.ndarray, jax.Array)):
        array = np.asarray(value)
        return array.item() if array.ndim == 0 else {"kind": "array", "shape": list(array.shape), "sha256": _digest(array)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not field.metadata.get("is_settled")]
        return {"kind": type(value).__name__} | {name: described(getattr(value, name)) for name in names}
    if isinstance(value, (list, tuple)):
        return [described(entry) for entry in value]
    return {"kind": "function", "name": getattr(value, "__qualname__", repr(value))} if callable(value) else value


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.dtype.str.encode() + np.ascontiguousarray(array).tobytes()).hexdigest()


def sampler_of(folder: Path, found: Any) -> AbstractSampler | None:
    """The sampler that was described; fields of earlier versions that were not set are left out."""
    if found is None:
        return None
    try:
        kind = SAMPLERS.get(found["kind"])
        if kind is None:
            raise RunError(
                f"{folder} was solved with the sampler {found['kind']!r:.60}, which is not one of hamq's "
                f"({', '.join(SAMPLERS)}); give it: hamq.load(path, sampler=...)."
            )
        known = {field.name for field in dataclasses.fields(kind)}
        return kind(
            **{name: value for name, value in found.items() if name != "kind" and (name in known or value is not None)}
        )
    except (KeyError, TypeError) as error:
        raise damaged(folder, CONFIG, f"it does not say how backups are made ({error!r})") from error
