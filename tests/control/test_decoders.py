"""Actions read from a table: on the nodes, between them, and one step ahead."""

import functools
import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import hamq
from hamq.control.decoders import TILE, make_policy, table_policy
from hamq.problem import zoo
from hamq.solution import History

CORRELATED, DIAGONAL = ((0.05, 0.03), (0.03, 0.08)), (0.2**2, 0.3**2)
WALLS, CIRCLE = (False, False), (True, False)


def drift(state, action):
    return jnp.stack([state[0] + 0.5 * state[1], state[1] + 0.6 * action - 0.2 * jnp.sin(state[0])])


def pay(state, action):
    return -(state[0] ** 2) - 0.1 * state[1] ** 2 - 0.05 * action**2


@functools.cache  # the same problem is compiled once
def make_problem(law="linear", periodic=WALLS, covariance=DIAGONAL, points=(7, 6), num_actions=4, kernel=None):
    return hamq.Problem(
        grid=hamq.Grid([-math.pi, -2.0], [math.pi, 2.0], list(points), list(periodic)),
        actions=np.linspace(-1, 1, num_actions),
        kernel=kernel or hamq.GaussianKernel(drift, covariance),
        reward=pay,
        discount=0.9,
        law=law,
        name="small",
        expected=("noise", "outside", "aliasing"),
    )


def make_solution(problem, seed=0):
    q = np.random.default_rng(seed).normal(size=(problem.num_states, problem.num_actions))
    return hamq.Solution(problem, q, History(), "made up", True)


def points_between(problem, count=50, seed=1):
    """Inside, a little outside, and once round the circle."""
    low, high = np.asarray(problem.grid.lower), np.asarray(problem.grid.upper)
    return np.random.default_rng(seed).uniform(low - 0.3 * (high - low), high + 0.3 * (high - low), (count, len(low)))


@pytest.mark.parametrize("decoder", ["nearest", "interpolate"])
def test_on_the_nodes_it_is_the_tables_policy(decoder):
    problem = make_problem(periodic=CIRCLE)
    solution = make_solution(problem)
    policy = make_policy(solution, decoder)
    np.testing.assert_allclose(policy.scores(problem.grid.states()), solution.q, atol=1e-12)
    assert np.array_equal(policy(problem.grid.states()), problem.actions[solution.policy])


def test_nearest_takes_the_nearest_node():
    problem = make_problem()
    solution = make_solution(problem)
    states, nodes = points_between(problem), problem.grid.states()
    inside = np.clip(states, problem.grid.lower, problem.grid.upper)
    spacing = np.asarray(problem.grid.spacing)
    nearest = np.argmin(np.max(np.abs(inside[:, None] - nodes[None]) / spacing, axis=2), axis=1)
    np.testing.assert_allclose(make_policy(solution, "nearest").scores(states), solution.q[nearest])


def test_interpolation_keeps_what_is_multilinear():
    """Q = c₀ + c₁x + c₂y + c₃xy for each action, constant beyond the box."""
    problem = make_problem()
    c = np.random.default_rng(3).normal(size=(4, problem.num_actions))

    def surface(states):
        return np.stack([np.ones(len(states)), *states.T, states.prod(axis=1)], axis=1) @ c

    policy = make_policy(surface(problem.grid.states()), "interpolate", problem)
    states = points_between(problem)
    inside = np.clip(states, problem.grid.lower, problem.grid.upper)
    np.testing.assert_allclose(policy.scores(states), surface(inside), atol=1e-12)
    assert np.array_equal(policy(states), problem.actions[surface(inside).argmax(axis=1)])


def test_interpolation_goes_round_the_circle():
    problem = make_problem(periodic=CIRCLE)
    policy = make_policy(make_solution(problem), "interpolate")
    states = points_between(problem)
    np.testing.assert_allclose(policy.scores(states), policy.scores(states + np.asarray([2 * math.pi, 0])), atol=1e-12)


def brute_force(problem, values, state, action, num=4001):
    """r + γE[V] by a fine midpoint sum over ±9 σ, the law cut to the box or wrapped round the circle."""
    grid, mean = problem.grid, np.asarray(drift(jnp.asarray(state), jnp.asarray(action)), np.float64)
    weights = []
    for axis, std in enumerate(np.sqrt(problem.kernel.covariance)):
        low, high = mean[axis] - 9 * std, mean[axis] + 9 * std
        if not grid.periodic[axis]:
            low, high = max(low, grid.lower[axis]), min(high, grid.upper[axis])
        x = low + (high - low) * (np.arange(num) + 0.5) / num
        share = norm.pdf(x, mean[axis], std)
        weights.append(_hats(grid, axis, x) @ (share / share.sum()))
    return float(pay(state, action)) + problem.discount * weights[0] @ values.reshape(grid.points) @ weights[1]


def _hats(grid, axis, x):
    """Hat functions of the nodes of one axis at x, `[n, len(x)]`."""
    off = np.abs(x[None, :] - grid.axis_nodes(axis)[:, None])
    if grid.periodic[axis]:
        off = off % grid.widths[axis]
        off = np.minimum(off, grid.widths[axis] - off)
    return np.maximum(0, 1 - off / grid.spacing[axis])


@pytest.mark.parametrize(
    ("periodic", "points"),
    [
        (WALLS, (7, 6)),
        (CIRCLE, (25, 31)),
        pytest.param(WALLS, (25, 31), marks=pytest.mark.slow),
        pytest.param(CIRCLE, (7, 6), marks=pytest.mark.slow),
    ],
)
def test_lookahead_is_one_exact_step(periodic, points):
    """Few points: all of an axis count. Many: a window about the mean, also at the walls and across the end of a circle."""
    problem = make_problem(periodic=periodic, points=points)
    solution = make_solution(problem)
    states = np.concatenate([points_between(problem, 12), [[3.1, 1.9], [-3.1, -1.9], [0.0, 1.99]]])
    found = make_policy(solution).scores(states)
    expected = [[brute_force(problem, solution.value, state, action) for action in problem.actions] for state in states]
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("law", ["linear", *(pytest.param(law, marks=pytest.mark.slow) for law in ("cell", "point"))])
def test_the_exact_answer_is_its_own_lookahead(law):
    """Q* = r + γE[max Q*] on the nodes, whatever the law."""
    problem = make_problem(law)
    exact = hamq.solve_exact(problem, tolerance=1e-9)
    np.testing.assert_allclose(make_policy(exact).scores(problem.grid.states()), exact.q, atol=1e-8)


@pytest.mark.slow
def test_lookahead_with_variances_that_depend_on_the_state():
    problem = make_problem(covariance=lambda state, action: jnp.stack([0.04 + 0.01 * action**2, 0.1 + 0.01 * state[1] ** 2]))
    exact = hamq.solve_exact(problem, tolerance=1e-9)
    np.testing.assert_allclose(make_policy(exact).scores(problem.grid.states()), exact.q, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["correlated", "unnormalised"])
def test_lookahead_by_draws(kernel):
    """Shared draws come close to the quadrature that solve_exact stands on."""
    precision = np.linalg.inv(CORRELATED)

    def logdensity(following, state, action):
        off = following - drift(state, action)
        return -0.5 * off @ jnp.asarray(precision, off.dtype) @ off

    made = hamq.GaussianKernel(drift, CORRELATED) if kernel == "correlated" else hamq.UnnormalizedKernel(logdensity)
    problem = make_problem(kernel=made, points=(5, 5), num_actions=2)
    exact = hamq.solve_exact(problem, tolerance=1e-4)
    off = make_policy(exact, num_draws=512).scores(problem.grid.states()) - exact.q
    assert np.sqrt(np.mean(off**2)) < 0.01 * exact.q.std()


def test_other_actions_than_the_table_has():
    problem = make_problem()
    solution = make_solution(problem)
    states, others = points_between(problem), np.asarray([-1.0, -0.2, 0.1, 1.0])  # the ends are the table's
    own, other = make_policy(solution), make_policy(solution, actions=others)
    assert np.array_equal(other.scores(states)[:, [0, -1]], own.scores(states)[:, [0, -1]])
    assert not np.isclose(other.scores(states)[:, 1:-1], own.scores(states)[:, 1:-1]).all(axis=0).any()
    assert np.array_equal(other(states), others[other.scores(states).argmax(axis=1)])
    assert set(other(states)) & {-0.2, 0.1}


def test_vectors_of_actions():
    actions = np.asarray(list(itertools.product([-1.0, 1.0], [0.0, 2.0])))
    problem = hamq.Problem(
        grid=hamq.Grid([-1, -1], [1, 1], [3, 3]),
        actions=actions,
        kernel=hamq.GaussianKernel(lambda s, a: 0.5 * s + 0.1 * a, [0.1, 0.1]),
        reward=lambda s, a: jnp.sum(s * a),
        discount=0.5,
        law="linear",
    )
    found = make_policy(make_solution(problem), "nearest")(np.zeros((5, 2)))
    assert found.shape == (5, 2) and all(tuple(one) in set(map(tuple, actions)) for one in found)


@pytest.mark.parametrize("decoder", ["nearest", "interpolate", "lookahead"])
def test_a_state_alone_has_the_same_scores_as_among_others(decoder):
    problem = make_problem(periodic=CIRCLE, points=(25, 31))
    policy = make_policy(make_solution(problem), decoder)
    states = points_between(problem, TILE + 5)
    together = policy.scores(states)
    assert all(np.array_equal(policy.scores(states[i : i + 1])[0], together[i]) for i in (0, 7, TILE, TILE + 4))


@pytest.mark.slow
def test_a_train_decodes_itself():
    problem = make_problem(points=(5, 5))
    train = hamq.solve_tensor(problem, rank=3, iterations=2)
    states = points_between(problem, 5)
    assert np.array_equal(make_policy(train)(states), train.actions(states))
    for wrong in ({"decoder": "nearest"}, {"actions": [0.0, 1.0]}, {"problem": problem}):
        with pytest.raises(ValueError, match="a TensorSolution has V and no table"):
            make_policy(train, **wrong)


@pytest.mark.slow
def test_another_model_of_the_same_grid():
    problem, noisier = make_problem(), make_problem(covariance=(0.5, 0.5))
    solution, states = make_solution(problem), points_between(problem)
    own, other = make_policy(solution), make_policy(solution, problem=noisier)
    assert not np.allclose(own.scores(states), other.scores(states), atol=1e-3)
    assert np.array_equal(other.scores(states), make_policy(solution.q, problem=noisier).scores(states))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, s: make_policy(s, "best"), "decoder must be one of nearest, interpolate, lookahead, got 'best'"),
        (lambda p, s: make_policy(s.q), "a bare table needs its problem"),
        (lambda p, s: make_policy(s.q[:-1], problem=p), r"must have the shape \[42, 4\], got \[41, 4\]"),
        (lambda p, s: make_policy(s.q * math.nan, problem=p), "168 entries that are not finite"),
        (lambda p, s: make_policy(s, problem=make_problem(points=(5, 5))), "small with another grid or other actions"),
        (lambda p, s: make_policy(s, problem=make_problem(num_actions=5)), "small with another grid or other actions"),
        (lambda p, s: make_policy(s, "nearest", actions=[0.0, 1.0]), "actions= needs 'lookahead'"),
        (lambda p, s: make_policy(s, actions=[[0.0, 1.0]]), "actions must have the shape"),
        (lambda p, s: make_policy(s, num_draws=0), "num_draws must be"),
        (lambda p, s: make_policy(s)(np.zeros(2)), r"must have the shape \[B, 2\], got \[2\]; one state s is s\[None\]"),
        (lambda p, s: make_policy(s)(np.zeros((3, 4))), r"must have the shape \[B, 2\], got \[3, 4\]"),
        (lambda p, s: make_policy(s)(np.zeros((0, 2))), r"must have the shape \[B, 2\], got \[0, 2\]"),
        (lambda p, s: make_policy(s)(np.asarray([[0, 0], [0, math.inf]])), "state 1 is not finite"),
    ],
)
def test_refusals(call, message):
    problem = make_problem()
    with pytest.raises(ValueError, match=message):
        call(problem, make_solution(problem))


def weights(grid: hamq.Grid, state) -> np.ndarray:
    """Of all nodes, as products of hats: what a table is multiplied with."""
    of_axes = []
    for axis, x in enumerate(state):
        distance = np.abs(x - grid.axis_nodes(axis))
        if grid.periodic[axis]:
            distance = np.minimum(distance % grid.widths[axis], -distance % grid.widths[axis])
        of_axes.append(np.maximum(0, 1 - distance / grid.spacing[axis]))
    return np.array([math.prod(each) for each in itertools.product(*of_axes)])


@pytest.mark.parametrize("law", ["linear", "cell"])
def test_the_policy_of_a_table(law):
    problem = zoo.pendulum(points=[6, 5], num_actions=7, law=law, periodic=[True, False])
    rng = np.random.default_rng(0)
    q = rng.normal(size=(30, 7))
    states = rng.uniform(problem.grid.lower, problem.grid.upper, (200, 2)).astype(np.float32)
    of_nodes = [weights(problem.grid, state) for state in states]
    rows = np.array([w @ q if law == "linear" else q[np.argmax(w)] for w in of_nodes])
    best = np.asarray(problem.actions)[rows.argmax(axis=1)]
    np.testing.assert_array_equal(table_policy(problem, q)(states), best)
    corners = np.array([problem.grid.upper, problem.grid.lower])
    expected = [(weights(problem.grid, state) @ q).argmax() for state in corners]
    np.testing.assert_array_equal(table_policy(problem, q)(corners), np.asarray(problem.actions)[expected])
