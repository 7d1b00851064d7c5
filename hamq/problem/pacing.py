"""In which order, how many together and how far the rows of all pairs are integrated, and who is told.

The first pairs come from everywhere. What they cost says what all will cost, before most of it is spent.
"""

import math
import time
import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Int

from hamq.problem.quadrature import FIRST_VALUES, Integral
from hamq.types import HamqWarning

PILOT_PAIRS, MANY_PILOT_PAIRS, PILOT_EVALUATIONS = 16, 64, 2**20
"""Pairs that are integrated first (all of them where there are few), and evaluations of each of them at most."""
HOPELESS = 16
"""Where the first pairs would take so many times what is allowed, others get so much less than is allowed."""
BLOCK_EVALUATIONS = 2**24
"""Evaluations of pairs that are worked on together, as far as the first ones can tell."""
LONG = 5 * 10**8
"""Evaluations that nobody waits for without a word: a minute or more."""
SECONDS_BETWEEN = 0.5
INTEGRATING = "integrating the density"

Progress = Callable[[str, int, int], None]
"""Told (what is being done, how many parts are done, of how many)."""


def spread(num: int) -> Int[np.ndarray, " num"]:
    """All numbers below `num`, so that the first few come from everywhere: in steps of the golden section."""
    step = max(1, round(0.6180339887 * num))
    while math.gcd(step, num) > 1:
        step += 1
    return np.arange(num) * step % num


class Plan:
    """How many pairs are worked on together, and what each of them may cost."""

    def __init__(self, num: int, most: float, is_default: bool, tolerance: float, row_cost: int, is_adaptive: bool):
        """`most`: evaluations that each of `num` pairs may cost, by default or as somebody said; `row_cost`: those it costs
        unrefined."""
        self.num, self.num_pilot = num, num if num <= MANY_PILOT_PAIRS else PILOT_PAIRS
        self.allowed, self.is_default, self.tolerance, self.row_cost = most, is_default, tolerance, row_cost
        self.most, self.needed, self.said, self.mean = min(most, PILOT_EVALUATIONS), 0.0, "", 1.0
        self.is_pilot = is_adaptive

    @property
    def size(self) -> int:
        """Pairs of the next block."""
        together = min(FIRST_VALUES // self.row_cost, int(BLOCK_EVALUATIONS / self.mean))
        return max(1, min(together, self.num_pilot) if self.is_pilot else together)

    def left(self, num_left: int) -> float:
        """Evaluations that so many pairs take, as far as the first ones can tell."""
        return num_left * min(self.needed, self.most)

    def learn(self, rows: Integral) -> Bool[np.ndarray, " P"]:
        """Which of the pairs are worth another try with more evaluations; only of the first pairs."""
        is_short = rows.errors > self.tolerance
        self.mean = max(self.mean, float(rows.evaluations.mean()))
        if not self.is_pilot:
            return np.zeros(len(is_short), bool)
        needed = rows.evaluations if rows.needed is None else rows.needed
        self.is_pilot, self.needed = False, float(np.mean(needed))
        if not is_short.any():
            self.most = self.allowed
            return is_short
        is_hopeless = float(np.median(needed[is_short])) > HOPELESS * self.allowed
        if is_hopeless:
            needed, allowed = (each * self.num for each in (self.needed, self.allowed))
            self.said = (
                f" (an error of {self.tolerance:.0e} takes about {needed:.0e} evaluations, {allowed:.0e} are allowed)"
            )
        self.most = min(PILOT_EVALUATIONS, self.allowed / HOPELESS) if is_hopeless and self.is_default else self.allowed
        return is_short & (self.most > PILOT_EVALUATIONS)


class Meter:
    """Tells of pairs that are done, while they are worked on too; not more than twice a second."""

    def __init__(self, progress: Progress | None, total: int):
        self.progress, self.total, self.done, self.what, self.told = progress, total, 0, INTEGRATING, -math.inf
        self.began = time.monotonic()
        self._tell(0)

    def forecast(self, name: str, spent: float, left: float) -> None:
        """Warns of a long wait that nobody would hear of, after the first pairs."""
        if self.progress is not None or left < LONG:
            return
        seconds = (time.monotonic() - self.began) / max(spent, 1) * left
        took = f"{seconds / 60:.0f} minutes" if seconds > 100 else f"{seconds:.0f} seconds"
        warnings.warn(
            f"{name}: the masses of all {self.total:,} pairs take about {left:.1g} more evaluations of the density, {took} "
            "at the pace of the first ones; use a larger tolerance, a smaller max_evaluations, which ends sooner with a "
            "larger error, or progress=print to hear how far it is.",
            HamqWarning,
            stacklevel=3,
        )

    def settled(self, done: int, said: str) -> None:
        if INTEGRATING + said != self.what:
            self.told = -math.inf  # what is new is told at once
        self.done, self.what = done, INTEGRATING + said
        self._tell(done)

    def within(self, evaluations: int, settled: int) -> None:
        del evaluations
        self._tell(min(self.done + settled, self.total - 1))

    def _tell(self, done: int) -> None:
        now = time.monotonic()
        if self.progress is not None and (now - self.told > SECONDS_BETWEEN or done == self.total):
            self.told = now
            self.progress(self.what, done, self.total)
