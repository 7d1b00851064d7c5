import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.completion.completion import Observed
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.completion.soft_impute import SoftImpute, held_out, lambda_max
from tests.completion.posed import observed, optimum, zeros


def objective(data, q, penalty):
    return 0.5 * np.sum((q - data.values)[data.mask] ** 2) + penalty * np.linalg.norm(q, "nuc")


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
def test_equals_cvxpy(share):
    data, _ = observed(seed=1, noise=0.3)
    penalty = share * lambda_max(data)
    expected, value = optimum(data, penalty)
    done = SoftImpute(penalty=penalty, tolerance=1e-8, unidentified="zero").complete(data, zeros(data))
    np.testing.assert_allclose(done.q, expected, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(objective(data, done.q, penalty), value, rtol=1e-5)


@pytest.mark.parametrize("max_iterations", [10, 20, 40])
def test_gap_bounds_how_far_the_objective_is_above_the_optimum(max_iterations):
    data, _ = observed(seed=2, noise=0.3, fraction=0.3)
    penalty = 0.003 * lambda_max(data)
    method = SoftImpute(penalty=penalty, max_iterations=max_iterations, tolerance=1e-9)
    done = method.complete(data, zeros(data))
    reached = objective(data, done.q, penalty)
    excess = (reached - optimum(data, penalty)[1]) / reached
    assert not done.converged and 1e-6 < excess <= done.gap


@given(seed=st.integers(0, 1000), share=st.sampled_from([0.9, 0.3, 0.05]))
@settings(max_examples=15)
def test_optimality_conditions(seed, share):
    data, _ = observed(seed=seed, shape=(12, 5), noise=0.5)
    penalty = share * lambda_max(data)
    done = SoftImpute(penalty=penalty, tolerance=1e-10).complete(data, zeros(data))
    rest = np.where(data.mask, data.values - done.q, 0.0)
    # P_Ω(Y − X) is λ times a subgradient of the norm at X: no longer than λ, and aligned with X.
    assert np.linalg.norm(rest, 2) <= penalty * (1 + 1e-4)
    np.testing.assert_allclose(np.sum(rest * done.q), penalty * np.linalg.norm(done.q, "nuc"), rtol=1e-4)


def test_lambda_max_is_where_the_table_becomes_zero():
    data, _ = observed(seed=3)
    largest = lambda_max(data)
    np.testing.assert_allclose(largest, np.linalg.norm(np.where(data.mask, data.values, 0), 2), rtol=1e-12)
    above = SoftImpute(penalty=1.0001 * largest).complete(data, zeros(data))
    assert not above.q.any() and above.rank == 0 and above.converged
    below = SoftImpute(penalty=0.999 * largest).complete(data, zeros(data))
    assert below.q.any() and below.rank == 1


def test_small_penalties_approach_the_nuclear_norm():
    data, _ = observed(seed=4, fraction=0.7)
    limit = NuclearNorm().complete(data, zeros(data)).q
    errors = []
    for share in (1e-2, 1e-3, 1e-4):
        done = SoftImpute(penalty=share * lambda_max(data), max_iterations=20_000).complete(data, zeros(data))
        errors.append(np.linalg.norm(done.q - limit) / np.linalg.norm(limit))
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_chosen_penalty_beats_the_exact_fit_on_a_noisy_table(seed):
    data, table = observed(seed=seed, shape=(200, 10), rank=1, fraction=0.6, level=0.0, noise=0.5)
    chosen = SoftImpute().complete(data, zeros(data))
    exact = NuclearNorm().complete(data, zeros(data))
    errors = [np.linalg.norm(done.q - table) for done in (chosen, exact)]
    assert errors[0] < 0.8 * errors[1]
    assert "held-out entries" in chosen.result and chosen.converged and chosen.residual > 0
    given_penalties = np.asarray([0.3, 0.1, 0.01, 1e-3]) * lambda_max(data)
    others = [SoftImpute(penalty=penalty).complete(data, zeros(data)).q for penalty in given_penalties]
    assert errors[0] <= 1.3 * min(np.linalg.norm(q - table) for q in others)


def test_without_noise_the_smallest_penalty_of_the_path_is_chosen_and_said_so():
    data, table = observed(seed=5, shape=(200, 10), rank=1, level=0.0, fraction=0.7)
    done = SoftImpute().complete(data, zeros(data))
    assert "the smallest tried" in done.result
    np.testing.assert_allclose(done.q, table, atol=1e-2 * np.abs(table).max())


def test_warm_start_equals_cold_start_and_helps():
    data, _ = observed(seed=6, noise=0.2)
    method = SoftImpute(penalty=0.01 * lambda_max(data), tolerance=1e-8)
    cold = method.complete(data, zeros(data))
    warm = method.complete(data, zeros(data), cold.memory)
    np.testing.assert_allclose(warm.q, cold.q, atol=1e-5)
    assert warm.iterations < cold.iterations


@given(seed=st.integers(0, 10_000), fraction=st.floats(0.0, 1.0))
@settings(max_examples=50)
def test_held_out_entries_leave_every_row_and_column_one(seed, fraction):
    mask = np.random.default_rng(seed).random((12, 5)) < fraction
    out = held_out(mask)
    assert not (out & ~mask).any()
    np.testing.assert_array_equal((mask & ~out).any(axis=1), mask.any(axis=1))
    np.testing.assert_array_equal((mask & ~out).any(axis=0), mask.any(axis=0))


def test_a_fifth_is_held_out_even_of_masks_drawn_with_seed_zero():
    mask = np.random.default_rng(0).random((500, 10)) < 0.5
    assert 0.1 < held_out(mask).sum() / mask.sum() < 0.25


@given(scale=st.sampled_from([1e-100, 3e-5, -7.0, 1e100]))
@settings(max_examples=4)
def test_scale_and_transpose_carry_over(scale):
    data, _ = observed(seed=7, shape=(12, 5), noise=0.3)
    expected = SoftImpute(penalty=0.1).complete(data, zeros(data)).q
    done = SoftImpute(penalty=0.1 * abs(scale)).complete(Observed(scale * data.values, data.mask), zeros(data))
    np.testing.assert_allclose(done.q / scale, expected, atol=1e-6)
    turned = Observed(data.values.T, data.mask.T)
    np.testing.assert_allclose(SoftImpute(penalty=0.1).complete(turned, zeros(turned)).q.T, expected, atol=1e-6)
