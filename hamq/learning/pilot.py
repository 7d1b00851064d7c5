"""The step size of a density that is not the Gaussian it was scaled for, found on a few pairs before the draws that count.

All candidates run at once on the same pairs, which are chosen by the key alone: the same step whatever the batching. They
run in the program that makes the draws that count.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.learning.chunks import Call, Chains
from hamq.learning.layout import call_shape
from hamq.problem.actions import ProductActions
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.types import Key, np_generator

CANDIDATES = tuple(0.7 * 0.75**k for k in range(10))
NUM_PAIRS = 24
NUM_DRAWS = 16
GOAL = 0.8


def adapted_step_size(problem: Problem, sampler: HMC, *, key: Key) -> tuple[HMC, int, int]:
    """The sampler with the largest step whose mean acceptance is 0.8 or more; density and gradient evaluations spent."""
    states, actions = pilot_pairs(problem, key=jr.fold_in(key, 1))
    trial = HMC(NUM_DRAWS, sampler.num_leapfrog, CANDIDATES[0], sampler.walls, sampler.sharpness, sampler.num_warmup)
    call, steps = _trials(states, actions)
    (made,) = Chains(problem, trial).draw([call], key=jr.fold_in(key, 2), steps=steps)
    info = jax.tree.map(lambda of_lanes: np.asarray(of_lanes).reshape(-1)[: NUM_PAIRS * len(CANDIDATES)], made.info)
    means = np.nan_to_num(info.acceptance).reshape(NUM_PAIRS, len(CANDIDATES)).mean(axis=0)
    good = np.flatnonzero(means >= GOAL)
    best = int(good[0]) if len(good) else len(CANDIDATES) - 1
    densities, gradients = (int(counts.sum()) for counts in (info.density_evaluations, info.gradient_evaluations))
    return sampler.with_step(CANDIDATES[best]), densities, gradients


def _trials(states: Float[np.ndarray, "P d"], actions: Float[np.ndarray, "P *k"]) -> tuple[Call, np.ndarray]:
    """All candidates for all pairs, in the shape of one call."""
    shape = call_shape()
    num = math.prod(shape)
    pair = np.minimum(np.arange(num) // len(CANDIDATES), NUM_PAIRS - 1)
    steps = np.resize(np.asarray(CANDIDATES, np.float32), num)
    tables = (states[pair], actions[pair], pair.astype(np.uint32), steps)
    states, actions, streams, steps = (a.reshape(*shape, *a.shape[1:]) for a in tables)
    return Call(states, actions, streams, True), steps


def pilot_pairs(problem: Problem, *, key: Key) -> tuple[Float[np.ndarray, "P d"], Float[np.ndarray, "P *k"]]:
    """States on grid points and actions, chosen axis by axis, so that a grid of any size can be asked."""
    random, grid = np_generator(key), problem.grid
    states = _combined([grid.axis_nodes(i) for i in range(grid.dimension)], random)
    if isinstance(problem.actions, ProductActions):
        return states, _combined(problem.actions.levels, random)
    actions = np.asarray(problem.actions, np.float32)
    return states, actions[random.integers(len(actions), size=NUM_PAIRS)]


def _combined(axes: Sequence[Any], random: np.random.Generator) -> Float[np.ndarray, "P axes"]:
    """One value of each axis, chosen independently, for every pilot pair."""
    return np.stack([random.choice(np.asarray(values, np.float32), NUM_PAIRS) for values in axes], axis=-1)
