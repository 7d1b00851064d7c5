"""Which law draws from a density without a normaliser: tables up to four dimensions, a fitted normal law beyond.

A candidate is judged on random pairs, by the effective share that all but a twentieth of them reach. A law that is too
narrow does not see what it misses, and its weights may look even. So its means and standard deviations are compared with
those of points all over the box: a pair where they differ by more than both could err counts as a share of 0. Densities
that hardly any of those points meet cannot be judged in this way.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.tensor.law import Survey, TiltedLaw, moments, survey
from hamq.tensor.sobol import MAX_DIMENSION as MAX_SPREAD
from hamq.tensor.sobol import sobol
from hamq.tensor.tabulated import MAX_DIMENSION, blank_table_law, make_table_law
from hamq.tensor.tilted import blank_law, fit_law
from hamq.types import NonFiniteError

NUM_JUDGED, NUM_COMPARED = 128, 16
NUM_WIDE = 2**16
"""Points all over the box."""
FEWEST_WIDE = 30.0
"""Effective number of those points below which they say nothing about a pair."""
NUM_ERRORS = 5.0
"""Standard errors by which two means may differ."""
LARGEST_SHIFT, LARGEST_STRETCH = 0.5, 0.5
"""By which the median pair may be off: standard deviations of its mean, and the logarithm of its spread."""
MAX_LEVELS = 3
SELDOM = 0.05
"""Part of the pairs that may be worse."""
GOOD = 0.25
"""Share of the tables below which the normal law is tried too."""
EVEN = 0.8
"""Share at which no further level is tried."""
ENOUGH = 0.9
"""Part of the best share at which a table with fewer levels, which costs less, is taken."""

ActionsAt = Callable[[np.random.Generator, int], Any]


class Pairs(NamedTuple):
    states: Float[np.ndarray, "P d"]
    actions: np.ndarray


def uses_tables(problem: Problem, num_leapfrog: int) -> bool:
    return problem.grid.dimension <= MAX_DIMENSION and num_leapfrog == 0


def blank(problem: Problem, num_samples: int, num_leapfrog: int, step_size: float) -> TiltedLaw:
    """Zeros in the shapes of what `choose_law` will most probably return."""
    if uses_tables(problem, num_leapfrog):
        return blank_table_law(problem.grid.dimension, num_samples)
    return blank_law(problem, num_samples, num_leapfrog, step_size)


def choose_law(
    problem: Problem, actions_at: ActionsAt, num_samples: int, num_leapfrog: int, step_size: float, seed: int
) -> TiltedLaw:
    """The law that draws best among those that see the whole density; refused where none does."""
    pairs = random_pairs(problem, actions_at, NUM_JUDGED, seed)
    reference = wide_moments(problem, pairs)
    found: list[tuple[float, TiltedLaw]] = []
    if uses_tables(problem, num_leapfrog):
        found.append(_best_table(problem, num_samples, seed, pairs, reference))
    if not found or found[0][0] < GOOD:
        law = fit_law(problem, actions_at, num_samples, num_leapfrog, step_size, seed)
        found.append((worth(survey(problem, law, *pairs), num_samples, reference), law))
    share, law = max(found, key=lambda candidate: candidate[0])
    if share <= 0:
        raise ValueError(_refusal(problem))
    return law


def _refusal(problem: Problem) -> str:
    d = problem.grid.dimension
    remedy = (
        "draw from the density by chains: hamq.solve, on a grid that a table can hold"
        if d > MAX_DIMENSION
        else "use hamq.solve, whose chains adapt to each pair, or a smaller box"
    )
    return (
        f"{problem.name}: no law that hamq.tensor can fit draws from this density; in more than a twentieth of {NUM_JUDGED} "
        f"random pairs one draw has all the weight, or the draws miss a part of it; {remedy}."
    )


def random_pairs(problem: Problem, actions_at: ActionsAt, count: int, seed: int) -> Pairs:
    """States all over the box."""
    generator, grid = np.random.default_rng([seed, 7]), problem.grid
    states = generator.uniform(grid.lower, grid.upper, (count, grid.dimension)).astype(np.float32)
    return Pairs(states, np.asarray(actions_at(generator, count), np.float32))


def worth(survey: Survey, num_samples: int, reference: "Wide") -> float:
    """The effective share that all but a twentieth of the pairs reach; 0 where a twentieth of them, or most, misses mass."""
    if np.mean(_differ(survey, num_samples, reference)) > SELDOM or _is_biased(survey, reference):
        return 0.0
    return float(np.quantile(survey.shares, SELDOM))


def _best_table(problem: Problem, num_samples: int, seed: int, pairs: Pairs, reference: "Wide") -> tuple[float, TiltedLaw]:
    laws, reached = [], []
    for levels in range(MAX_LEVELS + 1):
        laws.append(make_table_law(problem.grid.dimension, num_samples, levels, seed))
        reached.append(worth(survey(problem, laws[-1], *pairs), num_samples, reference))
        if reached[-1] >= EVEN:
            break
    level = next(level for level, share in enumerate(reached) if share >= ENOUGH * max(reached))
    return reached[level], laws[level]


class Wide(NamedTuple):
    """What points all over the box say of some pairs, and how many of them carry the weight (0 where none does)."""

    means: Float[np.ndarray, "P d"]
    stds: Float[np.ndarray, "P d"]
    effective: Float[np.ndarray, " P"]


def wide_moments(problem: Problem, pairs: Pairs) -> Wide:
    """By the first pairs."""
    grid, d = problem.grid, problem.grid.dimension
    unit = sobol(NUM_WIDE, d, 0) if d <= MAX_SPREAD else np.random.default_rng(0).uniform(size=(d, NUM_WIDE))
    points = (np.asarray(grid.lower)[:, None] + np.asarray(grid.widths)[:, None] * unit).astype(np.float32)

    def trace(points, states, actions):
        def pair(given):
            logs = jax.vmap(problem.density(*given).log, 1)(points)
            is_nan = jnp.isnan(logs)
            weights = jax.nn.softmax(jnp.where(is_nan, -jnp.inf, logs))
            return *moments(grid, points, weights), 1 / jnp.sum(weights**2), jnp.any(is_nan), jnp.argmax(is_nan)

        return jax.lax.map(pair, (states, actions))

    given = (points, *(array[:NUM_COMPARED] for array in pairs))
    job = ("wide_moments", problem.kernel.constants, grid)
    *found, is_nan, where = (np.asarray(part) for part in program(job, problem.kernel.functions, trace, *given)(*given))
    if is_nan.any():
        first = int(np.argmax(is_nan))
        place, state = points[:, where[first]].tolist(), pairs.states[first].tolist()
        raise NonFiniteError(
            f"{problem.name}: the log-density is nan at next state {place}, state {state}, action "
            f"{pairs.actions[first].tolist()} ({is_nan.sum()} of {len(is_nan)} random pairs); return -inf where the density "
            "is 0."
        )
    means, stds, effective = (part.astype(np.float64) for part in found)
    return Wide(means, stds, np.nan_to_num(effective))


def _differ(survey: Survey, num_samples: int, reference: Wide) -> Bool[np.ndarray, " P"]:
    """Whether mean or spread of the law are not the reference's; False where that says nothing."""
    means, stds, effective = reference
    own = slice(0, len(means))
    with np.errstate(all="ignore"):
        error = NUM_ERRORS * (1 / np.sqrt(num_samples * survey.shares[own]) + 1 / np.sqrt(effective))[:, None]
        is_off = np.abs(survey.means[own] - means) > error * stds
        is_off |= np.abs(survey.stds[own] / stds - 1) > error
    return np.any(is_off | ~np.isfinite(survey.means[own]), axis=1) & (effective >= FEWEST_WIDE)


def _is_biased(survey: Survey, reference: Wide) -> bool:
    """Whether mean or spread are off in the median pair: few effective draws excuse one pair, not all of them."""
    means, stds, effective = reference
    own = np.flatnonzero(effective >= FEWEST_WIDE)
    if not len(own):
        return False
    shift = np.median(np.abs(survey.means[own] - means[own]) / stds[own], axis=0)
    ratio = np.median(survey.stds[own] / stds[own], axis=0)
    return bool(np.any(~(shift < LARGEST_SHIFT)) or np.any(~(np.abs(np.log(ratio)) < LARGEST_STRETCH)))
