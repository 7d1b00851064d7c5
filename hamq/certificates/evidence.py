"""What draws of one kind prove: how they are made, what they cost, and the bound of a mean that holds for them."""

import abc
import importlib

import numpy as np
from jaxtyping import Float

from hamq.certificates.integrand import Integrand
from hamq.certificates.methods import METHODS, Method
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler


class AbstractEvidence(abc.ABC):
    """One method of `certify` that draws. Means are of f, which lies between −half and half where nothing else is said.

    `uses_stein`: whether fresh draws may be averaged with Stein's functions, whose range is not known.
    """

    uses_stein: bool

    @abc.abstractmethod
    def why_not(self, problem: Problem) -> str | None:
        """Why it does not apply to a problem, as the end of a sentence; None where it does."""

    @abc.abstractmethod
    def sampler(self, problem: Problem) -> AbstractSampler:
        """Draws the pairs of one round."""

    @abc.abstractmethod
    def evaluations_per_draw(self, problem: Problem) -> float:
        """Density and gradient evaluations that one draw takes, rather too many; independent draws count as one each."""

    @abc.abstractmethod
    def evaluations_to_prepare(self, problem: Problem) -> int:
        """What is spent before the first draw, rather too many."""

    @abc.abstractmethod
    def integrand(self, best: Integrand, conditional_share: float) -> Integrand:
        """The f that is averaged: of least variance in the pilot, or with the weight that conditional means may have."""

    @abc.abstractmethod
    def spread(self, f: Float[np.ndarray, "P n"], span: float) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviation of one draw in each pair, and the variance of a mean in that of independent draws."""

    @abc.abstractmethod
    def width(
        self, spread: np.ndarray, reach: np.ndarray, inflation: float, span: float, draws: np.ndarray, level: float
    ) -> Float[np.ndarray, " P"]:
        """What the half-width of each pair will be with so many draws, more or less."""

    @abc.abstractmethod
    def bound(
        self, f: Float[np.ndarray, "P n"], half: float, spread: Float[np.ndarray, " P"], level: float
    ) -> Float[np.ndarray, " P"]:
        """Of the mean of f in each pair, from above; each may fail with probability `level`."""


def evidence_of(method: Method) -> AbstractEvidence:
    """The evidence of a method that draws."""
    return importlib.import_module(METHODS[method].home).EVIDENCE
