"""Which sampler a problem gets when none is asked for, and that its answers are right where chains were not."""

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.learning.q_iteration import solve
from hamq.problem import zoo
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.types import HamqWarning

POINTS, DISCOUNT, ACTIONS = 21, 0.9, np.array([-1.0, 0.0, 1.0])


def gap(xp, u, n):
    return xp.where((n > -0.1) & (n < 0.43), -xp.inf, -0.5 * (u / 0.6) ** 2)


def exponential(xp, u, n):
    return xp.where(u > 0, -u / 0.5, -xp.inf)


def uniform(xp, u, n):
    return xp.where(xp.abs(u) < 0.43, 0.0, -xp.inf)


def half_normal(xp, u, n):
    return xp.where(u > 0, -0.5 * (u / 0.6) ** 2, -xp.inf)


def gumbel(xp, u, n):
    return -u / 0.3 - xp.exp(-u / 0.3)


DENSITIES = {f.__name__: f for f in (gap, exponential, uniform, half_normal, gumbel)}


def posed(name) -> Problem:
    log = DENSITIES[name]

    def logdensity(next_state, state, action):
        return log(jnp, next_state[0] - 0.5 * state[0] - 0.3 * action, next_state[0])

    grid = Grid([-2.0], [2.0], [POINTS])
    kernel = UnnormalizedKernel(logdensity)
    return Problem(grid, ACTIONS, kernel, lambda s, a: jnp.sin(2 * s[0]) - 0.1 * a**2, DISCOUNT, name=name)


def reference(name, size=4000):
    """(Q*, V of a policy) by midpoint sums of `size` points per cell and value iteration, in NumPy."""
    nodes = np.linspace(-2, 2, POINTS)
    edges = np.concatenate([[-2], (nodes[1:] + nodes[:-1]) / 2, [2]])
    steps = (np.arange(size) + 0.5) / size
    points = edges[:-1, None] + np.diff(edges)[:, None] * steps
    masses = np.empty((POINTS, len(ACTIONS), POINTS))
    for s, node in enumerate(nodes):
        for a, action in enumerate(ACTIONS):
            with np.errstate(over="ignore"):
                values = np.exp(DENSITIES[name](np, points - 0.5 * node - 0.3 * action, points))
            masses[s, a] = values.mean(axis=1) * np.diff(edges)
    masses /= masses.sum(axis=2, keepdims=True)
    rewards = np.sin(2 * nodes)[:, None] - 0.1 * ACTIONS**2
    q = np.zeros(rewards.shape)
    for _ in range(400):
        q = rewards + DISCOUNT * masses @ q.max(axis=1)

    def value_of(policy):
        rows = masses[np.arange(POINTS), policy]
        return np.linalg.solve(np.eye(POINTS) - DISCOUNT * rows, rewards[np.arange(POINTS), policy])

    return q, value_of


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_that_jump_are_solved_by_their_masses(name):
    q, value_of = reference(name)
    solution = solve(posed(name), iterations=150)
    span = np.ptp(q.max(axis=1))
    assert solution.result.startswith("masses of all 63 pairs to 1e-05, about ") and solution.converged
    assert np.abs(solution.q - q).max() < 0.01 * span
    assert np.max(q.max(axis=1) - value_of(solution.policy)) < 0.01 * span
    assert solution.history.columns["gradient_evaluations"][-1] == 0


def test_what_was_asked_for_is_kept():
    problem = posed("gumbel")
    few = solve(problem, max_gradients=60_000, iterations=3, completion=None)
    assert few.result.startswith("masses of all")  # within sixteen times the budget
    with pytest.warns(HamqWarning, match="the expected error of Q is"):
        small = solve(problem, HMC(8), completion=None, iterations=2)
    assert "masses" not in small.result and small.history.columns["gradient_evaluations"][-1] > 0


def test_a_budget_that_masses_exceed_goes_to_chains():
    problem = zoo.repelling_agents(2, points=9)
    solution = solve(problem, max_gradients=160_000, completion=None, iterations=2)
    assert solution.result.startswith("masses of all 729 pairs to ")
    finer = zoo.repelling_agents(2, points=15)  # 225 cells of 13 evaluations for each of 2,025 pairs
    with pytest.raises(ValueError, match=r"max_gradients = 300,000 does not buy one draw"):  # of a chain, mode search apart
        solve(finer, max_gradients=300_000, completion=None, iterations=2)


def test_a_nan_in_a_part_of_the_box_is_refused_by_name():
    kernel = UnnormalizedKernel(lambda n, s, a: jnp.where(n[0] > 0, jnp.nan, -(n[0] ** 2)) + 0 * a * s[0])
    problem = Problem(Grid([-1.0], [1.0], [5]), ACTIONS, kernel, lambda s, a: s[0] + 0 * a, 0.9)
    with pytest.raises(ValueError, match=r"is nan at the next state .* it must be a finite number, or -inf"):
        solve(problem)
