"""The greedy action as a tensor train of its own, so that a page can show it.

A policy has kinks and steps, which no train of small rank follows exactly: cross approximation finds the points that say
most, least squares over these and random points makes the train (cross approximation alone errs two to four times as much:
what it cannot represent it amplifies), and random states between the nodes, where a page looks too, say how far off it is.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from hamq.control.action_range import action_range
from hamq.tensor import cross, train
from hamq.tensor.contraction import padded
from hamq.tensor.least_squares import fit, make_groups
from hamq.tensor.solution import TensorSolution
from hamq.tensor.train import Train

RANKS = (4, 8, 16)
"""Tried one after the other."""
GOOD = 0.05
"""Part of the range within which a larger rank is not tried."""
SHARE = 0.2
"""Of the backups that the solution took: a larger rank than the first must not need more."""
NUM_HELD_OUT = 1024
NUM_FITS = 2
POINTS_PER_FIBER = 2


class PolicyTrain(NamedTuple):
    """`error` is the rms over NUM_HELD_OUT states of the box, as a part of the actuator's range."""

    cores: Train
    error: float


def policy_train(solution: TensorSolution, actuator: int, budget: float = math.inf) -> PolicyTrain:
    """The best train of RANKS for the greedy action's coordinate `actuator`, on the nodes of the grid."""
    grid, engine = solution.problem.grid, solution.engine
    points = tuple(grid.points[axis] for axis in solution.order)
    low, high = action_range(solution.problem)
    scale = float((high - low)[actuator]) or 1.0

    def actions(states: Float[np.ndarray, "P d"]) -> Float[np.ndarray, " P"]:
        return solution.actions(states).reshape(len(states), -1)[:, actuator]

    def read(indices: Int[np.ndarray, "P d"]) -> Float[np.ndarray, " P"]:
        return actions(engine.states(indices))

    held_out = np.random.default_rng(actuator).uniform(grid.lower, grid.upper, (NUM_HELD_OUT, grid.dimension))
    held_out = held_out.astype(np.float32)
    expected, best, spent = actions(held_out), None, 0
    for rank in RANKS:
        generator = np.random.default_rng([actuator, rank])
        sets = cross.random_sets(points, rank, generator)
        spent += (2 + 1 + POINTS_PER_FIBER) * len(cross.all_fibers(points, sets))
        if best is not None and spent > budget:
            break
        cores = _fitted(read, points, sets, rank, generator)
        found = engine.interpolate(jnp.asarray(padded(cores, rank)), held_out)
        error = math.sqrt(np.mean((found - expected) ** 2)) / scale
        if best is None or error < best.error:
            best = PolicyTrain(cores, error)
        if best.error <= GOOD:
            break
    assert best is not None
    return best


def _fitted(read: cross.Read, points: tuple[int, ...], sets: cross.Sets, rank: int, generator: np.random.Generator) -> Train:
    _, sets = cross.sweep_right(read, points, sets)
    cores, sets = cross.sweep_left(read, points, sets)
    fibers = cross.all_fibers(points, sets)
    at_random = generator.integers(0, points, (POINTS_PER_FIBER * len(fibers), len(points)))
    indices = np.concatenate([fibers, at_random])
    cores = fit(train.rounded(cores, 1e-7, rank), read(indices), make_groups(indices, points), rank, NUM_FITS)
    return train.rounded(cores, 1e-6, rank)
