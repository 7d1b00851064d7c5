"""Where all pairs are too many: what a random part of them says about most.

Each of P pairs drawn at random gets bounds of its backup, all at once with half of the risk, and so an upper bound of its
|TQ − Q|. Order statistics (`order_statistics.py`), with the other half, turn these into a number that at most 5 % of ALL
pairs exceed. Of max |Q − Q*| that says nothing: one pair that was not looked at may be as wrong as it likes.
"""

import math
import time

import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.certificates.certificate import PartialCertificate
from hamq.certificates.experiment import ALL_RULES, make_experiment
from hamq.certificates.methods import Method
from hamq.certificates.order_statistics import quantile_bound
from hamq.certificates.sampled import judge
from hamq.learning.draws import Progress
from hamq.problem.problem import Problem
from hamq.types import Key, np_generator

SHARE = 0.05
NUM_DRAWS = 1000
"""Per pair."""


def least_pairs(confidence: float) -> int:
    """So many that the largest of them bounds all but a share of the pairs: (1 − share)^P ≤ half of the risk."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(1 - SHARE))


def certify_part(
    problem: Problem,
    q: Float[np.ndarray, "S A"],
    method: Method,
    confidence: float,
    num_pairs: int,
    *,
    key: Key,
    progress: Progress | None = None,
) -> PartialCertificate:
    began, judged = time.perf_counter(), judge(problem, q)
    pick_key, draw_key = (jr.fold_in(key, i) for i in range(2))
    # With replacement: independent draws, as the order statistics want them.
    looked_at, times = np.unique(np_generator(pick_key).integers(q.size, size=num_pairs), return_counts=True)
    risk = 1 - confidence
    experiment, cost = make_experiment(problem, method, risk / 2 / (2 * len(looked_at)), ALL_RULES, key=draw_key)
    pilot_rounds, rounds = 1, max(2, NUM_DRAWS // experiment.source.per_round - 1)
    prepared = experiment.prepare(looked_at, judged.value, pilot_rounds, progress)
    functions, counts = np.stack([judged.value] * 2), np.full(len(looked_at), rounds)
    (above, below), spent = experiment.bounds(looked_at, counts, functions, (1, -1), prepared, progress)
    own = q.reshape(-1)[looked_at]
    rewards = judged.rewards.reshape(-1)[looked_at]
    high, low = rewards + problem.discount * above - own, rewards + problem.discount * below - own
    residuals = np.maximum(high, -low)
    if judged.ended is not None:
        residuals = np.where(judged.ended[looked_at // problem.num_actions], np.abs(own), residuals)
    return PartialCertificate(
        problem=problem,
        method=method,
        confidence=confidence,
        share=SHARE,
        residual=quantile_bound(np.repeat(residuals, times), share=SHARE, confidence=1 - risk / 2),
        num_pairs=num_pairs,
        draws=float(experiment.source.per_round * (pilot_rounds + rounds)),
        cost=cost.plus(prepared.cost).plus(spent),
        seconds=time.perf_counter() - began,
    )
