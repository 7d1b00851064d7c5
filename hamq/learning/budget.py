"""How many draws a budget of gradients buys, and what it takes to keep them."""

import math

from hamq.learning.draws import Drawn
from hamq.learning.layout import smallest_integer
from hamq.learning.pilot import FEWEST_DRAWS, LENGTHS
from hamq.problem.cells import available_bytes
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.hmc import HMC
from hamq.sampling.modes import search_gradients
from hamq.types import HamqError

MIN_SAMPLES = 32
"""Draws per pair below which a default budget is rather exceeded."""
NUM_TABLES = 8
"""Tables [S, A] that a solve holds at once."""
POINTS_OF_A_DRAW = 2
"""Points that there are of a draw while it is made; a tile at a time has more."""
PROGRAMS = 2**26
"""Bytes that compiling takes, and threads, whatever the size of the problem."""


def default_budget(problem: Problem) -> int:
    """Gradients that are spent when nothing is said: as many as the measurements of docs/solving.md stand on."""
    return max(4_000_000, 3_500 * problem.num_states)


def affordable_samples(problem: Problem, trial: Drawn, num_pairs: int, gradients: int) -> int:
    """Draws per pair that cost at most `gradients` for so many pairs; below 1 where they do not suffice.

    A pair costs a + b·n: mode search and warm-up, then b for every draw; what a trial cost says how much. (Fewer draws for
    the anchor states than for the columns, or more, were tried: the table gets better, the policy worse.)
    """
    sampler = trial.sampler
    per_draw = sampler.gradients_per_draw(problem)
    fixed = trial.cost.gradient_evaluations / trial.info.acceptance.size - per_draw * sampler.num_samples
    num = math.floor((gradients / num_pairs - fixed) / per_draw)
    return num - num % sampler.chains


def samples_of(problem: Problem, sampler: AbstractSampler, num_pairs: int, gradients: int) -> int:
    """The same for samplers that know what comes before their draws, and need no trial."""
    left = gradients / num_pairs - (sampler.gradients_before_draws(problem) or 0)
    num = math.floor(left / sampler.gradients_per_draw(problem))
    return num - num % sampler.chains


def least_budget(problem: Problem, sampler: HMC, num_pairs: int) -> int:
    """Gradients, rounded up, half of which buy every pair a few draws of each chain, with the longest trajectories."""
    of_pair = sampler.chains * (sampler.num_warmup + 1 + FEWEST_DRAWS) * (max(LENGTHS) + 1)
    needed = 2 * num_pairs * (search_gradients(problem.grid.dimension) + of_pair)
    scale = 10 ** (len(str(needed)) - 2)
    return -(-needed // scale) * scale


def memory_needed(problem: Problem, sampler: AbstractSampler, num_pairs: int, num_drawing: int) -> int:
    """Bytes at the peak of a solve that keeps the draws of so many pairs, and makes those of `num_drawing` at the same time.

    A draw is kept as its index, or as a point (linear law), and with a weight where draws have different ones. While it is
    made, it is all of that, and a few points besides.
    """
    point, index = 4 * problem.grid.dimension, smallest_integer(problem.num_states)(0).itemsize
    kept = (point if problem.law == "linear" else index) + (4 if sampler.weighs else 0)
    num_draws = sampler.num_samples
    draws = num_draws * (num_pairs * kept + num_drawing * (kept + POINTS_OF_A_DRAW * point))
    return draws + 8 * NUM_TABLES * problem.num_states * problem.num_actions + PROGRAMS


def require_memory(
    problem: Problem, sampler: AbstractSampler, num_pairs: int, num_drawing: int, max_bytes: int | None
) -> None:
    """Refuses, with the numbers, draws and tables that do not fit."""
    num_bytes = memory_needed(problem, sampler, num_pairs, num_drawing)
    allowed = available_bytes() if max_bytes is None else max_bytes
    if num_bytes > allowed:
        num_draws = max(num_pairs, num_drawing) * sampler.num_samples
        raise HamqError(
            f"solving {problem.name} needs {num_bytes:.2e} bytes for {num_draws:.2e} draws and the tables, "
            f"and {allowed:.2e} are allowed; use draws='regenerate' (slower, "
            "keeps none), fewer draws (max_gradients), Anchors, or raise max_bytes."
        )
