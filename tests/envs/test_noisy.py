"""Environments and lookahead of densities that are not normal: the law and the action values of fine sums in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

import hamq
from hamq.control.decoders import make_policy, table_policy
from hamq.control.expected_values import ExpectedValues
from hamq.control.rollouts import traces
from hamq.envs import ProblemEnv, ProblemVectorEnv
from hamq.solution import History
from tests.control.noisy import EXPECTED, fine_law, pose, reward
from tests.control.test_next_state import ACTION, STATE, assert_follows

GRADES = [
    ("gumbel", "linear"),
    ("forbidden", "cell"),
    *(pytest.param(name, "linear", marks=pytest.mark.slow) for name in ("bimodal", "exponential", "forbidden")),
    *(pytest.param(name, "cell", marks=pytest.mark.slow) for name in ("bimodal", "exponential", "gumbel")),
]


@pytest.mark.parametrize(("name", "law"), GRADES)
def test_one_step_of_a_batch_has_the_law(name, law):
    problem, num = pose(name, law), 3000
    batch = ProblemVectorEnv(problem, num)
    states, _ = batch.reset(seed=1, options={"state": STATE})
    found, *_ = batch.step(np.full(num, 2))
    assert_follows(problem, states[0], ACTION, found.astype(np.float64), resolution=0.15)


def test_one_environment_is_a_batch_of_one():
    problem = pose("gumbel", "linear")
    one, batch = ProblemEnv(problem), ProblemVectorEnv(problem, 1)
    first, others = one.reset(seed=3)[0], batch.reset(seed=3)[0]
    np.testing.assert_array_equal(first, others[0])
    for action in (0, 2, 1):
        np.testing.assert_array_equal(one.step(action)[0], batch.step([action])[0][0])


def values_of(problem):
    """A V that is no plane, of size 1."""
    states = problem.grid.states()
    return np.sin(2 * states[:, 0]) + 0.3 * np.cos(3 * states.sum(axis=1))


def solution_of(problem, values):
    q = np.repeat(values[:, None], problem.num_actions, axis=1)
    return hamq.Solution(problem, q, History(), "made up", True)


def expected_by_numpy(problem, values, state, action):
    """r + γE[V], V by the nearest node, or linear between the nodes."""
    middles, masses = fine_law(problem, state, action, {1: 20_000, 2: 1200}[problem.grid.dimension])
    if problem.law == "cell":
        edges = [problem.grid.axis_edges(i) for i in range(problem.grid.dimension)]
        cell = [np.clip(np.searchsorted(e, x, "right") - 1, 0, len(e) - 2) for e, x in zip(edges, middles.T, strict=True)]
        at = values[np.ravel_multi_index(cell, problem.grid.points)]
    else:
        at = _multilinear(problem, values, middles)
    return float(reward(jnp.asarray(state), action)) + 0.9 * masses @ at


def _multilinear(problem, values, points):
    table, (h, *_), low = values.reshape(problem.grid.points), problem.grid.spacing, problem.grid.lower[0]
    position = (points - low) / h
    left = np.minimum(position.astype(int), table.shape[0] - 2)
    share = position - left
    if table.ndim == 1:
        return table[left[:, 0]] * (1 - share[:, 0]) + table[left[:, 0] + 1] * share[:, 0]
    (i, j), (x, y) = left.T, share.T
    lower, upper = (table[k, j] * (1 - y) + table[k, j + 1] * y for k in (i, i + 1))
    return lower * (1 - x) + upper * x


@pytest.mark.parametrize(("name", "law"), [("income", "linear"), ("income", "cell"), *GRADES])
def test_lookahead_is_within_a_hundredth_of_the_range(name, law):
    problem = pose(name, law)
    values = values_of(problem)
    policy = make_policy(solution_of(problem, values))
    rng = np.random.default_rng(0)
    states = rng.uniform(problem.grid.lower, problem.grid.upper, (3, problem.grid.dimension)) * 0.7 + 0.1
    found = policy.scores(states)
    expected = [[expected_by_numpy(problem, values, s, a) for a in problem.actions] for s in states]
    assert np.max(np.abs(found - expected)) < 0.01 * np.ptp(values)
    assert np.array_equal(policy(states), problem.actions[np.argmax(expected, axis=1)])
    assert np.array_equal(policy.scores(states[1:2])[0], found[1])  # alone as among others


@pytest.mark.slow
@pytest.mark.parametrize("law", ["cell", "linear"])
def test_lookahead_by_chains(law):
    """Four dimensions: the mean of V over 2,000 independent draws of the ridge, and 5 standard errors of both."""
    problem = pose("curved", law)
    values = values_of(problem)
    state = np.array([0.2, 0.0, -0.2, 0.1])
    found = ExpectedValues(problem, values, 1024)(state[None], np.asarray([1.0]))[0, 0]
    z = np.random.default_rng(0).standard_normal((400_000, 4))
    u = [0.6 * z[:, 0], 0.25 * z[:, 1] + 0.36 * z[:, 0] ** 2 - 0.3, 0.5 * z[:, 2], 0.3 * z[:, 3] + 0.25 * z[:, 2]]
    x = 0.5 * state + 0.2 + np.stack(u, axis=1)
    x = x[np.all(np.abs(x) <= 2, axis=1)]
    if law == "cell":
        at = values[np.ravel_multi_index(np.round((x + 2) / 0.5).astype(int).T, problem.grid.points)]
    else:
        axes = [problem.grid.axis_nodes(i) for i in range(4)]
        at = RegularGridInterpolator(axes, values.reshape(problem.grid.points))(x)
    assert abs(found - at.mean()) < 5 * at.std() / np.sqrt(300)


def test_what_is_no_number_is_refused_by_lookahead():
    def paid(state, action):
        return jnp.where(state[0] > 1, jnp.nan, 0.0) * action

    posed = pose("gumbel", "linear")
    problem = hamq.Problem(posed.grid, posed.actions, posed.kernel, paid, 0.9, law="linear", expected=EXPECTED)
    policy = make_policy(solution_of(problem, values_of(problem)))
    assert policy(np.zeros((1, 2))).shape == (1,)
    with pytest.raises(ValueError, match=r"the score of action -1 in state \(1\.5, 0\) is nan; look at the reward"):
        policy(np.asarray([[0.0, 0.0], [1.5, 0.0]]))


@pytest.mark.slow
def test_a_page_plays_the_law():
    """The page plays one of `rollouts`: lognormal income stays where it should."""
    problem = pose("income", "linear")
    policy = table_policy(problem, np.zeros((problem.num_states, problem.num_actions)))
    (played,) = traces(problem, {"first": policy}, start=[1.0], steps=400)
    ratio = np.log(played.states[1:, 0] / (0.6 * played.states[:-1, 0] + 0.3))
    assert abs(np.std(ratio) - 0.5) < 0.1
