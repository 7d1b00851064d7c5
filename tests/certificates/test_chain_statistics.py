"""R̂ and effective numbers: those of ArviZ on chains of all kinds, limits that good chains keep, and what constants mean."""

import numpy as np
import pytest
from scipy.stats import binom

from hamq.certificates.chain_statistics import (
    bulk_ess,
    chain_statistics,
    disagreement,
    rhat_by_chance,
    split_rhat,
    tail_ess,
)


def autoregressive(correlation: float, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    """Stationary chains x_t = φ·x_{t−1} + noise, whose τ is (1 + φ)/(1 − φ)."""
    rng = np.random.default_rng(seed)
    x = np.empty(shape)
    x[..., 0] = rng.normal(size=shape[:2])
    for t in range(1, shape[2]):
        x[..., t] = correlation * x[..., t - 1] + np.sqrt(1 - correlation**2) * rng.normal(size=shape[:2])
    return x


def shifted(shape=(6, 4, 60)) -> np.ndarray:
    """One chain of each pair is elsewhere, by more and more."""
    x = np.random.default_rng(1).normal(size=shape)
    x[:, 0] += np.linspace(0.1, 8, shape[0])[:, None]
    return x


def widened(shape=(6, 4, 60)) -> np.ndarray:
    """One chain has the same mean and another spread: only folded values show it."""
    x = np.random.default_rng(2).normal(size=shape)
    x[:, 0] *= np.linspace(1.5, 20, shape[0])[:, None]
    return x


def drifting(shape=(4, 3, 61)) -> np.ndarray:
    """All chains move alike: whole ones agree, halves do not."""
    return np.random.default_rng(3).normal(size=shape) + np.linspace(0, 3, shape[2])


def heavy_tailed(shape=(5, 4, 40)) -> np.ndarray:
    return np.random.default_rng(4).standard_cauchy(shape)


def apart(shape=(3, 4, 20)) -> np.ndarray:
    """Chains that never moved, each at its own place."""
    return np.broadcast_to(np.arange(shape[1], dtype=float)[:, None], shape).copy()


def rarely_elsewhere(shape=(6, 4, 50)) -> np.ndarray:
    """V of a cell, and of its neighbour now and then."""
    return (np.random.default_rng(5).random(shape) < np.linspace(0.01, 0.2, shape[0])[:, None, None]).astype(float)


CHAINS = {
    "independent": np.random.default_rng(0).normal(size=(8, 4, 50)),
    "odd": np.random.default_rng(6).normal(size=(8, 3, 51)),
    "two-chains": np.random.default_rng(7).normal(size=(8, 2, 100)),
    "shortest": np.random.default_rng(9).normal(size=(8, 4, 4)),
    "short": np.random.default_rng(10).normal(size=(8, 4, 11)),
    "correlated": np.concatenate([autoregressive(phi, (4, 4, 200)) for phi in (-0.9, -0.3, 0.5, 0.95)]),
    "shifted": shifted(),
    "widened": widened(),
    "drifting": drifting(),
    "heavy-tailed": heavy_tailed(),
    "few-values": np.round(autoregressive(0.5, (8, 4, 100), seed=11)),
    "two-values": np.random.default_rng(12).integers(0, 2, (8, 4, 60)).astype(float),
    "rarely-elsewhere": rarely_elsewhere(),
    "apart": apart(),
    "far-from-0": 1e6 + autoregressive(0.3, (4, 4, 80), seed=13),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_numbers_are_those_of_arviz(kind):
    arviz = pytest.importorskip("arviz_stats.base").array_stats
    values = CHAINS[kind]
    found = chain_statistics(values)
    with np.errstate(divide="ignore", invalid="ignore"):  # of chains that are constant each
        rhat = arviz.rhat(values, chain_axis=1, draw_axis=2, method="rank")
    bulk = arviz.ess(values, chain_axis=1, draw_axis=2, method="bulk")
    tail = arviz.ess(values, chain_axis=1, draw_axis=2, method="tail", prob=(0.05, 0.95))
    np.testing.assert_allclose(found.bulk_ess, bulk, rtol=1e-6)
    np.testing.assert_allclose(found.tail_ess, tail, rtol=1e-6)
    if kind == "apart":  # there W is 0; ArviZ has it by rounding
        assert np.all(found.rhat == np.inf) and np.all(rhat > 1e6)
    else:
        np.testing.assert_allclose(found.rhat, rhat, rtol=1e-6)


def test_constant_values_are_no_alarm():
    """ArviZ has the same effective numbers, and NaN for R̂."""
    values = np.full((2, 4, 25), 0.1)
    values[1] = np.random.default_rng(0).normal(size=(4, 25))
    found = chain_statistics(values)
    assert (found.rhat[0], found.bulk_ess[0], found.tail_ess[0], found.disagreement[0]) == (1, 96, 96, 0)
    assert np.isfinite(found).all() and found.rhat[1] != 1
    arviz = pytest.importorskip("arviz_stats.base").array_stats
    with np.errstate(invalid="ignore"):
        assert arviz.ess(values[0], method="bulk") == 96 and np.isnan(arviz.rhat(values[0], method="rank"))


def test_chains_that_disagree_have_no_worth():
    """A chain at a mode of its own, one that is wider, and chains that drift together: each by what should see it."""
    far, wide, moving = chain_statistics(shifted()), chain_statistics(widened()), chain_statistics(drifting())
    assert far.rhat[-1] > 1.5 and far.bulk_ess[-1] < 20 and far.disagreement[-1] > 1.5
    assert wide.rhat[-1] > 1.2 and wide.tail_ess[-1] < 50 and wide.disagreement[-1] < 1
    assert np.all(moving.rhat > 1.1) and np.all(moving.disagreement < 1)
    assert np.all(chain_statistics(CHAINS["independent"]).rhat < 1.06)


def test_disagreement_is_the_range_of_the_means():
    values = np.asarray([[[0.0, 0, 0, 0], [1, 1, 1, 1]], [[0, 2, 0, 2], [1, 3, 1, 3]]])
    np.testing.assert_allclose(disagreement(values), [2, 1 / np.sqrt(1.25)])
    whole = disagreement(values.astype(np.int32))
    np.testing.assert_allclose(whole, [2, 1 / np.sqrt(1.25)])


def test_scale_does_not_matter():
    """Ranks only. The two values beside the median are equally far from it, but for rounding: hence 1e-3."""
    values = CHAINS["correlated"]
    np.testing.assert_allclose(bulk_ess(np.exp(values)), bulk_ess(values))
    np.testing.assert_allclose(split_rhat(3 - 1e-3 * values), split_rhat(values), rtol=1e-3)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_limit_of_rhat_has_its_false_alarm_rate(correlation):
    """600 pairs whose draws are worth what is said: at most 5 % are beyond the limit, up to chance (probability 1e-6)."""
    num, chains, draws, rate = 600, 4, 200, 0.05
    values = autoregressive(correlation, (num, chains, draws), seed=14)
    effective = chains * draws * (1 - correlation) / (1 + correlation)
    limit = rhat_by_chance(chains, draws, effective, 1, rate)
    beyond = int(np.sum(split_rhat(values) > limit))
    assert beyond <= binom.isf(1e-6, num, rate)
    assert beyond >= 3, "a limit that is never exceeded is too high to see anything"
    assert limit < rhat_by_chance(chains, draws, effective, 1000, rate)
    assert limit < rhat_by_chance(chains, draws, effective / 2, 1, rate)


def test_short_chains_are_refused():
    for statistic in (split_rhat, bulk_ess, tail_ess, disagreement):
        with pytest.raises(ValueError, match="at least 4 draws each, got 3; raise num_samples"):
            statistic(np.zeros((1, 2, 3)))
