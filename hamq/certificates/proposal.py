"""What pilot draws propose and later draws verify: functions above and below V*, and how many draws each pair gets.

A function with Tu ≤ u is above V*: T is monotone, so that u ≥ Tu ≥ T²u ≥ … → V*. One with Tu ≥ u is below V*, and one with
T^π u ≥ u below V^π. So nothing has to be iterated with fresh draws: pilot draws propose u, and ONE round of fresh draws
verifies it, pair by pair, at the full confidence. A proposal that is missed by b somewhere still gives u + b/(1−γ).

Where the pilot stands: ρ = TQ − Q is estimated with error se in each pair, and shrunk to ρ·τ²/(τ² + se²) with τ² the
variance of the residual over the pairs; a table that is better than the pilot's draws is hardly moved. Then, with P̂ the
law of the pilot,

    upper     u = max_a (Q + ρ + m + γP̂(u − V)),
    lower     u = max_a (Q + ρ − m + γP̂(u − V)),
    policy    the same at a = π(s) in place of the maximum,

m the half-width that verification will have, and a few standard errors of ρ.

Draws go where they decide: a pair that is γ·w short of the best action of its state may have a width w more. With x the
width of pairs that decide, n(x) draws bring a pair to min(gap + x, x·γ/(1−γ)·0.3), and x is such that the budget is used up.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.exact.fixed_point import Record, iterate
from hamq.learning.backup import Stock
from hamq.problem.problem import Problem

ERRORS = 1.5
"""Standard errors of the pilot in a margin."""
PASSED_ON = 0.3
"""Width of a pair that decides nothing, as a part of what the pairs that decide pass on to it."""
MAX_SWEEPS = 500

Width = Callable[[Float[np.ndarray, "S A"]], Float[np.ndarray, "S A"]]
"""Half-width of the backup of every pair, with so many draws in each."""


class Pilot(NamedTuple):
    """What pilot draws say: residual ρ of Q with its standard error, and the draws themselves."""

    residual: Float[np.ndarray, "S A"]
    error: Float[np.ndarray, "S A"]
    stock: Stock


class Proposal(NamedTuple):
    """Three functions `[S]`, and rounds of draws `[S, A]`."""

    upper: Float[np.ndarray, " S"]
    lower: Float[np.ndarray, " S"]
    policy: Float[np.ndarray, " S"]
    rounds: Int[np.ndarray, "S A"]


class Corrected(NamedTuple):
    """Q with the pilot's correction, backed up with the law of the pilot."""

    problem: Problem
    ended: Bool[np.ndarray, " S"] | None
    constant: Float[np.ndarray, "S A"]
    uncertain: Float[np.ndarray, "S A"]
    stock: Stock

    def backup(self, function: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        table = self.constant + self.problem.discount * self.stock.expected(self.problem, function)
        return table if self.ended is None else np.where(self.ended[:, None], 0, table)

    def solved(
        self, margin: Float[np.ndarray, "S A"] | float, choose: Callable, start: Float[np.ndarray, " S"]
    ) -> Float[np.ndarray, " S"]:
        """The fixed point of u → choose(backup(u) + margin)."""
        has_ends = self.ended is not None and bool(self.ended.any())
        margin = margin if self.ended is None else np.where(self.ended[:, None], 0, margin)

        def apply(function):
            table = self.backup(function) + margin
            return choose(table), table

        tolerance = 1e-5 * max(float(np.ptp(start)), float(np.ptp(self.constant)), 1e-9)
        settings = {"discount": self.problem.discount, "has_terminal_states": has_ends, "tolerance": tolerance}
        return iterate(apply, lambda _: 0.0, start, max_sweeps=MAX_SWEEPS, record=Record(), **settings).image


def correct(
    problem: Problem, q: Float[np.ndarray, "S A"], value: Float[np.ndarray, " S"], ended: Any, pilot: Pilot
) -> tuple[Corrected, Float[np.ndarray, " S"]]:
    """The correction, and the values that solve it: V* as far as the pilot knows; `value` is max_a Q."""
    noise = pilot.error**2
    signal = max(float(np.mean(pilot.residual**2 - noise)), 0.0)
    share = signal / np.maximum(signal + noise, 1e-300)
    constant = q + share * pilot.residual - problem.discount * pilot.stock.expected(problem, value)
    corrected = Corrected(problem, ended, constant, ERRORS * np.sqrt(share * noise), pilot.stock)
    return corrected, corrected.solved(0.0, best, value)


def propose(
    corrected: Corrected,
    centre: Float[np.ndarray, " S"],
    policy: Int[np.ndarray, " S"],
    width: Width,
    num_rounds: float,
    per_round: int,
    allots: bool = True,
) -> Proposal:
    """`num_rounds` of `per_round` draws per pair may be spent on verification: on average, or in each where not `allots`."""
    states, table = np.arange(len(policy)), corrected.backup(centre)
    rounds = np.full(table.shape, int(num_rounds))
    if allots:
        gap = table.max(axis=1, keepdims=True) - table
        gap[states, policy] = 0
        rounds = allot(gap, width, num_rounds, per_round, corrected.problem.discount)
    margin = width(rounds * float(per_round)) + corrected.uncertain
    return Proposal(
        upper=corrected.solved(margin, best, centre),
        lower=corrected.solved(-margin, best, centre),
        policy=corrected.solved(-margin, lambda table: table[states, policy], centre),
        rounds=rounds,
    )


def best(table: Float[np.ndarray, "S A"]) -> Float[np.ndarray, " S"]:
    return table.max(axis=1)


def allot(
    gap: Float[np.ndarray, "S A"], width: Width, num_rounds: float, per_round: int, discount: float
) -> Int[np.ndarray, "S A"]:
    """Rounds of draws, on average `num_rounds`: as many as bring each pair to the width that is of use there."""
    most = max(2, int(num_rounds * gap.shape[1]))
    choices = np.unique(np.round(np.geomspace(1, most, 64)).astype(int))
    widths = np.stack([width(np.full(gap.shape, float(n * per_round))) for n in choices])

    def needed(x: float) -> Int[np.ndarray, "S A"]:
        allowed = np.minimum(gap + x, max(1.0, PASSED_ON * discount / (1 - discount)) * x)
        enough = widths <= allowed[None]
        return np.where(enough.any(axis=0), choices[np.argmax(enough, axis=0)], choices[-1])

    low, high = 0.0, float(widths[0].max())
    for _ in range(40):
        x = (low + high) / 2
        low, high = (x, high) if needed(x).mean() > num_rounds else (low, x)
    return needed(high)
