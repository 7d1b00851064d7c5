"""The interquartile mean against scipy and by hand; intervals against simulated runs whose truth is known."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from hamq.control import statistics
from hamq.control.statistics import bootstrap_interval, difference_interval, interquartile_mean


def normals(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("n", [4, 8, 20])
def test_equals_trimmed_mean_where_quarters_are_whole(n):
    values = normals(0, n, 3)
    assert interquartile_mean(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25, axis=0), rel=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0], 2.0),
        ([0.0, 1.0, 5.0], (0.25 * 0 + 1 * 1 + 0.25 * 5) / 1.5),
        ([9.0, 0.0, 1.0, 2.0, 100.0], (0.75 * 1 + 1 * 2 + 0.75 * 9) / 2.5),
        ([5, 4, 3, 2, 1, 0], (0.5 * 1 + 2 + 3 + 0.5 * 4) / 3),
    ],
)
def test_by_hand(values, expected):
    found = interquartile_mean(values)
    assert isinstance(found, float) and found == pytest.approx(expected, rel=1e-12)


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=13), st.sampled_from([0.5, 2.0, 8.0]), st.integers(-1000, 1000)
)
def test_moves_with_shift_and_scale(values, factor, shift):
    runs = np.array(values, float)
    found = interquartile_mean(factor * runs + shift)
    assert found == pytest.approx(factor * interquartile_mean(runs) + shift, rel=1e-9, abs=1e-9)
    assert interquartile_mean(-runs) == pytest.approx(-interquartile_mean(runs), rel=1e-9, abs=1e-9)
    assert runs.min() - 1e-9 <= interquartile_mean(runs) <= runs.max() + 1e-9


def test_one_failed_run_of_eight_counts_nothing():
    runs = normals(1, 8)
    failed = np.where(runs == runs.max(), 1e9, runs)
    assert interquartile_mean(failed) == interquartile_mean(runs)


def test_axis():
    values = normals(2, 5, 4, 3)
    assert np.allclose(interquartile_mean(values, axis=1), interquartile_mean(np.moveaxis(values, 1, 0)))


# 2,000 independent experiments; the share that covers lies within z·sqrt(p(1−p)/2000) of what was measured on 40,000,
# with a false-alarm rate of 1e-6 (z = 4.9).
@pytest.mark.parametrize(("n", "expected"), [(5, 0.90), (10, 0.93), (20, 0.94)])
def test_coverage(n, expected):
    low, high = bootstrap_interval(normals(3, n, 2000), num=1000)
    covered = np.mean((low <= 0) & (high >= 0))
    assert abs(covered - expected) <= 4.9 * np.sqrt(expected * (1 - expected) / 2000)


def test_interval_moves_with_shift_and_scale():
    values = normals(4, 10)
    low, high = bootstrap_interval(values)
    moved = bootstrap_interval(3 * values + 5)
    assert low < interquartile_mean(values) < high
    assert moved == pytest.approx((3 * low + 5, 3 * high + 5))


def test_curves_have_an_interval_per_point(monkeypatch):
    values = normals(5, 6, 4)
    low, high = bootstrap_interval(values, num=300)
    assert low.shape == high.shape == (4,)
    for point in range(4):
        assert bootstrap_interval(values[:, point], num=300) == pytest.approx((low[point], high[point]))
    monkeypatch.setattr(statistics, "MAX_RESAMPLED", 100)  # a few resamples at a time
    assert np.allclose(bootstrap_interval(values, num=300), (low, high), rtol=1e-12)


def test_deterministic_with_a_seed():
    values = normals(6, 7)
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values)


def test_level_and_statistic():
    values = normals(7, 12)
    narrow, wide = bootstrap_interval(values, level=0.5), bootstrap_interval(values, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    low, high = bootstrap_interval(values, statistic=np.mean)
    assert abs((high - low) / (2 * 1.96 * values.std() / np.sqrt(12)) - 1) < 0.1


def test_difference_sees_a_shift_of_pairs_that_unpaired_runs_hide():
    common = 10 * normals(8, 10)
    a, b = common + 0.5 + 0.1 * normals(9, 10), common
    low, high = difference_interval(a, b, paired=True)
    assert 0 < low < 0.5 < high
    unpaired = difference_interval(a, b)
    assert unpaired[0] < 0 < unpaired[1]


def test_unpaired_difference_covers():
    """1,500 experiments, 8 against 12 runs: at least 90 % less 4.9 standard errors."""
    low, high = difference_interval(normals(10, 8, 1500) + 1, normals(11, 12, 1500), num=500)
    assert np.mean((low <= 1) & (high >= 1)) >= 0.9 - 4.9 * np.sqrt(0.09 / 1500)
    assert np.mean((low <= 0) & (high >= 0)) < 0.6  # 2.2 standard errors away from the truth


def test_log_ratio():
    a, b = np.exp(normals(12, 9)), np.exp(normals(13, 9))
    low, high = difference_interval(a, b, scale="log_ratio")
    assert low < np.log(interquartile_mean(a) / interquartile_mean(b)) < high
    assert difference_interval(20 * a, 10 * b, scale="log_ratio") == pytest.approx((low + np.log(2), high + np.log(2)))
    assert difference_interval(a, b, scale="log_ratio", paired=True) == pytest.approx(
        tuple(-x for x in reversed(difference_interval(b, a, scale="log_ratio", paired=True)))
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: interquartile_mean([]), "at least one run is needed"),
        (lambda: interquartile_mean(3.0), "at least one run is needed"),
        (lambda: interquartile_mean([1.0, np.nan]), r"must be finite, got nan at \(1,\)"),
        (lambda: bootstrap_interval([[1.0], [np.inf]]), r"must be finite, got inf at \(1, 0\)"),
        (lambda: bootstrap_interval([1.0]), "one run says nothing"),
        (lambda: bootstrap_interval([1.0, 2.0], level=1.0), "level must be between 0 and 1"),
        (lambda: bootstrap_interval([1.0, 2.0], num=0), "num must be at least 1"),
        (lambda: difference_interval([1.0, 2.0], [1.0, 2.0, 3.0], paired=True), "as many runs of both, got 2 and 3"),
        (lambda: difference_interval([1.0, -2.0], [1.0, 2.0], scale="log_ratio"), "needs values above 0"),
        (lambda: difference_interval(np.ones((2, 3)), np.ones((2, 4))), "points of both must agree"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
