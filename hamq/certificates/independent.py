"""Independent draws and bets against their mean: a theorem for any law (`intervals.betting_bound`)."""

import numpy as np

from hamq.certificates.evidence import AbstractEvidence
from hamq.certificates.integrand import bounded
from hamq.certificates.intervals import betting_bound, predicted_width
from hamq.problem.problem import Problem
from hamq.sampling.iid import IID

PER_ROUND = 100
"""Independent draws of a pair in one round."""


class Independent(AbstractEvidence):
    uses_stein = False

    def why_not(self, problem: Problem) -> str | None:
        if problem.kernel.normal is not None or problem.law == "point":
            return None
        return (
            f"needs independent draws, and those of {problem.name} would come from a quadrature whose error nobody bounds; "
            "use 'asymptotic', or None"
        )

    def sampler(self, problem):
        # A node that was drawn from its mass does not say where in its cell the state is: no conditional expectations.
        draws_points = problem.kernel.normal is not None and not problem.is_product and problem.law != "point"
        return IID(PER_ROUND, "rejection" if draws_points else None)

    def evaluations_per_draw(self, problem):
        return 1.0

    def evaluations_to_prepare(self, problem):
        return 0

    def integrand(self, best, conditional_share):
        return bounded(len(best.mixed), conditional_share)

    def spread(self, f, span):
        """A bet is guarded by one more observation at half of the range."""
        n = f.shape[1]
        return np.sqrt((f.var(axis=1) * n + (span / 2) ** 2) / (n + 1)), np.ones(len(f))

    def width(self, spread, reach, inflation, span, draws, level):
        return predicted_width(spread, span, draws, level)

    def bound(self, f, half, spread, level):
        ends = np.full(len(f), half)
        return betting_bound(f, -ends, ends, spread, level)


EVIDENCE = Independent()
