"""`hamq solve-tensor`: V of one problem as a tensor train, into a run folder."""

import dataclasses
from typing import Any, Literal

import hamq
from hamq.cli.commands.report import page_beside, require_place
from hamq.cli.commands.solve import ExhaustiveOptions, make, without_prefix
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Choices, Command, Request
from hamq.cli.session import (
    FAILED,
    FolderOptions,
    announce,
    build,
    carry_out,
    found_before,
    open_recording,
    require_sense,
    tell_place,
)
from hamq.errors import HamqError


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
COMMAND = Command(
    "PROBLEM",
    "solve one of many dimensions, V as a tensor train",
    2,
    {"tensor": TensorOptions(), "output": FolderOptions()},
    {"sampler": Choices(TENSOR_SAMPLERS, "none")},
    problem={"law": "linear"},  # a train interpolates between the nodes
    is_long=lambda words: True,
)


def run(request: Request) -> int:
    from hamq.runs.config import new_config
    from hamq.runs.solving import finish
    from hamq.tensor.solve import solve_tensor

    hamq.use_compilation_cache()
    output = request.options["output"]
    require_sense(output)
    if output.report:
        require_place(output.out)
    named, problem = build(request)
    arguments = tensor_arguments(request, problem)
    config = dataclasses.replace(new_config("solve-tensor", named, arguments), output=output.kept)
    solution = None
    with open_recording(output, config, problem) as recording:
        if recording.is_done and (before := recording.before) is not None:
            say(f"{output.out} is finished already")
            summary = found_before(before) | {"residual": before.residual}
        else:
            announce(problem, recording, "compiling the first backups")
            solution = carry_out(request, recording, solve_tensor, {"problem": problem, **arguments})
            if solution is None:
                return FAILED
            head = {"problem": named.name, "result": solution.result, "converged": solution.converged}
            summary = head | {"residual": solution.residual} | finish(recording, solution)
    page = page_beside(output.out, problem, train=solution) if output.report else None
    if output.json:
        print_json(summary | {"out": output.out, "report": page})
    else:
        tell(f"{summary['problem']}: {summary['result']}.")
        ranks = ", ".join(map(str, summary["ranks"]))
        tell(f"{summary['iterations']} iterations in {summary['seconds']:.1f} s, ranks {ranks}.")
        tell_place(output.out, page)
    return FAILED if "tolerance" in request.given and not summary["converged"] else 0


def tensor_arguments(request: Request, problem: "hamq.Problem") -> dict[str, Any]:
    """What `solve_tensor` is called with; HamqError if it would refuse.

    The sampler is never None: the config then says what drew, whatever later versions choose.
    """
    from hamq.tensor.settings import resolve

    arguments = dataclasses.asdict(request.options["tensor"])
    arguments |= {"sampler": None, "order": _order(arguments["order"])}
    seed = arguments.pop("seed")
    resolve(problem, **arguments)  # before anything is computed
    return arguments | {"sampler": _sampler(request, problem), "key": seed}


def _sampler(request: Request, problem: "hamq.Problem") -> Any:
    from hamq.tensor.expectation import best_sampler

    name = request.options["tensor"].sampler
    if name == "none":
        return best_sampler(problem)
    fields = without_prefix("sampler", dataclasses.asdict(request.options["sampler"]))
    if name == "iid" and fields["num_samples"] is None:
        fields["num_samples"] = 32
    return make(name, fields)


def _order(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise HamqError(f"--order takes the numbers of the axes (0,2,1,3), got {text!r}.") from None
