"""The bound on a quantile: its rank by the definition, its coverage by simulation."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from hamq.certificates.partial import quantile_bound


@pytest.mark.parametrize(
    ("n", "share", "confidence"), [(90, 0.05, 0.99), (1000, 0.05, 0.99), (40, 0.2, 0.8), (500, 0.5, 0.5)]
)
def test_smallest_rank_that_has_the_confidence(n, share, confidence):
    values = np.random.default_rng(0).permutation(n).astype(float)
    below = int(quantile_bound(values, share=share, confidence=confidence))  # = rank − 1
    assert binom.cdf(below, n, 1 - share) >= confidence > binom.cdf(below - 1, n, 1 - share)


def test_too_few_draws_say_nothing():
    """1 − 0.95ⁿ ≥ 0.99 from n = 90 on."""
    assert math.isinf(quantile_bound(np.arange(89.0)))
    assert quantile_bound(np.arange(90.0)) == 89
    assert math.isinf(quantile_bound([]))


def test_coverage():
    """4,000 samples of 60 exponential draws: coverage is that of the binomial; false alarm 1e-6 (4.9 standard errors)."""
    samples = np.random.default_rng(1).exponential(size=(4000, 60))
    quantile = -math.log(0.1)
    covered = np.mean([quantile_bound(sample, share=0.1, confidence=0.9) >= quantile for sample in samples])
    expected = binom.cdf(binom.ppf(0.9, 60, 0.9), 60, 0.9)
    assert abs(covered - expected) <= 4.9 * math.sqrt(expected * (1 - expected) / 4000)
    assert covered > 0.9


def test_refusals(as_user):
    with pytest.raises(ValueError, match="finite numbers"):
        quantile_bound([1.0, np.nan])
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got 1"):
        quantile_bound([1.0], confidence=1)
