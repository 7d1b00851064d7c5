"""Combinations of V and its variates: range, least squares, and what they do to the mean."""

import numpy as np

from hamq.certificates.fresh import Seen
from hamq.certificates.integrand import Integrand, bounded, joined, regressed
from hamq.solution import Cost

NO_COST = Cost(0, 0, 0)
DIMENSION = 2


def sums(num, seed=0, noise=0.0):
    """V = x + y with x, y standard normal: E[V | y] + E[V | x] = y + x; and one Stein function, x² − 1."""
    rng = np.random.default_rng(seed)
    x, y, rest = rng.normal(size=(3, 1, num))
    plain = x + y + 0.3 * (x**2 - 1) + noise * rest
    return Seen((plain)[:, None], (x + y + 0.3 * (x**2 - 1))[:, None], (x**2 - 1)[:, None], None, NO_COST)


def test_averages_of_conditional_expectations_stay_in_the_range():
    rng = np.random.default_rng(0)
    plain = rng.uniform(-1, 1, (3, 2, 50))
    conditional = rng.uniform(-1, 1, (2, 3, 2, 50)).sum(axis=0)
    f = bounded(3, 1 / DIMENSION).values(Seen(plain, conditional, None, None, NO_COST), DIMENSION)
    np.testing.assert_allclose(f, conditional / DIMENSION, atol=1e-12)
    np.testing.assert_array_equal(bounded(3, 0.0).values(Seen(plain, conditional, None, None, NO_COST), 2), plain)


def test_least_squares_take_out_what_is_known():
    """All of V but the noise: on draws that nothing was chosen with, too, and the mean stays 0."""
    found = regressed(sums(400, noise=0.1), DIMENSION)
    fresh = sums(20_000, seed=1, noise=0.1)
    f = found.values(fresh, DIMENSION)[0, 0]
    assert f.std() < 0.15 * fresh.plain.std()
    assert abs(f.mean()) < 5 * f.std() / np.sqrt(20_000)


def test_constants_and_missing_variates_are_left_alone():
    seen = sums(100)
    constant = seen._replace(plain=np.ones((1, 1, 100)))
    np.testing.assert_allclose(regressed(constant, DIMENSION).mixed, 0, atol=1e-9)
    alone = regressed(seen._replace(conditional=None, stein=None), DIMENSION)
    np.testing.assert_array_equal(alone.values(seen._replace(conditional=None, stein=None), DIMENSION), seen.plain)


def test_blocks_are_joined_in_their_order():
    parts = tuple(Integrand(np.full(n, float(n)), np.full((n, 2), 10.0 * n)) for n in (1, 2))
    whole = joined(parts)
    np.testing.assert_array_equal(whole.mixed, [1, 2, 2])
    np.testing.assert_array_equal(whole.of(np.asarray([2, 0])).stein, [[20, 20], [10, 10]])
    assert joined((bounded(2, 0.5), bounded(1, 0.5))).stein is None
