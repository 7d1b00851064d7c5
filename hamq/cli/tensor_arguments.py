"""Options of `hamq solve-tensor` → keyword arguments of `hamq.solve_tensor`, and the config that a run folder keeps."""

import dataclasses
from typing import Any

from hamq.cli.arguments import MAKERS, output_of, without_prefix
from hamq.cli.options import FolderOptions
from hamq.cli.parsing import Request
from hamq.errors import HamqError
from hamq.problem.problem import Problem
from hamq.runs.config import RunConfig, new_config
from hamq.runs.naming import Named
from hamq.sampling.draws import AbstractSampler
from hamq.tensor.expectation import best_sampler
from hamq.tensor.settings import resolve


def tensor_arguments(request: Request, problem: Problem) -> dict[str, Any]:
    """What `solve_tensor` is called with; HamqError if it would refuse.

    The sampler is never None: the config then says what drew, whatever later versions choose.
    """
    arguments = dataclasses.asdict(request.options["tensor"])
    arguments |= {"sampler": None, "order": _order(arguments["order"])}
    seed = arguments.pop("seed")
    resolve(problem, **arguments)  # before anything is computed
    return arguments | {"sampler": _sampler(request, problem), "key": seed}


def _sampler(request: Request, problem: Problem) -> AbstractSampler:
    name = request.options["tensor"].sampler
    if name == "none":
        return best_sampler(problem)
    fields = without_prefix("sampler", dataclasses.asdict(request.options["sampler"]))
    if name == "iid" and fields["num_samples"] is None:
        fields["num_samples"] = 32
    return MAKERS[name](**fields)


def _order(text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(part) for part in text.split(",")]
    except ValueError:
        raise HamqError(f"--order takes the numbers of the axes (0,2,1,3), got {text!r}.") from None


def make_config(named: Named, arguments: dict[str, Any], output: FolderOptions) -> RunConfig:
    """What the run folder keeps; `load` reads the sampler, the seed and num_starts."""
    return dataclasses.replace(new_config("solve-tensor", named, arguments), output=output_of(output))
