"""The sampler of a problem when none was asked for: a pilot says whether masses or chains are worth more.

Masses by quadrature are the expectation itself, whatever the shape of the density: jumps, several modes and narrow ridges
cost more evaluations, and nothing else. Chains cost the same in every dimension. Quadrature evaluates a density at many
points at once, without random numbers and derivatives: a gradient of a chain takes as long as `EVALUATIONS_PER_GRADIENT` of
its evaluations. So masses are taken where those of all pairs take no more time than the budget of gradients would, or no
more than `FREE` evaluations where no budget was given; on a few pilot pairs they must settle. Kernels whose chains are known
to be good (`has_one_mode`) keep them. Where coordinates are independent and all masses are too many, independent draws from
the masses of the axes take the place of chains.
"""

import math
from typing import NamedTuple

import numpy as np

from hamq.learning.budget import MIN_SAMPLES
from hamq.learning.layout import smallest_integer
from hamq.learning.pilot import pilot_pairs
from hamq.learning.settings import Settings
from hamq.problem import cells
from hamq.problem.problem import Problem
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.iid import IID
from hamq.solution import Cost
from hamq.types import Key

EVALUATIONS_PER_GRADIENT = 16
FREE = 4 * 10**8
"""Evaluations that nobody has to ask for: some ten seconds on two cores."""
TOLERANCE = 1e-3
"""Total variation of a row: γ/(1−γ) times as much of the range of V, at worst."""
SHARP, MOST_REFINED = 1e-5, 40
"""What is tried first in one and two dimensions, and how many times the cost of an unrefined row it may take: a sharper look
costs little there, and finds narrow peaks beside broad ones."""
SETTLED = 0.9
"""Share of the pilot pairs that must reach it."""
NUM_PAIRS = 12
MOST_DRAWS = 512
"""Independent draws of a pair, where the masses of all pairs are too many to be kept."""
ROOM = 0.25
"""Share of the memory that rows may take."""


class Choice(NamedTuple):
    """Masses or draws from masses instead of chains, or None; with the reason, and what finding it cost."""

    sampler: Exhaustive | IID | None
    reason: str
    cost: Cost


def choose_sampler(problem: Problem, settings: Settings, budget: int, *, key: Key) -> Choice:
    """Masses where they settle within the budget and fit into memory."""
    nothing, pairs = Cost(0, 0, 0), problem.num_states * problem.num_actions
    if problem.kernel.has_one_mode or not cells.needs_quadrature(problem) or not _is_open(settings):
        return Choice(None, "", nothing)
    affordable = max(EVALUATIONS_PER_GRADIENT * budget, FREE if settings.is_default_budget else 0) / pairs
    index = smallest_integer(problem.num_states)(0).itemsize if problem.law == "cell" else 4 * problem.grid.dimension
    room = ROOM * (cells.available_bytes() if settings.passes.max_bytes is None else settings.passes.max_bytes)
    least = cells.estimate(problem)[1] / pairs
    fits = pairs * problem.num_states * (4 + index) <= room
    num_draws = min(MOST_DRAWS, int(room / (pairs * index)))
    if least > affordable or not (fits or (problem.is_product and num_draws >= MIN_SAMPLES)):
        return Choice(None, f"masses would take {least:,.0f} evaluations per pair or more", nothing)
    states, actions = (a.astype(np.float64) for a in pilot_pairs(problem, NUM_PAIRS, key=key))
    spent = 0
    for tolerance, most in _attempts(problem, affordable, least):
        errors, evaluations = cells.errors_of(problem, states, actions, tolerance, most)
        spent, mean = spent + int(evaluations.sum()), float(evaluations.mean())
        if np.mean(errors <= tolerance) >= SETTLED and mean <= affordable:
            cost = f"{pairs:,} pairs to {tolerance:g}, {_rounded(mean)} evaluations each"
            if fits:
                return Choice(Exhaustive(tolerance), f"masses of all {cost}", Cost(0, spent, 0))
            said = f"{num_draws} independent draws from the masses of the axes of all {cost}"
            return Choice(IID(num_draws, "product", tolerance), said, Cost(0, spent, 0))
    return Choice(None, f"masses do not settle with {affordable:,.0f} evaluations per pair", Cost(0, spent, 0))


def _attempts(problem: Problem, affordable: float, least: float) -> list[tuple[float, float]]:
    """(tolerance, evaluations of a pair at most), one after the other."""
    sharp = [(SHARP, min(affordable, MOST_REFINED * least))] if problem.grid.dimension <= 2 else []
    return [*sharp, (TOLERANCE, affordable)]


def _is_open(settings: Settings) -> bool:
    """Whether nothing was asked for that only draws, or a part of the pairs, can have."""
    return settings.completion.is_optional and settings.passes.draws == "reuse"


def _rounded(number: float) -> str:
    """Two digits: a pilot says no more."""
    scale = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    return f"about {round(number / scale) * scale:,}"
