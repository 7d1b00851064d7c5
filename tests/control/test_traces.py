"""Rollouts step by step: what is traced is what happened."""

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.control.rollouts import rollouts, traces
from hamq.problem.actions import ProductActions
from hamq.problem.scene import Scene
from hamq.types import Law


def mean(state, action):
    return state + 0.1 * jnp.stack([state[1], action])


def reward(state, action):
    return -(state[0] ** 2) - action**2 / 10


def posed(law: Law = "linear", scene: Scene | None = None, terminal=None, covariance=1e-10) -> hamq.Problem:
    """A slider with almost no noise: x' = x + v/10, v' = v + a/10, paid −x² − a²/10."""
    return hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [5, 9]),
        actions=jnp.array([-1.0, 0.0, 1.0]),
        kernel=hamq.GaussianKernel(mean, covariance=[covariance, covariance]),
        reward=reward,
        discount=0.9,
        terminal=terminal,
        law=law,
        expected=("noise",),
        scene=scene,
    )


def damped(states):
    return np.where(states[:, 0] + states[:, 1] > 0.2, -1.0, 1.0)


def test_a_rollout_is_what_the_equations_give():
    (rollout,) = traces(posed(), {"damped": damped}, start=[0.5, -0.25], steps=30)
    x, v, total = 0.5, -0.25, 0.0
    for t in range(30):
        action = -1.0 if x + v > 0.2 else 1.0
        reward = -(x**2) - action**2 / 10
        total += 0.9**t * reward
        np.testing.assert_allclose(rollout.states[t], [x, v], atol=1e-3)
        assert rollout.actions[t] == action
        np.testing.assert_allclose([rollout.rewards[t], rollout.returns[t]], [reward, total], atol=5e-3)
        x, v = x + 0.1 * v, v + 0.1 * action
    assert (rollout.name, rollout.has_ended, len(rollout.states)) == ("damped", False, 30)


def test_the_return_is_that_of_rollouts_and_the_randomness_is_shared():
    problem = posed(covariance=0.01)
    policies = {"damped": damped, "again": damped, "zero": lambda states: np.zeros(len(states))}
    start = np.array([0.5, -0.25], np.float32)
    first, again, zero = traces(problem, policies, start, steps=20, key=3)
    found = rollouts(problem, policies, starts=start[None, :], steps=20, key=3)
    for rollout in (first, zero):
        assert rollout.returns[-1] == pytest.approx(found.returns[rollout.name][0], rel=1e-5)
        np.testing.assert_array_equal(rollout.states, found.states[rollout.name][:-1, 0])
    np.testing.assert_array_equal(first.states, again.states)
    assert np.abs(first.states - zero.states).max() > 0.1
    (other,) = traces(problem, {"damped": damped}, start, steps=20, key=4)
    np.testing.assert_array_equal(other.states[0], first.states[0])
    assert np.all(other.states[1] != first.states[1])


def test_a_rollout_stops_where_it_ends():
    problem = posed(terminal=lambda s: s[0] > 0.6)
    push = {"push": lambda states: np.ones(len(states))}
    (rollout,) = traces(problem, push, start=[0.5, 0.5], steps=40)
    assert rollout.has_ended and rollout.states[-2, 0] <= 0.6 < rollout.states[-1, 0]
    assert rollout.rewards[-1] == 0 and np.all(rollout.rewards[:-1] < 0)
    assert len(rollout.states) == len(rollout.actions) == len(rollout.returns) == 3


def test_random_starts_are_nodes_of_the_cell_law_and_not_terminal():
    problem = posed("cell", terminal=lambda s: s[0] > -0.4, covariance=0.01)
    starts = [traces(problem, {"d": damped}, steps=1, key=key)[0].states[0] for key in range(3)]
    for start in starts:
        assert start[0] == -0.5 and np.isclose(start[1] * 4, round(start[1] * 4))
    assert len({start[1] for start in starts}) > 1
    (rollout,) = traces(problem, {"d": damped}, start=[-0.6, 0.3], steps=1)
    assert rollout.states[0].tolist() == [-0.5, 0.25]


def test_two_actuators():
    problem = hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [5, 9]),
        actions=ProductActions([[-0.5, 0.0, 0.5], [-0.5, 0.0, 0.5]]),
        kernel=hamq.GaussianKernel(lambda s, a: s + 0.1 * a, covariance=[0.01, 0.01]),
        reward=lambda s, a: -jnp.sum(s**2),
        discount=0.9,
        law="linear",
        expected=("aliasing", "noise", "outside"),
    )
    push = {"push": lambda states: np.tile(np.array([1.0, -1.0]) * 0.5, (len(states), 1))}
    (rollout,) = traces(problem, push, steps=2)
    np.testing.assert_array_equal(rollout.actions, [[0.5, -0.5]] * 2)
