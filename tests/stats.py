"""Assertions about random numbers, with a stated false-alarm rate, that also fail when they are too weak.

Both take INDEPENDENT replicates (vmap over keys, one number or one cell from each), so that no effective
sample size has to be estimated. `resolution` is the smallest error that the test must be able to see: too few
replicates fail.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2, t

MIN_EXPECTED = 10  # cells with fewer expected counts are pooled: χ² is an approximation for many counts
MISS_RATE = 0.01  # a shift of the size `resolution` goes unseen with at most this probability


def assert_mean_equals(samples, expected, *, resolution, false_alarm=1e-6):
    """Every component of the mean of `samples` (n independent replicates on axis 0) equals `expected`.

    The bound is z standard errors, two-sided, Bonferroni over the components; z from Student's t because the
    standard error is estimated.
    """
    samples = np.asarray(samples, dtype=np.float64)
    expected = np.asarray(expected, dtype=np.float64)
    n, m = samples.shape[0], samples[0].size
    assert expected.shape in ((), samples.shape[1:]), f"expected {expected.shape}, got {samples.shape[1:]}"
    assert n > 1, "too few replicates: one has no standard error"
    z = t.isf(false_alarm / (2 * m), n - 1)
    bound = z * samples.std(axis=0, ddof=1) / math.sqrt(n)
    assert np.all(bound <= resolution), f"too few replicates: sees only shifts above {bound}"
    shift = np.abs(samples.mean(axis=0) - expected)
    assert np.all(shift <= bound), f"mean off by {shift}, allowed {bound} (n={n}, z={z:.2f})"


def assert_distribution(counts, expected_probabilities, *, resolution, false_alarm=1e-6):
    """`counts` of n independent replicates in cells follow `expected_probabilities` (Pearson's χ²).

    Cells that expect fewer than 10 counts share one bucket (with the rarest other cell if it expects < 10).
    Fails as too weak unless a shift from p to q of total variation δ = `resolution` is seen with probability
    ≥ 0.99. With Σ|q−p| = 2δ the noncentrality n Σ(q−p)²/p is at least 4nδ² (half the mass gives to the rest).
    The pooled mass is taken off δ first, because shifts within the bucket are invisible.
    Counts are Poisson-like, not normal: in the worst case (two cells, one expecting 10) 1e-6 is really 2e-5.
    """
    counts = np.asarray(counts, dtype=np.float64).ravel()
    p = np.asarray(expected_probabilities, dtype=np.float64).ravel()
    assert counts.shape == p.shape, f"{counts.size} counts for {p.size} probabilities"
    assert np.all(p >= 0) and abs(p.sum() - 1) < 1e-5, f"not probabilities: they sum to {p.sum()}"
    n, p = counts.sum(), p / p.sum()
    assert not np.any(counts[p == 0]), f"draws in cells without mass: {np.flatnonzero((p == 0) & (counts > 0))}"

    counts, p, pooled = _pool(counts, p, n)
    dof = p.size - 1
    assert dof >= 1, f"too few replicates: n={n:.0f} leaves one cell with {MIN_EXPECTED} expected counts"
    critical = chi2.isf(false_alarm, dof)
    visible = pooled + math.sqrt(_visible_noncentrality(critical, dof) / (4 * n))
    assert visible <= resolution, f"too few replicates: sees only total variations above {visible:.3g}"

    statistic = np.sum((counts - n * p) ** 2 / (n * p))
    found = 0.5 * np.sum(np.abs(counts / n - p))
    assert statistic <= critical, (
        f"χ² = {statistic:.1f}, allowed {critical:.1f} (n={n:.0f}, {dof + 1} cells, TV {found:.3g})"
    )


def _pool(counts, p, n):
    """Counts and probabilities with the rare cells in one bucket, and its mass (0 if nothing is pooled)."""
    order = np.argsort(p, kind="stable")
    counts, p = counts[order], p[order]
    rare = int(np.searchsorted(n * p, MIN_EXPECTED))  # the first `rare` cells expect too few
    if rare and n * p[:rare].sum() < MIN_EXPECTED:
        rare += 1
    if not rare:
        return counts, p, 0.0
    bucket = slice(0, rare)
    counts = np.concatenate([[counts[bucket].sum()], counts[rare:]])
    return counts, np.concatenate([[p[bucket].sum()], p[rare:]]), p[bucket].sum()


def _visible_noncentrality(critical, dof):
    """The noncentrality whose χ² exceeds `critical` with probability 1 − MISS_RATE."""

    def excess(noncentrality):
        return ncx2.cdf(critical, dof, noncentrality) - MISS_RATE

    return brentq(excess, 1e-3, 10 * (critical + 100))
