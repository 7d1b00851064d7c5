"""A maximum over noise is too large; solves with parts of the draws say by how much."""

import jax.numpy as jnp
import numpy as np

from hamq.learning import q_iteration
from hamq.learning.passes import Passes
from hamq.learning.q_iteration import solve
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID

SEEDS = 12


def halved(state, action):
    return 0.5 * state


def reward(state, action):
    return jnp.sin(3 * state[0]) + 0 * action


def posed() -> Problem:
    """Twelve actions that do the same: what looks best is luck alone."""
    return Problem(Grid([-2.0], [2.0], [9]), np.linspace(0, 1, 12), GaussianKernel(halved, [0.5]), reward, 0.9)


def biases(monkeypatch, is_corrected):
    from hamq.exact.value_iteration import solve_exact

    problem = posed()
    exact = solve_exact(problem).value
    if not is_corrected:
        monkeypatch.setattr(q_iteration, "without_optimism", lambda run, q: None)
    found = [solve(problem, IID(40), None, passes=Passes(coupled=False), iterations=120, key=seed) for seed in range(SEEDS)]
    assert all(("of optimism taken off" in solution.result) == is_corrected for solution in found)
    return np.asarray([np.mean(solution.value - exact) for solution in found])


def test_independent_draws_lose_most_of_their_optimism(monkeypatch):
    """Means of 12 seeds, each with its standard error; the shift is of more than ten of them."""
    corrected = biases(monkeypatch, True)
    plain = biases(monkeypatch, False)
    error = plain.std(ddof=1) / np.sqrt(SEEDS)
    assert plain.mean() > 10 * error
    assert abs(corrected.mean()) < 0.5 * plain.mean()


def test_weighted_draws_and_single_actions_are_left_alone():
    assert "optimism" not in solve(posed(), HMC(16), None, passes=Passes(coupled=False), iterations=20).result
    single = Problem(Grid([-2.0], [2.0], [9]), [0.0], GaussianKernel(halved, [0.5]), reward, 0.9)
    assert "optimism" not in solve(single, IID(16), None, iterations=20).result
