"""Problems that are refused, problems that are warned about, and the tables of those that are neither."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.exact.value_iteration import outside_surprises
from hamq.problem.checks import warn_unless_expected
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem, pair_name
from hamq.problem.tables import (
    check_covariances,
    mean_table,
    reward_table,
    std_table,
    terminal_table,
)
from hamq.types import HamqWarning

GRID = Grid([-1.0, -2.0], [1.0, 2.0], [5, 4])
ACTIONS = [-1.0, 0.0, 1.0]


def mean(state, action):
    return 0.9 * state + 0.1 * action


def reward(state, action):
    return -jnp.sum(state**2) - 0.1 * action**2


def logdensity(next_state, state, action):
    return -jnp.sum((next_state - state) ** 2) + 0.1 * action


def problem(**changes) -> Problem:
    given = {
        "grid": GRID,
        "actions": ACTIONS,
        "kernel": GaussianKernel(mean, [0.1, 0.2]),
        "reward": reward,
        "discount": 0.9,
    }
    return Problem(**(given | changes))


def test_a_sound_problem_says_what_it_is():
    mine = problem(name="mine")
    assert repr(mine) == ("Problem('mine': 20 states in 2 dimensions × 3 actions, GaussianKernel, law 'cell', discount 0.9)")
    assert (mine.num_states, mine.num_actions, mine.is_product, mine.notes) == (20, 3, True, ())


def test_a_huge_problem_prints():
    huge = problem(
        grid=Grid([-1.0] * 40, [1.0] * 40, 9),
        kernel=UnnormalizedKernel(lambda next_state, s, a: -jnp.sum((next_state - s) ** 2)),
    )
    assert "1.48e+38 states in 40 dimensions" in repr(huge)


@pytest.mark.parametrize(
    ("kernel", "is_product"),
    [
        (GaussianKernel(mean, [0.1, 0.2]), True),
        (GaussianKernel(mean, [[0.1, 0.0], [0.0, 0.2]]), False),
        (GaussianKernel(mean, lambda s, a: 0.1 + s**2), True),
        (GaussianKernel(mean, lambda s, a: jnp.diag(0.1 + s**2)), False),
        (UnnormalizedKernel(logdensity), False),
    ],
)
def test_product_kernels_are_recognised(kernel, is_product):
    assert problem(kernel=kernel).is_product is is_product


# What is refused before anything is computed.


@pytest.mark.parametrize("discount", [1.0, 1, 1.5, -0.1, float("nan"), float("inf")])
def test_discount_out_of_range(as_user, discount):
    with pytest.raises(ValueError, match=rf"discount must be in \[0, 1\), got {float(discount)}; with 1 or more"):
        problem(discount=discount)


@pytest.mark.parametrize("discount", ["0.9", None, True, [0.9]])
def test_discount_is_no_number(as_user, discount):
    with pytest.raises(ValueError, match=r"discount must be a number in \[0, 1\), got"):
        problem(discount=discount)


@pytest.mark.parametrize("discount", [0, 0.0, np.float32(0.5), np.int64(0)])
def test_discount_of_any_number_type(as_user, discount):
    assert problem(discount=discount).discount == discount


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        ([], r"at least one action, got shape \(0,\)"),
        (np.zeros((0, 2)), r"at least one action, got shape \(0, 2\)"),
        (0.5, r"of shape \[A\] or \[A, k\].* got shape \(\)"),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
        (["left", "right"], r"actions must be numbers"),
        ([1j], r"dtype complex128"),
        ([True, False], r"dtype bool"),
        ([0.0, float("nan")], r"action 1 is not finite"),
        ([0.0, float("inf")], r"action 1 is not finite"),
        ([1.0, 0.0, 1.0], r"the action 1\.0 is given 2 times; give each action once"),
        ([[1.0, 0.0], [1.0, 0.0]], r"the action \[1\. 0\.\] is given 2 times"),
    ],
)
def test_actions(as_user, actions, sentence):
    with pytest.raises(ValueError, match=sentence):
        problem(actions=actions)


def test_one_action_is_a_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (note,) = problem(actions=[0.0]).notes
    assert note == "there is one action: the policy is fixed and completion has nothing to do"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"grid": [5, 5]}, r"grid must be a hamq\.Grid, got list"),
        ({"kernel": mean}, r"kernel must be a hamq\.AbstractKernel, such as .* hamq\.UnnormalizedKernel, got function"),
        ({"law": "cells"}, r"law must be one of cell, linear, point, got 'cells'"),
        ({"reward": 1.0}, r"reward must be a function of \(state, action\), got 1\.0"),
        ({"terminal": True}, r"terminal must be None or a function of the state, got True"),
        ({"kernel": GaussianKernel(mean, [0.1] * 3)}, r"covariance has shape \(3,\) and the grid has 2 dimensions"),
        ({"kernel": GaussianKernel(mean, np.eye(3))}, r"covariance has shape \(3, 3\).*give \[2\] or \[2, 2\]"),
    ],
)
def test_parts_of_the_wrong_kind(as_user, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        problem(**changes)


# User functions.


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reward": lambda s, a: s}, r"reward must return shape \(\) for ONE state and ONE action, got \(2,\)"),
        ({"reward": lambda s, a: jnp.argmax(s)}, r"reward must return floats, got int32; write 0\.0 instead of 0"),
        ({"reward": lambda s, a: 0}, r"reward must return floats, got int32"),
        (
            {"reward": lambda s, a: jax.lax.complex(a, a)},
            r"reward must return floats, got complex64; .*take the real part",
        ),
        ({"reward": lambda s, a: s[0] > 0}, r"reward must return floats, got bool"),
        ({"reward": lambda s, a: (a, a)}, r"reward must return one array of shape \(\), got PyTreeDef"),
        ({"reward": lambda s, a: None}, r"reward must return one array of shape \(\), got PyTreeDef"),
        ({"kernel": GaussianKernel(lambda s, a: s[0], [0.1, 0.2])}, r"mean must return shape \(2,\).*got \(\)"),
        ({"kernel": GaussianKernel(lambda s, a: s[:1], [0.1, 0.2])}, r"mean must return shape \(2,\).*got \(1,\)"),
        ({"kernel": GaussianKernel(lambda s, a: s > 0, [0.1, 0.2])}, r"mean must return floats, got bool"),
        (
            {"kernel": GaussianKernel(mean, lambda s, a: a)},
            r"covariance must return shape \(2,\) or \(2, 2\).*got \(\)",
        ),
        (
            {"kernel": UnnormalizedKernel(lambda n, s, a: (n - s) ** 2)},
            r"logdensity must return shape \(\).*got \(2,\)",
        ),
        ({"terminal": lambda s: s[0]}, r"terminal must return a boolean, got float32; return a boolean, such as"),
        ({"terminal": lambda s: s > 0}, r"terminal must return shape \(\).*got \(2,\)"),
    ],
)
def test_outputs_of_the_wrong_kind(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        problem(**changes)


def test_vector_actions_reach_the_functions_as_vectors():
    pushed = problem(
        actions=[[0.0, 1.0], [1.0, 0.0]],
        kernel=GaussianKernel(lambda s, a: s + a, [0.1, 0.2]),
        reward=lambda s, a: jnp.dot(s, a),
    )
    np.testing.assert_allclose(reward_table(pushed), GRID.states()[:, ::-1])
    np.testing.assert_allclose(mean_table(pushed)[:, 0], GRID.states() + np.asarray([0, 1]))


def test_an_error_of_the_users_function_says_how_it_was_called():
    with pytest.raises(KeyError) as caught:
        problem(reward=lambda s, a: {}["missing"])
    note = "hamq called reward with (array of shape (2,), array of shape ()): one state and one action, traced by JAX."
    assert note in caught.value.__notes__


@pytest.mark.parametrize("name", ["reward", "mean", "covariance", "logdensity"])
def test_a_function_that_is_not_pure(name):
    calls = itertools.count()

    def scalar(*given):
        return 0.001 * next(calls) + 0 * given[-1]

    def vector(state, action):
        return 1.0 + 0 * state + scalar(action)

    changes = {
        "reward": {"reward": scalar},
        "mean": {"kernel": GaussianKernel(vector, [0.1, 0.2])},
        "covariance": {"kernel": GaussianKernel(mean, vector)},
        "logdensity": {"kernel": UnnormalizedKernel(scalar)},
    }[name]
    with pytest.raises(ValueError, match=rf"{name} is not a pure function: two calls at state .* noise belongs into"):
        problem(**changes)


def test_noise_within_a_compiled_part_is_seen():
    generator = np.random.default_rng(0)

    def noisy(state, action):
        noise = generator.normal(size=2).astype(np.float32)
        return jax.jit(lambda state: jnp.sum(state * noise))(state) + 0 * action

    with pytest.raises(ValueError, match="reward is not a pure function"):
        problem(reward=noisy)


def test_keys_may_be_constants():
    key = jax.random.key(3)
    problem(reward=lambda state, action: jax.random.normal(key) + state[0] + 0 * action)


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
def test_a_reward_that_is_not_finite_names_the_pair(bad):
    def broken(state, action):
        return jnp.where((state[0] > 0.9) & (action > 0), float(bad), 1.0)

    with pytest.raises(
        ValueError,
        match=rf"reward gives {bad} at state 16 \(1, -2\), action 2 \(1\) \(4 pairs are not finite\)",
    ):
        reward_table(problem(reward=broken))


def test_a_mean_that_is_not_finite_names_the_pair():
    mine = problem(kernel=GaussianKernel(lambda s, a: jnp.log(s + 1.5), [0.1, 0.2]))
    with pytest.raises(ValueError, match=r"mean gives \[.*nan\] at state 0 \(-1, -2\), action 0 \(-1\)"):
        mean_table(mine)


def test_a_variance_that_is_none_names_the_pair():
    mine = problem(kernel=GaussianKernel(mean, lambda s, a: 1.0 - s**2))
    with pytest.raises(ValueError, match=r"variance 0\.0 on axis 0 at state 0 \(-1, -2\), action 0 \(-1\); every"):
        std_table(mine)
    with pytest.raises(ValueError, match=r"covariance gives \[.*\] at state 0"):
        std_table(problem(kernel=GaussianKernel(mean, lambda s, a: 0.0 / (s + 1))))


def test_a_matrix_that_is_no_covariance_names_the_pair():
    mine = problem(kernel=GaussianKernel(mean, lambda s, a: jnp.eye(2) * 0.1 + s[0] * (1 - jnp.eye(2))))
    with pytest.raises(ValueError, match=r"covariance at state 0 \(-1, -2\), action 0 \(-1\) is not positive definite"):
        check_covariances(mine)
    check_covariances(problem(kernel=GaussianKernel(mean, lambda s, a: jnp.eye(2) * (0.1 + a**2))))


def test_terminal_states_earn_nothing():
    mine = problem(terminal=lambda s: s[0] > 0.9, reward=lambda s, a: jnp.where(s[0] > 0.9, jnp.nan, 1.0))
    ended = GRID.states()[:, 0] > 0.9
    np.testing.assert_array_equal(terminal_table(mine), ended)
    np.testing.assert_array_equal(reward_table(mine), np.where(ended, 0.0, 1.0)[:, None] * np.ones(3))
    assert terminal_table(problem()) is None


def test_tables_hold_float64_values_of_every_pair():
    mine = problem(kernel=GaussianKernel(mean, lambda s, a: 0.1 + s**2 + a**2))
    states, actions = GRID.states()[:, None, :], np.asarray(ACTIONS)[None, :, None]
    np.testing.assert_allclose(mean_table(mine), 0.9 * states + 0.1 * actions, rtol=1e-14)
    np.testing.assert_allclose(std_table(mine), np.sqrt(0.1 + states**2 + actions**2), rtol=1e-14)
    np.testing.assert_allclose(std_table(problem()), np.sqrt([0.1, 0.2]), rtol=1e-15)
    wanted = -(states**2).sum(-1) - 0.1 * actions[..., 0] ** 2
    np.testing.assert_allclose(reward_table(mine), wanted, rtol=1e-14)


def test_an_unnormalised_kernel_has_no_mean():
    with pytest.raises(TypeError, match=r"kernels of the family UnnormalizedKernel have no mean"):
        mean_table(problem(kernel=UnnormalizedKernel(logdensity)))


def test_functions_are_not_traced_again_for_an_equal_problem():
    calls = []

    def counted(state, action):
        calls.append(state)
        return reward(state, action)

    evaluate = jax.jit(lambda mine, s, a: mine.reward(s, a) + mine.density(s, a).log(s))
    evaluate(problem(reward=counted), jnp.zeros(2), jnp.zeros(()))
    again = problem(reward=counted)
    before = len(calls)
    evaluate(again, jnp.zeros(2), jnp.zeros(()))
    assert len(calls) == before


# Surprises.


def test_standard_deviations_given_as_variances():
    wide = GaussianKernel(mean, [100.0, 0.2])
    with pytest.warns(HamqWarning, match=r"mine: on axis 0 the noise spans 6·sqrt\(Σ\) = 60 where the box is 2 wide"):
        problem(kernel=wide, name="mine")
    narrow = GaussianKernel(mean, [1e-4, 0.2])
    with pytest.warns(HamqWarning, match=r"on axis 0 the noise spans .* = 0\.06 where the grid spacing is 0\.5"):
        problem(kernel=narrow)
    problem(kernel=narrow, law="linear")  # nothing rounds there


def test_expected_surprises_become_notes():
    mine = problem(kernel=GaussianKernel(mean, [100.0, 0.2]), expected=("noise",), notes=("by hand",))
    assert mine.notes[0] == "by hand"
    assert mine.notes[1].startswith("on axis 0 the noise spans")


def test_a_reward_that_aliases():
    with pytest.warns(HamqWarning, match=r"the reward oscillates between the grid points of axis 0: .*use more points"):
        problem(reward=lambda s, a: jnp.cos(8 * np.pi * s[0]))
    with pytest.warns(HamqWarning, match=r"axis 1"):
        problem(reward=lambda s, a: jnp.cos(15 * s[1]) ** 4)


@pytest.mark.parametrize(
    "smooth",
    [
        lambda s, a: jnp.exp(-jnp.sum(s**2)),
        lambda s, a: jnp.cos(s[0]) + 0 * a,
        lambda s, a: jnp.where(s[0] > 0, 1.0, 0.0),
        lambda s, a: jnp.ones(()),
    ],
)
def test_an_ordinary_reward_does_not_alias(smooth):
    assert problem(reward=smooth).notes == ()


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_a_broken_reward_is_not_called_aliasing(bad):
    problem(reward=lambda s, a: jnp.where(s[0] > 0, bad, s[0]))


# Means outside the box.


def far_right(state, action):
    return state + jnp.where(action > 0, 10.0, 0.0)


def test_means_far_outside_are_counted():
    mine = problem(kernel=GaussianKernel(far_right, [0.25, 100.0]), expected=("noise",))
    ((kind, sentence),) = outside_surprises(mine)
    assert kind == "outside"
    # x + 10 is at least 8 and at most 10 beyond the wall: 16 to 20 σ; on the other axis less than one.
    assert "for 20 of 60 pairs, up to 20 on axis 0 at state 16 (1, -2), action 2 (1)" in sentence
    with pytest.warns(HamqWarning, match=r"mine: the mean lies more than 8 standard deviations outside the box"):
        warn_unless_expected([(kind, sentence)], (), "mine")
    assert warn_unless_expected([(kind, sentence)], ("outside",), "mine") == (sentence,)


def test_the_border_is_eight_standard_deviations():
    def shifted(state, action):
        return state * 0 + jnp.stack([1 + 8 * 0.5 + action, 0 * action])

    mine = problem(kernel=GaussianKernel(shifted, [0.25, 0.2]), actions=[-1e-3, 0.0, 1e-3])
    assert "for 20 of 60 pairs" in outside_surprises(mine)[0][1]


@pytest.mark.parametrize(
    "covariance",
    [[[0.25, 0.01], [0.01, 100.0]], lambda s, a: 0.25 + 100 * jnp.arange(2, dtype=s.dtype)],
    ids=["full", "function"],
)
def test_standard_deviations_of_any_kind(covariance):
    mine = problem(kernel=GaussianKernel(far_right, covariance), expected=("noise",))
    assert "for 20 of 60 pairs, up to 20 on axis 0" in outside_surprises(mine)[0][1]


def test_a_circle_has_no_outside():
    circle = Grid([-1.0, -2.0], [1.0, 2.0], [5, 4], periodic=[True, False])
    mine = problem(grid=circle, kernel=GaussianKernel(far_right, [0.25, 100.0]), expected=("noise",))
    assert outside_surprises(mine) == []


def test_nothing_is_looked_for_where_it_cannot_be_known():
    assert outside_surprises(problem()) == []
    assert outside_surprises(problem(kernel=UnnormalizedKernel(logdensity))) == []
    assert outside_surprises(problem(kernel=GaussianKernel(far_right, lambda s, a: jnp.eye(2)))) == []
    huge = Grid([-1.0] * 12, [1.0] * 12, 9)
    assert outside_surprises(problem(grid=huge, kernel=GaussianKernel(far_right, [0.1] * 12))) == []


def test_pairs_have_names():
    assert pair_name(problem(), 7, 1) == "state 7 (-0.5, 2), action 1 (0)"
    pushed = problem(actions=[[0.5, -1.0]], kernel=GaussianKernel(lambda s, a: s + a, [0.1, 0.2]), reward=lambda s, a: a[0])
    assert pair_name(pushed, 0, 0) == "state 0 (-1, -2), action 0 (0.5, -1)"
