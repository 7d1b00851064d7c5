"""Chains, whose means are nearly normal: right as the number of chains grows (`intervals.chain_bound`)."""

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from hamq.certificates.evidence import AbstractEvidence
from hamq.certificates.intervals import chain_bound
from hamq.problem.problem import Problem
from hamq.sampling.cell_table import num_evaluations
from hamq.sampling.hmc import HMC

PER_CHAIN, NUM_CHAINS = 5, 40
"""Draws of a chain, and chains of a pair in one round: many short ones, because two of the observations are made up."""
NUM_LEAPFROG, QUARTER_TURN = 6, 1.6
"""After a quarter of a turn a draw has forgotten the one before; steps are half as long as elsewhere, because a chain
that is stuck in a steep place costs a certificate much more than twice its steps."""
EXTREME = 1.25
"""How much farther than in the pilot the most extreme draws will lie, more or less."""


class Chains(AbstractEvidence):
    uses_stein = True

    def why_not(self, problem):
        return None

    def sampler(self, problem: Problem) -> HMC:
        """Chains that begin away from the modes."""
        step = None if problem.kernel.normal is None else QUARTER_TURN / NUM_LEAPFROG
        return HMC(PER_CHAIN * NUM_CHAINS, NUM_LEAPFROG, step, num_chains=NUM_CHAINS, calibrate=False, dispersed=True)

    def evaluations_per_draw(self, problem):
        sampler = self.sampler(problem)
        transitions = (sampler.num_warmup + PER_CHAIN) / PER_CHAIN
        # Besides: the gradient of Stein's functions, the start of a chain, and where modes are searched these, the jumps,
        # and the table of cells that they are proposed from, which every round makes anew.
        others = 2.3
        if problem.kernel.normal is None:
            others = 10.0 + num_evaluations(problem.grid.dimension) / sampler.num_samples
        return transitions * (sampler.gradients_per_draw(problem) + 1) + others

    def evaluations_to_prepare(self, problem):
        """Of a step size and the look for jumps: tables of pairs, and chains."""
        if problem.kernel.normal is not None:
            return 0
        return 420 * num_evaluations(problem.grid.dimension) + 130_000

    def integrand(self, best, conditional_share):
        return best

    def spread(self, f, span):
        spread = f.std(axis=1, ddof=1)
        of_chains = chain_means(f).var(axis=1, ddof=1)
        is_constant = spread <= 1e-6 * span
        return spread, np.where(is_constant, 1, of_chains * PER_CHAIN / np.where(is_constant, 1, spread**2))

    def width(self, spread, reach, inflation, span, draws, level):
        chains = draws / PER_CHAIN
        within = spread**2 * inflation / PER_CHAIN * chains
        variance = (within + 2 * np.maximum(EXTREME * reach, span / 2) ** 2) / (chains + 1)
        return student.isf(level, chains + 1) * np.sqrt(variance / (chains + 2))

    def bound(self, f, half, spread, level):
        seen = np.minimum(f.min(axis=1), -half), np.maximum(f.max(axis=1), half)
        return np.minimum(chain_bound(chain_means(f), *seen, level), half)


def chain_means(f: Float[np.ndarray, "P n"]) -> Float[np.ndarray, "P m"]:
    return f.reshape(len(f), -1, PER_CHAIN).mean(axis=2)


EVIDENCE = Chains()
