"""How much of their mass draws in float32 may put into wrong cells: counted in every bound from draws.

With ε = 2⁻²³, per axis and at least 2·10⁻⁶ (uniform numbers, quantiles and values have 24 bits):

    ε·|x|·(1/h + 1/σ)    a point moves by ε·|x|/2: over the edge of a cell of width h, or away from a mean
    ε·Σ_jj·(Σ⁻¹)_jj      a covariance is factored: its conditional variances are what is left of a difference
    ε·(σ/h)^p, ε·z²/8    masses of narrow cells (p = 1; 2 where they are hats) and of a box z σ away from the mean cancel

σ is the smallest or the largest of all pairs, whichever is worse. The last three are envelopes of what was measured against
float64 (tests/certificates/test_rounding.py). A density of the user is taken to be right to 2·10⁻⁶.
"""

from hamq.problem.noise import noise_of
from hamq.problem.problem import Problem
from hamq.problem.tables import mean_table

LEAST = 2e-6
SINGLE = 2.0**-23


def rounding_of(problem: Problem) -> float:
    """Of the range of a function of the next state, in total."""
    grid = problem.grid
    if problem.kernel.normal is None:
        return LEAST * grid.dimension
    noise, means, total = noise_of(problem), mean_table(problem), 0.0
    for i, (low, high, h) in enumerate(zip(grid.lower, grid.upper, grid.spacing, strict=True)):
        outside = 0.0
        if not grid.periodic[i]:
            outside = max(low - means[..., i].min(), means[..., i].max() - high, 0.0) / noise.narrowest[i]
        places = max(abs(low), abs(high)) * (1 / h + 1 / noise.narrowest[i])
        coarseness = noise.widest[i] / h
        cancelled = {"cell": coarseness, "linear": coarseness**2, "point": 0.0}[problem.law] + outside**2 / 8
        total += max(LEAST, SINGLE * float(places + noise.inflation[i] + cancelled))
    return total
