"""How wrong a table can be: `hamq.certify`, which takes the strongest method that applies.

exact        backups are computed: product kernels of any size that fits, others while their masses do
guaranteed   independent draws and bets against their mean: a theorem for any law
asymptotic   chains: right as their number grows

docs/certificates.md has the proofs, the coverage that was measured, and what each reduction of variance is worth.

The certificate that needs no draw: where backups can be computed, Q* is bracketed as closely as Q's own error asks for.

With b₋ = min (TV − V) and b₊ = max (TV − V), V* lies between TV + γb₋/(1−γ) and TV + γb₊/(1−γ) (`exact/fixed_point.py`); V
starts at max_a Q and is improved by sweeps until the bracket is small beside the error of Q, which is at least ‖TQ −
Q‖/(1+γ). Rounding and the quadrature's error are in the bounds.
"""

import time
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.certificates.bracket import Bracket, make_certificate
from hamq.certificates.certificate import Certificate, PartialCertificate, checked_table, problem_of
from hamq.certificates.evidence import evidence_of
from hamq.certificates.methods import METHODS, Method
from hamq.certificates.partial import NUM_DRAWS, certify_part, least_pairs
from hamq.certificates.proposal import best
from hamq.certificates.sampled import LEAST_ROUNDS, certify_by_draws
from hamq.exact.bellman import MAX_SWEEPS, BellmanOperator, make_operator, settle
from hamq.learning.draws import Progress
from hamq.problem.cells import DoesNotFit
from hamq.problem.problem import Problem
from hamq.solution import Cost
from hamq.types import HamqError, Key, as_key, require_count

SHARE = 0.05
"""Width of the bracket, at most, as a part of the error that Q has for sure."""
LEAST = 1e-7
"""Of the range of values: closer is not asked for where Q has no error."""


def certify_by_sums(
    operator: BellmanOperator,
    q: Float[np.ndarray, "S A"],
    max_evaluations: int | None = None,
    began: float | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """`began` is when the operator was begun, for the seconds that it took."""
    began, problem = time.perf_counter() if began is None else began, operator.problem
    value = q.max(axis=1) if operator.ended is None else np.where(operator.ended, 0, q.max(axis=1))
    image = operator.backup(value)
    size = max(float(np.ptp(image)), float(np.abs(operator.rewards).max()), 1e-12)
    residual = float(np.abs(image - q).max())
    tolerance = max(SHARE * residual / (1 + problem.discount), LEAST * size)
    # Rows of quadrature that are loose are made again, as tight as the tolerance asks for.
    operator, solved, _ = settle(
        problem, best, tolerance, MAX_SWEEPS, None, max_evaluations, operator, value, progress, refines=True
    )
    followed = operator.evaluate(q.argmax(axis=1), tolerance=tolerance)
    bracket = Bracket(
        lower=solved.table + solved.bounds.low,
        upper=solved.table + solved.bounds.high,
        policy_value=followed.value - followed.error,
    )
    cost = Cost(0, operator.law.evaluations, 0)
    return make_certificate(
        operator.problem, q, operator.rewards, operator.ended, bracket,
        method="exact", confidence=1.0, draws=0.0, cost=cost, began=began,
    )  # fmt: skip


FRESH = 0x5EED
"""Folded into the key, so that it never is that of a solver."""


def certify(
    solution: Any,
    problem: Problem | None = None,
    *,
    confidence: float = 0.95,
    max_evaluations: int | None = None,
    method: Method | None = None,
    key: Key | int = 0,
    progress: Progress | None = None,
) -> Certificate | PartialCertificate:
    """Bounds of Q*, of the error of a table and of the loss of its greedy policy, from draws that it was not learnt from.

    solution          what a solver returned, or a run (`read_run`) or a table `[S, A]` with its `problem`. A tensor train
                      is judged by one backup of its V, where the grid can be listed
    confidence        of all bounds at once; `exact` has 1 whatever is asked for
    max_evaluations   of the density and its gradient (independent draws count as one); None: 1,000 draws per pair, or what
                      `solve_exact` would spend. Too few for all pairs make a statement about most of them
    method            None takes the first of exact, guaranteed and asymptotic that applies
    key               of the fresh draws; they are others than a solver's with the same key
    """
    began, problem = time.perf_counter(), problem_of("certify", solution, problem)
    q = checked_table("certify", problem, solution)
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise HamqError(f"certify: confidence must be between 0 and 1, got {confidence!r}; 0.95 is usual.")
    if method is not None and method not in METHODS:
        raise HamqError(f"certify: method must be one of {', '.join(METHODS)} or None (the strongest), got {method!r}.")
    if max_evaluations is not None:
        require_count("certify: max_evaluations", max_evaluations)
    if method in (None, "exact"):
        operator = _operator(problem, max_evaluations, method is not None, progress)
        if operator is not None:
            return certify_by_sums(operator, q, max_evaluations, began, progress)
    chosen = _drawn(problem, method)
    evidence, num_draws, fresh = evidence_of(chosen), float(NUM_DRAWS), jr.fold_in(as_key(key), FRESH)
    per_draw, before = evidence.evaluations_per_draw(problem), evidence.evaluations_to_prepare(problem)
    if max_evaluations is not None:
        num_draws = max(0, max_evaluations - before) / (q.size * per_draw)
    if num_draws * (1 + 1e-9) >= LEAST_ROUNDS * evidence.sampler(problem).num_samples:
        return certify_by_draws(problem, q, chosen, confidence, num_draws, key=fresh, progress=progress)
    assert max_evaluations is not None
    num_pairs = int(max(0, max_evaluations - before) / (NUM_DRAWS * per_draw))
    if num_pairs < (least := least_pairs(confidence)):
        needed = int(least * NUM_DRAWS * per_draw) + before
        raise HamqError(
            f"certify: max_evaluations = {max_evaluations:,} buys {NUM_DRAWS:,} draws of {num_pairs} pairs, and a statement "
            f"with confidence {confidence} takes {least}; give at least {needed:,}."
        )
    return certify_part(problem, q, chosen, confidence, num_pairs, key=fresh, progress=progress)


def _drawn(problem: Problem, method: Method | None) -> Method:
    """The method that was asked for, or the strongest one by draws that applies."""
    if method is None:
        return next(name for name, words in METHODS.items() if words.home and evidence_of(name).why_not(problem) is None)
    if (reason := evidence_of(method).why_not(problem)) is not None:
        raise HamqError(f"certify: method={method!r} {reason}.")
    return method


def _operator(
    problem: Problem, max_evaluations: int | None, is_asked_for: bool, progress: Progress | None
) -> BellmanOperator | None:
    """None where backups do not fit, unless they are what was asked for."""
    try:
        return make_operator(problem, max_evaluations=max_evaluations, progress=progress)
    except DoesNotFit:
        if is_asked_for:
            raise
        return None
