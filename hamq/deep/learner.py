"""What the training loop asks of an algorithm; parameters are pytrees of arrays, `states` a batch."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int

from hamq.types import Key

Parameters = Any
"""A pytree of arrays."""


class Batch(NamedTuple):
    """R states, m pairs of each, and their targets; `action` is the number of a training action."""

    states: Float[Array, "R d"]
    action: Int[Array, "R m"]
    targets: Float[Array, "R m"]


class AbstractLearner(eqx.Module):
    """One algorithm on one problem."""

    @abc.abstractmethod
    def init(self, *, key: Key) -> Parameters:
        """Fresh networks."""

    @abc.abstractmethod
    def gradient(self, parameters: Parameters, batch: Batch) -> Parameters:
        """What the optimiser descends along."""

    @abc.abstractmethod
    def value(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, " N"]:
        """V'(s) in the target: what the policy gets in each state, by the networks."""

    @abc.abstractmethod
    def table(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, "N A"]:
        """Q of all actions of the problem."""

    @abc.abstractmethod
    def actions(self, parameters: Parameters, states: Float[Array, "N d"]) -> Float[Array, "N k"] | None:
        """What the actor does; None without one."""

    @abc.abstractmethod
    def policy(self, q: Float[Array, "N A"], actions: Float[Array, "N k"] | None) -> Int[Array, " N"]:
        """The number of the problem's action that is taken in each state."""
