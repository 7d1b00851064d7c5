"""Residuals of a train: against the exact operator, a planted peak, and fresh draws."""

import dataclasses
import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.certificates.tensor_residual import resampled, tensor_residuals
from hamq.exact.bellman import make_operator
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.iid import IID
from hamq.solution import History
from hamq.tensor.backup import Bellman, Engine
from hamq.tensor.choice import make_choices
from hamq.tensor.expectation import make_expectation
from hamq.tensor.solution import TensorSolution

POINTS = (6, 5)


def drift(state, action):
    return 0.8 * state + 0.3 * action * jnp.ones(2, state.dtype)


def reward(state, action):
    return jnp.cos(state[0]) + 0.5 * state[1] - 0.1 * action**2


def pose(covariance=(0.16, 0.25)) -> Problem:
    return Problem(
        Grid([-1.0, -1.0], [1.0, 1.5], list(POINTS)),
        np.linspace(-1, 1, 3),
        GaussianKernel(drift, list(covariance)),
        reward,
        0.8,
        law="linear",
        expected=("aliasing", "noise", "outside"),
    )


def any_train(problem, sampler, seed=0):
    """A TensorSolution of rank 3 whose V is nobody's fixed point, and its table."""
    table = np.random.default_rng(seed).normal(5, 1, POINTS)
    left, size, right = np.linalg.svd(table)
    left, right, order = left[:, :3] * size[:3], right[:3], (1, 0)
    cores = (np.ascontiguousarray(right.T)[None], np.ascontiguousarray(left.T)[:, :, None])
    choices = make_choices(problem)
    engine = Engine(Bellman(problem, choices, make_expectation(problem, sampler, choices, order, 0), order))
    solution = TensorSolution(problem, cores, order, History(), "as it is", False, 0.0, engine)
    return solution, (left @ right).ravel()


def test_residuals_are_those_of_the_exact_operator():
    """All 30 nodes are among 1,000 random ones: the largest is known, the rms within 5 standard errors."""
    problem = pose()
    solution, table = any_train(problem, Exhaustive())
    exact = np.abs(make_operator(problem).backup(table).max(axis=1) - table)
    found = tensor_residuals(solution, count=1000)
    scale = math.sqrt(np.mean(table**2))
    assert found.scale == pytest.approx(scale, rel=0.05)
    assert found.nodes.largest * found.scale == pytest.approx(exact.max(), rel=1e-4)
    assert found.searched.largest == pytest.approx(found.nodes.largest, rel=1e-6)
    squares = (found.nodes.rms * found.scale) ** 2
    assert abs(squares - np.mean(exact**2)) < 5 * np.std(exact**2) / math.sqrt(1000)
    worst = problem.grid.states()[np.argmax(exact)]
    np.testing.assert_allclose(found.worst, worst, atol=1e-6)
    assert found.nodes.bound is not None and found.nodes.quantile <= found.nodes.bound <= found.nodes.largest
    assert found.visited is None and found.searched.bound is None
    assert "with 99 % confidence at most 5 % of the nodes" in found.sentence


@dataclasses.dataclass
class Planted:
    """|backup − V| is 1 plus a hill that rises to 3 in one corner, 10 between the nodes, 11 where states[0] > 9."""

    problem: Problem

    def value(self, states):
        return np.full(len(states), 2.0)

    def backup(self, states):
        position = (np.asarray(states, np.float64) + 1) / 0.25
        near = np.exp(-0.5 * np.sum((position - 8) ** 2, axis=1) / 16)
        is_node = np.all(np.abs(position - np.round(position)) < 1e-4, axis=1)
        return 2.0 - np.where(is_node, 1 + 2 * near, 10) - 10 * (np.asarray(states)[:, 0] > 9)


@functools.cache
def planted():
    """Nine points on each of 6 axes: the corner is one of 531,441 nodes."""
    kernel = GaussianKernel(lambda s, a: s, [0.25] * 6)
    grid = Grid([-1.0] * 6, [1.0] * 6, 9)
    return Planted(Problem(grid, np.zeros(1), kernel, lambda s, a: a, 0.9, law="linear", expected=("aliasing",)))


def test_search_finds_what_random_nodes_miss():
    found = tensor_residuals(planted(), count=200)
    assert found.nodes.largest < 1.2
    assert found.searched.largest == pytest.approx(1.5)
    np.testing.assert_allclose(found.worst, 1.0)


def test_kinds_of_states():
    problem = planted()
    visited = np.full((50, 6), 9.5)
    found = tensor_residuals(problem, count=200, visited=visited, key=3)
    assert found.between.rms == found.between.bound == pytest.approx(5)
    assert found.visited is not None
    assert (found.visited.count, found.visited.bound) == (50, None) and found.visited.rms == pytest.approx(5.5)
    assert math.isinf(tensor_residuals(problem, count=50).nodes.bound)
    assert "too few" in tensor_residuals(problem, count=50).sentence


def test_fresh_draws_see_the_error_of_the_draws():
    """4,000 others are nearer to the exact backup than 4 draws; V stays."""
    problem = pose([[0.16, 0.1], [0.1, 0.25]])
    solution, _ = any_train(problem, IID(4))
    nodes = problem.grid.states()
    backed_up = solution.backup(nodes)
    same = resampled(solution, IID(4000), key=0)
    exact = make_operator(problem, 1e-4).backup(solution.value(nodes)).max(axis=1)
    assert np.abs(same.backup(nodes) - exact).max() < 0.1 * np.abs(backed_up - exact).max()
    fresh = resampled(solution, IID(4), key=1).backup(nodes)
    assert np.all(np.abs(backed_up - fresh) > 0)
    np.testing.assert_allclose(same.value(nodes), solution.value(nodes), rtol=1e-6)
    with_draws = tensor_residuals(solution, count=50, sampler=IID(4))
    assert with_draws.nodes.rms != tensor_residuals(solution, count=50).nodes.rms


def test_refusals(as_user):
    with pytest.raises(ValueError, match="sampler needs a TensorSolution, got Planted"):
        tensor_residuals(planted(), sampler=IID(4))
    with pytest.raises(ValueError, match=r"visited must have the shape \[N, 6\], got \[6\]"):
        tensor_residuals(planted(), visited=np.zeros(6))
    with pytest.raises(ValueError, match="count must be a whole number of at least 1, got 0"):
        tensor_residuals(planted(), count=0)
