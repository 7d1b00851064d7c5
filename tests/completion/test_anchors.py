"""Completion from columns and rows: exact where it can be, and honest about where it cannot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamq.completion.actions import continuation, farthest_actions, misfit, polynomials
from hamq.completion.anchors import Anchors
from hamq.completion.completion import Observed
from hamq.completion.cross import Cross, lack_of_fit, largest_volume, noise_in_full


def low_rank(rank, num_states=30, num_actions=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num_states, rank)) @ rng.normal(size=(rank, num_actions))


def observe(table, columns, states, tried):
    mask = np.zeros(table.shape, bool)
    mask[:, columns] = True
    mask[np.ix_(states, tried)] = True
    return Observed(np.where(mask, table, np.nan), mask)


@given(st.integers(1, 4), st.integers(0, 10_000))
def test_exact_on_tables_of_low_rank(rank, seed):
    table = low_rank(rank, seed=seed)
    states, everything = np.arange(0, 30, 3), np.arange(8)
    columns = largest_volume(table[states], rank)
    done = Cross(columns, states, everything).complete(observe(table, columns, states, everything), np.zeros_like(table))
    np.testing.assert_allclose(done.q, table, atol=1e-8 * np.abs(table).max())
    assert done.rank == rank and done.num_unidentified == 0 and done.residual < 1e-8


def test_too_few_columns_are_seen():
    table = low_rank(4)
    states, everything, columns = np.arange(12), np.arange(8), np.asarray([0, 7])
    done = Cross(columns, states, everything).complete(observe(table, columns, states, everything), np.zeros_like(table))
    assert done.residual > 0.05  # the observed rows are not reproduced, and the result says so
    assert "2 columns and 12 states" in done.result


def test_largest_volume_takes_the_ends_of_a_line():
    states, actions = np.linspace(1, 2, 20), np.linspace(-1, 1, 9)
    assert largest_volume(5 + states[:, None] * actions[None, :], 2).tolist() == [0, 8]


@given(st.integers(0, 10_000))
def test_no_exchange_of_one_column_gives_more_volume(seed):
    rows = low_rank(3, seed=seed)
    vectors = np.linalg.svd(rows, full_matrices=False)[2][:3].T
    chosen = largest_volume(rows, 3)
    volume = abs(np.linalg.det(vectors[chosen]))
    for slot in range(3):
        for action in range(8):
            other = chosen.copy()
            other[slot] = action
            assert abs(np.linalg.det(vectors[other])) <= volume * (1 + 1e-5)


def test_lack_of_fit_is_free_of_noise():
    """A rank-2 table lacks nothing in two columns, however noisy its replicates; one replicate alone would see the noise."""
    rng, table, biases = np.random.default_rng(0), low_rank(2, num_states=40), []
    columns = largest_volume(table, 2)
    for _ in range(100):
        first, second = (table + 0.05 * rng.normal(size=table.shape) for _ in range(2))
        biases.append(lack_of_fit(first, second, columns)[0])
    one_alone = lack_of_fit(first, first, columns)[0]
    noise = 0.05**2 * table.shape[1]
    assert np.mean(biases) < 0.15 * noise  # cut at 0 from below, so not quite 0 on average
    assert one_alone > 0.5 * noise


def test_lack_of_fit_sees_a_missing_rank():
    table = low_rank(3)
    assert lack_of_fit(table, table, largest_volume(table, 3))[0] < 1e-12
    assert lack_of_fit(table, table, largest_volume(table, 2))[0] > 1e-3
    assert noise_in_full(table, table) == 0


@pytest.mark.parametrize("degree", [1, 3])
def test_polynomials_of_the_action_are_continued_exactly(degree):
    actions = np.linspace(-3, 5, 101)
    tried = farthest_actions(actions, 16)
    rows = np.stack([np.polyval(np.random.default_rng(i).normal(size=degree + 1), actions) for i in range(5)])
    np.testing.assert_allclose(rows[:, tried] @ continuation(actions, tried, degree), rows, atol=1e-8)
    assert misfit(rows[:, tried], rows[:, tried], actions, tried, degree) < 1e-16 * np.sum(rows**2)
    assert misfit(rows[:, tried], rows[:, tried], actions, tried, degree - 1) > 1e-3


def test_several_coordinates_have_a_total_degree():
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(-1, 2)
    assert polynomials(grid, 2).shape == (16, 6)
    assert np.linalg.matrix_rank(polynomials(grid, 2)) == 6


def test_actions_are_spread_out():
    assert farthest_actions(np.linspace(0, 1, 11), 3).tolist() == [0, 5, 10]
    corners = np.asarray([[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]])
    assert farthest_actions(corners, 4).tolist() == [0, 1, 2, 3]
    assert farthest_actions(corners, 99).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_columns": 0}, "Anchors: num_columns must be None or a whole number of at least 1, got 0"),
        ({"num_states": 2.5}, "Anchors: num_states must be None or a whole number of at least 1, got 2.5"),
        ({"num_columns": 5, "num_states": 3}, "num_states = 3 cannot identify num_columns = 5"),
    ],
)
def test_refusals(as_user, arguments, message):
    with pytest.raises(ValueError, match=message):
        Anchors(**arguments)
