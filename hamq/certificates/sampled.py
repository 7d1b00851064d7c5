"""Certificates from fresh draws: pilot draws propose functions above and below V*, other draws verify them.

With bounds of E[u(s')] that hold in all pairs at once (`experiment.py`, a union over 2·S·A + S statements),

    b = max_s (max_a U(s, a) − u(s)),  U = r + γ·bound(E u):     Tu ≤ u + b, so that V* ≤ u + b/(1−γ) and Q* ≤ U + γb/(1−γ),

and from below likewise; where some states are terminal, b counts as at least 0 (`exact/fixed_point.py`).
"""

import time
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hamq.certificates.bracket import Bracket, make_certificate
from hamq.certificates.certificate import Certificate
from hamq.certificates.experiment import ALL_RULES, Experiment, Prepared, Rules, make_experiment
from hamq.certificates.methods import Method
from hamq.certificates.proposal import Pilot, Proposal, correct, propose
from hamq.learning.backup import make_stock
from hamq.learning.draws import PairDraws, Progress
from hamq.problem.problem import Problem
from hamq.problem.tables import reward_table, terminal_table
from hamq.solution import Cost
from hamq.types import Key

PILOT_SHARE = 0.2
"""Of the draws."""
LIKE = (0.7, 1.5)
"""Range of max_a Q over that of the corrected values, where what was learnt of the one is good enough for the other."""
EPSILON = float(np.finfo(np.float64).eps)
LEAST_ROUNDS = 3
"""One for the pilot, two to verify."""


class Judged(NamedTuple):
    """A problem's rewards and ends, and the table that is judged."""

    problem: Problem
    q: Float[np.ndarray, "S A"]
    rewards: Float[np.ndarray, "S A"]
    ended: Bool[np.ndarray, " S"] | None

    @property
    def value(self) -> Float[np.ndarray, " S"]:
        """max_a Q, 0 in terminal states."""
        best = self.q.max(axis=1)
        return best if self.ended is None else np.where(self.ended, 0, best)

    def backed_up(self, expected: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "S A"]:
        """r + γ·expected, 0 in terminal states."""
        table = self.rewards + self.problem.discount * expected
        return table if self.ended is None else np.where(self.ended[:, None], 0, table)


class Verified(NamedTuple):
    """Bounds of backups `[S, A]`: of the upper function from above, of the lower one and the policy's from below."""

    upper: Float[np.ndarray, "S A"]
    lower: Float[np.ndarray, "S A"]
    policy: Float[np.ndarray, "S A"]


def judge(problem: Problem, q: Float[np.ndarray, "S A"]) -> Judged:
    return Judged(problem, q, reward_table(problem), terminal_table(problem))


def certify_by_draws(
    problem: Problem,
    q: Float[np.ndarray, "S A"],
    method: Method,
    confidence: float,
    num_draws: float,
    *,
    key: Key,
    progress: Progress | None = None,
    rules: Rules = ALL_RULES,
) -> Certificate:
    """`num_draws` per pair on average, the pilot's included."""
    began, judged = time.perf_counter(), judge(problem, q)
    level = (1 - confidence) / (2 * q.size + len(q))
    experiment, cost = make_experiment(problem, method, level, rules, key=key)
    proposal, prepared, draws = proposed(judged, experiment, num_draws, progress)
    verified, spent = verify(judged, experiment, proposal, prepared, progress)
    bracket = bracket_of(judged, proposal, verified)
    cost = cost.plus(prepared.cost).plus(spent)
    return make_certificate(
        problem, q, judged.rewards, judged.ended, bracket,
        method=method, confidence=confidence, draws=draws, cost=cost, began=began,
    )  # fmt: skip


def proposed(
    judged: Judged, experiment: Experiment, num_draws: float, progress: Progress | None
) -> tuple[Proposal, Prepared, float]:
    """What is to be verified, what the pilot says of every pair, and how many draws that makes per pair."""
    q, per_round, value = judged.q, experiment.source.per_round, judged.value
    pilot_rounds = max(1, round(PILOT_SHARE * num_draws / per_round))
    num_rounds = max(LEAST_ROUNDS - 1.0, num_draws / per_round - pilot_rounds)
    pairs, discount = np.arange(q.size), judged.problem.discount
    prepared = experiment.prepare(pairs, value, pilot_rounds, progress)
    pilot = Pilot(
        residual=judged.backed_up(prepared.mean.reshape(q.shape)) - q,
        error=discount * prepared.error.reshape(q.shape),
        stock=make_stock(PairDraws(prepared.locations.reshape(*q.shape, *prepared.locations.shape[1:]), None)),
    )
    corrected, centre = correct(judged.problem, q, value, judged.ended, pilot)
    if not LIKE[0] * np.ptp(centre) <= np.ptp(value) <= LIKE[1] * np.ptp(centre):
        # A table so wrong that its V says nothing of how the values that are verified vary: the same draws again, for those.
        again = experiment.prepare(pairs, centre, pilot_rounds, progress)
        prepared = again._replace(cost=prepared.cost.plus(again.cost))
        num_rounds, pilot_rounds = max(1.0, num_rounds - pilot_rounds), 2 * pilot_rounds  # they cost as much as others
    span = float(np.ptp(centre))

    def width(draws):
        return discount * experiment.width(prepared, span, draws.reshape(-1)).reshape(q.shape)

    proposal = propose(corrected, centre, q.argmax(axis=1), width, num_rounds, per_round, allots=experiment.rules.allots)
    return proposal, prepared, per_round * (pilot_rounds + float(proposal.rounds.mean()))


def verify(
    judged: Judged, experiment: Experiment, proposal: Proposal, prepared: Prepared, progress: Progress | None
) -> tuple[Verified, Cost]:
    """Bounds of the backups of the three functions, from draws that nothing was chosen with."""
    pairs = np.arange(judged.q.size)
    functions, signs = np.stack([proposal.upper, proposal.lower, proposal.policy]), (1, -1, -1)
    found, cost = experiment.bounds(pairs, proposal.rounds.reshape(-1), functions, signs, prepared, progress)
    return Verified(*(judged.backed_up(bound.reshape(judged.q.shape)) for bound in found)), cost


def bracket_of(judged: Judged, proposal: Proposal, verified: Verified) -> Bracket:
    discount, policy = judged.problem.discount, judged.q.argmax(axis=1)
    has_ends = judged.ended is not None and bool(judged.ended.any())

    def shift(missed: Float[np.ndarray, " S"]) -> float:
        """b/(1−γ)."""
        b = float(missed.max())
        return (max(b, 0.0) if has_ends else b) / (1 - discount)

    followed = verified.policy[np.arange(len(policy)), policy]
    above, below = shift(verified.upper.max(axis=1) - proposal.upper), shift(proposal.lower - verified.lower.max(axis=1))
    below_policy = shift(proposal.policy - followed)
    upper, lower = verified.upper + discount * above, verified.lower - discount * below
    tables = (verified.upper, verified.lower, verified.policy, proposal.upper, proposal.lower, proposal.policy)
    rounding = 8 * EPSILON * max(float(np.abs(table).max()) for table in tables) / (1 - discount)
    return Bracket(
        lower=lower - rounding,
        upper=np.minimum(upper, (proposal.upper + above)[:, None]) + rounding,
        policy_value=np.maximum(proposal.policy - below_policy, followed - discount * below_policy) - rounding,
    )
