"""What the draws of a solve are worth: the effective number of draws per pair, measured where the residual is.

1/Σw² of n weights is the number of even draws that would err as much. All pairs share their random numbers, so that their
errors do not average out over states: the residual of the sampled operator, which uses the same draws, cannot see them.
"""

import math
import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.types import HamqWarning

FEWEST = 10.0
"""Effective draws that nine in ten pairs should have: with fewer, an average errs by a third of a standard deviation."""
NONE_LEFT = 3.0
"""Below this a backup is the value of one or two draws, and the solve is refused."""
EVEN = 0.5
"""Share above which the weights are not what is wrong: few draws were asked for."""
MOST_DRAWS = 2**16


class Effective(NamedTuple):
    """Effective draws per pair (best action of each held-out state): the median, and what nine in ten pairs have.

    draws     per pair that were made; 0 where expectations are exact sums
    """

    draws: int
    median: float
    tenth: float


def effective_draws(shares: Float[np.ndarray, " P"], draws: int) -> Effective:
    """By the shares of pairs; a share that is no number is 0."""
    number = draws * np.nan_to_num(np.asarray(shares, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    tenth, median = np.quantile(number, [0.1, 0.5])
    return Effective(draws, float(median), float(tenth))


def in_words(effective: Effective) -> str:
    """For the sentence of a result; empty where nothing was drawn."""
    if not effective.draws:
        return ""
    return (
        f"; residual of the sampled operator, whose draws all pairs share: {effective.median:.0f} of {effective.draws} "
        f"draws per pair are effective, at least {effective.tenth:.0f} in nine of ten pairs"
    )


def lacks_draws(effective: Effective) -> bool:
    return effective.tenth < FEWEST and effective.tenth < EVEN * effective.draws


def require_draws(problem_name: str, effective: Effective) -> None:
    """Refuses a backup of one or two draws, warns of few; says how many draws would do."""
    if not lacks_draws(effective):
        return
    found = (
        f"solve_tensor: {effective.tenth:.1f} of {effective.draws} draws per pair carry the weight on {problem_name} in a "
        f"tenth of the pairs (median {effective.median:.1f})"
    )
    wanted = 2 ** math.ceil(math.log2(2 * FEWEST * effective.draws / max(effective.tenth, 1e-3)))
    remedy = (
        f"use sampler=hamq.Importance({wanted})"
        if wanted <= MOST_DRAWS
        else "its proposals do not fit this density: use hamq.solve, whose chains adapt to each pair, on a coarser grid"
    )
    if effective.tenth < NONE_LEFT:
        raise ValueError(f"{found}; a backup is then the value of one or two draws; {remedy}.")
    warnings.warn(
        f"{found}, fewer than {FEWEST:.0f}; values are off by what the residual cannot see; {remedy}.", HamqWarning, 3
    )
