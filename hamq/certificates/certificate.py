"""What is known of Q* once a table was certified: a bracket, what it says of the table and its policy, and at what cost.

The table of Q in whatever a user hands over to be judged, and the problem that it is of.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.certificates.methods import METHODS, Method
from hamq.notebook import card, held, map_of, slice_of
from hamq.problem.cells import needs_quadrature
from hamq.problem.problem import Problem, is_same, pair_name
from hamq.solution import AbstractSolution, Cost
from hamq.types import HamqError


def problem_of(caller: str, given: Any, problem: Problem | None) -> Problem:
    """The problem of a solution, or the one that stands beside a table."""
    if isinstance(given, Problem):
        raise HamqError(f"{caller}: what is judged comes first: {caller}(solution), or {caller}(table, problem).")
    if problem is not None:
        return problem
    if not isinstance(given, AbstractSolution):
        raise HamqError(f"{caller}: a {type(given).__name__} does not know its problem; give {caller}(table, problem).")
    return given.problem


def checked_table(caller: str, problem: Problem, given: Any) -> Float[np.ndarray, "S A"]:
    """Of a solution, a run or an array, in float64; of a tensor train, one backup of V. Refuses what is no table of this
    problem."""
    problem.require_enumerable(caller)
    if isinstance(given, AbstractSolution) and not is_same(given.problem, problem):
        raise HamqError(
            f"{caller}: {given.problem!r} and {problem!r} are different problems; give the problem that was solved."
        )
    q = given.table() if isinstance(given, AbstractSolution) else getattr(given, "q", given)
    if q is None:
        raise HamqError(f"{caller}: this {type(given).__name__} has no table of Q; finish the run.")
    q = np.asarray(q)
    shape = (problem.num_states, problem.num_actions)
    if q.shape != shape or q.dtype.kind not in "iuf":
        raise HamqError(
            f"{caller}: the table must hold real numbers and have the shape {shape} of {problem.name}, got {q.shape} of "
            f"{q.dtype}; give Q for every state and action."
        )
    q = q.astype(np.float64)
    if not np.isfinite(q).all():
        s, a = (int(i) for i in np.argwhere(~np.isfinite(q))[0])
        raise HamqError(f"{caller}: Q is {q[s, a]} at {pair_name(problem, s, a)}; every entry must be finite.")
    return q


DIGITS = 3
"""Of a bound that is printed."""
USEFUL = 0.1
"""A bound is worth its draws where it is below this part of the range of values."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """lower ≤ Q* ≤ upper in every pair at once, with probability `confidence` over the draws that certify.

    method          exact (no draws, confidence 1), guaranteed (a theorem for independent draws of any law) or asymptotic
                    (chains, as their number grows)
    error           bound of max |Q − Q*|
    policy_loss     per state, bound of V*(s) − V^π(s) of the greedy policy π of Q; `worst_loss` is its maximum
    known_before    the bound of max |Q − Q*| that holds without any draw, by the rewards alone
    draws           per pair, on average; 0 for `exact`
    draws_needed    per pair, for a bracket of a tenth of the range of values, if its width falls as 1/√n; None where it is
    cost            draws, density and gradient evaluations that were spent
    """

    problem: Problem
    method: Method
    confidence: float
    lower: Float[np.ndarray, "S A"]
    upper: Float[np.ndarray, "S A"]
    error: float
    policy_loss: Float[np.ndarray, " S"]
    known_before: float
    draws: float
    draws_needed: int | None
    cost: Cost
    seconds: float

    @property
    def worst_loss(self) -> float:
        return float(self.policy_loss.max())

    @property
    def is_vacuous(self) -> bool:
        """Whether it says no more than the rewards alone, or cannot tell the best state from the worst one."""
        if not METHODS[self.method].sure:
            return False
        width, size = float((self.upper - self.lower).max()), float(np.abs(self.upper).max())
        if width <= 1e-9 * size:
            return False
        values = ((self.lower + self.upper) / 2).max(axis=1)
        return width >= float(np.ptp(values)) or not self.error < self.known_before

    @property
    def sentence(self) -> str:
        """What may be quoted."""
        name = self.problem.name
        if self.is_vacuous:
            needed = "" if self.draws_needed is None else f"; it takes about {self.draws_needed:,} to make them useful"
            return (
                f"{name}: {self.draws:,.0f} draws per pair are too few to say anything of use about Q*{needed}. The rewards "
                f"alone say |Q − Q*| ≤ {rounded_up(self.known_before)}."
            )
        loss = rounded_up(self.worst_loss)
        found = f"|Q − Q*| ≤ {rounded_up(self.error)} in all pairs, and the greedy policy loses {loss} at most"
        if not METHODS[self.method].sure:
            if not needs_quadrature(self.problem):
                return f"{name}: {found}; computed, with no draw, rounding included."
            return f"{name}: {found}; computed, with no draw, rounding and an estimate of the quadrature's error included."
        sure = f"with {rounded_down(self.confidence)} confidence ({METHODS[self.method].sure})"
        return f"{name}: {sure} {found}; {self.draws:,.0f} fresh draws per pair."

    def _repr_html_(self) -> str:
        names, points = (*self.problem.axis_names, ""), self.problem.grid.points
        facts = [
            ("|Q − Q*| ≤", rounded_up(self.error)),
            ("loss of the policy ≤", rounded_up(self.worst_loss)),
            ("confidence", rounded_down(self.confidence)),
            ("method", self.method),
        ]
        picture = map_of(
            slice_of(self.policy_loss, points), (names[0], names[1]), "bound of the policy's loss" + held(points)
        )
        return card("Certificate", self.sentence, facts, picture)

    def __repr__(self) -> str:
        return f"Certificate({self.method}: {self.sentence})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PartialCertificate:
    """A statement about most pairs, where all of them are too many: no bound of |Q − Q*| follows from it.

    With probability `confidence` at most `share` of ALL pairs have |TQ − Q| above `residual`, T the Bellman operator;
    seen on `num_pairs` pairs drawn at random.
    """

    problem: Problem
    method: Method
    confidence: float
    share: float
    residual: float
    num_pairs: int
    draws: float
    cost: Cost
    seconds: float

    @property
    def is_vacuous(self) -> bool:
        return not np.isfinite(self.residual)

    @property
    def sentence(self) -> str:
        name, seen = self.problem.name, f"{self.num_pairs:,} of {self.problem.num_states * self.problem.num_actions:,} pairs"
        if self.is_vacuous:
            return f"{name}: {seen} are too few for a statement about {self.share:.0%} of the pairs; raise max_evaluations."
        sure = f"with {rounded_down(self.confidence)} confidence ({METHODS[self.method].sure})"
        return (
            f"{name}: {sure} at most {self.share:.0%} of the pairs have "
            f"|TQ − Q| above {rounded_up(self.residual)}, seen on {seen} with {self.draws:,.0f} fresh draws each; a "
            "quantile of the residual, no bound of |Q − Q*|: raise max_evaluations for one."
        )

    def _repr_html_(self) -> str:
        return card("Certificate of a part", self.sentence)

    def __repr__(self) -> str:
        return f"PartialCertificate({self.method}: {self.sentence})"


def rounded_up(bound: float | None) -> str:
    """A bound with three digits, never less than it is; nothing where there is none."""
    if bound is None:
        return ""
    if bound == 0 or not math.isfinite(bound):
        return f"{bound:.{DIGITS}g}"
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) - DIGITS + 1)
    return f"{math.ceil(bound / unit * (1 - 1e-12)) * unit:.{DIGITS}g}"


def rounded_down(confidence: float) -> str:
    """A confidence with four decimals, never more than it is; 1 only where nothing was drawn."""
    return f"{math.floor(confidence * 1e4 + 1e-9) / 1e4:.4g}"
