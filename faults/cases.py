"""Small solves that touch everything a resumed run could forget, and what they leave behind."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from hamq.runs.reading import Run, read_run

HMC = (
    *("solve", "double_integrator", "--points", "6", "--num-actions", "4", "--seed", "1", "--max-gradients", "20000"),
    *("--iterations", "40"),
)
"""Hamiltonian draws that are made once, and again by every resumed run; anchors."""
RESTLESS = (
    *("solve", "pendulum", "--points", "3", "--num-actions", "3", "--seed", "3", "--sampler", "iid", "--num-samples", "3"),
    *("--draws", "fresh", "--completion", "nuclear_norm", "--completion-max-iterations", "50", "--step-decay", "20"),
    *("--iterations", "60"),
)
"""Fresh draws, a selection and a warm start in every iteration."""
CASES = {"HMC, drawn once": HMC, "fresh draws": RESTLESS}
SPENT = "seconds"
"""The one column of a history that two runs of the same command do not share."""


class Outcome(NamedTuple):
    """The bits of a finished run."""

    q: bytes
    policy: bytes
    history: dict[str, bytes]


def outcome(folder: Path) -> Outcome:
    run = read_run(folder)
    assert run.q is not None, f"{folder} is not finished"
    return Outcome(run.q.tobytes(), run.q.argmax(axis=1).tobytes(), rows(run))


def rows(run: Run, length: int | None = None) -> dict[str, bytes]:
    """The columns of the history, up to a row, as bytes; without the seconds."""
    columns = {name: column[:length] for name, column in run.history.columns.items() if name != SPENT}
    return {name: np.ascontiguousarray(column).tobytes() for name, column in columns.items()}


def require_prefix(folder: Path, whole: Run) -> int:
    """The number of rows on the disk; AssertionError where they are not the first ones of the whole run."""
    found = read_run(folder)
    length = len(found.history)
    assert not length or rows(found) == rows(whole, length), f"{folder} has other rows than the uninterrupted run"
    return length
