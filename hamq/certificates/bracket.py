"""From a bracket of Q* to what is said of a table and of its greedy policy."""

import math
import time
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hamq.certificates.certificate import USEFUL, Certificate, Method
from hamq.problem.problem import Problem
from hamq.solution import Cost

ROUNDING = 1e-15
"""A few units in the last place: of the sums, and of γ in 1/(1−γ)."""


class Bracket(NamedTuple):
    """lower ≤ Q* ≤ upper, and a lower bound of V^π of the greedy policy that is judged."""

    lower: Float[np.ndarray, "S A"]
    upper: Float[np.ndarray, "S A"]
    policy_value: Float[np.ndarray, " S"]


def known_from_rewards(problem: Problem, rewards: Float[np.ndarray, "S A"], ended: Bool[np.ndarray, " S"] | None) -> Bracket:
    """r + γ·min r/(1−γ) ≤ Q* ≤ r + γ·max r/(1−γ), rewards 0 where a problem may end: what holds without any draw."""
    low, high = rewards.min(), rewards.max()
    ahead = problem.discount / (1 - problem.discount)
    rounding = ROUNDING * float(np.abs(rewards).max()) / (1 - problem.discount) ** 2
    lower, upper = rewards + ahead * low - rounding, rewards + ahead * high + rounding
    if ended is not None:
        lower[ended] = upper[ended] = 0
    return Bracket(lower, upper, lower.min(axis=1))


def make_certificate(
    problem: Problem,
    q: Float[np.ndarray, "S A"],
    rewards: Float[np.ndarray, "S A"],
    ended: Bool[np.ndarray, " S"] | None,
    found: Bracket,
    *,
    method: Method,
    confidence: float,
    draws: float,
    cost: Cost,
    began: float,
) -> Certificate:
    """The bracket, cut to what the rewards alone say, and what follows from it."""
    known = known_from_rewards(problem, rewards, ended)
    lower, upper = np.maximum(found.lower, known.lower), np.minimum(found.upper, known.upper)
    if ended is not None:
        lower[ended] = upper[ended] = 0
    error = _distance(q, lower, upper)
    value = np.maximum(found.policy_value, known.policy_value)
    if ended is not None:
        value = np.where(ended, 0, value)
    size = float(np.ptp(upper.max(axis=1) + lower.max(axis=1))) / 2
    return Certificate(
        problem=problem,
        method=method,
        confidence=confidence,
        lower=lower,
        upper=upper,
        error=error,
        policy_loss=np.maximum(upper.max(axis=1) - value, 0),
        known_before=_distance(q, known.lower, known.upper),
        draws=draws,
        draws_needed=_draws_needed(draws, float((upper - lower).max()) / 2, USEFUL * size),
        cost=cost,
        seconds=time.perf_counter() - began,
    )


def _distance(q: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    return float(np.maximum(upper - q, q - lower).max())


def _draws_needed(draws: float, half_width: float, useful: float) -> int | None:
    """So many that the bracket would be as narrow as is useful, if its width falls as 1/√n."""
    if not draws or half_width <= useful or useful <= 0:
        return None
    return math.ceil(draws * (half_width / useful) ** 2)
