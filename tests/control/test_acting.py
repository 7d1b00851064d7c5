"""Tables and trains answer the same calls, for one state and for many: V, Q and the action to take."""

import dataclasses
import gc
import weakref

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

import hamq
from hamq.control import decoders
from hamq.control.decoders import make_policy


def step(state, action):
    return state + 0.3 * jnp.stack([state[1], action])


def reward(state, action):
    return -(state[0] ** 2) - 0.1 * action**2


def pose(law="linear", covariance=(0.02, 0.05)) -> hamq.Problem:
    return hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [6, 5]),
        actions=jnp.array([-1.0, 0.0, 1.0]),
        kernel=hamq.GaussianKernel(step, np.asarray(covariance)),
        reward=reward,
        discount=0.9,
        law=law,
        name="slider",
    )


def solved(**options) -> hamq.Solution:
    return hamq.solve_exact(pose(**options), tolerance=1e-6)


STATES = np.random.default_rng(0).uniform(-1, 1, (50, 2))


def interpolated(problem: hamq.Problem, table: np.ndarray) -> np.ndarray:
    """By SciPy."""
    axes = [problem.grid.axis_nodes(axis) for axis in range(2)]
    return RegularGridInterpolator(axes, table.reshape(*problem.grid.points, -1))(STATES)


def test_a_table_with_the_linear_law_is_interpolated():
    solution = solved()
    np.testing.assert_allclose(solution.value_at(STATES), interpolated(solution.problem, solution.value)[:, 0], rtol=1e-12)
    np.testing.assert_allclose(solution.q_at(STATES), interpolated(solution.problem, solution.q), rtol=1e-12)


def test_a_table_with_the_cell_law_has_the_values_of_the_nearest_node():
    solution = solved(law="cell")
    nodes = solution.problem.grid.states()
    nearest = np.argmin(np.abs((STATES[:, None] - nodes) / solution.problem.grid.spacing).max(axis=2), axis=1)
    np.testing.assert_array_equal(solution.value_at(STATES), solution.value[nearest])
    np.testing.assert_array_equal(solution.q_at(STATES), solution.q[nearest])


def test_values_at_the_nodes_are_those_of_the_table():
    solution = solved()
    nodes = solution.problem.grid.states()
    np.testing.assert_allclose(solution.value_at(nodes), solution.value, rtol=1e-12)
    np.testing.assert_allclose(solution.q_at(nodes), solution.q, rtol=1e-12)
    np.testing.assert_array_equal(solution.act(nodes), np.asarray(solution.problem.actions)[solution.policy])


def test_tables_and_trains_agree_and_take_one_state_or_many():
    problem = pose()
    table, train = hamq.solve_exact(problem, tolerance=1e-6), hamq.solve_tensor(problem, iterations=30, tolerance=1e-6)
    span = np.ptp(table.value)
    np.testing.assert_allclose(train.value_at(STATES), table.value_at(STATES), atol=1e-2 * span)
    # Q of a train is one backup from the state itself, which a table knows at the nodes only.
    nodes = problem.grid.states()
    np.testing.assert_allclose(train.q_at(nodes), table.q, atol=1e-2 * span)
    assert np.mean(train.act(STATES) == table.act(STATES)) > 0.9
    for solution in (table, train):
        one = STATES[3]
        assert isinstance(solution, hamq.AbstractSolution)
        assert isinstance(solution.value_at(one), float) and solution.value_at(one) == solution.value_at(STATES)[3]
        np.testing.assert_array_equal(solution.q_at(one), solution.q_at(STATES)[3])
        assert isinstance(solution.act(one), float) and solution.act(one) == solution.act(STATES)[3]
        with pytest.raises(hamq.HamqError, match=r"states must have the shape \[B, 2\], got \[1, 3\]"):
            solution.act([0.0, 0.0, 0.0])


def test_actions_come_from_the_model():
    exact = solved()
    solution = dataclasses.replace(exact, q=np.random.default_rng(1).normal(size=exact.q.shape))
    np.testing.assert_array_equal(solution.act(STATES), make_policy(solution, "lookahead")(STATES))
    assert np.any(solution.act(STATES) != make_policy(solution, "interpolate")(STATES))


def test_where_the_model_cannot_be_asked_q_is_interpolated_with_a_warning():
    exact = solved()
    correlated = pose(law="point", covariance=((0.02, 0.01), (0.01, 0.05)))
    solution = dataclasses.replace(exact, problem=correlated)
    with pytest.warns(hamq.HamqWarning, match="read off Q between the nodes, because of this: lookahead: slider has law='p"):
        found = solution.act(STATES)
    np.testing.assert_array_equal(found, make_policy(solution, "interpolate")(STATES))
    np.testing.assert_array_equal(solution.act(STATES), found)  # and it is said once


def test_policies_go_with_their_solution():
    solution = solved()
    solution.act(STATES)
    gone = weakref.ref(solution)
    assert gone() in decoders._POLICIES
    del solution
    gc.collect()
    assert gone() is None


def test_a_table_with_nan_has_no_actions():
    solution = solved()
    broken = dataclasses.replace(solution, q=np.full_like(solution.q, np.nan))
    for call in (broken.value_at, broken.q_at, broken.act):
        with pytest.raises(hamq.HamqError, match=r"NaN|not finite"):
            call(STATES)
