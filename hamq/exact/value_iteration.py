"""The optimal action values, between certified bounds.

Value iteration V → max_a backup(V), accelerated and bounded as `fixed_point.py` says: with q = backup(V) and
TV = max_a q, the bounds of V* carry over to Q* = r + γ P V*: from V* ≤ V + b₊/(1−γ) follows Q* ≤ q + γ b₊/(1−γ).

Means that lie far outside the box: legal (the masses are logs), and rarely meant.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.exact.bellman import MAX_SWEEPS, require_positive, sentence, settle
from hamq.problem.cells import Progress
from hamq.problem.checks import warn_unless_expected
from hamq.problem.problem import Problem, pair_name
from hamq.problem.tables import mean_table, std_table, terminal_table
from hamq.solution import Solution
from hamq.types import HamqError

FAR = 8.0
"""Standard deviations beyond which a mean is reported."""
MAX_VALUES = 5 * 10**6
"""Largest table of means that is computed only to look at it."""


def outside_surprises(problem: Problem) -> list[tuple[str, str]]:
    """[("outside", sentence)] if some mean lies more than 8 σ outside the box, circles apart; else [].

    Looks at Gaussian kernels whose standard deviations are known (constant, or a product kernel's) on
    tables of at most 5 million means. The caller hands the answer to `checks.warn_unless_expected`.
    """
    normal = problem.kernel.normal
    if normal is None:
        return []
    if problem.num_states * problem.num_actions * problem.grid.dimension > MAX_VALUES:
        return []
    if callable(normal.covariance) and not problem.is_product:
        return []
    stds = std_table(problem) if problem.is_product else np.sqrt(np.diag(np.asarray(normal.covariance)))
    distances = outside_distances(problem, mean_table(problem)) / stds
    farthest = distances.max(axis=-1)
    count = int(np.sum(farthest > FAR))
    if not count:
        return []
    s, a = (int(v) for v in np.unravel_index(farthest.argmax(), farthest.shape))
    sentence = (
        f"the mean lies more than {FAR:g} standard deviations outside the box for {count} of {farthest.size} "
        f"pairs, up to {farthest[s, a]:.3g} on axis {int(distances[s, a].argmax())} at "
        f"{pair_name(problem, s, a)}; the next state piles up at the wall: "
        "widen the box or shorten the time step"
    )
    return [("outside", sentence)]


def outside_distances(problem: Problem, means: np.ndarray) -> np.ndarray:
    """How far each coordinate of the means lies outside the box; 0 inside and on periodic axes."""
    grid = problem.grid
    beyond = np.maximum(np.asarray(grid.lower) - means, means - np.asarray(grid.upper))
    return np.where(grid.periodic, 0.0, np.maximum(beyond, 0.0))


def solve_exact(
    problem: Problem,
    tolerance: float = 1e-6,
    max_sweeps: int = MAX_SWEEPS,
    max_bytes: int | None = None,
    max_evaluations: int | None = None,
    progress: Progress | None = None,
    initial: Any = None,
) -> Solution:
    """Q* with ‖q − Q*‖∞ ≤ tolerance, certified: lower ≤ Q* ≤ upper, and q is the middle.

    The masses of kernels that are no product over the axes come from quadrature. Its error is an estimate, which the bounds
    take into account: then they are estimates too, and `result` says so. Where float64 or quadrature cannot reach the
    tolerance, `converged` is False and `result` says which of the two stood in the way. `max_bytes` (default: half of the
    memory) and `max_evaluations` (of the density) refuse what is too large. `progress` is told (what is being done, parts
    done, parts in all) while masses are made.

    `initial` is where the sweeps begin: a table `[S, A]` or values `[S]`. The answer to a problem that differs little saves
    many of them. No start changes what is certified.
    """
    require_positive("tolerance", tolerance)
    warn_unless_expected(outside_surprises(problem), problem.expected, problem.name)
    start = None if initial is None else _start(problem, initial)
    operator, solved, history = settle(
        problem, lambda q: q.max(axis=1), tolerance, max_sweeps, max_bytes, max_evaluations, start=start, progress=progress
    )
    low, high, _ = solved.bounds
    q = solved.table
    q += (low + high) / 2
    lower, upper = q - solved.bounds.error, q + solved.bounds.error
    if operator.ended is not None:
        for table in (q, lower, upper):
            table[operator.ended] = 0
    return Solution(
        problem=problem,
        q=q,
        history=history,
        result=sentence(operator, solved, len(history), tolerance),
        converged=solved.reason == "reached",
        lower=lower,
        upper=upper,
        error=solved.bounds.error,
    )


def _start(problem: Problem, initial: Any) -> Float[np.ndarray, " S"]:
    """The values that sweeps begin with, 0 in terminal states."""
    problem.require_enumerable("solve_exact")
    given = np.array(initial, np.float64)
    shapes = (problem.num_states, problem.num_actions), (problem.num_states,)
    if given.shape not in shapes:
        raise HamqError(
            f"solve_exact: initial must be a table of shape {shapes[0]} or values of shape {shapes[1]}, got {given.shape}."
        )
    if not np.isfinite(given).all():
        raise HamqError("solve_exact: initial must be finite; it has a value that is not.")
    value, ended = given.max(axis=1) if given.ndim == 2 else given, terminal_table(problem)
    return value if ended is None else np.where(ended, 0, value)
