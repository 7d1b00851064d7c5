"""What a completion may try before the first iteration, and what it decides then."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hamq.completion.selection import Pairs
from hamq.problem.problem import Problem
from hamq.types import Key


class Sampled(NamedTuple):
    """Draws of some pairs: `expected(value)` are their E[V], in the order of the pairs; `drawn` belongs to the pilot."""

    expected: Callable[[Float[np.ndarray, " S"]], Float[np.ndarray, "R K"]]
    drawn: Any


class AbstractPilot(abc.ABC):
    """A few draws of the sampler of a solve, and what its budget will buy; `learning/trial.py` has them."""

    problem: Problem
    rewards: Float[np.ndarray, "S A"]
    is_ended: Bool[np.ndarray, "S 1"]
    key: Key

    @abc.abstractmethod
    def draw(self, pairs: Pairs, num_samples: int, *, key: Key) -> Sampled:
        """So many draws of each pair; fewer where the sampler was given fewer and there is no budget."""

    @abc.abstractmethod
    def tell(self, what: str, done: int, total: int) -> None:
        """Progress."""

    @abc.abstractmethod
    def share(self, counts: list[tuple[int, int]], fewest: int) -> float:
        """The part of what was to be tried, (pairs, draws of each) of several blocks, that the budget leaves room for.

        Refuses a budget that does not buy `fewest` draws of each pair.
        """

    @abc.abstractmethod
    def affords_search(self, num_pairs: int) -> bool:
        """Whether the budget leaves room to look for the modes of so many pairs."""

    @abc.abstractmethod
    def dilution(self, trial: Sampled, num_pairs: int) -> float:
        """(Draws of the trial)/(draws of each pair if so many are backed up): how much smaller the noise gets."""


class Plan(NamedTuple):
    """What completes the table from now on; None: every entry is backed up. `reason` is said in the result."""

    completion: Any
    reason: str = ""
    trial: Sampled | None = None
