"""Runs that take a second, and what they leave behind."""

from pathlib import Path

import numpy as np

PENDULUM = ("pendulum", "--points", "3", "--num-actions", "3")
TINY = ("solve", *PENDULUM, "--sampler", "exhaustive", "--completion", "none", "--iterations", "5")
# Fresh draws, a selection and a warm start of every iteration: whatever a resumed run forgets changes its bits.
RESTLESS = (
    *("solve", *PENDULUM, "--seed", "3", "--sampler", "iid", "--num-samples", "3", "--draws", "fresh"),
    *("--completion", "nuclear_norm", "--completion-max-iterations", "50", "--step-decay", "20"),
)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but for the note in the lock."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "hamq.lock"}


def table(folder: Path) -> bytes:
    with np.load(folder / "result.npz") as arrays:
        return arrays["q"].tobytes()


def history(folder: Path) -> list[str]:
    """The rows without their seconds, which come last."""
    return [line.rpartition(",")[0] for line in (folder / "history.csv").read_text().splitlines()]
