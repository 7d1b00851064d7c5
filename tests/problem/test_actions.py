"""Products of levels: the order of itertools, one action at a time, and how a problem keeps them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.actions import MAX_LISTED
from hamq.problem.problem import action_values, is_same, listed_actions, pair_name

LEVELS = [[0.5, -1.0], [3.0], [2.0, 0.0, 1.0]]
MANY = [np.linspace(-2, 2, 9)] * 20


def posed(actions, dimension=2) -> hamq.Problem:
    def mean(state, action):
        return 0.9 * state + 0.01 * jnp.sum(action)

    return hamq.Problem(
        hamq.Grid([-1.0] * dimension, [1.0] * dimension, 5),
        actions,
        hamq.GaussianKernel(mean, [0.1] * dimension),
        lambda state, action: -jnp.sum(state**2) - 0.1 * jnp.sum(action**2),
        discount=0.9,
    )


def test_the_order_is_that_of_itertools():
    product = hamq.ProductActions(LEVELS)
    listed = np.asarray(list(itertools.product(*LEVELS)))
    np.testing.assert_array_equal(product.enumerate(), listed)
    assert (product.size, product.dimension) == (6, 3)
    assert product.levels == tuple(map(tuple, LEVELS))
    for i, action in enumerate(listed):
        np.testing.assert_array_equal(product.at(i), action)
        assert product.index(action) == i


def test_more_actions_than_a_list_can_have():
    product = hamq.ProductActions(MANY)
    assert product.size == 9**20 > 2**63
    assert repr(product) == "ProductActions(1.22e+19 actions of 20 actuators)"
    np.testing.assert_array_equal(product.at(0), [-2.0] * 20)
    np.testing.assert_array_equal(product.at(9**20 - 2), [2.0] * 19 + [1.5])
    rng = np.random.default_rng(0)
    for action in rng.choice(MANY[0], (5, 20)):
        np.testing.assert_array_equal(product.at(product.index(action)), action)
    with pytest.raises(
        ValueError, match=r"enumerate\(\) must list the 1\.22e\+19 actions of 20 actuators, more than 1\.00e\+06"
    ):
        product.enumerate()


def test_equal_levels_are_equal_sets():
    product = hamq.ProductActions(LEVELS)
    assert product == hamq.ProductActions(tuple(jnp.asarray(levels) for levels in LEVELS))
    assert product != hamq.ProductActions(LEVELS[::-1])
    assert jax.tree.leaves(product) == [] and hash(product.levels)  # static: a constant of what is compiled


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ([], r"levels must be a list with the levels of each actuator, got \[\]"),
        (3, r"levels must be a list with the levels of each actuator, got 3"),
        ([1.0, 2.0], r"levels\[0\] must be a list of at least one number, got 1\.0"),
        ([[1.0], []], r"levels\[1\] must be a list of at least one number, got \[\]"),
        ([[1.0], ["left"]], r"levels\[1\] must be a list of at least one number, got \['left'\]"),
        ([[0.0, float("nan")]], r"levels\[0\] must be finite, got \[0\.0, nan\]"),
        ([[0.0], [1.0, 0.0, 1.0]], r"levels\[1\] has the level 1\.0 2 times; give each level once"),
    ],
)
def test_refusals(as_user, levels, sentence):
    with pytest.raises(ValueError, match=rf"ProductActions: {sentence}"):
        hamq.ProductActions(levels)


def test_actions_that_are_not_there():
    product = hamq.ProductActions(LEVELS)
    for index in (-1, 6):
        with pytest.raises(ValueError, match=rf"there is no action {index}; they are 0 to 5"):
            product.at(index)
    with pytest.raises(ValueError, match=r"actuator 2 has no level 7\.0; its levels are \(2\.0, 0\.0, 1\.0\)"):
        product.index([0.5, 3.0, 7.0])
    with pytest.raises(ValueError, match=r"an action has 3 numbers, got shape \(2,\)"):
        product.index([0.5, 3.0])


# In a problem.


def test_a_product_that_can_be_listed_is_listed():
    product = hamq.ProductActions(LEVELS)
    mine, by_hand = posed(product), posed(product.enumerate())
    np.testing.assert_array_equal(mine.actions, product.enumerate())
    assert mine.action_levels == by_hand.action_levels == product.levels
    assert (mine.num_actions, mine.action_shape) == (6, (3,))
    assert is_same(mine, by_hand)


@pytest.mark.parametrize(
    "actions",
    [
        [-1.0, 0.0, 1.0],
        [[-1.0], [0.0], [1.0]],
        [[-1.0, 5.0], [1.0, 5.0]],  # one coordinate varies
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]],  # one is missing
        [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],  # first coordinate fastest
        [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]],
    ],
)
def test_other_sets_have_no_levels(actions):
    assert posed(actions).action_levels is None


def test_levels_in_any_order_are_recognised():
    assert posed([[1.0, 0.0], [1.0, 2.0], [-1.0, 0.0], [-1.0, 2.0]]).action_levels == ((1.0, -1.0), (0.0, 2.0))
    assert posed(hamq.ProductActions([[0.0, 1.0], [5.0]])).action_levels is None


def test_a_product_that_cannot_be_listed_is_kept():
    mine = posed(hamq.ProductActions(MANY))
    assert isinstance(mine.actions, hamq.ProductActions)
    assert (mine.num_actions, mine.action_shape, mine.action_levels) == (9**20, (20,), mine.actions.levels)
    assert "25 states in 2 dimensions × 1.22e+19 actions" in repr(mine)
    assert mine.notes == ()
    assert is_same(mine, posed(hamq.ProductActions(MANY)))
    assert not is_same(mine, posed(hamq.ProductActions(MANY[1:])))
    assert not is_same(mine, posed([0.0, 1.0])) and not is_same(posed([0.0, 1.0]), mine)
    assert pair_name(mine, 0, 9**20 - 1).endswith(f"({', '.join(['2'] * 20)})")
    for listing in (listed_actions, action_values):
        with pytest.raises(ValueError, match=r"problem: an array of all actions must list the 1\.22e\+19 actions"):
            listing(mine)


def test_the_border_is_a_million():
    assert posed(hamq.ProductActions([range(1000), range(1000)])).actions.shape == (MAX_LISTED, 2)
    assert isinstance(posed(hamq.ProductActions([range(1000), range(1001)])).actions, hamq.ProductActions)


def test_a_problem_built_twice_is_compiled_once():
    traced = []

    def reward(state, action):
        traced.append(state)
        return -jnp.sum(state**2) - jnp.sum(action**2)

    def mean(state, action):
        return 0.9 * state + 0 * action[0]

    def build():
        grid, kernel = hamq.Grid([-1.0], [1.0], 5), hamq.GaussianKernel(mean, [0.1])
        return hamq.Problem(grid, hamq.ProductActions(MANY), kernel, reward, 0.9)

    evaluate = jax.jit(lambda problem, s, a: problem.reward(s, a))
    evaluate(build(), jnp.zeros(1), jnp.zeros(20))
    again, before = build(), len(traced)
    evaluate(again, jnp.zeros(1), jnp.zeros(20))
    assert len(traced) == before
