"""What is kept of one run of one experiment: a small JSON file with settings, seed, versions, cost and results."""

import dataclasses
import json
import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import jax

from hamq.errors import HamqError

PACKAGES = ("hamq", "jax", "jaxlib", "numpy", "equinox", "optax")


class RecordError(HamqError):
    """A record that cannot be read."""


@dataclasses.dataclass(frozen=True)
class Map:
    """Greedy actions on a slice of two axes, `[x][y]`: where they are, and what they give up of max_a Q*(s, a).

    `hold` says at which values the other coordinates stand, in words.
    """

    axes: tuple[str, str]
    x: list[float]
    y: list[float]
    hold: str
    actions: list[list[float]]
    given_up: list[list[float]]


@dataclasses.dataclass(frozen=True)
class Record:
    """One run.

    curve       columns of equal length: `iteration` (of the table) or `step` (of the network), `frobenius`, `advantage`,
                `policy_loss` (may hold None where it was not evaluated), `samples`, `gradient_evaluations`
    final       the fields of `Comparison`
    cost        `samples`, `density_evaluations`, `gradient_evaluations` in all
    maps        slices of the policy by name; of the first seed only
    """

    task: str
    variant: str
    method: str
    seed: int
    settings: dict[str, Any]
    curve: dict[str, list[float | None]]
    final: dict[str, float | None]
    cost: dict[str, int]
    seconds: float
    maps: dict[str, Map] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_finite(self) -> bool:
        """Whether it ended with numbers; a run that diverged is left out of statistics, and counted."""
        ends = [self.final.get(name) for name in ("frobenius", "policy_loss")]
        return all(end is not None and math.isfinite(end) for end in ends)

    @property
    def name(self) -> str:
        return record_name(self.task, self.variant, self.method, self.seed)


class Group(NamedTuple):
    """What the runs of several seeds have in common."""

    task: str
    variant: str
    method: str


def record_name(task: str, variant: str, method: str, seed: int) -> str:
    return f"{task}/{variant}-{method}-{seed}"


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    found = {package: _version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **found, "device": jax.devices()[0].device_kind}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def write(folder: Path, record: Record) -> Path:
    """The record as `folder/<task>/<variant>-<method>-<seed>.json`, whole or not at all."""
    return write_json(folder / f"{record.name}.json", dataclasses.asdict(record))


def write_json(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(_rounded(content), indent=None, separators=(",", ":"), allow_nan=False) + "\n")
    os.replace(partial, path)
    return path


def read(path: Path) -> Record:
    content = read_json(path)
    try:
        maps = {name: Map(**{**part, "axes": tuple(part["axes"])}) for name, part in content.pop("maps").items()}
        columns = content.pop("curve").items()
        curve = {name: [None if value is None else float(value) for value in column] for name, column in columns}
        return Record(**content, maps=maps, curve=curve)
    except (AttributeError, KeyError, TypeError) as error:
        raise RecordError(
            f"{path} is not a record of this version ({error}); remove it, and it is measured again."
        ) from error


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}); remove it, and it is measured again.") from error


def read_all(folder: Path) -> dict[Group, list[Record]]:
    """All records of a folder, by group, in the order of the seeds."""
    groups: dict[Group, list[Record]] = {}
    for path in sorted(folder.glob("*/*-*-*.json")):
        record = read(path)
        groups.setdefault(Group(record.task, record.variant, record.method), []).append(record)
    return {group: sorted(records, key=lambda record: record.seed) for group, records in groups.items()}


def _rounded(content: Any) -> Any:
    """Floats with six digits: more would be noise, and files stay small; what is not finite becomes None."""
    if isinstance(content, float):
        return float(f"{content:.6g}") if abs(content) < float("inf") else None
    if isinstance(content, dict):
        return {key: _rounded(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_rounded(value) for value in content]
    return content
