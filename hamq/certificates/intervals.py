"""Bounds of a mean, for many pairs at once, each at a level α of its own.

guaranteed   For independent f_i with mean μ in [low, high], any λ in [0, 1/(high − low)) chosen without looking at them, and

                 K(u) = Π_i (1 + λ(u − f_i)),

             every factor is at least 0 at u = μ and has mean 1, so that E K(μ) = 1 and, by Markov's inequality,
             P(K(μ) ≥ 1/α) ≤ α. K grows with u: μ is below the u where K(u) = 1/α, but for that probability. K is the capital
             of a player who bets λ on small f_i against the claim that the mean is u (Waudby-Smith & Ramdas 2024). The best
             λ, √(2 log(1/α)/(n σ²)), is taken with the σ of earlier draws: a wrong one costs width, never validity.
asymptotic   Student's t on the means of m chains that share nothing but their target, with two more observations at
             `low` and `high`, the ends of what f can be: without them it misses (87–90 % instead of 95 % in all pairs at
             once), because the means of few draws are skewed and may all have missed a rare value.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student

from hamq.types import HamqError

MIN_CHAINS = 20
MAX_BET = 0.98
"""Of the largest λ that is allowed: log(1 + λ(u − f)) stays finite."""
MAX_NEWTON = 60
NEAR = 1e-9
"""Of the range: a last step that is no longer."""

Range = Float[np.ndarray, " P"]


def betting_bound(
    values: Float[np.ndarray, "P n"], low: Range, high: Range, spread: Float[np.ndarray, " P"], level: float
) -> Float[np.ndarray, " P"]:
    """u ≥ mean of f, but for probability `level` each; `spread` is a guess at the standard deviation, made before."""
    n = values.shape[1]
    wealth, room = math.log(1 / level), np.maximum(high - low, 1e-100)
    bet = np.minimum(np.sqrt(2 * wealth / (n * np.maximum(spread, 1e-9 * room) ** 2)), MAX_BET / room)
    # log K is concave and at most 0 at the average, so that Newton's steps go up to the root and never beyond.
    u, step = values.mean(axis=1), np.full(len(values), np.inf)
    for _ in range(MAX_NEWTON):
        capital = 1 + bet[:, None] * (u[:, None] - values)
        missing = wealth - np.log(capital).sum(axis=1)
        step = missing / (bet[:, None] / capital).sum(axis=1)
        u = u + step
        if np.all(step <= NEAR * room):
            break
    return np.where(step <= NEAR * room, np.minimum(u + 10 * NEAR * room, high), high)


def chain_bound(means: Float[np.ndarray, "P m"], low: Range, high: Range, level: float) -> Float[np.ndarray, " P"]:
    """u ≥ mean of f, but for probability `level` each as m grows."""
    num_chains = means.shape[1]
    if num_chains < MIN_CHAINS:
        raise HamqError(
            f"asymptotic bounds need at least {MIN_CHAINS} chains per pair, got {num_chains}; raise max_evaluations."
        )
    seen = np.concatenate([means, low[:, None], high[:, None]], axis=1)
    error = seen.std(axis=1, ddof=1) / math.sqrt(num_chains + 2)
    return np.minimum(seen.mean(axis=1) + student.isf(level, num_chains + 1) * error, high)


def predicted_width(spread: np.ndarray, room: float, n: np.ndarray, level: float) -> np.ndarray:
    """Of a bet on n draws: √(2 log(1/α) σ²/n), and at least what a player who never loses needs to win 1/α."""
    wealth = math.log(1 / level)
    return np.sqrt(2 * wealth * spread**2 / n) + 0.5 * room * wealth / n
