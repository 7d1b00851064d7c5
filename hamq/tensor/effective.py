"""What the draws of a solve are worth: the effective number of draws per pair, measured where the residual is.

1/Σw² of n weights is the number of even draws that would err as much. All pairs share their random numbers, so that their
errors do not average out over states: the residual of the sampled operator, which uses the same draws, cannot see them.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.types import HamqError, HamqWarning

FEWEST = 10.0
"""Effective draws that nine in ten pairs should have: with fewer, an average errs by a third of a standard deviation."""
NONE_LEFT = 3.0
"""Below this a backup is the value of one or two draws, and the solve is refused."""
EVEN = 0.5
"""Share above which the weights are not what is wrong: few draws were asked for."""
FACTORS = (4, 16, 64)
"""Of draws that are tried where too few are effective."""
MOST_DRAWS = 2**15
CHAINS = (
    "use hamq.solve with sampler=hamq.HMC(2000) on a grid that a table can hold: its chains look for modes and say what "
    "their draws are worth"
)
"""What is left to do where no law draws from a density."""


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
        f"; all pairs share their draws, and the residual does not see the error of these: {effective.median:.0f} of "
        f"{effective.draws} draws per pair are effective, at least {effective.tenth:.0f} in nine of ten pairs"
    )


def lacks_draws(effective: Effective) -> bool:
    return effective.tenth < FEWEST and effective.tenth < EVEN * effective.draws


def draws_that_do(tenth_of: Callable[[int], float], draws: int) -> int | None:
    """The first of some larger numbers of draws that was tried and left enough of them effective; None where none did."""
    for factor in FACTORS:
        if draws * factor <= MOST_DRAWS and tenth_of(draws * factor) >= 2 * FEWEST:
            return draws * factor
    return None


def remedy_for(found: int | None) -> str:
    """What to do, by what `draws_that_do` found."""
    if found is not None:
        return f"use sampler=hamq.Importance({found}), with which enough of them do"
    return f"more draws do not help here (tried); {CHAINS}"


def require_draws(problem_name: str, effective: Effective, tenth_of: Callable[[int], float]) -> None:
    """Refuses a backup of one or two draws, warns of few; says how many draws would do, after trying so many.

    `tenth_of(n)` is what nine in ten pairs have of n draws.
    """
    if not lacks_draws(effective):
        return
    found = (
        f"solve_tensor: {effective.tenth:.1f} of {effective.draws} draws per pair carry the weight on {problem_name} in a "
        f"tenth of the pairs (median {effective.median:.1f})"
    )
    remedy = remedy_for(draws_that_do(tenth_of, effective.draws))
    if effective.tenth < NONE_LEFT:
        raise HamqError(f"{found}; a backup is then the value of one or two draws; {remedy}.")
    warnings.warn(
        f"{found}, fewer than {FEWEST:.0f}; values are off by what the residual cannot see; {remedy}.", HamqWarning, 3
    )
