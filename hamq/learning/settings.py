"""What `solve` was asked to do, checked and with its defaults filled in, before anything is computed."""

import dataclasses
import difflib
import math
from typing import Any, Literal, get_args

import numpy as np

from hamq.completion.anchors import Anchors
from hamq.completion.completion import AbstractCompletion
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.hmc import HMC
from hamq.types import HamqError

Selection = Literal["per_state", "bernoulli", "anchors", "all"]
Part = Literal["expectation", "increment", "table"]
Keeping = Literal["reuse", "fresh", "regenerate"]
Schedule = Literal["constant", "lemma3"]

FRACTION = 0.2
"""The paper's p, for `per_state` and `bernoulli`."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of `solve` that say how Algorithm 1 runs; `None` has been replaced by what it stands for."""

    sampler: AbstractSampler
    completion: AbstractCompletion | Anchors | None
    iterations: int
    tolerance: float | None
    fraction: float
    selection: Selection
    complete: Part
    draws: Keeping
    coupled: bool
    step_size: float
    step_decay: float | None
    schedule: Schedule
    max_gradients: int | None
    """None: the sampler's own number of draws."""
    is_default_budget: bool
    chooses_sampler: bool
    """Whether none was given, so that a pilot chooses (`choosing.py`)."""
    max_bytes: int | None
    devices: int | None = None

    def step(self, iteration: int) -> float:
        """α_t, constant or α/(1 + t/decay)."""
        return self.step_size if self.step_decay is None else self.step_size / (1 + iteration / self.step_decay)


def resolve(
    problem: Problem,
    default_budget: int,
    sampler: AbstractSampler | None,
    completion: AbstractCompletion | Anchors | None,
    selection: str | None,
    complete: str | None,
    **given: Any,
) -> Settings:
    """Settings, or a sentence that says which argument has which value against which rule."""
    if sampler is not None and not isinstance(sampler, AbstractSampler):
        raise HamqError(f"solve: sampler must be HMC, IID, Importance or Exhaustive (an instance), got {sampler!r}.")
    if completion is not None and not isinstance(completion, (AbstractCompletion, Anchors)):
        raise HamqError(f"solve: completion must be Anchors, NuclearNorm, SoftImpute or None, got {completion!r}.")
    _check_numbers(given)
    fraction = given.pop("fraction")
    selection = _selection(completion, selection, fraction)
    is_anchored = isinstance(completion, Anchors)
    complete = complete or ("expectation" if is_anchored else "increment")
    _require_one_of("complete", complete, Part)
    _require_one_of("draws", given["draws"], Keeping)
    _require_one_of("schedule", given["schedule"], Schedule)
    is_default = sampler is None and given["max_gradients"] is None and given["schedule"] == "constant"
    if given["max_gradients"] is not None and not (sampler is None or sampler.gradients_per_draw(problem)):
        raise HamqError(
            f"solve: max_gradients counts gradients of the density, and {type(sampler).__name__} needs none; set its "
            "num_samples."
        )
    if given["schedule"] == "lemma3" and sampler is not None and sampler.is_exhaustive:
        raise HamqError(
            f"solve: schedule='lemma3' says how many draws to make, and {type(sampler).__name__} makes none; use HMC."
        )
    if given["max_gradients"] is not None and given["schedule"] == "lemma3":
        raise HamqError("solve: max_gradients and schedule='lemma3' both set the number of draws; give one of them.")
    budget = default_budget if is_default else given.pop("max_gradients")
    given.pop("max_gradients", None)
    return Settings(
        sampler=HMC(100) if sampler is None else sampler,
        completion=completion,
        fraction=FRACTION if fraction is None else float(fraction),
        selection=selection,  # type: ignore[arg-type]
        complete=complete,  # type: ignore[arg-type]
        max_gradients=budget,
        is_default_budget=is_default,
        chooses_sampler=sampler is None and given["schedule"] == "constant",
        **given,
    )


def _selection(completion: Any, selection: str | None, fraction: float | None) -> str:
    is_anchored = isinstance(completion, Anchors)
    if selection is None:
        selection = "anchors" if is_anchored else "all" if completion is None and fraction is None else "per_state"
    _require_one_of("selection", selection, Selection)
    if is_anchored != (selection == "anchors"):
        raise HamqError(
            f"solve: selection={selection!r} does not go with completion={_name(completion)}; Anchors needs "
            "'anchors', NuclearNorm and SoftImpute need 'per_state', 'bernoulli' or 'all', and None takes any of these."
        )
    if fraction is not None and selection in ("anchors", "all"):
        raise HamqError(
            f"solve: fraction = {fraction} has no meaning with selection={selection!r}; it belongs to 'per_state' and "
            "'bernoulli'" + (" (Anchors has num_columns and num_states)." if is_anchored else ".")
        )
    return selection


def _name(completion: Any) -> str:
    return "None" if completion is None else type(completion).__name__


def _check_numbers(given: dict[str, Any]) -> None:
    if not _is_count(given["iterations"]):
        raise HamqError(f"solve: iterations must be a whole number of at least 1, got {given['iterations']!r}.")
    for name in ("tolerance", "step_decay", "max_gradients", "max_bytes"):
        if given[name] is not None and not (_is_number(given[name]) and given[name] > 0):
            raise HamqError(f"solve: {name} must be None or a number above 0, got {given[name]!r}.")
    for name in ("fraction", "step_size"):
        if given[name] is not None and not (_is_number(given[name]) and 0 < given[name] <= 1):
            raise HamqError(f"solve: {name} must lie above 0 and be at most 1, got {given[name]!r}.")
    if not isinstance(given["coupled"], bool):
        raise HamqError(f"solve: coupled must be True or False, got {given['coupled']!r}.")


def _require_one_of(name: str, value: Any, choices: Any) -> None:
    names = get_args(choices)
    if value not in names:
        near = difflib.get_close_matches(str(value), names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise HamqError(f"solve: {name} must be one of {', '.join(names)}, got {value!r}{hint}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1
