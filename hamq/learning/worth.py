"""What the draws of a solve are worth, in one sentence: effective draws per pair, chains that disagree, the expected error.

"Settled" says that Q no longer changes for the draws that were made. Whether these are enough is another question: here it
is answered from the same draws (`health.py` and `expected_error.py` have the formulas). This is the one place that decides
whether the draws of a solve are poor.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.completion.selection import Pairs
from hamq.learning.backup import Stock
from hamq.learning.draws import fewest
from hamq.learning.expected_error import Errors
from hamq.learning.health import Diagnosis, pair_worth
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler

TOLERATED = 0.01
"""Share of the pairs that may be poor without being warned of."""
ALLOWED = 0.03
"""Expected error of Q, as a part of the range of V, that is not warned of."""


class Worth(NamedTuple):
    """Of the pairs that were drawn: the median and the least effective number of draws, and how many pairs are poor.

    A pair is poor if its draws are worth fewer than `few` independent ones, or if its chains disagree. `errors` are parts of
    the range of V; None where they are not known.
    """

    median: float
    least: float
    num_few: int
    num_disagreeing: int
    num_poor: int
    num_pairs: int
    few: float
    remedy: str
    errors: Errors | None = None

    @property
    def is_poor(self) -> bool:
        """Whether the table should not be believed: too many pairs are poor, or the error to expect is too large."""
        return self.has_poor_pairs or self.is_far

    @property
    def has_poor_pairs(self) -> bool:
        return self.num_poor > TOLERATED * self.num_pairs

    @property
    def is_far(self) -> bool:
        return self.errors is not None and not self.errors.total <= ALLOWED

    @property
    def sentence(self) -> str:
        """For `result`: a warning where the draws are poor."""
        said = [f"draws of a pair are worth {self.median:.3g} independent ones (median; least {self.least:.3g})"]
        parts = [f"{self.num_few} of {self.num_pairs} pairs have fewer than {self.few:.3g}"] if self.num_few else []
        parts += [f"chains disagree in {self.num_disagreeing} of {self.num_pairs} pairs"] if self.num_disagreeing else []
        said += [" and ".join(parts)] if parts else []
        if self.errors is not None:
            more = f", more than the {ALLOWED:.0%} that are allowed" if self.is_far else ""
            # Too few draws of a pair do not know how far off they are.
            least = "at least " if self.has_poor_pairs else ""
            rare = "" if least else f" ({self.errors.rare:.1%} in one solve of twenty)"
            said.append(f"the expected error of Q is {least}{self.errors.total:.1%} of the range of V{rare}{more}")
        return "; ".join([*said, self.remedy] if self.is_poor else said)


def worth(
    problem: Problem,
    sampler: AbstractSampler,
    blocks: Sequence[Pairs],
    stocks: Sequence[Stock],
    diagnoses: Sequence[Diagnosis],
    value: Float[np.ndarray, " S"],
    errors: Errors | None = None,
) -> Worth | None:
    """What draws that were kept are worth to the average of V; None for masses, which are not drawn.

    Arguments are those of `health_of`: the prepared sampler, and for each block of pairs its draws and what was said of
    them; and the errors that are expected. Nothing is evaluated or drawn.
    """
    if sampler.is_exhaustive:
        return None
    found = pair_worth(problem, sampler, blocks, stocks, diagnoses, value)
    is_drawn = ~np.isnan(found.effective)
    effective, disagrees = found.effective[is_drawn], found.disagrees[is_drawn]
    few = fewest(stocks[0].locations.shape[-1])
    is_few = effective < few
    return Worth(
        median=float(np.median(effective)),
        least=float(effective.min()),
        num_few=int(is_few.sum()),
        num_disagreeing=int(disagrees.sum()),
        num_poor=int((is_few | disagrees).sum()),
        num_pairs=len(effective),
        few=few,
        remedy=_remedy(sampler, bool(disagrees.sum() > TOLERATED * len(disagrees)), errors),
        errors=errors,
    )


def _remedy(sampler: AbstractSampler, disagrees: bool, errors: Errors | None) -> str:
    if disagrees:
        return "use more draws and num_warmup, and do not believe the table there"
    if errors is not None and errors.draws <= ALLOWED < errors.total:
        return "it is the completion that errs: use completion=None"
    return "use more draws (max_gradients, or num_samples)"
