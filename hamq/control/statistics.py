"""One number for several seeds, and how sure it is: the interquartile mean with bootstrap intervals.

With n runs in order x₍₁₎ ≤ … ≤ x₍ₙ₎ the interquartile mean is the mean of their middle half,

    IQM = (2/n) Σᵢ wᵢ x₍ᵢ₎,    wᵢ = length of [i−1, i] ∩ [n/4, 3n/4],

so that a run on the edge of the half counts in part (Agarwal et al. 2021 with the cut made exact). It is the 25 % trimmed
mean where 4 divides n, the mean of both where n = 2 and the run itself where n = 1. One seed that failed does not move it
without bound, as it does a mean, and it uses more of the runs than a median.

The interval is the percentile bootstrap: seeds are drawn again with replacement, `num` times. It is too narrow for few
seeds: on normal runs a nominal 95 % covers about 75 % with 3 seeds, 90 % with 5, 93 % with 10 and 94 % with 20
(`test_statistics.py` measures it).

Seeds are on axis 0 everywhere; what comes after it (the points of a curve `[seeds, points]`) keeps its shape, with one
interval per point, not one for all points together.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from hamq.types import HamqError

MAX_RESAMPLED = 10_000_000
"""Numbers that one block of resamples may hold."""

Runs = Any
"""What NumPy makes a float array of, seeds on axis 0."""
Statistic = Callable[..., Any]
"""Called as statistic(values, axis=0): `interquartile_mean`, `np.mean`, `np.median`, …"""


def interquartile_mean(values: Runs, axis: int = 0) -> Any:
    """Mean of the middle half of the runs on `axis`: a float for `[n]`, an array `[points]` for `[n, points]`."""
    ordered = np.sort(_checked("interquartile_mean", values), axis=axis)
    n = ordered.shape[axis]
    ends = np.clip(np.arange(n + 1), n / 4, 3 * n / 4)
    # About the smallest run, so that runs that are all the same have exactly their own mean on every machine.
    least = np.take(ordered, [0], axis=axis)
    mean = np.squeeze(least, axis=axis) + np.tensordot(np.diff(ends) * (2 / n), ordered - least, axes=(0, axis))
    return float(mean) if mean.ndim == 0 else mean


def bootstrap_interval(
    values: Runs,
    statistic: Statistic = interquartile_mean,
    level: float = 0.95,
    num: int = 2000,
    seed: int = 0,
) -> tuple[Any, Any]:
    """(low, high) of a statistic of the runs on axis 0; the same seed gives the same interval."""
    values = _checked("bootstrap_interval", values)
    indices = _resamples("bootstrap_interval", len(values), num, seed)
    return _percentiles(_resampled(values, statistic, indices), level)


def difference_interval(
    a: Runs,
    b: Runs,
    statistic: Statistic = interquartile_mean,
    level: float = 0.95,
    num: int = 2000,
    seed: int = 0,
    paired: bool = False,
    scale: Literal["difference", "log_ratio"] = "difference",
) -> tuple[Any, Any]:
    """(low, high) of statistic(a) − statistic(b), or with scale="log_ratio" of log statistic(a) − log statistic(b).

    An interval that does not hold 0 says which is larger. `paired`: run i of both had the same seed and is drawn again
    together, which is narrower where both move together.
    """
    a, b = _checked("difference_interval", a), _checked("difference_interval", b)
    if a.shape[1:] != b.shape[1:]:
        raise HamqError(f"difference_interval: points of both must agree, got shapes {a.shape} and {b.shape}.")
    if paired and len(a) != len(b):
        raise HamqError(
            f"difference_interval: pairs need as many runs of both, got {len(a)} and {len(b)}; use paired=False."
        )
    if scale not in ("difference", "log_ratio"):
        raise HamqError(f"difference_interval: scale must be 'difference' or 'log_ratio', got {scale!r}.")
    if scale == "log_ratio" and not (np.all(a > 0) and np.all(b > 0)):
        raise HamqError("difference_interval: a ratio needs values above 0; use scale='difference'.")
    of_a = _resamples("difference_interval", len(a), num, seed)
    of_b = of_a if paired else _resamples("difference_interval", len(b), num, seed + 1)
    found = _resampled(a, statistic, of_a), _resampled(b, statistic, of_b)
    if scale == "log_ratio":
        return _percentiles(np.log(found[0]) - np.log(found[1]), level)
    return _percentiles(found[0] - found[1], level)


def spread(values: Any, axis: int = 0) -> tuple[Any, Any, Any]:
    """(lowest, median, highest) of what is a number; NaN counts as not measured."""
    return np.nanmin(values, axis=axis), np.nanmedian(values, axis=axis), np.nanmax(values, axis=axis)


def _checked(caller: str, values: Runs) -> np.ndarray:
    array = np.asarray(values, np.float64)
    if array.ndim == 0 or array.size == 0:
        raise HamqError(f"{caller}: at least one run is needed, on axis 0, got shape {array.shape}.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise HamqError(
            f"{caller}: every run must be finite, got {array[where]} at {where}; leave failed runs out, and say so."
        )
    return array


def _resamples(caller: str, n: int, num: int, seed: int) -> np.ndarray:
    """[num, n] runs drawn with replacement."""
    if n < 2:
        raise HamqError(f"{caller}: one run says nothing about how runs differ; give at least 2.")
    if num < 1:
        raise HamqError(f"{caller}: num must be at least 1, got {num}.")
    return np.random.default_rng(seed).integers(n, size=(num, n))


def _resampled(values: np.ndarray, statistic: Statistic, indices: np.ndarray) -> np.ndarray:
    """[num, *points], a block of resamples at a time."""
    size = max(1, MAX_RESAMPLED // values.size)
    blocks = [indices[start : start + size].T for start in range(0, len(indices), size)]
    return np.concatenate([np.asarray(statistic(values[block], axis=0)) for block in blocks])


def _percentiles(found: np.ndarray, level: float) -> tuple[Any, Any]:
    if not 0 < level < 1:
        raise HamqError(f"bootstrap: level must be between 0 and 1, such as 0.95, got {level}.")
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return (float(low), float(high)) if low.ndim == 0 else (low, high)
