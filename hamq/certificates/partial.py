"""Where all pairs are too many: what a random part of them says about most.

Each of P pairs drawn at random gets bounds of its backup, all at once with half of the risk, and so an upper bound of its
|TQ − Q|. Order statistics, with the other half, turn these into a number that at most 5 % of ALL
pairs exceed. Of max |Q − Q*| that says nothing: one pair that was not looked at may be as wrong as it likes.

What a sample says about a quantile, whatever the distribution.

Of n independent draws the number that lies below the (1 − p)-quantile is binomial(n, 1 − p), so that the k-th smallest draw
is at or above the quantile with probability P(binomial(n, 1 − p) ≤ k − 1): k is the smallest number for which that is the
confidence asked for. Ties only make it safer.
"""

import math
import time

import jax.random as jr
import numpy as np
from jaxtyping import Float
from scipy.stats import binom

from hamq.certificates.certificate import PartialCertificate
from hamq.certificates.experiment import ALL_RULES, make_experiment
from hamq.certificates.methods import Method
from hamq.certificates.sampled import judge
from hamq.learning.draws import Progress
from hamq.problem.problem import Problem
from hamq.types import HamqError, Key, np_generator


def quantile_bound(values: object, *, share: float = 0.05, confidence: float = 0.99) -> float:
    """x such that, with this confidence, at most `share` of the distribution lies above x; inf where n is too small.

    `values` are independent draws. For 5 % and 99 % it takes 90 of them.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    if ordered.ndim != 1 or not np.all(np.isfinite(ordered)):
        raise HamqError(f"quantile_bound: values must be a list of finite numbers, got shape {list(ordered.shape)}.")
    for name, number in (("share", share), ("confidence", confidence)):
        if not 0 < number < 1:
            raise HamqError(f"quantile_bound: {name} must be between 0 and 1, got {number!r}.")
    rank = int(binom.ppf(confidence, len(ordered), 1 - share)) + 1 if len(ordered) else 1
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


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
