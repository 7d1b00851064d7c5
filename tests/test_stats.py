"""The assertions of stats.py pass what is right, see a planted shift, and refuse to judge from too little."""

import numpy as np
import pytest
from scipy.stats import chi2

from tests.stats import assert_distribution, assert_mean_equals

MEAN = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 7.0]])
PROBABILITIES = np.array([0.4, 0.3, 0.15, 0.1, 0.03, 0.015, 0.004, 0.0009, 0.0001])


def normals(n):
    return MEAN + np.random.default_rng(0).normal(size=(n, *MEAN.shape))


def multinomial(n, p=PROBABILITIES, seed=0):
    return np.random.default_rng(seed).multinomial(n, p)


def test_mean_right():
    assert_mean_equals(normals(4000), MEAN, resolution=0.1)


def test_mean_of_scalars():
    assert_mean_equals(normals(4000)[:, 0, 0], 1.0, resolution=0.1)


@pytest.mark.parametrize("component", list(np.ndindex(MEAN.shape)))
@pytest.mark.parametrize("sign", [-1, 1])
def test_mean_shifted_in_one_component(component, sign):
    samples = normals(4000)
    samples[(slice(None), *component)] += sign * 0.2  # twice the resolution
    with pytest.raises(AssertionError, match="mean off by"):
        assert_mean_equals(samples, MEAN, resolution=0.1)


@pytest.mark.parametrize("n", [1, 5, 2000])
def test_mean_too_few_replicates(n):
    with pytest.raises(AssertionError, match="too few replicates"):
        assert_mean_equals(normals(n), MEAN, resolution=0.1)


def test_mean_refuses_nan():
    samples = normals(4000)
    samples[17, 0, 1] = np.nan
    with pytest.raises(AssertionError):
        assert_mean_equals(samples, MEAN, resolution=0.1)


def test_mean_refuses_shape_that_broadcasts():
    with pytest.raises(AssertionError, match="expected"):
        assert_mean_equals(normals(4000), MEAN[0], resolution=0.1)


def test_mean_false_alarm_rate_with_few_replicates():
    """5 replicates, 20,000 times: the t quantile keeps the stated rate (a normal one gives 8 %, not 2 %)."""
    samples = np.random.default_rng(1).normal(size=(20_000, 5))
    alarms = 0
    for replicate in samples:
        try:
            assert_mean_equals(replicate, 0.0, resolution=np.inf, false_alarm=0.02)
        except AssertionError:
            alarms += 1
    assert abs(alarms - 400) < 5 * np.sqrt(400)


def test_distribution_right():
    assert_distribution(multinomial(20_000), PROBABILITIES, resolution=0.04)


def test_distribution_of_any_shape():
    counts, p = multinomial(20_000).reshape(3, 3), PROBABILITIES.reshape(3, 3)
    assert_distribution(counts, p, resolution=0.04)


@pytest.mark.parametrize("seed", range(20))
def test_distribution_sees_the_shift_that_it_promises(seed):
    """The least visible shift of total variation `resolution`: half the mass gives to the other half."""
    n, p = 20_000, np.full(10, 0.1)
    shifted = p + np.where(np.arange(10) < 5, 0.04 / 5, -0.04 / 5)
    assert_distribution(multinomial(n, p, seed), p, resolution=0.04)
    with pytest.raises(AssertionError, match="χ²"):
        assert_distribution(multinomial(n, shifted, seed), p, resolution=0.04)


def test_distribution_sees_a_shift_into_the_bucket():
    counts = multinomial(20_000)
    counts[-1] += 40  # 2 expected, pooled with the 18 of its neighbour
    with pytest.raises(AssertionError, match="χ²"):
        assert_distribution(counts, PROBABILITIES, resolution=0.04)


def test_distribution_sees_a_draw_in_a_cell_without_mass():
    counts, p = np.append(multinomial(20_000), 1), np.append(PROBABILITIES, 0.0)
    with pytest.raises(AssertionError, match="without mass"):
        assert_distribution(counts, p, resolution=0.04)


@pytest.mark.parametrize("n", [10, 100, 2000])
def test_distribution_too_few_replicates(n):
    with pytest.raises(AssertionError, match="too few replicates"):
        assert_distribution(multinomial(n), PROBABILITIES, resolution=0.04)


def test_distribution_pooled_mass_counts_against_the_resolution():
    """1000 cells of 1/2000 in one bucket: half of the law is not looked at, whatever χ² says."""
    p = np.append(np.full(1000, 1 / 2000), 0.5)
    with pytest.raises(AssertionError, match="too few replicates"):
        assert_distribution(multinomial(10_000, p), p, resolution=0.4)


def test_distribution_refuses_what_is_not_a_law():
    with pytest.raises(AssertionError, match="not probabilities"):
        assert_distribution(multinomial(20_000), 2 * PROBABILITIES, resolution=0.04)


def test_distribution_false_alarm_rate():
    """At the smallest expected counts that are not pooled the χ² tail is still of the stated order."""
    n, p = 200, np.full(20, 1 / 20)
    counts = np.random.default_rng(2).multinomial(n, p, size=200_000)
    statistics = np.sum((counts - n * p) ** 2 / (n * p), axis=1)
    alarms = np.mean(statistics > chi2.isf(1e-4, 19))
    assert alarms < 4e-4
