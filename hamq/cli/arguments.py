"""Options of `hamq solve` → keyword arguments of `hamq.solve`, and the config that a run folder keeps of them."""

import dataclasses
from typing import Any

from hamq.cli.options import FolderOptions, HMCOptions, RunOptions
from hamq.cli.parsing import Request
from hamq.completion.anchors import Anchors
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.completion.soft_impute import SoftImpute
from hamq.learning.budget import default_budget
from hamq.learning.literal import paper_literal
from hamq.learning.settings import resolve
from hamq.problem.problem import Problem
from hamq.runs.config import RunConfig, new_config
from hamq.runs.flat import assembled, flat
from hamq.runs.naming import Named
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance

MAKERS = {
    "hmc": HMC,
    "iid": IID,
    "importance": Importance,
    "exhaustive": Exhaustive,
    "anchors": Anchors,
    "nuclear_norm": NuclearNorm,
    "soft_impute": SoftImpute,
    "none": lambda: None,
}
DEFAULT_SAMPLES = 100
"""Replaced by what the budget buys."""


def solve_arguments(request: Request, problem: Problem) -> dict[str, Any]:
    """What `solve` is called with; HamqError if it would refuse."""
    asked = dataclasses.asdict(request.options["solve"])
    is_literal = asked.pop("literal")
    arguments = asked | {"sampler": None, "completion": MAKERS[asked["completion"]]()}
    if is_literal:
        arguments |= flat(paper_literal(problem))
        arguments |= {name: value for name, value in request.given_in("solve").items() if name in asked}
    arguments["sampler"] = _module(request, "sampler", arguments["sampler"], is_literal)
    arguments["completion"] = _module(request, "completion", arguments["completion"], is_literal)
    arguments["initial"] = _initial(arguments["initial"])
    if _counts_on_budget(request, arguments):
        arguments["max_gradients"] = default_budget(problem)
    arguments["key"] = arguments.pop("seed")
    arguments = assembled(arguments)
    resolve(problem, **{name: value for name, value in arguments.items() if name not in ("key", "initial")})  # refuse early
    return arguments


def _module(request: Request, role: str, chosen: Any, is_literal: bool) -> Any:
    """The sampler or completion: the chosen one with the options that were given."""
    given = without_prefix(role, request.given_in(role))
    if is_literal and role not in request.given:
        return dataclasses.replace(chosen, **given)
    options = request.options[role]
    if isinstance(options, HMCOptions) and not given and role not in request.given:
        return None  # the library's own choice
    fields = without_prefix(role, dataclasses.asdict(options))
    if fields.get("num_samples", 0) is None:
        fields["num_samples"] = DEFAULT_SAMPLES * (fields.get("num_chains") or 1)
    return MAKERS[getattr(request.options["solve"], role)](**fields)


def _counts_on_budget(request: Request, arguments: dict[str, Any]) -> bool:
    """HMC with options, but no number of draws: then the budget, which is also the default of no sampler, gives it."""
    is_open = getattr(request.options["sampler"], "num_samples", 0) is None and arguments["sampler"] is not None
    is_literal = request.options["solve"].literal and "sampler" not in request.given
    return is_open and not is_literal and arguments["max_gradients"] is None and arguments["schedule"] == "constant"


def without_prefix(role: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{role}_"): value for name, value in fields.items()}


def _initial(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text  # "uniform"


def make_config(named: Named, arguments: dict[str, Any], output: RunOptions) -> RunConfig:
    """What the run folder keeps: enough to make the problem again, and to see that a resumed run is the same."""
    return dataclasses.replace(new_config("solve", named, arguments, exact=output.exact), output=output_of(output))


def output_of(output: FolderOptions) -> dict[str, Any]:
    return {"checkpoint_every": output.checkpoint_every, "checkpoint_seconds": output.checkpoint_seconds}
