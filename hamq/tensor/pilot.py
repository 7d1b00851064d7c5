"""What a law does at given pairs, by the program of a solve where that wastes little: to choose a law, to try more draws."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.problem.problem import Problem
from hamq.tensor.backup import Bellman, Engine
from hamq.tensor.choice import Choices
from hamq.tensor.effective import effective_draws
from hamq.tensor.expectation import AbstractExpectation, TiltedExpectation
from hamq.tensor.fitting import Pairs
from hamq.tensor.law import Survey, TiltedLaw, survey, survey_of

NUM_TRIED = 64
"""States at which more draws are tried."""
MAX_WASTED = 8
"""Actions that a backup tries in a state: where they are more, a program for single pairs is worth its compilation."""


class Pilot(NamedTuple):
    """What the program depends on: it is compiled for this rank anyway."""

    problem: Problem
    choices: Choices
    order: tuple[int, ...]
    num_starts: int
    rank: int

    def survey(self, law: TiltedLaw, pairs: Pairs) -> Survey:
        expectation = TiltedExpectation(self.problem, law, self.order)
        engine = Engine(Bellman(self.problem, self.choices, expectation, self.order), self.num_starts)
        if engine.pairs_per_state > MAX_WASTED:
            return survey(self.problem, law, pairs.states, pairs.actions)
        points, weights = engine.prepared(self.rank, pairs.states, pairs.levels)
        return survey_of(self.problem.grid, points[:, np.argsort(self.order)], weights)

    def tenth_of(self, expectation: AbstractExpectation, states: Float[np.ndarray, "P d"], num_samples: int) -> float:
        """Effective draws that nine in ten pairs would have of so many, at some of the states with random actions."""
        if not isinstance(expectation, TiltedExpectation):
            return 0.0  # nothing else is tried
        states = states[:NUM_TRIED]
        levels = self.choices.random(np.random.default_rng(0), len(states))
        pairs = Pairs(states, levels, self.choices.actions(levels))
        return effective_draws(self.survey(expectation.law.with_draws(num_samples), pairs).shares, num_samples).tenth
