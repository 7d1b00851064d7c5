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
from typing import NamedTuple

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
    """What pilot draws say: residual ρ of Q with its standard error, the draws themselves, and the law's widths."""

    residual: Float[np.ndarray, "S A"]
    error: Float[np.ndarray, "S A"]
    stock: Stock
    width: Width


class Proposal(NamedTuple):
    """Three functions `[S]`, and rounds of draws `[S, A]`."""

    upper: Float[np.ndarray, " S"]
    lower: Float[np.ndarray, " S"]
    policy: Float[np.ndarray, " S"]
    rounds: Int[np.ndarray, "S A"]


def propose(
    problem: Problem,
    q: Float[np.ndarray, "S A"],
    ended: Bool[np.ndarray, " S"] | None,
    pilot: Pilot,
    num_rounds: float,
    per_round: int,
    allots: bool = True,
) -> Proposal:
    """`num_rounds` of `per_round` draws per pair may be spent on verification: on average, or in each where not `allots`."""
    discount, states = problem.discount, np.arange(len(q))
    value = q.max(axis=1) if ended is None else np.where(ended, 0, q.max(axis=1))
    policy = q.argmax(axis=1)
    noise = pilot.error**2
    signal = max(float(np.mean(pilot.residual**2 - noise)), 0.0)
    share = signal / np.maximum(signal + noise, 1e-300)
    constant = q + share * pilot.residual - discount * pilot.stock.expected(problem, value)
    uncertain = ERRORS * np.sqrt(share * noise)

    def backup(function):
        table = constant + discount * pilot.stock.expected(problem, function)
        if ended is not None:
            table[ended] = 0
        return table

    def solved(margin, choose, start):
        margin = margin if ended is None else np.where(ended[:, None], 0, margin)

        def apply(function):
            table = backup(function) + margin
            return choose(table), table

        tolerance, has_ends = 1e-5 * max(float(np.ptp(start)), 1e-9), ended is not None and bool(ended.any())
        settings = {"discount": discount, "has_terminal_states": has_ends, "tolerance": tolerance}
        return iterate(apply, lambda _: 0.0, start, max_sweeps=MAX_SWEEPS, record=Record(), **settings).image

    def best(table):
        return table.max(axis=1)

    def followed(table):
        return table[states, policy]

    centre = solved(np.zeros_like(q), best, value)
    table = backup(centre)
    gap = table.max(axis=1, keepdims=True) - table
    gap[states, policy] = 0
    rounds = np.full(q.shape, int(num_rounds))
    if allots:
        rounds = allot(gap, pilot.width, num_rounds, per_round, discount)
    margin = pilot.width(rounds * float(per_round)) + uncertain
    return Proposal(solved(margin, best, centre), solved(-margin, best, centre), solved(-margin, followed, centre), rounds)


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
