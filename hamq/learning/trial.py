"""Draws with which a completion decides, before the first iteration, what it completes and from which entries."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from hamq.completion.planning import AbstractPilot, Sampled
from hamq.completion.selection import Pairs
from hamq.learning.backup import stock_of
from hamq.learning.budget import MIN_SAMPLES, affordable_samples
from hamq.learning.devices import Devices
from hamq.learning.draws import Drawn, Progress, draw_pairs
from hamq.learning.settings import Settings
from hamq.problem.problem import Problem
from hamq.sampling.modes import search_gradients
from hamq.solution import Cost
from hamq.types import HamqError, Key

SHARE = 0.25
"""Part of `max_gradients` that the pilot may take."""


@dataclasses.dataclass
class Pilot(AbstractPilot):
    """Draws of the sampler of a solve, on its devices; `cost` is what was spent so far."""

    problem: Problem
    settings: Settings
    rewards: Float[np.ndarray, "S A"]
    is_ended: Bool[np.ndarray, "S 1"]
    devices: Devices
    key: Key
    progress: Progress | None
    cost: Cost = Cost(0, 0, 0)  # noqa: RUF009 (a tuple)

    def draw(self, pairs: Pairs, num_samples: int, *, key: Key) -> Sampled:
        sampler = self.settings.sampler
        num = num_samples if self.settings.max_gradients else min(num_samples, sampler.num_samples)
        given = {"key": key, "coupled": self.settings.passes.coupled, "devices": self.devices}
        drawn = draw_pairs(self.problem, sampler.with_samples(num), *pairs, **given)
        stock = stock_of(drawn, self.devices)
        self.cost = self.cost.plus(drawn.cost)
        return Sampled(lambda value: stock.expected(self.problem, value), drawn)

    def tell(self, what: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(what, done, total)

    def share(self, counts: list[tuple[int, int]], fewest: int) -> float:
        """By how much the draws are cut so that the pilot takes no more than a quarter of the budget."""
        sampler, budget, problem = self.settings.sampler, self.settings.max_gradients, self.problem
        if budget is None:
            return 1.0
        per_draw, discarded = sampler.gradients_per_draw(problem), sampler.num_discarded
        num_pairs = sum(pairs for pairs, _ in counts)
        least = per_draw * num_pairs * (fewest + discarded)
        if least > budget:
            raise HamqError(
                f"solve: max_gradients = {budget:,} does not buy the pilot that chooses the anchors of {problem.name} "
                f"({least:,} gradients at least); raise it, or use completion=None."
            )
        usual = per_draw * sum(pairs * (num + discarded) for pairs, num in counts)
        return min(1.0, max(0.0, SHARE * budget - self._search(num_pairs)) / usual)

    def _search(self, num_pairs: int) -> int:
        """Gradients with which modes are searched for, where a density may have several."""
        has_one_mode = self.problem.kernel.has_one_mode
        return 0 if has_one_mode else search_gradients(self.problem.grid.dimension) * num_pairs

    def affords_search(self, num_pairs: int) -> bool:
        budget = self.settings.max_gradients
        return budget is None or self._search(num_pairs) <= SHARE * budget / 2

    def dilution(self, trial: Sampled, num_pairs: int) -> float:
        drawn: Drawn = trial.drawn
        if drawn.sampler.is_exhaustive:
            return 1.0
        num_tried, settings = drawn.sampler.num_samples, self.settings
        if settings.max_gradients is None:
            return num_tried / settings.sampler.num_samples
        size = num_pairs * (settings.iterations if settings.passes.draws == "fresh" else 1)
        num = affordable_samples(self.problem, drawn, size, settings.max_gradients - self.cost.gradient_evaluations)
        return num_tried / max(num, MIN_SAMPLES if settings.is_default_budget else 1)
