"""What the draws of a solve are worth, in one sentence: effective draws per pair, and chains that disagree.

"Settled" says that Q no longer changes for the draws that were made. Whether these are enough is another question: here it
is answered from the same draws (`health.py` has the formulas).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.learning.backup import Stock
from hamq.learning.health import Diagnosis, pair_worth
from hamq.learning.selection import Pairs
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC

FEW = 10.0
"""Effective draws below which an average of V says little."""
SHARE = 0.3
"""The same, as a part of the draws, where there are few."""
TOLERATED = 0.01
"""Share of the pairs that may be poor without being warned of."""


class Worth(NamedTuple):
    """Of the pairs that were drawn: the median and the least effective number of draws, and how many pairs are poor.

    A pair is poor if its draws are worth fewer than `few` independent ones, or if its chains disagree.
    """

    median: float
    least: float
    num_few: int
    num_disagreeing: int
    num_poor: int
    num_pairs: int
    few: float
    remedy: str

    @property
    def is_poor(self) -> bool:
        """Whether so many pairs are poor that the table should not be believed."""
        return self.num_poor > TOLERATED * self.num_pairs

    @property
    def sentence(self) -> str:
        """For `result`: a warning where the draws are poor."""
        worth = f"draws of a pair are worth {self.median:.3g} independent ones (median; least {self.least:.3g})"
        if not self.num_poor:
            return worth
        parts = [f"{self.num_few} of {self.num_pairs} pairs have fewer than {self.few:.3g}"] if self.num_few else []
        parts += [f"chains disagree in {self.num_disagreeing} of {self.num_pairs} pairs"] if self.num_disagreeing else []
        remedy = f"; {self.remedy}" if self.is_poor else ""
        return f"{worth}; {' and '.join(parts)}{remedy}"


def worth(
    problem: Problem,
    sampler: AbstractSampler,
    blocks: Sequence[Pairs],
    stocks: Sequence[Stock],
    diagnoses: Sequence[Diagnosis],
    value: Float[np.ndarray, " S"],
) -> Worth | None:
    """What draws that were kept are worth to the average of V; None for Exhaustive, which draws nothing.

    Arguments are those of `health_of`: the prepared sampler, and for each block of pairs its draws and what was said of
    them. Nothing is evaluated or drawn.
    """
    if isinstance(sampler, Exhaustive):
        return None
    found = pair_worth(problem, sampler, blocks, stocks, diagnoses, value)
    is_drawn = ~np.isnan(found.effective)
    effective, disagrees = found.effective[is_drawn], found.disagrees[is_drawn]
    few = min(FEW, SHARE * stocks[0].locations.shape[-1])  # of few draws no more can be asked
    is_few = effective < few
    return Worth(
        median=float(np.median(effective)),
        least=float(effective.min()),
        num_few=int(is_few.sum()),
        num_disagreeing=int(disagrees.sum()),
        num_poor=int((is_few | disagrees).sum()),
        num_pairs=len(effective),
        few=few,
        remedy=_remedy(sampler, bool(disagrees.sum() > TOLERATED * len(disagrees))),
    )


def _remedy(sampler: AbstractSampler, disagrees: bool) -> str:
    if isinstance(sampler, HMC) and disagrees:
        return "use more draws and num_warmup, and do not believe the table there"
    return "use more draws (max_gradients, or num_samples)"
