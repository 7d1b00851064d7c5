import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.completion.completion import Observed
from hamq.completion.nuclear_norm import NuclearNorm, nuclear_norm, relative_gap, shrink
from tests.completion.posed import observed, optimum, zeros

SMALL = (12, 5)


def complete(data, method=None, memory=()):
    return (method or NuclearNorm()).complete(data, zeros(data), memory)


@pytest.mark.parametrize("fraction", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_equals_cvxpy(fraction, noise):
    data, _ = observed(seed=1, fraction=fraction, noise=noise)
    expected, value = optimum(data)
    done = complete(data)
    assert done.converged and done.gap <= 1e-7
    np.testing.assert_allclose(done.q, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(np.linalg.norm(done.q, "nuc"), value, rtol=1e-5)


@pytest.mark.parametrize("max_iterations", [10, 20, 30])
def test_gap_bounds_how_far_the_norm_is_above_the_optimum(max_iterations):
    data, _ = observed(seed=2, fraction=0.2, rank=3, noise=0.1)
    done = complete(data, NuclearNorm(max_iterations=max_iterations))
    norm, best = np.linalg.norm(done.q, "nuc"), optimum(data)[1]
    excess = (norm - best) / norm
    assert done.iterations == max_iterations and not done.converged and "raise max_iterations" in done.result
    assert 1e-6 < excess <= done.gap


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_no_multipliers_on_the_mask_give_a_bound_above_the_optimum(seed):
    data, _ = observed(seed=3, shape=SMALL)
    best = np.linalg.norm(complete(data).q, "nuc")
    values = np.where(data.mask, data.values, 0.0)
    multipliers = np.where(data.mask, np.random.default_rng(seed).normal(size=SMALL) + 3 * values, 0.0)
    with jax.enable_x64(True):
        gap = float(relative_gap(jnp.asarray(values), jnp.asarray(values), jnp.asarray(multipliers)))
    norm = np.linalg.norm(values, "nuc")
    np.testing.assert_allclose(
        gap, 1 - max(np.sum(values * multipliers) / np.linalg.norm(multipliers, 2), 0) / norm, atol=1e-12
    )
    assert norm * (1 - gap) <= best * (1 + 1e-12)


def test_large_table_by_its_gap_and_faster_from_a_warm_start():
    data, table = observed(seed=4, shape=(2000, 10), rank=3, fraction=0.2, level=20.0, noise=0.01)
    cold = complete(data)
    assert cold.converged and cold.gap <= 1e-7 and cold.residual == 0
    nearby = Observed(1.001 * data.values, data.mask)
    warm = complete(nearby, memory=cold.memory)
    assert warm.converged and warm.iterations < cold.iterations
    again, _ = observed(seed=5, shape=(2000, 10), rank=3, fraction=0.2, level=20.0, noise=0.01)
    other = Observed(np.where(again.mask, table, np.nan), again.mask)
    assert complete(other, memory=cold.memory).converged


def test_warm_start_equals_cold_start():
    data, _ = observed(seed=6)
    first, _ = observed(seed=7)
    cold = complete(data)
    for memory in (cold.memory, complete(first).memory):
        warm = complete(data, memory=memory)
        np.testing.assert_allclose(warm.q, cold.q, atol=1e-4)
    assert complete(data, memory=cold.memory).iterations <= 20
    assert [table.dtype for table in cold.memory] == [np.float64] * 2
    assert [table.shape for table in cold.memory] == [data.mask.shape] * 2


def test_low_rank_table_is_recovered_and_full_mask_returns_the_values():
    data, table = observed(seed=8, rank=1, level=0.0, fraction=0.7)
    done = complete(data)
    np.testing.assert_allclose(done.q, table, atol=1e-5)
    assert done.rank == 1
    full = complete(Observed(table, np.ones_like(data.mask)))
    np.testing.assert_array_equal(full.q, table)
    assert full.residual == 0 and full.converged and full.num_unidentified == 0


def test_table_of_zeros_is_zero():
    data, _ = observed()
    done = complete(Observed(np.where(data.mask, 0.0, np.nan), data.mask))
    assert done.converged and done.gap == 0 and not done.q.any()


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_columns_without_observation_are_zero_at_the_optimum(seed):
    data, _ = observed(seed=seed, shape=(24, 6), empty_rows=(0, 7), empty_columns=(2,))
    expected, _ = optimum(data)
    assert np.abs(expected[[0, 7]]).max() < 1e-6 and np.abs(expected[:, 2]).max() < 1e-6
    done = complete(data, NuclearNorm(unidentified="zero"))
    assert not done.q[[0, 7]].any() and not done.q[:, 2].any()
    np.testing.assert_allclose(done.q, expected, atol=1e-4 * np.abs(expected).max())


@given(seed=st.integers(0, 1000), scale=st.sampled_from([1e-200, 3e-5, 1.0, -7.0, 1e150]))
@settings(max_examples=15)
def test_scale_permutation_and_transpose_carry_over(seed, scale):
    data, _ = observed(seed=seed, shape=SMALL, fraction=0.6, noise=0.3)
    expected = complete(data).q
    atol = 1e-3 * np.abs(expected).max()
    scaled = complete(Observed(scale * data.values, data.mask)).q
    np.testing.assert_allclose(scaled / scale, expected, atol=atol)
    rng = np.random.default_rng(seed)
    order = np.ix_(rng.permutation(SMALL[0]), rng.permutation(SMALL[1]))
    np.testing.assert_allclose(complete(Observed(data.values[order], data.mask[order])).q, expected[order], atol=atol)
    turned = complete(Observed(data.values.T, data.mask.T))
    np.testing.assert_allclose(turned.q.T, expected, atol=atol)
    assert turned.memory[0].shape == SMALL[::-1]


def test_one_compilation_for_every_mask():
    from hamq.completion.nuclear_norm import _minimise

    sizes = []
    for fraction in (0.2, 0.5, 0.9):
        complete(observed(seed=9, shape=(13, 4), fraction=fraction)[0])
        sizes.append(_minimise._cache_size())
    assert len(set(sizes)) == 1


def test_shrink_and_norm_equal_the_decomposition(x64):
    matrix = np.random.default_rng(0).normal(size=(30, 6)) * 10.0 ** -np.arange(0, 12, 2)
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    shrunk, rank = shrink(jnp.asarray(matrix), 0.01)
    np.testing.assert_allclose(shrunk, (u * np.maximum(s - 0.01, 0)) @ v, atol=1e-12)
    assert rank == np.sum(s > 0.01)
    norm = float(nuclear_norm(jnp.asarray(matrix)))
    assert s.sum() <= norm * (1 + 1e-15) and norm <= s.sum() * (1 + 1e-13)
