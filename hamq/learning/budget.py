"""How many draws a budget of gradients buys, and what it takes to keep them."""

import dataclasses
import math

from hamq.learning.draws import Drawn, smallest_integer
from hamq.problem.cells import available_bytes
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.hmc import HMC

MIN_SAMPLES = 32
"""Draws per pair below which a default budget is rather exceeded."""


def default_budget(problem: Problem) -> int:
    """Gradients that are spent when nothing is said: as many as the measurements of docs/solving.md stand on."""
    return max(4_000_000, 3_500 * problem.num_states)


def with_samples(sampler: AbstractSampler, num_samples: int) -> AbstractSampler:
    """The sampler with so many draws, or a few more where its chains have to be of equal length."""
    chains = sampler.num_chains if isinstance(sampler, HMC) else 1
    return dataclasses.replace(sampler, num_samples=math.ceil(num_samples / chains) * chains)  # type: ignore[type-var]


def affordable_samples(problem: Problem, trial: Drawn, num_pairs: int, gradients: int) -> int:
    """Draws per pair that cost at most `gradients` for so many pairs; below 1 where they do not suffice.

    A pair costs a + b·n: mode search and warm-up, then b for every draw; what a trial cost says how much. (Fewer draws for
    the anchor states than for the columns, or more, were tried: the table gets better, the policy worse.)
    """
    sampler = trial.sampler
    assert isinstance(sampler, HMC)
    per_draw = sampler.gradients_per_draw(problem)
    fixed = trial.cost.gradient_evaluations / trial.info.acceptance.size - per_draw * sampler.num_samples
    num = math.floor((gradients / num_pairs - fixed) / per_draw)
    return num - num % sampler.num_chains


def require_memory(problem: Problem, num_draws: int, max_bytes: int | None) -> None:
    """Refuses, with the numbers, draws and tables that do not fit."""
    location = 4 * problem.grid.dimension if problem.law == "linear" else smallest_integer(problem.num_states)(0).itemsize
    num_bytes = num_draws * (location + 4) + 8 * 8 * problem.num_states * problem.num_actions
    allowed = available_bytes() if max_bytes is None else max_bytes
    if num_bytes > allowed:
        raise ValueError(
            f"solving {problem.name} needs {num_bytes:.2e} bytes for {num_draws:.2e} draws and the tables, "
            f"and {allowed:.2e} are allowed; use draws='regenerate' (slower, "
            "keeps none), fewer draws (max_gradients), Anchors, or raise max_bytes."
        )
