"""Which law draws from a density without a normaliser: tables up to four dimensions, beyond them a fitted normal law, or
slices along the axes where these have the larger effective share.

A candidate is judged on random pairs, by the effective share that all but a twentieth of them reach. A law that is too
narrow does not see what it misses, and its weights may look even. So its means and standard deviations are compared with
those of points all over the box: a pair where they differ by more than both could err counts as a share of 0. Densities
that hardly any of those points meet are judged by their modes (`hamq/sampling/modes.py`): a pair counts as a share of 0
where one that has a twentieth of the mass lies far from all draws.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.sampling.modes import find_modes
from hamq.sampling.walls import make_potential
from hamq.tensor.choice import Choices
from hamq.tensor.effective import draws_that_do, remedy_for
from hamq.tensor.law import Survey, TiltedLaw, moments, survey
from hamq.tensor.slices import MAX_VISITS, directions_of, make_slice_law, regression_of
from hamq.tensor.sobol import spread_points
from hamq.tensor.tabulated import MAX_DIMENSION, TableLaw, blank_table_law, make_table_law
from hamq.tensor.tilted import NormalLaw, blank_law, fit_law
from hamq.types import HamqError, NonFiniteError

NUM_JUDGED, NUM_COMPARED = 128, 16
NUM_WIDE = 2**16
"""Points all over the box."""
FEWEST_WIDE = 30.0
"""Effective number of those points below which they say nothing about a pair."""
NUM_ERRORS = 5.0
"""Standard errors by which two means may differ."""
LARGEST_SHIFT, LARGEST_STRETCH = 0.5, 0.5
"""By which the median pair may be off: standard deviations of its mean, and the logarithm of its spread."""
FARTHEST_MODE = 8.0
"""Standard deviations of the draws from their mean: a twentieth of the mass lies within 4.4 if they have it."""
MAX_LEVELS = 3
SELDOM = 0.05
"""Part of the pairs that may be worse."""
GOOD = 0.25
"""Share of the tables below which the normal law is tried too."""
EVEN = 0.8
"""Share at which no further level is tried."""
ENOUGH = 0.9
"""Part of the best share at which a table with fewer levels, which costs less, is taken."""


class Pairs(NamedTuple):
    """States, the numbers of the levels of actions, and the actions."""

    states: Float[np.ndarray, "P d"]
    levels: Int[np.ndarray, "P k"]
    actions: Shaped[np.ndarray, "P *k"]


Surveyor = Callable[[TiltedLaw, Pairs], Survey]
"""Says what a law does at pairs: by a program of its own, or by one that there is anyway."""


def uses_tables(problem: Problem, num_leapfrog: int) -> bool:
    return problem.grid.dimension <= MAX_DIMENSION and num_leapfrog == 0


def blank(problem: Problem, num_samples: int, num_leapfrog: int, step_size: float) -> TiltedLaw:
    """Zeros in the shapes of what `choose_law` will most probably return."""
    if uses_tables(problem, num_leapfrog):
        return blank_table_law(problem.grid.dimension, num_samples)
    return blank_law(problem, num_samples, num_leapfrog, step_size)


def choose_law(
    problem: Problem,
    choices: Choices,
    num_samples: int,
    num_leapfrog: int,
    step_size: float,
    seed: int,
    surveyor: Surveyor | None = None,
) -> TiltedLaw:
    """The law that draws best among those that see the whole density; refused where none does."""

    def actions_at(generator, count):
        return choices.actions(choices.random(generator, count))

    look = surveyor or (lambda law, pairs: survey(problem, law, pairs.states, pairs.actions))
    pairs = random_pairs(problem, choices, NUM_JUDGED, seed)
    reference = with_modes(problem, pairs, wide_moments(problem, pairs))
    found: list[tuple[float, TiltedLaw]] = []
    if uses_tables(problem, num_leapfrog):
        found.append(_best_table(problem, num_samples, seed, pairs, reference, look))
    if not found or found[0][0] < GOOD:
        fitted = _fitted(problem, actions_at, num_samples, num_leapfrog, step_size, seed)
        if fitted is not None:
            found.append((worth(look(fitted, pairs), num_samples, reference), fitted))
        if not num_leapfrog and max((share for share, _ in found), default=0) < EVEN:
            found += _slices(problem, num_samples, seed, fitted, pairs, reference, look)
    share, law = max(found, key=lambda candidate: _per_evaluation(*candidate))
    if share <= 0:

        def tenth_of(count: int) -> float:
            law_of = found[0][1].with_draws(count)
            return count * worth(look(law_of, pairs), count, reference)

        raise HamqError(_refusal(problem, draws_that_do(tenth_of, num_samples)))
    return law


def _per_evaluation(share: float, law: TiltedLaw) -> float:
    """Effective draws for each evaluation, a gradient counted as three; the nodes of a table, which are cheap, as none."""
    draws, densities, gradients = law.cost
    return share * draws / (4 * draws if isinstance(law, TableLaw) else max(densities + 3 * gradients, 4 * draws))


def _fitted(problem: Problem, actions_at, num_samples: int, num_leapfrog: int, step_size: float, seed: int):
    """The fitted normal law; None where the scores allow none."""
    try:
        return fit_law(problem, actions_at, num_samples, num_leapfrog, step_size, seed)
    except np.linalg.LinAlgError:
        return None


def _slices(
    problem: Problem,
    num_samples: int,
    seed: int,
    fitted: NormalLaw | None,
    pairs: Pairs,
    reference: "Wide",
    look: Surveyor,
) -> list[tuple[float, TiltedLaw]]:
    """Slices along the axes, made twice and more often; along the fitted correlations too where those are not good.

    Where the first finds the density in most pairs, all begin where that says it is: it may be hard to find in the others.
    """
    grid, found = problem.grid, []
    regression = regression_of(grid, pairs.states, pairs.actions, pairs.states, np.zeros(len(pairs.states)))
    candidates: list[tuple[int, np.ndarray | None]] = [(visits, None) for visits in range(2, MAX_VISITS + 1)]
    if fitted is not None:
        candidates.append((MAX_VISITS, directions_of(np.asarray(fitted.root, np.float64))))
    for visits, directions in candidates:
        best = max((share for share, _ in found), default=0.0)
        if best >= EVEN or (directions is not None and best >= GOOD):
            break
        law = make_slice_law(grid, num_samples, visits, seed, regression, directions)
        seen = look(law, pairs)
        if not found:
            regression = regression_of(grid, pairs.states, pairs.actions, seen.means, seen.shares)
            law = make_slice_law(grid, num_samples, visits, seed, regression, directions)
        found.append((worth(seen, num_samples, reference), law))
    return found


def _refusal(problem: Problem, num_draws: int | None) -> str:
    return (
        f"{problem.name}: no law that hamq.tensor can fit draws from this density; in more than a twentieth of {NUM_JUDGED} "
        f"random pairs one draw has all the weight, or the draws miss a part of it; {remedy_for(num_draws)}."
    )


def random_pairs(problem: Problem, choices: Choices, count: int, seed: int) -> Pairs:
    """States all over the box."""
    generator, grid = np.random.default_rng([seed, 7]), problem.grid
    states = generator.uniform(grid.lower, grid.upper, (count, grid.dimension)).astype(np.float32)
    levels = choices.random(generator, count)
    return Pairs(states, levels, choices.actions(levels))


def worth(survey: Survey, num_samples: int, reference: "Wide") -> float:
    """The effective share that all but a twentieth of the pairs reach; 0 where a twentieth of them, or most, misses mass."""
    if np.mean(_differ(survey, num_samples, reference)) > SELDOM or _is_biased(survey, reference):
        return 0.0
    return float(np.quantile(survey.shares, SELDOM))


def _best_table(
    problem: Problem, num_samples: int, seed: int, pairs: Pairs, reference: "Wide", look: Surveyor
) -> tuple[float, TiltedLaw]:
    laws, reached = [], []
    for levels in range(MAX_LEVELS + 1):
        laws.append(make_table_law(problem.grid.dimension, num_samples, levels, seed))
        reached.append(worth(look(laws[-1], pairs), num_samples, reference))
        if reached[-1] >= EVEN:
            break
    level = next(level for level, share in enumerate(reached) if share >= ENOUGH * max(reached))
    return reached[level], laws[level]


class Wide(NamedTuple):
    """What points all over the box say of some pairs, and how many of them carry the weight (0 where none does).

    `modes` are looked for where most of the points say nothing, with their shares of the mass; circles as sines.
    """

    means: Float[np.ndarray, "P d"]
    stds: Float[np.ndarray, "P d"]
    effective: Float[np.ndarray, " P"]
    modes: Float[np.ndarray, "P K d"] | None = None
    masses: Float[np.ndarray, "P K"] | None = None


def with_modes(problem: Problem, pairs: Pairs, reference: Wide) -> Wide:
    """The reference with the modes of its pairs, if it says nothing of more than a twentieth of them."""
    if np.mean(reference.effective < FEWEST_WIDE) <= SELDOM:
        return reference
    grid = problem.grid

    def trace(states, actions):
        def pair(given):
            potential = make_potential("logit", problem.density(*given), grid, 1.0)
            modes = find_modes(potential, given[0])
            return jax.vmap(lambda y: grid.wrap(potential.place(y)))(modes.positions), jnp.exp(modes.log_weights)

        return jax.lax.map(pair, (states, actions))

    given, kernel = (pairs.states[:NUM_COMPARED], pairs.actions[:NUM_COMPARED]), problem.kernel
    found = program(("modes", kernel.constants, grid), kernel.functions, trace, *given)(*given)
    places, masses = (np.asarray(part, np.float64) for part in found)
    turned = np.sin(2 * np.pi * (places - np.asarray(grid.lower)) / np.asarray(grid.widths))
    return reference._replace(modes=np.where(np.asarray(grid.periodic), turned, places), masses=np.nan_to_num(masses))


def wide_moments(problem: Problem, pairs: Pairs) -> Wide:
    """By the first pairs."""
    grid = problem.grid
    unit = spread_points(NUM_WIDE, grid.dimension, 0)
    points = (np.asarray(grid.lower)[:, None] + np.asarray(grid.widths)[:, None] * unit).astype(np.float32)

    def trace(points, states, actions):
        def pair(given):
            logs = jax.vmap(problem.density(*given).log, 1)(points)
            is_nan = jnp.isnan(logs)
            weights = jax.nn.softmax(jnp.where(is_nan, -jnp.inf, logs))
            return *moments(grid, points, weights), 1 / jnp.sum(weights**2), jnp.any(is_nan), jnp.argmax(is_nan)

        return jax.lax.map(pair, (states, actions))

    given = (points, pairs.states[:NUM_COMPARED], pairs.actions[:NUM_COMPARED])
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
    """Whether mean or spread of the law are not the reference's, or a mode is missed; False where nothing is known."""
    means, stds, effective = reference[:3]
    own = slice(0, len(means))
    with np.errstate(all="ignore"):
        error = NUM_ERRORS * (1 / np.sqrt(num_samples * survey.shares[own]) + 1 / np.sqrt(effective))[:, None]
        is_off = np.abs(survey.means[own] - means) > error * stds
        is_off |= np.abs(survey.stds[own] / stds - 1) > error
    differs = np.any(is_off | ~np.isfinite(survey.means[own]), axis=1) & (effective >= FEWEST_WIDE)
    if reference.modes is None or reference.masses is None:
        return differs
    away = np.abs(reference.modes - survey.means[own][:, None, :])
    is_missed = np.any(away > FARTHEST_MODE * survey.stds[own][:, None, :], axis=2) & (reference.masses > SELDOM)
    return differs | np.any(is_missed, axis=1)


def _is_biased(survey: Survey, reference: Wide) -> bool:
    """Whether mean or spread are off in the median pair: few effective draws excuse one pair, not all of them."""
    means, stds, effective = reference[:3]
    own = np.flatnonzero(effective >= FEWEST_WIDE)
    if not len(own):
        return False
    shift = np.median(np.abs(survey.means[own] - means[own]) / stds[own], axis=0)
    ratio = np.median(survey.stds[own] / stds[own], axis=0)
    return bool(np.any(~(shift < LARGEST_SHIFT)) or np.any(~(np.abs(np.log(ratio)) < LARGEST_STRETCH)))
