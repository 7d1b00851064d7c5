"""Options of `hamq solve-tensor` and `hamq report`, as options.py has those of the other commands."""

import dataclasses
from typing import Literal

from hamq.cli.options import ExhaustiveOptions, FolderOptions


@dataclasses.dataclass(frozen=True)
class TensorOptions:
    """V as a tensor train, for grids that no table can hold; see docs/high_dimension.md."""

    seed: int = 0
    """Of all random numbers; the same seed gives the same bits."""
    sampler: Literal["none", "exhaustive", "iid", "hmc", "importance"] = "none"
    """How next states are drawn; none: what suits the problem. Its options are listed below."""
    rank: int = 8
    """Of the first train."""
    max_rank: int = 24
    """Up to which it grows while the residual asks for it."""
    iterations: int = 40
    """Stop after so many."""
    tolerance: float = 0.01
    """Stop when the residual is this part of V; the exit code is 1 if it was given and missed."""
    order: str | None = None
    """The axes along the train (0,2,1,3); None: what depends on each other side by side."""
    num_starts: int = 1
    """Of the coordinate-wise search for the best of many actions."""


@dataclasses.dataclass(frozen=True)
class NoSamplerOptions:
    """What suits the problem: exact sums, independent or weighted draws; no options."""


@dataclasses.dataclass(frozen=True)
class TensorIIDOptions:
    """Independent draws of a Gaussian kernel, shared by all states."""

    num_samples: int | None = None
    """Draws per pair; None: twice the dimension, at least 32."""


@dataclasses.dataclass(frozen=True)
class TensorHMCOptions:
    """Weighted Hamiltonian trajectories, shared by all states."""

    num_samples: int = 64
    """Draws per pair."""
    num_leapfrog: int | None = None
    """Leapfrog steps per draw; None: 5."""
    sampler_step_size: float | None = None
    """Of a leapfrog step, in standard deviations; None: 0.4."""


@dataclasses.dataclass(frozen=True)
class TensorImportanceOptions:
    """Importance sampling, with draws shared by all states."""

    num_samples: int = 256
    """Draws per pair."""


TENSOR_SAMPLERS = {
    "none": NoSamplerOptions(),
    "exhaustive": ExhaustiveOptions(),
    "iid": TensorIIDOptions(),
    "hmc": TensorHMCOptions(),
    "importance": TensorImportanceOptions(),
}


@dataclasses.dataclass(frozen=True)
class TensorRunOptions(FolderOptions):
    """The run folder and what is printed."""

    report: bool = False
    """Write report.html into the run folder as well."""
    json: bool = False
    """Print one JSON object on stdout."""


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """The page and what is printed."""

    out: str | None = None
    """The page to write, also as -o; None: report.html in the folder of the first run."""
    exact: str | None = None
    """A run of hamq exact on the same problem: the page then has maps of the error."""
    json: bool = False
    """Print one JSON object on stdout."""
