"""The certificate that needs no draw: where backups can be computed, Q* is bracketed as closely as Q's own error asks for.

With b₋ = min (TV − V) and b₊ = max (TV − V), V* lies between TV + γb₋/(1−γ) and TV + γb₊/(1−γ) (`exact/fixed_point.py`); V
starts at max_a Q and is improved by sweeps until the bracket is small beside the error of Q, which is at least ‖TQ −
Q‖/(1+γ). Rounding and the quadrature's error are in the bounds.
"""

import time

import numpy as np
from jaxtyping import Float

from hamq.certificates.bracket import Bracket, make_certificate
from hamq.certificates.certificate import Certificate
from hamq.certificates.proposal import best
from hamq.exact.bellman import MAX_SWEEPS, BellmanOperator, settle
from hamq.learning.draws import Progress
from hamq.solution import Cost

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
