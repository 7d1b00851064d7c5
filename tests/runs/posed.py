"""Runs to write and to damage. No JAX beyond its import: the writers that get killed start from here."""

import dataclasses
from pathlib import Path

import numpy as np

from hamq.runs import storage
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import read_manifest, sha256
from hamq.solution import History

ROOT = Path(__file__).parents[2]
CONFIG = {"problem": "pendulum", "sampler": {"kind": "HMC", "num_samples": 100}, "seed": 0, "iterations": 20}
HASH = "ab" * 32


def state(number: int, size: int = 1000) -> dict[str, np.ndarray]:
    """Arrays that only checkpoint `number` has."""
    rng = np.random.default_rng(number)
    return {"q": rng.normal(size=(size, 2)), "draws/cells": rng.integers(0, 9, size, np.int16), "t": np.asarray(number)}


def history(length: int) -> History:
    steps = np.arange(length)
    return History(iteration=steps, residual=np.where(steps % 3 == 1, np.nan, 0.1 * 0.9**steps))


def assert_same_arrays(found, expected) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].dtype.str, found[name].shape) == (array.dtype.str, array.shape)
        assert found[name].tobytes() == array.tobytes()


def written(path: Path, number: int = 3) -> Path:
    """A run with one checkpoint, closed."""
    with RunFolder.create(path, CONFIG, HASH) as run:
        run.save_checkpoint(state(number), history(number))
    return path


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replaces a file and signs it, as somebody would who means harm."""
    manifest = read_manifest(folder)
    forged = dataclasses.replace(manifest, files=manifest.files | {name: sha256(content)})
    storage.commit(folder, forged, {name: content})
