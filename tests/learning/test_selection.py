"""Ω_t: which pairs, how many, and how they depend on the key."""

import jax.random as jr
import numpy as np
import pytest

from hamq.completion.keep import Keep
from hamq.completion.selection import all_pairs, as_mask, bernoulli, per_state, some_actions, some_states
from hamq.learning.q_iteration import solve
from hamq.problem import zoo
from hamq.sampling.exhaustive import Exhaustive
from tests.stats import assert_mean_equals


@pytest.fixture(scope="module")
def problem():
    return zoo.double_integrator(points=7)


def test_coins_fall_with_the_probability_asked_for(problem):
    masks = np.stack([as_mask(problem, (bernoulli(problem, 0.2, key=jr.key(seed)),)) for seed in range(400)])
    shares = masks.reshape(400, -1).mean(axis=1, keepdims=True)
    assert_mean_equals(shares, np.asarray([0.2]), resolution=0.01)
    assert_mean_equals(1.0 - masks.any(axis=2).mean(axis=1, keepdims=True), np.asarray([0.8**10]), resolution=0.02)


def test_every_state_gets_the_same_number_of_different_actions(problem):
    masks = [as_mask(problem, (per_state(problem, 0.3, key=jr.key(seed)),)) for seed in range(3)]
    for mask in masks:
        assert np.all(mask.sum(axis=1) == 3)
    assert np.any(masks[0] != masks[1]) and np.all(as_mask(problem, (per_state(problem, 0.3, key=jr.key(0)),)) == masks[0])
    assert np.all(as_mask(problem, (per_state(problem, 0.01, key=jr.key(0)),)).sum(axis=1) == 1)  # at least one


def test_actions_are_chosen_evenly(problem):
    counts = np.stack([as_mask(problem, (per_state(problem, 0.2, key=jr.key(seed)),)).mean(axis=0) for seed in range(300)])
    assert_mean_equals(counts, np.full(10, 0.2), resolution=0.03)


def test_blocks(problem):
    assert as_mask(problem, (all_pairs(problem),)).all() and all_pairs(problem).num == 490
    mask = as_mask(problem, (some_actions(problem, np.asarray([0, 9])), some_states(problem, np.asarray([3, 4]))))
    assert mask.sum() == 2 * 49 + 2 * 10 - 4
    assert mask[:, [0, 9]].all() and mask[[3, 4]].all()


def test_pairs_change_from_iteration_to_iteration(problem):
    """With one action per state backed up at a time, entries keep being reached: after 40 iterations nearly all."""
    first = np.full((49, 10), 1e6)
    solution = solve(problem, Exhaustive(), Keep("per_state", 0.1), iterations=40, initial=first)
    assert np.mean(solution.q == 1e6) < 0.05  # (9/10)^40 = 1.5 %
