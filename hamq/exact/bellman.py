"""The Bellman operator of a problem in float64, and the value of any policy.

    (backup V)(s, a) = r(s, a) + γ E[V(s') | s, a],     0 in terminal states.

The law of s' is factored for product kernels and dense for the others; whatever it is, `slack(V)` bounds how far the
computed backup can be from the exact one: rounding, plus γ·δ·span(V) for masses that are off by δ in total variation.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hamq.exact.dense import DenseLaw, GlanceLaw
from hamq.exact.factored import EPSILON, ROUNDING, FactoredLaw, require_tables
from hamq.exact.fixed_point import WINDOW, FixedPoint, Record, iterate
from hamq.problem import cells, tables
from hamq.problem.problem import Problem
from hamq.solution import History
from hamq.types import HamqError, require_count

MAX_SWEEPS = 10_000
LOOSE = 1e-3
"""Quadrature error of rows at most, and of those that nobody asked more of."""
GLANCE = 0.01
"""Accuracy of the first look at how much V varies, as a part of the range of the rewards over 1 − γ."""
MOST_NEEDED = 1e15
"""Evaluations beyond which a number says nothing."""
SHARE = 0.5
"""Part of the tolerance that the quadrature may take."""

Chooser = Callable[[np.ndarray], np.ndarray]


class Evaluation(NamedTuple):
    """V of one policy; |value − V^π| ≤ error in every state."""

    value: Float[np.ndarray, " S"]
    error: float
    converged: bool
    result: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BellmanOperator:
    """T of one problem; `make_operator` builds it, once for any number of backups and policies."""

    problem: Problem
    rewards: Float[np.ndarray, "S A"]
    ended: Bool[np.ndarray, " S"] | None
    law: FactoredLaw | DenseLaw | GlanceLaw

    @property
    def is_estimated(self) -> bool:
        """Whether the masses come from quadrature, whose error nobody bounds."""
        return cells.needs_quadrature(self.problem)

    def backup(self, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        # E[V] = m + E[V − m]: what is rounded is as small as V varies, however large V is.
        middle = (float(value.min()) + float(value.max())) / 2
        q = self.law(value - middle)
        q += middle
        q *= self.problem.discount
        q += self.rewards
        if self.ended is not None:
            q[self.ended] = 0
        return q

    def slack(self, value: Float[np.ndarray, " S"]) -> float:
        """sup |backup(value) − exact backup|, at most, also after an average over the actions."""
        discount, span, size = self.problem.discount, float(np.ptp(value)), float(np.abs(value).max())
        summing = self.law.num_summands * discount * span
        rest = (self.problem.num_actions + 8) * (discount * size + self._largest_reward)
        return EPSILON * (summing + rest) + discount * self.law.error * span

    @functools.cached_property
    def _largest_reward(self) -> float:
        return max(float(self.rewards.max()), -float(self.rewards.min()))

    def solve(
        self, choose: Chooser, tolerance: float, max_sweeps: int, record: Record, start: np.ndarray | None = None
    ) -> FixedPoint:
        """The fixed point of V → choose(backup(V)), where `choose` takes [S, A] to [S]."""

        def apply(value):
            q = self.backup(value)
            return choose(q), q

        return iterate(
            apply,
            self.slack,
            np.zeros(self.problem.num_states) if start is None else start,
            discount=self.problem.discount,
            has_terminal_states=self.ended is not None and bool(self.ended.any()),
            tolerance=tolerance,
            max_sweeps=max_sweeps,
            record=record,
        )

    def evaluate(self, policy: Any, tolerance: float = 1e-6, max_sweeps: int = MAX_SWEEPS) -> Evaluation:
        """V^π; `evaluate_policy` without building the operator again."""
        return evaluate_policy(self.problem, policy, tolerance, max_sweeps, operator=self)


def make_operator(
    problem: Problem,
    law_error: float = LOOSE,
    max_bytes: int | None = None,
    max_evaluations: int | None = None,
    progress: cells.Progress | None = None,
    is_glance: bool = False,
) -> BellmanOperator:
    """The operator with masses off by at most `law_error` in total variation where they come from quadrature.

    `is_glance` takes the density at the grid points instead, which is fast and may be anything but right.
    """
    problem.require_enumerable(f"solving {problem.name} exactly")
    tables.check_covariances(problem)
    if problem.is_product:
        require_tables(problem, max_bytes)
    else:
        cells.require_room(problem, f"solving {problem.name} exactly", max_bytes, max_evaluations)
    rewards, ended = tables.reward_table(problem), tables.terminal_table(problem)
    if is_glance and not problem.is_product:
        return BellmanOperator(problem, rewards, ended, GlanceLaw(problem))
    law = _make_law(problem, law_error, max_bytes, max_evaluations, progress)
    return BellmanOperator(problem, rewards, ended, law)


def _make_law(
    problem: Problem,
    law_error: float,
    max_bytes: int | None,
    max_evaluations: int | None,
    progress: cells.Progress | None,
) -> FactoredLaw | DenseLaw:
    if problem.is_product:
        return FactoredLaw(problem, max_bytes, law_error, max_evaluations, progress)
    return DenseLaw(problem, law_error, max_evaluations, progress)


def settle(
    problem: Problem,
    choose: Chooser,
    tolerance: float,
    max_sweeps: int,
    max_bytes: int | None,
    max_evaluations: int | None,
    operator: BellmanOperator | None = None,
    start: Float[np.ndarray, " S"] | None = None,
    progress: cells.Progress | None = None,
    refines: bool = False,
) -> tuple[BellmanOperator, FixedPoint, History]:
    """The fixed point of V → choose(backup(V)), the operator it was found with, its quadrature refined, and all sweeps.

    γ·δ·span(V)/(1−γ) may take half of the tolerance, which says what error δ rows may have. A glance at the density in the
    grid points says how large span(V) is, and the answer itself then says it better. An operator that was handed in is used
    as it is, unless it `refines`: then its rows are made again where they are too loose.
    """
    require_positive("tolerance", tolerance)
    require_count("max_sweeps", max_sweeps)
    is_fixed, record = operator is not None and not refines, Record(_tell_sweeps(progress, tolerance))
    if operator is None:
        operator = _first_operator(problem, choose, tolerance, max_bytes, max_evaluations, progress)
    asked = operator.law.asked
    solved = operator.solve(choose, tolerance, max_sweeps, record, start)
    while solved.reason == "slack" and operator.is_estimated and not is_fixed:
        error, allowed = operator.law.quadrature_error, _allowed_error(problem, tolerance, float(np.ptp(solved.value)))
        if error <= allowed or error > asked:  # rounding stands in the way, or the evaluations were used up
            break
        asked = allowed
        rewards, ended = operator.rewards, operator.ended
        del operator  # the old rows go before the new ones come
        law = _make_law(problem, allowed, max_bytes, max_evaluations, progress)
        operator = BellmanOperator(problem, rewards, ended, law)
        solved = operator.solve(choose, tolerance, max_sweeps, record, solved.value)
    return operator, solved, record.history()


def _allowed_error(problem: Problem, tolerance: float, span: float) -> float:
    """Total variation that rows may be off by."""
    return SHARE * tolerance * (1 - problem.discount) / (problem.discount * span) if span > 0 else math.inf


def _first_operator(
    problem: Problem,
    choose: Chooser,
    tolerance: float,
    max_bytes: int | None,
    max_evaluations: int | None,
    progress: cells.Progress | None,
) -> BellmanOperator:
    """With rows as tight as a glance at the density asks for."""
    if problem.is_product or not cells.needs_quadrature(problem):  # the masses of axes cost little
        return make_operator(problem, LOOSE, max_bytes, max_evaluations, progress)
    _tell(progress, "looking at the density", 0, 1)
    seen = make_operator(problem, LOOSE, max_bytes, max_evaluations, None, is_glance=True)
    wanted = GLANCE * float(np.ptp(seen.rewards)) / (1 - problem.discount)
    value = seen.solve(choose, max(wanted, tolerance), MAX_SWEEPS, Record()).value
    allowed = min(LOOSE, _allowed_error(problem, tolerance, float(np.ptp(value))))
    rewards, ended = seen.rewards, seen.ended
    del seen  # its rows go before the new ones come
    return BellmanOperator(problem, rewards, ended, DenseLaw(problem, allowed, max_evaluations, progress))


def _tell(progress: cells.Progress | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(what, done, total)


def _tell_sweeps(progress: cells.Progress | None, tolerance: float) -> Callable[[int, float], None] | None:
    """Tells of sweeps, of how many in all by how the error fell; not more than twice a second."""
    if progress is None:
        return None
    errors, told = [], [time.monotonic()]

    def tell(sweep: int, error: float) -> None:
        errors.append(error)
        if time.monotonic() - told[0] < cells.SECONDS_BETWEEN:
            return
        told[0] = time.monotonic()
        before = errors[max(0, len(errors) - 1 - WINDOW)]
        rate = math.log(before / error) / min(WINDOW, len(errors) - 1) if 0 < error < before else 0.0
        left = math.ceil(math.log(error / tolerance) / rate) if rate > 0 and error > tolerance else 1
        progress("sweeps", sweep, sweep + max(1, left))

    return tell


def sentence(operator: BellmanOperator, solved: FixedPoint, sweeps: int, tolerance: float) -> str:
    """What came out, and what stood in the way where it is less than was asked for."""
    error = solved.bounds.error
    if solved.reason == "reached" and operator.is_estimated:
        return f"estimated to {error:.2g} after {sweeps} sweeps (by quadrature, whose error no proof bounds)"
    if solved.reason == "reached":
        return f"certified to {error:.2g} after {sweeps} sweeps"
    if solved.reason == "sweeps":
        return f"{sweeps} sweeps were not enough for {tolerance:g}, the bound reached is {error:.2g}; raise max_sweeps"
    law = operator.law
    if law.quadrature_error > ROUNDING:
        needed = f"about {law.needed:.0e}" if law.needed < MOST_NEEDED else "far more"
        return (
            f"the quadrature's error of {law.quadrature_error:.2g} (total variation) stands in the way of {tolerance:g}, "
            f"the bound reached is {error:.2g} with {law.evaluations:.1e} evaluations of the density ({needed} would be "
            "needed); raise max_evaluations or tolerance"
        )
    return f"float64 cannot certify {tolerance:g}, the bound reached is {error:.2g}; raise tolerance"


def evaluate_policy(
    problem: Problem,
    policy: Any,
    tolerance: float = 1e-6,
    max_sweeps: int = MAX_SWEEPS,
    max_bytes: int | None = None,
    max_evaluations: int | None = None,
    operator: BellmanOperator | None = None,
) -> Evaluation:
    """V^π within ±tolerance; a policy is an action per state `[S]` (int) or probabilities `[S, A]`.

    `operator` (from `make_operator`) saves building it again where many policies are evaluated.
    """
    problem.require_enumerable("evaluate_policy")
    choose = _chooser(problem, np.asarray(policy))
    operator, solved, history = settle(problem, choose, tolerance, max_sweeps, max_bytes, max_evaluations, operator)
    value = solved.image + (solved.bounds.low + solved.bounds.high) / 2
    if operator.ended is not None:
        value[operator.ended] = 0
    result = sentence(operator, solved, len(history), tolerance)
    return Evaluation(value, solved.bounds.error, solved.reason == "reached", result)


def _chooser(problem: Problem, policy: np.ndarray) -> Chooser:
    """[S, A] -> [S]: the entry of the policy's action, or the average under its probabilities."""
    num_states, num_actions = problem.num_states, problem.num_actions
    if policy.shape == (num_states,) and policy.dtype.kind in "iu":
        bad = (policy < 0) | (policy >= num_actions)
        if np.any(bad):
            s = int(np.argmax(bad))
            raise HamqError(f"policy takes action {policy[s]} in state {s}; actions are 0 to {num_actions - 1}.")
        return lambda q: np.take_along_axis(q, policy[:, None].astype(np.int64), axis=1)[:, 0]
    if policy.shape == (num_states, num_actions) and policy.dtype.kind in "iuf":
        total = policy.sum(axis=1, dtype=np.float64)
        bad = ~(np.all(policy >= 0, axis=1) & (np.abs(total - 1) <= 1e-6))
        if np.any(bad):
            s = int(np.argmax(bad))
            raise HamqError(
                f"policy has the probabilities {policy[s].tolist()} in state {s}; they must be at least 0 and sum to 1."
            )
        probabilities = policy / total[:, None]
        return lambda q: np.einsum("sa,sa->s", probabilities, q)
    raise HamqError(
        f"policy must be an action index per state, shape ({num_states},) and integer, or probabilities of shape "
        f"({num_states}, {num_actions}); got shape {policy.shape} and dtype {policy.dtype}."
    )


def require_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not value > 0:
        raise HamqError(f"{name} must be a number above 0, got {value!r}.")
