import numpy as np
import pytest

from hamq.completion.completion import Observed
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.completion.soft_impute import SoftImpute
from tests.completion.posed import observed, zeros

METHODS = [NuclearNorm, lambda **options: SoftImpute(penalty=0.1, **options)]
SHAPE = (12, 5)


@pytest.mark.parametrize("method", METHODS)
def test_rows_and_columns_without_observation_follow_the_policy(method):
    data, _ = observed(shape=SHAPE, empty_rows=(0, 7), empty_columns=(2,))
    previous = np.random.default_rng(1).normal(size=SHAPE)
    kept = method().complete(data, previous)
    gone = method(unidentified="zero").complete(data, previous)
    is_empty = np.zeros(SHAPE, bool)
    is_empty[[0, 7]] = is_empty[:, 2] = True
    np.testing.assert_array_equal(kept.q[is_empty], previous[is_empty])
    assert not gone.q[is_empty].any()
    np.testing.assert_array_equal(kept.q[~is_empty], gone.q[~is_empty])
    assert kept.num_unidentified == gone.num_unidentified == 2
    assert "2 states and 1 actions had no observation and kept their values." in kept.result
    assert "2 states and 1 actions had no observation and are 0." in gone.result
    assert kept.q.dtype == np.float64
    with pytest.raises(ValueError, match="2 states and 1 actions had no observation, the first of them state 0; observe"):
        method(unidentified="error").complete(data, previous)
    with pytest.raises(ValueError, match="0 states and 1 actions had no observation, the first of them action 2"):
        method(unidentified="error").complete(observed(shape=SHAPE, empty_columns=(2,))[0], previous)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_row_held_before_does_not_matter_once_it_is_empty(method):
    first, _ = observed(shape=SHAPE, fraction=0.9)
    memory = method().complete(first, zeros(first)).memory
    data, _ = observed(shape=SHAPE, fraction=0.9, empty_rows=(3,), empty_columns=(1,))
    warm = method(unidentified="zero").complete(data, zeros(data), memory)
    assert not warm.memory[0][3].any() and np.abs(warm.memory[0][:, 1]).max() < 1e-12
    np.testing.assert_allclose(warm.q, method(unidentified="zero").complete(data, zeros(data)).q, atol=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_residual_is_the_largest_misfit_on_the_mask(method):
    data, _ = observed(shape=SHAPE)
    done = method().complete(data, zeros(data))
    misfit = np.abs(done.q - data.values)[data.mask].max() / np.abs(data.values)[data.mask].max()
    np.testing.assert_allclose(done.residual, misfit, atol=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_values_off_the_mask_are_not_looked_at(method):
    data, _ = observed(shape=SHAPE)
    other = Observed(np.where(data.mask, data.values, 1e9), data.mask)
    np.testing.assert_array_equal(method().complete(data, zeros(data)).q, method().complete(other, zeros(data)).q)


def refuse(data, match, previous=None, memory=(), method=None):
    with pytest.raises(ValueError, match=match):
        (method or NuclearNorm()).complete(data, zeros(data) if previous is None else previous, memory)


def test_refusals_of_data(as_user):
    data, _ = observed(shape=SHAPE, empty_rows=(3,))
    values, mask = data
    refuse(Observed(values, mask.astype(int)), r"mask must be boolean, got dtype int64; write mask\.astype\(bool\)")
    refuse(Observed(values[:-1], mask), r"one shape \[S, A\], got \(11, 5\), \(12, 5\) and \(12, 5\)")
    refuse(Observed(values[0], mask[0]), r"one shape \[S, A\], got \(5,\)")
    refuse(data, r"one shape \[S, A\], got .* and \(5, 12\)", previous=zeros(data).T)
    refuse(Observed(values, np.zeros_like(mask)), r"mask of shape \(12, 5\) has no observed entry")
    refuse(Observed(values[:0], mask[:0]), r"mask of shape \(0, 5\) has no observed entry")
    broken = values.copy()
    broken[4, 4] = np.inf
    refuse(Observed(broken, mask), r"Observed.values must be finite where it is used, got inf at state 4, action 4 \(1 such")
    refuse(
        data,
        r"previous must be finite where it is used, got nan at state 3, action 0 \(5 such",
        previous=np.full(SHAPE, np.nan),
    )
    NuclearNorm(unidentified="zero").complete(data, np.full(SHAPE, np.nan))


def test_refusals_of_memory(as_user):
    data, _ = observed(shape=SHAPE)
    table = zeros(data)
    refuse(data, r"memory must be \(\) or 2 finite tables of shape \(12, 5\), got shapes \[\(12, 5\)\]", memory=(table,))
    refuse(data, r"memory must be .* got shapes \[\(5, 12\), \(5, 12\)\]", memory=(table.T, table.T))
    refuse(data, "memory must be .* finite", memory=(table, table + np.nan))
    refuse(data, r"memory must be \(\) or 1 finite", memory=(table, table), method=SoftImpute(penalty=1.0))


@pytest.mark.parametrize("name, method", [("NuclearNorm", NuclearNorm), ("SoftImpute", SoftImpute)])
def test_refusals_of_settings(as_user, name, method):
    for tolerance in (0.0, 1.0, -1e-3, np.nan):
        with pytest.raises(ValueError, match=rf"{name}: tolerance must lie between 0 and 1 .* got {tolerance}"):
            method(tolerance=tolerance)
    for iterations in (0, 2.5, True):
        with pytest.raises(ValueError, match=rf"{name}: max_iterations must be an integer of at least 1, got {iterations}"):
            method(max_iterations=iterations)
    with pytest.raises(ValueError, match=rf"{name}: unidentified must be one of keep, zero, error, got 'drop'"):
        method(unidentified="drop")


def test_refusals_of_penalties(as_user):
    for penalty in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(
            ValueError, match=f"SoftImpute: penalty must be positive and finite, got {penalty}; None chooses"
        ):
            SoftImpute(penalty=penalty)
    mask = np.eye(5, dtype=bool)
    refuse(Observed(np.ones((5, 5)), mask), "no row and column with an entry to spare", method=SoftImpute())
