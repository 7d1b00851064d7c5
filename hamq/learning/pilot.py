"""Size and number of the leapfrog steps of a density that is not the Gaussian they were scaled for, found on a few pairs.

The step size is the largest candidate whose mean acceptance is 0.8. All candidates run at once on the same pairs, which are
chosen by the key alone: the same step whatever the batching.

Then several chains of each of some pairs spend the same gradients with trajectories of each length. With σ² the variance of
a function over all draws of a pair, whatever the length, the mean of one chain has a variance of about

    max(variance of the chains' means, σ² − mean variance within a chain):

the first is what chains that move well differ by; the second sees chains that have not left the place where they began,
whose means are all the same. The length that makes it smallest, averaged over coordinates, their squares and pairs, is
taken. All of it runs in the program that makes the draws that count.

A budget of gradients (`Allowance`) makes pilots look at fewer pairs, and leaves out what too few of them would say.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.learning.chunks import Call, Chains
from hamq.learning.layout import call_shape
from hamq.problem.actions import ProductActions
from hamq.problem.problem import Problem
from hamq.sampling.cell_table import CELLS
from hamq.sampling.hmc import GAUSSIAN_STEP, HMC, NUM_LEAPFROG
from hamq.sampling.modes import search_gradients
from hamq.types import Key, np_generator

CANDIDATES = tuple(0.7 * 0.75**k for k in range(10))
NUM_PAIRS = 24
NUM_DRAWS = 16
GOAL = 0.8

LENGTHS = (2, 5, 10, 20, 40)
"""Leapfrog steps that are tried; the shortest only where a table of cells proposes jumps that reach everywhere."""
NUM_COMPARED, NUM_CHAINS = 32, 4
"""Pairs on which lengths are compared, and chains of each."""
GRADIENTS = 160
"""That a chain spends on each length."""
SHARES = 0.3, 0.4
"""Of what pilots may spend: step sizes, lengths; what is left looks for jumps (`identities.py`)."""
FEWEST_TRIED, FEWEST_COMPARED = (4, NUM_PAIRS), (8, NUM_COMPARED)
"""Pairs of a pilot, at least and at most."""
FEWEST_DRAWS = 8
"""Of a chain: a trajectory that leaves a pair fewer is not tried."""
UNSEEN = 0.05
"""Of σ²: what the variance within a chain may lack by chance."""
GAIN = 1.15
"""How much worse than the best length the usual one must be to be given up."""


class Allowance(NamedTuple):
    """Gradients that pilots may spend, and that each pair has for its draws afterwards."""

    pilots: float = math.inf
    of_pair: float = math.inf

    def num_pairs(self, share: float, of_one: int, fewest: int, most: int) -> int:
        """Pairs that a share of the gradients buys at this price; 0 where fewer than `fewest`."""
        num = int(min(most, share * self.pilots // of_one))
        return num if num >= fewest else 0


class Tuned(NamedTuple):
    """A sampler with its steps, the evaluations that finding them took, and a note of what was not found."""

    sampler: HMC
    density_evaluations: int
    gradient_evaluations: int
    note: str = ""


def tuned_sampler(problem: Problem, sampler: HMC, allowance: Allowance = Allowance(), *, key: Key) -> Tuned:  # noqa: B008
    """The sampler with a step size, and with a number of steps where it has none."""
    tuned = Tuned(sampler, 0, 0)
    if sampler.step_size is None:
        tuned = _with_step(problem, sampler, allowance, key=key)
    if sampler.num_leapfrog is not None:
        return tuned
    lengths = _affordable_lengths(problem, sampler, allowance)
    num_pairs = allowance.num_pairs(SHARES[1], _price_of_lengths(problem, sampler, lengths), *FEWEST_COMPARED)
    if not num_pairs:
        settled = dataclasses.replace(tuned.sampler, num_leapfrog=NUM_LEAPFROG)
        return tuned._replace(sampler=settled, note=f"{tuned.note}trajectories of {NUM_LEAPFROG} steps, not compared; ")
    length, densities, gradients = _best_length(problem, tuned.sampler, lengths, num_pairs, key=jr.fold_in(key, 3))
    settled = dataclasses.replace(tuned.sampler, num_leapfrog=length, varies=length != NUM_LEAPFROG)
    spent = tuned.density_evaluations + densities, tuned.gradient_evaluations + gradients
    return Tuned(settled, *spent, tuned.note)


def _affordable_lengths(problem: Problem, sampler: HMC, allowance: Allowance) -> list[int]:
    """Those whose warm-up and a few draws a pair can pay; the usual one in any case."""
    dimension, draws = problem.grid.dimension, sampler.chains * (sampler.num_warmup + FEWEST_DRAWS)
    left = allowance.of_pair - search_gradients(dimension)
    usual = [length for length in LENGTHS if length >= NUM_LEAPFROG or dimension in CELLS]
    return [length for length in usual if length <= NUM_LEAPFROG or draws * (length + 1) <= left]


def _price_of_lengths(problem: Problem, sampler: HMC, lengths: Sequence[int]) -> int:
    """Gradients of one pair whose chains try all of them."""
    of_chain = sum((sampler.num_warmup + 2) * (length + 1) + GRADIENTS for length in lengths)
    return search_gradients(problem.grid.dimension) + NUM_CHAINS * of_chain


def _with_step(problem: Problem, sampler: HMC, allowance: Allowance, *, key: Key) -> Tuned:
    trial = HMC(NUM_DRAWS, sampler.steps, CANDIDATES[0], sampler.walls, sampler.sharpness, sampler.num_warmup)
    own = trial.evaluations_of_chains(True, problem.grid.dimension)[1] + search_gradients(problem.grid.dimension)
    num_pairs = allowance.num_pairs(SHARES[0], len(CANDIDATES) * own, *FEWEST_TRIED)
    if not num_pairs:
        step = GAUSSIAN_STEP / problem.grid.dimension**0.25
        return Tuned(sampler.with_step(step), 0, 0, f"steps of {step:.2g} standard deviations, not tried; ")
    states, actions = pilot_pairs(problem, NUM_PAIRS, key=jr.fold_in(key, 1))
    call, steps = _trials(states, actions)
    (made,) = Chains(problem, trial).draw([call], key=jr.fold_in(key, 2), steps=steps)
    info = jax.tree.map(lambda of_lanes: np.asarray(of_lanes).reshape(-1)[: num_pairs * len(CANDIDATES)], made.info)
    means = np.nan_to_num(info.acceptance).reshape(num_pairs, len(CANDIDATES)).mean(axis=0)
    good = np.flatnonzero(means >= GOAL)
    # Where none is accepted so often, as at jumps of the density, the way that is made counts.
    best = int(good[0]) if len(good) else int(np.argmax(means * np.asarray(CANDIDATES)))
    densities, gradients = (int(counts.sum()) for counts in (info.density_evaluations, info.gradient_evaluations))
    return Tuned(sampler.with_step(CANDIDATES[best]), densities, gradients)


def _trials(states: Float[np.ndarray, "P d"], actions: Float[np.ndarray, "P *k"]) -> tuple[Call, np.ndarray]:
    """All candidates for all pairs, in the shape of one call."""
    shape = call_shape()
    num = math.prod(shape)
    pair = np.minimum(np.arange(num) // len(CANDIDATES), NUM_PAIRS - 1)
    steps = np.resize(np.asarray(CANDIDATES, np.float32), num)
    tables = (states[pair], actions[pair], pair.astype(np.uint32), steps)
    states, actions, streams, steps = (a.reshape(*shape, *a.shape[1:]) for a in tables)
    return Call(states, actions, streams, True), steps


def _best_length(
    problem: Problem, sampler: HMC, lengths: Sequence[int], num_pairs: int, *, key: Key
) -> tuple[int, int, int]:
    """(leapfrog steps, densities, gradients): longer ones are tried as long as they are better than all before."""
    call = _several_chains(problem, key=jr.fold_in(key, 1))
    longest = sampler.num_warmup + GRADIENTS // (lengths[0] + 1)
    modes, drawn, densities, gradients, best = None, [], 0, 0, 0
    for length in lengths:
        trial = dataclasses.replace(
            sampler, num_samples=max(2, GRADIENTS // (length + 1)), num_chains=1, num_leapfrog=length,
            dispersed=False, varies=length != NUM_LEAPFROG,
        )  # fmt: skip
        (run,) = Chains(problem, trial, chunk=longest).run([call], key=jr.fold_in(key, 2), modes=modes)
        if modes is None:
            modes = run.modes
            densities, gradients = (num_pairs * int(np.asarray(counts)[0]) for counts in modes[-3:-1])
        of_chain = trial.evaluations_of_chains(True, problem.grid.dimension)
        densities, gradients = (
            densities + num_pairs * NUM_CHAINS * of_chain[0],
            gradients + num_pairs * NUM_CHAINS * of_chain[1],
        )
        drawn.append(functions_of(problem, _of_pairs(np.asarray(run.points), num_pairs)))
        errors = errors_of_chains(drawn)
        best = int(errors.argmin())
        if length > NUM_LEAPFROG and best < len(drawn) - 1:
            break
    usual = lengths.index(NUM_LEAPFROG)
    best = usual if errors[usual] <= GAIN * errors.min() else best
    return lengths[best], densities, gradients


def _several_chains(problem: Problem, *, key: Key) -> Call:
    """A call of `NUM_CHAINS` chains per pair: a row has two pairs, which share their random numbers."""
    tile, lanes = call_shape()
    row, lane = np.divmod(np.arange(tile * lanes), lanes)
    pair = (row // NUM_CHAINS) * lanes + lane
    pair = pair % NUM_COMPARED  # what is left of the call is made and not looked at
    states, actions = pilot_pairs(problem, NUM_COMPARED, key=key)
    tables = states[pair], actions[pair], row.astype(np.uint32)
    states, actions, streams = (a.reshape(tile, lanes, *a.shape[1:]) for a in tables)
    return Call(states, actions, streams, True)


def _of_pairs(points: Float[np.ndarray, "tile K d n"], num_pairs: int) -> Float[np.ndarray, "P chains n d"]:
    tile, lanes, d, n = points.shape
    by_chain = points.reshape(tile // NUM_CHAINS, NUM_CHAINS, lanes, d, n)
    return np.moveaxis(by_chain, (2, 3), (1, 4)).reshape(-1, NUM_CHAINS, n, d)[:num_pairs].astype(np.float64)


def functions_of(problem: Problem, points: Float[np.ndarray, "P chains n d"]) -> Float[np.ndarray, "P chains n f"]:
    """Coordinates and their squares; sine and cosine on circles."""
    grid = problem.grid
    share = (points - np.asarray(grid.lower)) / np.asarray(grid.widths)
    circle = np.asarray(grid.periodic)
    turn = 2 * np.pi * share
    first, second = np.where(circle, np.sin(turn), share), np.where(circle, np.cos(turn), (share - 0.5) ** 2)
    return np.concatenate([first, second], axis=-1)


def errors_of_chains(values: Sequence[Float[np.ndarray, "P chains _ f"]]) -> Float[np.ndarray, " lengths"]:
    """Mean squared error of one chain's mean, in variances of the function, for each kind of chain."""
    means = np.stack([v.mean(axis=2) for v in values])
    within = np.stack([v.var(axis=2).mean(axis=1) for v in values])
    centre = means.mean(axis=(0, 2), keepdims=True)
    total = np.stack([v.var(axis=2) for v in values]) + (means - centre) ** 2
    total = np.maximum(total.mean(axis=(0, 2)), 1e-12)
    between = (means.var(axis=2, ddof=1) / total).mean(axis=(1, 2))
    unseen = 1 - (within / total).mean(axis=(1, 2)) - UNSEEN
    return np.maximum(between, unseen)


def pilot_pairs(problem: Problem, num: int, *, key: Key) -> tuple[Float[np.ndarray, "P d"], Float[np.ndarray, "P *k"]]:
    """States on grid points and actions, chosen axis by axis, so that a grid of any size can be asked."""
    random, grid = np_generator(key), problem.grid
    states = _combined([grid.axis_nodes(i) for i in range(grid.dimension)], num, random)
    if isinstance(problem.actions, ProductActions):
        return states, _combined(problem.actions.levels, num, random)
    actions = np.asarray(problem.actions, np.float32)
    return states, actions[random.integers(len(actions), size=num)]


def _combined(axes: Sequence[Any], num: int, random: np.random.Generator) -> Float[np.ndarray, "P axes"]:
    """One value of each axis, chosen independently, for every pilot pair."""
    return np.stack([random.choice(np.asarray(values, np.float32), num) for values in axes], axis=-1)
