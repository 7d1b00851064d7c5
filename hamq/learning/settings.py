"""What `solve` was asked to do, checked and with its defaults filled in, before anything is computed."""

import dataclasses
from typing import Any

import numpy as np

from hamq.completion.completion import AbstractCompletion
from hamq.completion.keep import Keep
from hamq.learning.budget import default_budget
from hamq.learning.passes import Passes, is_number
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.hmc import HMC
from hamq.types import HamqError


@dataclasses.dataclass(frozen=True)
class Settings:
    """The arguments of `solve` that say how Algorithm 1 runs; `None` has been replaced by what it stands for."""

    sampler: AbstractSampler
    completion: AbstractCompletion
    iterations: int
    tolerance: float | None
    passes: Passes
    max_gradients: int | None
    """None: the sampler's own number of draws."""
    is_default_budget: bool
    chooses_sampler: bool
    """Whether none was given, so that a pilot chooses (`choosing.py`)."""


def resolve(
    problem: Problem,
    sampler: AbstractSampler | None,
    completion: AbstractCompletion | None,
    *,
    iterations: int,
    tolerance: float | None,
    max_gradients: int | None,
    passes: Passes | None,
) -> Settings:
    """Settings, or a sentence that says which argument has which value against which rule."""
    if sampler is not None and not isinstance(sampler, AbstractSampler):
        raise HamqError(f"solve: sampler must be HMC, IID, Importance or Exhaustive (an instance), got {sampler!r}.")
    if completion is not None and not isinstance(completion, AbstractCompletion):
        raise HamqError(f"solve: completion must be Anchors, NuclearNorm, SoftImpute or None, got {completion!r}.")
    if passes is not None and not isinstance(passes, Passes):
        raise HamqError(f"solve: passes must be hamq.Passes(...) or None, got {passes!r}.")
    passes = Passes() if passes is None else passes
    _check_numbers(iterations, tolerance, max_gradients)
    _check_budget(problem, sampler, passes, max_gradients)
    is_open = sampler is None and passes.schedule == "constant"
    is_default = is_open and max_gradients is None
    return Settings(
        sampler=HMC(100) if sampler is None else sampler,
        completion=Keep("all") if completion is None else completion,
        iterations=iterations,
        tolerance=tolerance,
        passes=passes,
        max_gradients=default_budget(problem) if is_default else max_gradients,
        is_default_budget=is_default,
        chooses_sampler=is_open,
    )


def _check_budget(problem: Problem, sampler: AbstractSampler | None, passes: Passes, max_gradients: int | None) -> None:
    """What says how many draws are made must be one thing, and have draws to speak of."""
    if max_gradients is not None and not (sampler is None or sampler.gradients_per_draw(problem)):
        raise HamqError(
            f"solve: max_gradients counts gradients of the density, and {type(sampler).__name__} needs none; set its "
            "num_samples."
        )
    if passes.schedule == "lemma3" and sampler is not None and sampler.is_exhaustive:
        raise HamqError(
            f"solve: schedule='lemma3' says how many draws to make, and {type(sampler).__name__} makes none; use HMC."
        )
    if max_gradients is not None and passes.schedule == "lemma3":
        raise HamqError("solve: max_gradients and schedule='lemma3' both set the number of draws; give one of them.")


def _check_numbers(iterations: Any, tolerance: Any, max_gradients: Any) -> None:
    is_whole = isinstance(iterations, (int, np.integer)) and not isinstance(iterations, bool)
    if not (is_whole and int(iterations) >= 1):
        raise HamqError(f"solve: iterations must be a whole number of at least 1, got {iterations!r}.")
    for name, value in (("tolerance", tolerance), ("max_gradients", max_gradients)):
        if value is not None and not (is_number(value) and value > 0):
            raise HamqError(f"solve: {name} must be None or a number above 0, got {value!r}.")
