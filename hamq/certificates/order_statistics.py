"""What a sample says about a quantile, whatever the distribution.

Of n independent draws the number that lies below the (1 − p)-quantile is binomial(n, 1 − p), so that the k-th smallest draw
is at or above the quantile with probability P(binomial(n, 1 − p) ≤ k − 1): k is the smallest number for which that is the
confidence asked for. Ties only make it safer.
"""

import math

import numpy as np
from scipy.stats import binom

from hamq.types import HamqError


def quantile_bound(values: object, *, share: float = 0.05, confidence: float = 0.99) -> float:
    """x such that, with this confidence, at most `share` of the distribution lies above x; inf where n is too small.

    `values` are independent draws. For 5 % and 99 % it takes 90 of them.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    if ordered.ndim != 1 or not np.all(np.isfinite(ordered)):
        raise HamqError(f"quantile_bound: values must be a list of finite numbers, got shape {list(ordered.shape)}.")
    for name, number in (("share", share), ("confidence", confidence)):
        if not 0 < number < 1:
            raise HamqError(f"quantile_bound: {name} must be between 0 and 1, got {number!r}.")
    rank = int(binom.ppf(confidence, len(ordered), 1 - share)) + 1 if len(ordered) else 1
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf
