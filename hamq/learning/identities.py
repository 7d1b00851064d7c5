"""Whether the draws of a problem may be calibrated: its density must not jump, and what should have the mean 0 must have it.

Two looks at some pairs, which are all of them where there are few. `continuity.py` sees jumps and hard zeros themselves, on
lines through a draw of each pair. And the functions z that calibration would bring to 0 (`sampling/calibration.py`) are
averaged over a chain of each pair, in units of their own size: where an identity fails, most pairs are off in the same
direction, by much more than chance allows.
"""

import dataclasses
import functools
import warnings
from typing import NamedTuple

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.learning.chunks import Call, Chains
from hamq.learning.continuity import Jumps, find_jumps
from hamq.learning.layout import call_shape
from hamq.learning.pilot import Allowance, Tuned, pilot_pairs
from hamq.problem.problem import Problem, listed_actions
from hamq.sampling.hmc import HMC
from hamq.sampling.modes import search_gradients
from hamq.types import HamqError, HamqWarning, Key

FEWEST_PAIRS, NUM_PAIRS = 12, 128
"""That are looked at, at least and at most."""
NUM_DRAWS = 32
STANDARD_ERRORS = 6.0
"""That the mean of a function may be from 0."""
LEAST_SHIFT = 0.05
"""Of the root mean square of a function: less does not matter to weights."""


class Verdict(NamedTuple):
    """Whether the identities of calibration hold, whether the density was seen to jump, and a sentence that says so."""

    holds: bool
    jumps: bool
    sentence: str
    density_evaluations: int
    gradient_evaluations: int


def judge_density(problem: Problem, sampler: HMC, most: int = NUM_PAIRS, *, key: Key) -> Verdict:
    """What a chain of each of some pairs says, at most so many, of a sampler whose steps are known."""
    call, num_pairs = _pairs(problem, most, key=jr.fold_in(key, 1))
    trial = dataclasses.replace(
        sampler, num_samples=NUM_DRAWS, num_chains=1, dispersed=False, calibrate=None if sampler.walls == "logit" else False
    )
    chains = Chains(problem, trial, chunk=sampler.num_warmup + NUM_DRAWS)
    (run,) = chains.run([call], key=jr.fold_in(key, 2))
    info = jax.tree.map(lambda a: np.asarray(a).reshape(-1)[:num_pairs], chains.made(run).info)
    points = np.nan_to_num(np.asarray(run.points)[..., -1].reshape(-1, problem.grid.dimension))
    pairs = [np.asarray(a).reshape(-1, *a.shape[2:]) for a in (call.states, call.actions)]
    jumps = find_jumps(problem.grid, functools.partial(chains.logs_at, *pairs), points)
    densities, gradients = (int(counts.sum()) for counts in (info.density_evaluations, info.gradient_evaluations))
    spent = densities + jumps.density_evaluations * num_pairs // len(points), gradients
    found = jumps.found[:num_pairs]
    if found.any():
        return Verdict(False, True, _of_jumps(problem, jumps, found), *spent)
    functions = run.functions
    shift = None if functions is None else shifted(np.asarray(functions)[:num_pairs])
    if shift is not None:
        return Verdict(False, False, shift, *spent)
    return Verdict(True, False, "the density has no jumps", *spent)


def with_weights(problem: Problem, sampler: HMC, allowance: Allowance = Allowance(), *, key: Key) -> Tuned:  # noqa: B008
    """The sampler with even weights where the identities of calibration fail, or nobody can pay to look.

    Refuses `calibrate=True` where the density jumps.
    """
    steps = sampler.num_warmup + NUM_DRAWS
    of_one = search_gradients(problem.grid.dimension) + steps * (sampler.steps + 1)
    num_pairs = allowance.num_pairs(1.0, of_one, FEWEST_PAIRS, NUM_PAIRS)
    if not num_pairs and not sampler.calibrate:
        even = "even weights, because nobody looked for jumps; " if sampler.weighs else ""
        return Tuned(dataclasses.replace(sampler, calibrate=False), 0, 0, even)
    return _judged(problem, sampler, max(num_pairs, FEWEST_PAIRS), key)


def _judged(problem: Problem, sampler: HMC, most: int, key: Key) -> Tuned:
    """The sampler with the weights that its density allows."""
    verdict = judge_density(problem, sampler, most, key=key)
    judged = "smooth" if verdict.holds else "cut" if verdict.jumps else "shifted"
    sampler = dataclasses.replace(sampler, judged=judged)
    spent = verdict.density_evaluations, verdict.gradient_evaluations
    if verdict.holds or not sampler.weighs:
        return Tuned(sampler, *spent)
    if not sampler.calibrate:
        return Tuned(dataclasses.replace(sampler, calibrate=False), *spent)
    if verdict.jumps:
        raise HamqError(
            f"HMC: calibrate=True needs a density without jumps, and {verdict.sentence}. Calibrated draws would be wrong "
            "however many there are; use calibrate=None, which takes even weights there."
        )
    warnings.warn(
        f"{problem.name}: HMC has calibrate=True, and {verdict.sentence}; use calibrate=None, which takes even weights.",
        HamqWarning,
        stacklevel=2,
    )
    return Tuned(sampler, *spent)


def _pairs(problem: Problem, most: int, *, key: Key) -> tuple[Call, int]:
    """A call whose first lanes are the pairs, and how many of them there are: all of a small problem, else some."""
    total = problem.num_states * problem.num_actions
    tile, lanes = call_shape()
    if total <= NUM_PAIRS:
        chosen = np.minimum(np.arange(NUM_PAIRS), total - 1)
        state, action = np.divmod(chosen, problem.num_actions)
        states = problem.grid.states().astype(np.float32)[state]
        actions = np.asarray(listed_actions(problem), np.float32)[action]
    else:
        states, actions = pilot_pairs(problem, NUM_PAIRS, key=key)
    lane = np.minimum(np.arange(tile * lanes), NUM_PAIRS - 1)
    tables = states[lane], actions[lane], (np.arange(tile * lanes) // lanes).astype(np.uint32)
    states, actions, streams = (a.reshape(tile, lanes, *a.shape[1:]) for a in tables)
    return Call(states, actions, streams, True), min(total, most)


def _of_jumps(problem: Problem, jumps: Jumps, found: np.ndarray) -> str:
    worst = int(np.argmax(np.where(found, jumps.size[: len(found)], -1)))
    place, axis = float(jumps.place[worst]), int(jumps.axis[worst])
    return (
        f"the density of {problem.name} jumps or ends inside of the box in {int(found.sum())} of {len(found)} pairs that "
        f"were looked at (in one of them at coordinate {axis} = {place:.4g})"
    )


def shifted(functions: Float[np.ndarray, "P f n"]) -> str | None:
    """A sentence where the mean of a function over the pairs is not 0; None where all of them may be.

    Pairs are independent (but for two at a time, which share random numbers), so that their spread tells the error of their
    mean, whatever the correlation along a chain.
    """
    z = functions.astype(np.float64)
    size = np.sqrt(np.mean(z**2, axis=2))
    means = np.mean(z, axis=2) / np.where(size > 0, size, 1)
    num = len(means)
    if num < 4:
        return None
    centre = means.mean(axis=0)
    error = means.std(axis=0, ddof=1) * np.sqrt(2 / num) + 1e-9
    is_off = (np.abs(centre) > STANDARD_ERRORS * error) & (np.abs(centre) > LEAST_SHIFT)
    if not is_off.any():
        return None
    worst = int(np.argmax(np.where(is_off, np.abs(centre) / error, 0)))
    return (
        f"an identity that a density without jumps obeys fails on its draws (mean {centre[worst]:.2g} in its own units, "
        f"{abs(centre[worst]) / error[worst]:.0f} standard errors from 0)"
    )
