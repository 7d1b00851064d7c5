"""The steps of a pass where Q is a NumPy array on the host: for every completion, and for draws that are made anew."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hamq.completion.completion import Observed
from hamq.completion.selection import Pairs
from hamq.learning.preparation import Run
from hamq.learning.record import distance, finite_or_stop
from hamq.learning.tables import AbstractTables, Improved
from hamq.solution import Cost
from hamq.types import HamqError

Table = Float[np.ndarray, "S A"]


class BackedUp(NamedTuple):
    """On Ω_t, which is where `mask` is: E[V] and Q̂ = r + γE[V]; anything elsewhere."""

    expected: Table
    q: Table
    mask: Bool[np.ndarray, "S A"]


class Completed(NamedTuple):
    """Step 4: the whole table, and how it was obtained."""

    q: Table
    rank: int
    num_unidentified: int
    converged: bool
    memory: tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True)
class HostTables(AbstractTables[Table, BackedUp, Completed]):
    """NumPy's arrays of all states."""

    run: Run

    def place(self, q: Table) -> Table:
        return q

    def fetch(self, table: Table) -> Table:
        return table

    def back_up(self, pairs: tuple[Pairs, ...], table: Table, t: int) -> tuple[BackedUp, Cost]:
        run, q = self.run, table
        expected, cost = run.back_up(pairs, q.max(axis=1), t)
        mask = run.mask(pairs)
        if not mask.any():
            fraction = run.completion.fraction
            raise HamqError(f"solve: no pair was selected in iteration {t + 1}; raise fraction = {fraction:g}.")
        backed_up = np.where(run.is_ended, 0, run.rewards + run.problem.discount * expected)
        finite_or_stop(run.problem, np.where(mask, backed_up, q), t)
        return BackedUp(expected, backed_up, mask), cost

    def complete(self, backed_up: BackedUp, table: Table, memory: tuple[np.ndarray, ...]) -> Completed:
        """From the expectation, the increment Q̂ − Q^t, or the table Q̂ itself on Ω_t."""
        run, discount, q, found = self.run, self.run.problem.discount, table, backed_up
        completion = run.completion
        if completion.completes == "expectation":
            previous = (q - run.rewards) / discount if discount > 0 else np.zeros_like(q)
            done = completion.complete(Observed(found.expected, found.mask), previous, memory)
            whole = run.rewards + discount * done.q
        elif completion.completes == "increment":
            done = completion.complete(Observed(found.q - q, found.mask), np.zeros_like(q), memory)
            whole = q + done.q
        else:
            done = completion.complete(Observed(found.q, found.mask), q, memory)
            whole = done.q
        return Completed(whole, done.rank, done.num_unidentified, done.converged, done.memory)

    def improve(self, backed_up: BackedUp, done: Completed, table: Table, step: float) -> tuple[Table, Improved]:
        run, q = self.run, table
        new = np.where(run.is_ended, 0, q + step * (done.q - q))
        residual, change = float(np.abs(backed_up.q - q)[backed_up.mask].max()), float(np.abs(new - q).max())
        is_finite = bool(np.isfinite(new).all())
        told = Improved(distance(new, run.exact), residual, change, done.rank, is_finite)
        return new, told._replace(unidentified=done.num_unidentified, incomplete=int(not done.converged))
