"""What is written down of an iteration, and the sentence at the end."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.learning.preparation import Run
from hamq.learning.worth import Worth
from hamq.problem.problem import Problem, pair_name
from hamq.solution import Solution
from hamq.types import NonFiniteError

SETTLED = 1e-3
"""Part of max |Q| within which Q must be of its limit to be called converged when no tolerance was given."""


class Row(NamedTuple):
    """One iteration.

    distance    ‖Q − Q*‖_F/‖Q*‖_F, NaN where no exact solution was given
    residual    max |Q̂ − Q| over Ω_t: Q̂ is the backup of Q, so 0 for the fixed point of the sampled operator
    change      max |Q^{t+1} − Q^t| over all pairs, completion and step size included
    rank        of what was completed (the number of actions where nothing was)
    unidentified    states without any backed up entry
    incomplete      1 where the completion stopped before it reached its tolerance
    samples, density_evaluations, gradient_evaluations, seconds     spent so far, preparation included
    """

    distance: float
    residual: float
    change: float
    rank: int
    unidentified: int
    incomplete: int
    samples: int
    density_evaluations: int
    gradient_evaluations: int
    seconds: float


COLUMNS = Row._fields


def distance(q: Float[np.ndarray, "S A"], exact: Solution | None) -> float:
    """‖q − Q*‖_F/‖Q*‖_F, NaN without an exact solution."""
    return float("nan") if exact is None else float(np.linalg.norm(q - exact.q) / np.linalg.norm(exact.q))


def finite_or_stop(problem: Problem, q: Float[np.ndarray, "S A"], iteration: int) -> None:
    bad = ~np.isfinite(q)
    if bad.any():
        s, a = (int(v) for v in np.argwhere(bad)[0])
        raise NonFiniteError(
            f"iteration {iteration + 1}: Q is {q[s, a]} at {pair_name(problem, s, a)} ({int(bad.sum())} such entries); look "
            "at the reward there, and use a smaller step_size or another completion if Q grew without bound."
        )


def is_settled(run: Run, rows: list[Row]) -> bool:
    """Whether Q is within the tolerance of the limit of the sampled iteration."""
    return bool(rows) and run.settings.tolerance is not None and _away(run, rows) <= run.settings.tolerance


def _away(run: Run, rows: list[Row]) -> float:
    """How far the limit can be. A step of size α contracts by κ = 1 − α(1−γ), so it is within κ/(1−κ)·change.

    Where Ω_t changes, all pairs must have had their turn: the changes of as many iterations as that takes are added up.
    """
    turn = run.turn()
    if len(rows) < turn:
        return math.inf
    step = run.settings.passes.step(len(rows) - 1)
    contraction = 1 - step * (1 - run.problem.discount)
    return sum(row.change for row in rows[-turn:]) * contraction / (1 - contraction)


def sentence(run: Run, rows: list[Row], remark: str = "", told: Worth | None = None) -> tuple[bool, str]:
    """(converged, what came out); `remark` is what was done to Q after the last iteration, `told` what draws are worth."""
    last, discount, wanted = rows[-1], run.problem.discount, run.settings.tolerance
    away = _away(run, rows)
    scale = max(abs(float(run.rewards.max())), abs(float(run.rewards.min()))) / (1 - discount)
    converged = is_settled(run, rows) if wanted is not None else away <= SETTLED * scale
    worth = "" if told is None else told.sentence
    how = "".join(f"{part}; " for part in (run.note, remark, worth) if part)
    early = sum(row.incomplete for row in rows)
    if early:
        how += f"the completion stopped early in {early} of {len(rows)} iterations (raise its max_iterations); "
    spent = f"{last.gradient_evaluations:,} gradients, {last.density_evaluations:,} densities"
    if converged and told is not None and told.is_poor:
        return False, f"{how}Q moves by {away:.2g} at most, but draws that are worth so little settle nothing ({spent})"
    if converged:
        return True, f"{how}settled to {away:.2g}{_of_what(run)} after {len(rows)} iterations ({spent})"
    if len(rows) > 10 and last.change > 2 * rows[len(rows) // 2].change:
        return False, f"{how}Q grows: it changed by {last.change:.2g} in the last of {len(rows)} iterations ({spent})"
    if math.isinf(away):
        return False, f"{how}{len(rows)} iterations are too few for every pair to have its turn; use more ({spent})"
    asked = f"the {wanted:g} asked for" if wanted is not None else f"{SETTLED * scale:.2g}"
    return False, (
        f"{how}after {len(rows)} iterations Q still changes by {last.change:.2g}, which leaves it up to {away:.2g} from its "
        f"limit where {asked} would do; {_remedy(run)} ({spent})"
    )


def _of_what(run: Run) -> str:
    """What the iteration settles to is the answer for its draws; how far that is from Q* is another question."""
    return "" if run.sampler.is_exhaustive else " of the sampled problem"


def _remedy(run: Run) -> str:
    if run.settings.passes.draws == "fresh":
        return "use draws='reuse' or a decreasing step (step_decay)"
    return "use more iterations" if run.blocks is not None else "use completion=Anchors() or a decreasing step (step_decay)"
