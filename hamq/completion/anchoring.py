"""Which actions are backed up in all states, and which states in all actions: decided by a pilot of few draws.

1.  Two actions that lie far apart are drawn in all states, and some states (chosen by the key) with all actions, twice
    with independent draws. Iterating on them gives a rough V.
2.  Backing up V gives two independent estimates of the rows of the anchor states. For k = 2, 3, … columns of largest
    volume, `lack_of_fit` says what k columns miss (bias) and how noisy they are; more columns miss less, but leave
    fewer draws for each at the same budget, so that noise·(draws of the pilot)/(draws left) grows.
3.  Of large action sets a few actions are tried. If polynomials of the actions express them (held-out actions say so), only
    these are drawn in the anchor states, and the others are continued from them.
4.  The fewest columns whose sum of both is within 10 % of the least win, if it is less than half of the squared error of
    backing up every entry: what held-out rows say is rough. Else nothing is completed, and neither where columns and rows
    are nearly as many entries as the table has.
"""

import math
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Int

from hamq.completion.actions import continuation, farthest_actions, misfit, polynomials
from hamq.completion.completion import Part
from hamq.completion.cross import Cross, lack_of_fit, largest_volume, mixing_weights, noise_in_full
from hamq.completion.planning import AbstractPilot, Plan, Sampled
from hamq.completion.selection import Pairs, some_actions
from hamq.problem.problem import Problem, listed_actions
from hamq.types import HamqError, Key, np_generator

PILOT_SAMPLES = 25
ROW_SAMPLES = 50
PILOT_ITERATIONS = 60
FEWEST = 5
MAX_TRIED = 32
MAX_COLUMNS = 6
WORTH = 0.5
SAVED = 0.9
"""Part of the entries of the table that columns and rows may have together."""
MAX_DEGREE = 8
MIN_STATES, MAX_STATES = 10, 40
GOOD_ENOUGH = 1e-3
"""Bias² of the completion, as a part of the advantages', that is never worth another column."""


def plan_anchors(num_columns: int | None, num_states: int | None, completes: Part, pilot: AbstractPilot) -> Plan:
    """A `Cross`, or nothing where every pair is to be backed up."""
    problem, asked = pilot.problem, Asked(num_columns, num_states)
    if (why := _why_none(asked, pilot)) is not None:
        return Plan(None, why)
    states_key, first_key, second_key = (jr.fold_in(pilot.key, i) for i in range(3))
    _check(problem, asked)
    tried = farthest_actions(listed_actions(problem), max(MAX_TRIED, num_columns or 0))
    ends = farthest_actions(listed_actions(problem), num_columns or 2)
    states = _anchor_states(problem, asked, len(tried), key=states_key)

    block = Pairs(states, np.broadcast_to(tried, (len(states), len(tried))))
    counts = [(problem.num_states * len(ends), PILOT_SAMPLES), (2 * block.num, ROW_SAMPLES)]
    share = pilot.share(counts, FEWEST)
    at_columns, at_rows = (max(FEWEST, round(share * num)) for num in (PILOT_SAMPLES, ROW_SAMPLES))
    pilot.tell("choosing columns and rows", 0, 3)
    at_ends = pilot.draw(some_actions(problem, ends), at_columns, key=first_key)
    replicates = [pilot.draw(block, at_rows, key=key) for key in (first_key, second_key)]
    pilot.tell("choosing columns and rows", 3, 3)

    value = _rough_value(problem, pilot.rewards, pilot.is_ended[:, 0], ends, tried, at_ends, replicates[0])
    first, second = (replicate.expected(value).astype(np.float64) for replicate in replicates)
    degree = _degree(problem, tried, first, second)
    if degree is None and len(tried) < problem.num_actions:  # all actions must be drawn, in fewer states
        states = states[: len(_anchor_states(problem, asked, problem.num_actions, key=states_key))]
    num_rows = len(states) * (problem.num_actions if degree is None else len(tried))
    columns, reason = _choose(pilot, asked, num_rows, first, second, replicates[0])
    if columns is None:
        return Plan(None, reason, replicates[0])
    if degree is None:
        cross = Cross(tried[columns], states, np.arange(problem.num_actions), None, completes)
        return Plan(cross, reason, replicates[0])
    smooth = continuation(listed_actions(problem), tried, degree)
    reason += f", {len(tried)} of {problem.num_actions} actions are tried and continued by polynomials of degree {degree}"
    return Plan(Cross(tried[columns], states, tried, smooth, completes), reason, replicates[0])


class Asked(NamedTuple):
    """Columns and states that were asked for; None: to be found."""

    num_columns: int | None
    num_states: int | None


def _check(problem: Problem, anchors: Asked) -> None:
    num_states, num_actions = problem.num_states, problem.num_actions
    if anchors.num_columns is not None and anchors.num_columns > num_actions:
        raise HamqError(f"Anchors: num_columns = {anchors.num_columns} is more than the {num_actions} actions there are.")
    if anchors.num_states is not None and anchors.num_states > num_states:
        raise HamqError(f"Anchors: num_states = {anchors.num_states} is more than the {num_states} states there are.")


def _anchor_states(problem: Problem, anchors: Asked, num_tried: int, *, key: Key) -> Int[np.ndarray, " m"]:
    """States chosen by the key: about as many entries as two columns have, 10 to 40 states where nothing is said."""
    usual = _usual_states(problem, num_tried)
    num = anchors.num_states or max(usual, 2 * (anchors.num_columns or 0))
    if (anchors.num_columns or 0) > min(num, problem.num_states):
        raise HamqError(
            f"Anchors: num_columns = {anchors.num_columns} needs as many states, and there are {problem.num_states}; use "
            "fewer columns or completion=None."
        )
    return np_generator(key).permutation(problem.num_states)[:num]


def _usual_states(problem: Problem, num_tried: int) -> int:
    return int(np.clip(2 * problem.num_states // num_tried, MIN_STATES, MAX_STATES))


def _degree(problem: Problem, tried, first, second) -> int | None:
    """The lowest degree of polynomials of the action that fits; None where all actions are tried, or none fits."""
    if len(tried) == problem.num_actions:
        return None
    for degree in range(1, MAX_DEGREE + 1):
        if polynomials(listed_actions(problem)[:1], degree).shape[1] > len(tried) // 3:
            return None
        if misfit(first, second, listed_actions(problem), tried, degree) <= GOOD_ENOUGH * _signal(first, second):
            return degree
    return None


def _signal(first: np.ndarray, second: np.ndarray) -> float:
    """Mean square of the advantages per row, free of noise."""
    first, second = (rows - rows.mean(axis=1, keepdims=True) for rows in (first, second))
    return max(float(np.sum(first * second)) / len(first), 1e-300)


def _why_none(anchors: Asked, pilot: AbstractPilot) -> str | None:
    """A reason to back up every entry without a pilot that would cost something; None where there is none."""
    problem = pilot.problem
    if problem.num_actions <= 2 and anchors.num_columns is None:
        return f"{problem.num_actions} actions leave nothing to complete"
    if anchors != Asked(None, None) or problem.kernel.has_one_mode or problem.num_actions > MAX_TRIED:
        return None
    num_rows = min(_usual_states(problem, problem.num_actions), problem.num_states) * problem.num_actions
    if _columns_that_save(problem, num_rows) < 2:
        return "columns and rows would be as many entries as the table has, so every entry is backed up"
    if not pilot.affords_search(2 * (problem.num_states + num_rows)):
        return "max_gradients does not buy a pilot that chooses columns, so every entry is backed up"
    return None


def _columns_that_save(problem: Problem, num_rows: int) -> int:
    """The most columns that have few enough entries, together with those of the anchor states.

    Of densities of one mode all columns may be tried: their draws are good, and so is what a pilot says.
    """
    if problem.kernel.has_one_mode:
        return problem.num_actions
    return int((SAVED * problem.num_states * problem.num_actions - num_rows) // problem.num_states)


def _rough_value(problem, rewards, is_ended, ends, tried, columns: Sampled, rows: Sampled) -> np.ndarray:
    """V after some iterations on the columns of the pilot; weights for the actions in between from the anchor states."""
    inside = np.searchsorted(tried, ends)
    value = rewards.max(axis=1) / (1 - problem.discount)
    for _ in range(PILOT_ITERATIONS):
        known = columns.expected(value).astype(np.float64)
        found = rows.expected(value).astype(np.float64)
        weights, _ = mixing_weights(found, inside)
        value = np.max(rewards[:, tried] + problem.discount * known @ weights, axis=1)
        value[is_ended] = 0
    return value


def _choose(pilot: AbstractPilot, anchors: Asked, num_rows, first, second, trial: Sampled) -> tuple[np.ndarray | None, str]:
    """Columns, as positions among those tried, and why; none where nothing less than the whole table will do."""
    problem, mean = pilot.problem, (first + second) / 2
    num_states, num_tried = problem.num_states, mean.shape[1]
    if anchors.num_columns is not None:
        return largest_volume(mean, anchors.num_columns), f"{anchors.num_columns} columns, as asked for"
    signal = _signal(first, second)
    full = noise_in_full(first, second) * pilot.dilution(trial, num_states * problem.num_actions)
    errors = {}
    most = min(MAX_COLUMNS, num_tried - 1, len(first) // 2, _columns_that_save(problem, num_rows))
    for k in range(2, most + 1):
        columns = largest_volume(mean, k)
        bias, noise = lack_of_fit(first, second, columns)
        missed = bias if bias > GOOD_ENOUGH * signal else 0
        errors[k] = missed + noise * pilot.dilution(trial, num_states * k + num_rows)
    best = min(errors.values(), default=math.inf)
    for k, error in errors.items():
        if error <= 1.1 * best and best <= WORTH * full:
            return largest_volume(mean, k), f"{k} columns and {num_rows} entries of anchor states are backed up"
    if not errors:
        return None, "too few anchor states to tell columns apart, so every entry is backed up"
    least = min(errors.values())
    return None, (
        f"not low-rank: few columns would err by {math.sqrt(least / signal):.2g} of the advantages, all by "
        f"{math.sqrt(full / signal):.2g}, so every entry is backed up"
    )
