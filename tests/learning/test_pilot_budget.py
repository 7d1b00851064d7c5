"""Pilots of chains keep to a part of `max_gradients`, and a budget that is too small is refused with one that is enough."""

import re

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.learning.draws import prepare_within
from hamq.learning.pilot import Allowance
from hamq.learning.q_iteration import solve
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC

pytestmark = pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")


def logdensity(next_state, state, action):
    u = next_state - 0.5 * state - 0.3 * action
    return -jnp.sum(2 * u**2 + 0.5 * u**4)


def problem_of(dimension, points):
    grid, kernel = Grid([-2.0] * dimension, [2.0] * dimension, points), UnnormalizedKernel(logdensity)
    return Problem(grid, jnp.asarray([-1.0, 1.0]), kernel, lambda s, a: jnp.sin(s[0]) - 0.1 * a**2, 0.9, name="mine")


@pytest.mark.parametrize("pilots", [0, 10_000, 50_000, 150_000, np.inf])
def test_pilots_keep_to_what_they_may_spend(pilots):
    sampler, cost, note = prepare_within(problem_of(3, 3), HMC(40), Allowance(pilots), key=jr.key(0))
    assert cost.gradient_evaluations <= pilots
    assert isinstance(sampler, HMC) and sampler.step_size is not None and sampler.num_leapfrog is not None
    assert ("not tried" in note) == (pilots < 50_000) and ("not compared" in note) == (pilots < 100_000)
    assert ("even weights" in note) == (not sampler.weighs) == (pilots == 0)
    assert (not note and sampler.judged == "smooth" and cost.gradient_evaluations > 100_000) == (pilots > 10**6)


def test_a_small_budget_is_kept():
    """Half of it at least goes into draws."""
    solution = solve(problem_of(1, 11), HMC(40), max_gradients=30_000)
    spent = solution.history.gradient_evaluations[-1]
    assert 20_000 < spent <= 30_000
    assert "pilots kept to the budget" in solution.result
    samples = solution.history.samples[-1]
    assert samples * 2 > 22 * 20  # 20 draws per pair and more


def test_the_budget_that_a_refusal_names_is_enough():
    problem = problem_of(3, 3)
    with pytest.raises(ValueError, match="max_gradients = 10,000 does not buy one draw for each of 54 backups") as refused:
        solve(problem, HMC(40), max_gradients=10_000)
    enough = int(re.search(r"raise it to ([\d,]+), or leave it out", str(refused.value)).group(1).replace(",", ""))
    solution = solve(problem, HMC(40), max_gradients=enough)
    assert solution.history.gradient_evaluations[-1] <= enough
    assert "sampler=HMC(40)" in str(refused.value)
    assert solve(problem, sampler=HMC(40), iterations=2).q.shape == (27, 2)


@pytest.mark.slow
def test_a_budget_of_another_dimension_is_exact():
    """What is left is spent, but for less than a draw of every chain of every pair."""
    problem = problem_of(4, 2)
    solution = solve(problem, HMC(40, num_leapfrog=3, step_size=0.4), max_gradients=60_000)
    assert 60_000 - 32 * 4 * 4 <= solution.history.gradient_evaluations[-1] <= 60_000
