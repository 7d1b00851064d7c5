"""Whether chains agree, and what their draws are worth, by Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021).

All statistics take `[pairs, chains, draws]` and cut every chain in halves (the middle draw of an odd number is left out), so
that a chain that drifts disagrees with itself. Values are replaced by normal scores of their ranks among all N draws of
the pair, ties sharing the mean of their ranks: neither the scale nor the tails of the values matter.

    z = Φ⁻¹((rank − 3/8)/(N + 1/4))
    R̂ = √((B/W + n − 1)/n)

for m half-chains of n draws, B = n·(variance of their means), W the mean of their variances; of z, and of z made of
|x − median|, which sees chains that agree in their mean and not in their spread: the larger one counts. Draws are worth

    mn/τ,    τ = −1 + 2 Σ_{k<K} S_k + ρ_{2K},    S_k = ρ_{2k} + ρ_{2k+1},    ρ_t = 1 − (W − C_t)/(W(n − 1)/n + B/n)

independent ones, C_t the mean over the chains of the autocovariance at lag t. S_K is the first sum that is not positive, and
no sum counts for more than those before it (Geyer 1992); more than mn·log₁₀(mn) is not believed.

**Constant values**: where V is the same at all draws of a pair, which is common on a grid, there is nothing to disagree on
and nothing to estimate: R̂ is 1, draws are worth their number, the disagreement is 0. Chains that are constant each, and not
the same, have R̂ = ∞. Whether chains MOVED is another question, which values cannot answer.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Num
from scipy.fft import next_fast_len
from scipy.special import ndtri
from scipy.stats import f, rankdata

from hamq.types import HamqError

LEAST_DRAWS = 4
"""Of a chain: two in each half."""
TAILS = 0.05, 0.95
"""Quantiles whose estimates the tail ESS is about."""

Values = Num[np.ndarray, "pairs chains draws"]
PerPair = Float[np.ndarray, " pairs"]


class ChainStatistics(NamedTuple):
    """One number per pair."""

    rhat: PerPair
    bulk_ess: PerPair
    tail_ess: PerPair
    disagreement: PerPair


def chain_statistics(values: Values) -> ChainStatistics:
    return ChainStatistics(split_rhat(values), bulk_ess(values), tail_ess(values), disagreement(values))


def split_rhat(values: Values) -> PerPair:
    """R̂, rank-normalised and split: of the values or of their distances from the median, whichever is larger."""
    halves = _halves(values)
    middle = np.median(halves, axis=(1, 2), keepdims=True)
    both = np.fmax(_rhat(_scores(halves)), _rhat(_scores(np.abs(halves - middle))))
    return np.where(np.isnan(both), 1.0, both)


def bulk_ess(values: Values) -> PerPair:
    """Independent draws that estimate the mean of the normal scores as well."""
    return _effective_number(_scores(_halves(values)))


def tail_ess(values: Values) -> PerPair:
    """Independent draws that estimate the shares below the 5 % and the 95 % quantile as well; the smaller one."""
    _require_draws(values)
    low, high = np.quantile(values, TAILS, axis=(1, 2))
    sizes = [_effective_number(_halves((values <= end[:, None, None]).astype(np.float64))) for end in (low, high)]
    return np.minimum(*sizes)


def disagreement(values: Values) -> PerPair:
    """(largest − smallest mean of a chain)/(standard deviation of all draws of the pair).

    About 2.8/√n for 8 chains of n independent draws, 2.1/√n for 4; 2 for two chains that sit each at its own value.
    """
    _require_draws(values)
    x = values - values[:, :1, :1].astype(np.float64)  # constant values become exact zeros
    apart, spread = np.ptp(x.mean(axis=2), axis=1), x.std(axis=(1, 2))
    return np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)


def rhat_by_chance(num_chains: int, num_draws: int, effective: float, num_pairs: int, false_alarm: float) -> float:
    """The R̂ that the largest of `num_pairs` exceeds with probability `false_alarm`, if chains agree and draws are worth
    `effective` independent ones.

    B/W of normal scores is τ times a variable with an F distribution, nearly; two tries per pair, added up (Bonferroni).
    """
    m, n = 2 * num_chains, num_draws // 2
    effective = min(effective, m * n)
    ratio = m * n / effective * f.isf(false_alarm / (2 * num_pairs), m - 1, max(effective - m, 1))
    return float(np.sqrt((ratio + n - 1) / n))


def _require_draws(values: Values) -> None:
    if values.shape[2] < LEAST_DRAWS:
        raise HamqError(f"chains must have at least {LEAST_DRAWS} draws each, got {values.shape[2]}; raise num_samples.")


def _halves(values: Values) -> Float[np.ndarray, "pairs halves half"]:
    _require_draws(values)
    half = values.shape[2] // 2
    return np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1).astype(np.float64)


def _scores(x: Float[np.ndarray, "pairs chains draws"]) -> Float[np.ndarray, "pairs chains draws"]:
    """Φ⁻¹((rank − 3/8)/(N + 1/4)) among all draws of the pair."""
    flat = x.reshape(len(x), -1)
    return ndtri((rankdata(flat, axis=1) - 0.375) / (flat.shape[1] + 0.25)).reshape(x.shape)


def _rhat(x: Float[np.ndarray, "pairs chains draws"]) -> PerPair:
    """√((B/W + n − 1)/n); NaN where x is constant."""
    n = x.shape[2]
    between, within = n * x.mean(axis=2).var(axis=1, ddof=1), x.var(axis=2, ddof=1).mean(axis=1)
    is_constant = np.ptp(x, axis=(1, 2)) == 0
    # Half-chains that are constant each: their variances are rounding, or 0.
    within = np.where(np.ptp(x, axis=2).max(axis=1) == 0, 0, within)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(is_constant, np.nan, np.sqrt((between / within + n - 1) / n))


def _effective_number(x: Float[np.ndarray, "pairs chains draws"]) -> PerPair:
    """mn/τ; mn where x is constant."""
    _, m, n = x.shape
    covariances = _autocovariances(x)
    within, total = covariances[:, 0] * n / (n - 1), covariances[:, 0] + x.mean(axis=2).var(axis=1, ddof=1)
    is_constant = np.ptp(x, axis=(1, 2)) == 0
    rho = 1 - (within[:, None] - covariances) / np.where(is_constant, 1, total)[:, None]
    rho[:, 0] = 1
    sums = rho[:, 0 : n - n % 2 : 2] + rho[:, 1::2]
    # As many whole sums as are positive; the last lags have too few terms to be looked at.
    count = np.minimum(np.logical_and.accumulate(sums > 0, axis=1).sum(axis=1), max(0, (n - 3) // 2))
    counted = np.where(np.arange(sums.shape[1]) < count[:, None], np.minimum.accumulate(sums, axis=1), 0).sum(axis=1)
    row = np.arange(len(x))
    last, last_sum = rho[row, 2 * count], sums[row, count]
    time = -1 + 2 * counted + np.where((last > 0) | (last_sum >= 0), last, 0)
    return np.where(is_constant, m * n, m * n / np.maximum(time, 1 / np.log10(m * n)))


def _autocovariances(x: Float[np.ndarray, "pairs chains draws"]) -> Float[np.ndarray, "pairs draws"]:
    """(1/n) Σ_i (x_i − x̄)(x_{i+t} − x̄) for t = 0 … n − 1, x̄ the chain's own mean, averaged over the chains."""
    n = x.shape[2]
    size = next_fast_len(2 * n, real=True)
    spectrum = np.fft.rfft(x - x.mean(axis=2, keepdims=True), size, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    return np.fft.irfft(power, size, axis=1)[:, :n] / n
