"""Where Q is while it is iterated, and the steps of a pass there: on the host (host.py) or with the draws (sweep.py)."""

import abc
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from hamq.completion.selection import Pairs
from hamq.solution import Cost

Table = TypeVar("Table")
BackedUp = TypeVar("BackedUp")
Done = TypeVar("Done")


class Improved(NamedTuple):
    """What a pass says of the table that it made; see `record.Row`."""

    distance: float
    residual: float
    change: float
    rank: int
    is_finite: bool
    unidentified: int = 0
    incomplete: int = 0


class AbstractTables(abc.ABC, Generic[Table, BackedUp, Done]):
    """The steps of `q_iteration`, which calls them in this order."""

    @abc.abstractmethod
    def place(self, q: Float[np.ndarray, "S A"]) -> Table:
        """Q where it is iterated."""

    @abc.abstractmethod
    def fetch(self, table: Table) -> Float[np.ndarray, "S A"]:
        """Q on the host."""

    @abc.abstractmethod
    def back_up(self, pairs: tuple[Pairs, ...], table: Table, t: int) -> tuple[BackedUp, Cost]:
        """Steps 2 and 3: E[V] of Ω_t from its draws, and what they cost."""

    @abc.abstractmethod
    def complete(self, backed_up: BackedUp, table: Table, memory: tuple[np.ndarray, ...]) -> Done:
        """Step 4: what makes the whole table of its part; it has the `memory` for the next completion."""

    @abc.abstractmethod
    def improve(self, backed_up: BackedUp, done: Done, table: Table, step: float) -> tuple[Table, Improved]:
        """Q^t + α·(completed − Q^t), 0 where problems have ended."""
