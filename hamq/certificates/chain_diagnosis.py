"""What fresh chains said of a problem, pair by pair: numbers, limits, what is beyond them, and what to do about it."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.problem.problem import Problem, pair_name
from hamq.solution import Cost

MIN_ESS = 400.0
"""In total: below, R̂ and ESS themselves are too noisy (Vehtari et al. 2021). Draws worth 400 have an R̂ of 1.01 on average,
which is the limit of the same authors for ONE quantity; of thousands of good pairs many exceed it."""
FALSE_ALARM = 1e-3
"""Probability that the largest R̂ of all pairs exceeds its limit, if chains agree and draws are worth `MIN_ESS`."""

REMEDIES = {
    "divergent": "use a smaller step_size, and look at the log-density there",
    "stuck": "use a smaller step_size (None adapts it) or walls='logit'",
    "uncrossed": "the modes keep the weights of the chains' starts; use more samples, or draw with IID or Importance there",
    "rhat": "raise num_warmup and num_samples, and believe no average of one chain there",
    "bulk_ess": "raise num_samples, or num_leapfrog if only a few pairs are meant",
    "tail_ess": "raise num_samples, or change num_leapfrog so that draws do not return to where they were",
}
"""What to do, the gravest cause first."""
OF_CUT = "draw with IID or Importance there, which cross what chains cannot"
"""What to do about chains that never moved where a density jumps or is zero."""
WORDS = {
    "divergent": "with trajectories of no finite energy",
    "stuck": "with chains that never moved",
    "uncrossed": "with modes that were not crossed",
    "rhat": "with R̂ above {limit:.3g}",
    "bulk_ess": "with a bulk ESS below {limit:g}",
    "tail_ess": "with a tail ESS below {limit:g}",
}
LOW_IS_BAD = ("bulk_ess", "tail_ess", "acceptance")


class ChainNumbers(NamedTuple):
    """One number of each kind per pair, or per state.

    rhat            rank-normalised split R̂ of V, the larger one of bulk and folded; 1 where V is constant
    bulk_ess        effective number of draws, all chains together; the number of draws where V is constant
    tail_ess        that of the 5 % and 95 % quantiles, the smaller one
    disagreement    (largest − smallest mean of a chain)/(standard deviation of all draws)
    stuck           share of the chains that never moved
    divergent       share of the trajectories that ended in a non-finite energy
    uncrossed       1 where several modes were found and no jump between them was accepted, else 0
    acceptance      mean acceptance probability of the trajectories
    """

    rhat: Float[np.ndarray, " n"]
    bulk_ess: Float[np.ndarray, " n"]
    tail_ess: Float[np.ndarray, " n"]
    disagreement: Float[np.ndarray, " n"]
    stuck: Float[np.ndarray, " n"]
    divergent: Float[np.ndarray, " n"]
    uncrossed: Float[np.ndarray, " n"]
    acceptance: Float[np.ndarray, " n"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ChainDiagnosis:
    """What `num_chains` fresh chains of `num_draws` draws each say of V at the next state of P pairs.

    states, actions     indices of the pairs that were looked at, in the order of the table
    by_pair             the numbers, `[P]` each (`ChainNumbers`)
    rhat_limit          what the largest R̂ of so many pairs exceeds in one diagnosis of 1000, if draws are worth 400
    cost                draws, density and gradient evaluations that were spent
    is_cut              the density was seen to jump, or to be zero in a part of the box
    """

    problem: Problem
    states: Int[np.ndarray, " P"]
    actions: Int[np.ndarray, " P"]
    by_pair: ChainNumbers
    num_chains: int
    num_draws: int
    rhat_limit: float
    cost: Cost
    is_cut: bool = False

    @property
    def num_pairs(self) -> int:
        return len(self.states)

    @property
    def by_state(self) -> ChainNumbers:
        """The worst of each number over the pairs of a state that were looked at, `[S]` each; NaN where none was."""
        return ChainNumbers(*(self._worst_of_state(name) for name in ChainNumbers._fields))

    @property
    def limits(self) -> dict[str, float]:
        """What each number must keep to, by name: ESS at least, all others at most."""
        return {
            # Where a density is zero, trajectories that end there are rejected, as they must be.
            "divergent": 1.0 if self.is_cut else 0.0,
            "stuck": 0.0,
            "uncrossed": 0.0,
            "rhat": self.rhat_limit,
            "bulk_ess": MIN_ESS,
            "tail_ess": MIN_ESS,
        }

    @property
    def flags(self) -> dict[str, Bool[np.ndarray, " P"]]:
        """Which pairs are beyond the limit, by the name of the number."""
        return {name: self._is_beyond(name, limit) for name, limit in self.limits.items()}

    @property
    def is_flagged(self) -> Bool[np.ndarray, " P"]:
        """Pairs that are beyond any limit."""
        return np.any(list(self.flags.values()), axis=0)

    @property
    def is_healthy(self) -> bool:
        return not self.is_flagged.any()

    def worst(self, name: str) -> int:
        """Which of the pairs has the worst of these numbers."""
        numbers = getattr(self.by_pair, name)
        return int(np.argmin(numbers) if name in LOW_IS_BAD else np.argmax(numbers))

    def pair_name(self, pair: int) -> str:
        return pair_name(self.problem, int(self.states[pair]), int(self.actions[pair]))

    @property
    def sentence(self) -> str:
        """What was found, and what to do."""
        numbers, total = self.by_pair, self.num_chains * self.num_draws
        if self.is_healthy:
            return (
                f"{self.problem.name}: the chains agree in {self._seen}: R̂ is at most {numbers.rhat.max():.3f}, and "
                f"{total:,} draws are worth at least {numbers.bulk_ess.min():,.0f} (tails {numbers.tail_ess.min():,.0f}); "
                f"no chain is stuck, {self._ends}."
            )
        flags = {name: flag for name, flag in self.flags.items() if flag.any()}
        causes = [f"{flag.sum():,} {WORDS[name].format(limit=self.limits[name])}" for name, flag in flags.items()]
        gravest = next(name for name in REMEDIES if name in flags)
        remedy = OF_CUT if self.is_cut and gravest == "stuck" else REMEDIES[gravest]
        if total < MIN_ESS and gravest.endswith("ess"):
            remedy = f"{total} draws cannot be worth {MIN_ESS:g}; raise num_samples"
        num = int(self.is_flagged.sum())
        return (
            f"{self.problem.name}: {num:,} of {self._seen} {'is' if num == 1 else 'are'} suspect: {', '.join(causes)} "
            f"(worst at {self.pair_name(self.worst(gravest))}); {remedy}."
        )

    @property
    def _ends(self) -> str:
        share = float(self.by_pair.divergent.max())
        if not share:
            return "and none diverged"
        return f"and up to {share:.0%} of a pair's trajectories were rejected because they ended where the density is zero"

    @property
    def _seen(self) -> str:
        total = self.problem.num_states * self.problem.num_actions
        return f"all {total:,} pairs" if self.num_pairs == total else f"{self.num_pairs:,} random pairs of {total:,}"

    def _is_beyond(self, name: str, limit: float) -> Bool[np.ndarray, " P"]:
        numbers = getattr(self.by_pair, name)
        return numbers < limit if name in LOW_IS_BAD else numbers > limit

    def _worst_of_state(self, name: str) -> Float[np.ndarray, " S"]:
        worst = np.full(self.problem.num_states, np.nan)
        pick = np.fmin if name in LOW_IS_BAD else np.fmax
        pick.at(worst, self.states, getattr(self.by_pair, name))
        return worst

    def __repr__(self) -> str:
        return f"ChainDiagnosis({self.num_chains} chains of {self.num_draws} draws; {self.sentence})"
