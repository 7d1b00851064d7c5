"""Rollouts: the next state has the problem's law, returns are those of the exact policy value, pairs share their luck."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import truncnorm

from hamq.control.next_state import NormalModel, make_model, step
from hamq.control.rollouts import paired_difference, random_starts, rollouts
from hamq.exact.bellman import evaluate_policy
from hamq.problem import cells
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.zoo import repelling_agents
from hamq.types import HamqWarning
from tests.stats import assert_distribution, assert_mean_equals

CORRELATED = [[0.16, 0.1], [0.1, 0.25]]


def drift(state, action):
    return 0.8 * state + 0.3 * action * jnp.ones(2, state.dtype)


def reward(state, action):
    return jnp.cos(state[0]) + 0.5 * state[1] - 0.1 * action**2


def pose(covariance=(0.16, 0.25), law="cell", points=(5, 4), discount=0.8, **changes) -> Problem:
    grid = changes.pop("grid", Grid([-1.0, -1.0], [1.0, 1.5], list(points)))
    kernel = changes.pop("kernel", GaussianKernel(drift, list(covariance)))
    expected = ("aliasing", "noise", "outside")
    return Problem(grid, np.linspace(-1, 1, 3), kernel, reward, discount, law=law, expected=expected, **changes)


def always(action):
    return lambda states: np.full(len(states), action)


def draw(problem, state, action, num, seed=0):
    """Independent next states of one pair `[num, d]`."""
    model = make_model(problem)
    state, action = np.asarray(state, np.float32), np.asarray(action, np.float32)
    if not isinstance(model, NormalModel):
        return step(model, np.tile(state, (num, 1)), np.tile(action, (num, 1)), key=jr.key(seed)).states

    def one(key):
        normal_key, uniform_key = jr.split(key)
        normals = jr.normal(normal_key, (len(state), model.num_draws))
        return model.next_state(jnp.asarray(state), jnp.asarray(action), normals, jr.uniform(uniform_key))[0]

    each = jax.jit(lambda key: jax.lax.map(one, jr.split(key, num), batch_size=1000))
    return np.asarray(each(jr.key(seed)))


def counts(problem, points):
    """How many fall into each cell."""
    located = jax.jit(jax.vmap(problem.grid.locate))(points)
    return np.bincount(np.asarray(located), minlength=problem.num_states)


@pytest.mark.parametrize(
    ("problem", "state", "action"),
    [
        (pose([[0.16, -0.194], [-0.194, 0.25]]), [-0.9, 1.4], 1.0),  # mass in a corner: 48 of 64 draws carry weight
        (pose(), [-0.5, 0.3], -1.0),
        (repelling_agents(2), [-0.8, -0.7], [1.0, -1.0]),  # close to each other and to a wall
    ],
    ids=["correlated", "product", "repelling"],
)
def test_next_states_have_the_law_of_the_cells(problem, state, action):
    """Against masses by quadrature; false alarm 1e-6."""
    found = counts(problem, draw(problem, state, action, 8000))
    masses = cells.rows_of(problem, np.asarray(state)[None], np.asarray(action)[None], 1e-6).masses[0]
    assert_distribution(found, masses, resolution=0.07)


def test_linear_law_is_continuous():
    """Mean and second moment of a cut normal on each axis."""
    problem = pose(law="linear")
    found = draw(problem, [0.9, 1.4], 1.0, 20_000)
    mean, std = 0.8 * np.array([0.9, 1.4]) + 0.3, np.array([0.4, 0.5])
    low, high = (np.asarray(problem.grid.lower) - mean) / std, (np.asarray(problem.grid.upper) - mean) / std
    law = truncnorm(low, high, mean, std)
    moments = np.stack([found, found**2], axis=1)
    assert_mean_equals(moments, np.stack([law.mean(), law.var() + law.mean() ** 2]), resolution=0.05)
    assert len(np.unique(found[:, 0])) > 19_000


@pytest.mark.parametrize("covariance", [(0.16, 0.25), CORRELATED], ids=["product", "correlated"])
def test_mean_return_is_the_exact_value(covariance):
    """From one node, 1,000 rollouts; false alarm 1e-6."""
    problem = pose(covariance)
    start = 7
    starts = np.repeat(problem.grid.states_at(np.asarray([start])), 1000, axis=0)
    rolled = rollouts(problem, {"middle": always(0.0)}, starts=starts, steps=40, num_draws=16, key=3)
    exact = evaluate_policy(problem, np.ones(problem.num_states, int), 1e-3).value[start]
    assert_mean_equals(rolled.returns["middle"], exact, resolution=0.2)


def test_same_numbers_for_all_policies():
    problem = pose(CORRELATED, law="linear")
    starts = random_starts(problem, 16, key=1)
    policies = {"a": always(1.0), "b": always(1.0), "c": always(-1.0)}
    rolled = rollouts(problem, policies, starts=starts, steps=5, key=2)
    np.testing.assert_array_equal(rolled.returns["a"], rolled.returns["b"])
    np.testing.assert_array_equal(rolled.states["a"], rolled.states["b"])
    assert np.all(rolled.returns["a"] != rolled.returns["c"])
    other = rollouts(problem, {"a": always(1.0)}, starts=starts, steps=5, key=3)
    assert np.all(rolled.returns["a"] != other.returns["a"])
    assert rolled.visited("a").shape == (6 * 16, 2)
    # Rollouts and steps differ from each other: luck is shared between policies alone.
    noise = np.diff(rolled.states["a"], axis=0)
    assert len(np.unique(noise[..., 0])) == 5 * 16


def test_common_numbers_make_differences_sure():
    problem = pose(law="linear")
    rolled = rollouts(problem, {"a": always(0.1), "b": always(0.0)}, starts=random_starts(problem, 200), steps=20)
    _, low, high = rolled.difference("a", "b")
    alone = np.std(rolled.returns["a"]) * 2 * 1.96 / np.sqrt(200)
    assert high - low < 0.3 * alone


def test_an_end_pays_nothing_from_there_on():
    """0, 0.3 and 0.6 are paid, 0.9 is the end; noise of 1e-4."""
    kernel = GaussianKernel(lambda s, a: s + jnp.stack([0.3 * a, jnp.zeros((), s.dtype)]), [1e-8, 1e-8])
    problem = pose(law="linear", kernel=kernel, terminal=lambda s: s[0] > 0.8)
    rolled = rollouts(problem, {"right": always(1.0)}, starts=np.zeros((1, 2)), steps=10)
    paid = sum(0.8**t * (np.cos(0.3 * t) - 0.1) for t in range(3))
    assert rolled.returns["right"][0] == pytest.approx(paid, abs=1e-3)
    np.testing.assert_array_equal(rolled.states["right"][4], rolled.states["right"][10])


def test_circles_are_wrapped():
    grid = Grid([-1.0, -1.0], [1.0, 1.5], [5, 4], [True, False])
    rolled = rollouts(pose(CORRELATED, law="linear", grid=grid), {"a": always(1.0)}, starts=np.zeros((50, 2)), steps=20)
    assert np.all(np.abs(rolled.visited("a")[:, 0]) <= 1) and np.ptp(rolled.visited("a")[:, 0]) > 1.8


def test_paired_difference_of_a_shift():
    returns = np.random.default_rng(0).normal(size=50)
    assert paired_difference(returns + 1, returns) == pytest.approx((1, 1, 1))


def test_random_starts():
    problem = pose()
    starts = random_starts(problem, 2000, spread=0.5, key=0)
    assert np.all(starts >= [-0.5, -0.375]) and np.all(starts <= [0.5, 0.875])
    assert_mean_equals(starts, [0, 0.25], resolution=0.06)
    assert np.all(np.ptp(starts, axis=0) > [0.99, 1.24])


def test_collapsed_weights_are_warned_about():
    problem = pose(CORRELATED, law="linear")
    with pytest.warns(HamqWarning, match=r"only \d\.\d of 8 draws carry weight on problem"):
        rollouts(problem, {"a": always(0.0)}, starts=np.zeros((4, 2)), steps=1, num_draws=8)


def test_refusals(as_user):
    problem, starts = pose(law="linear"), np.zeros((2, 2))
    with pytest.raises(ValueError, match="at least one policy"):
        rollouts(problem, {}, starts=starts)
    with pytest.raises(ValueError, match=r"starts must have the shape \[B, 2\], got \[2\]"):
        rollouts(problem, {"a": always(0.0)}, starts=np.zeros(2))
    with pytest.raises(ValueError, match=r"policy 'a' at step 0 must return actions of the shape \[2\], got \[2, 1\]"):
        rollouts(problem, {"a": lambda s: np.zeros((len(s), 1))}, starts=starts)
    with pytest.raises(ValueError, match="returned an action that is not finite, for rollout 0"):
        rollouts(problem, {"a": always(np.nan)}, starts=starts)
    with pytest.raises(ValueError, match="law='point'"):
        rollouts(pose(law="point"), {"a": always(0.0)}, starts=starts)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        rollouts(problem, {"a": always(0.0)}, starts=starts, steps=0)
    with pytest.raises(ValueError, match="spread must be between 0 and 1"):
        random_starts(problem, 3, spread=2.0)


def test_keys_of_any_kind():
    problem = pose(law="linear")
    found = rollouts(problem, {"a": always(0.0)}, starts=np.zeros((2, 2)), steps=1, key=jax.random.key(0, impl="rbg"))
    assert np.all(np.isfinite(found.returns["a"]))
