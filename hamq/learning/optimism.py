"""Optimism: a maximum over noisy backups is too large on average, and 1/(1−γ) times as much in the end.

The noise falls with the number n of draws, and the optimism b(n) with it: as 1/n, or as 1/√n where actions tie. So the
halves and the quarters of the draws are solved on their own. Their V is too large by b(n/2) and b(n/4), and the differences
to V say how fast the optimism falls,

    ρ = (V_quarters − V_halves)/(V_halves − V),    b(n) = (V_halves − V)/(ρ − 1),    means over the states,

with ρ between √2 and 2. V − (V_halves − V)/(ρ − 1) is fair, and Q = r + γ E[V_fair] with all draws. (Choosing with one half
and evaluating with the other was tried too; it errs on the other side by as much, because the policy of a half loses more.)
One backup of each half says beforehand whether the optimism is material. Draws with weights are left as they are: weights
that calibrate all draws of a pair, or normalise them, do not do so for a part. The optimism of calibrated draws is a third
of that of even ones.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.completion.completion import Observed
from hamq.completion.selection import as_mask
from hamq.learning.backup import Stock
from hamq.learning.health import values_of
from hamq.learning.preparation import Run
from hamq.types import is_cpu

MATERIAL = 0.005
"""Part of the range of V that the mean optimism must exceed to be removed."""
SWEEPS = 60
"""Of the solve of a part."""
FEWEST = 16
"""Draws per pair below which a quarter of them says little."""

RATIOS = (2**0.5, 2.0)

Table = Float[np.ndarray, "S A"]


class Optimism(NamedTuple):
    """Mean of V minus what is fair, and Q without it."""

    level: float
    share: float
    """Of the range of V."""
    q: Table

    @property
    def sentence(self) -> str:
        return f"{self.level:.2g} of optimism taken off ({self.share:.1%} of the range of V)"


def without_optimism(run: Run, q: Table) -> Optimism | None:
    """Q with its optimism removed; None where that is not material, or draws cannot be split."""
    if not _can_split(run):
        return None
    parts, value = Parts(run), q.max(axis=1)
    tables = parts.tables(2, value)
    excess = np.mean([table.max(axis=1) for table in tables], axis=0) - np.mean(tables, axis=0).max(axis=1)
    if float(np.mean(excess)) / (1 - run.problem.discount) <= MATERIAL * float(np.ptp(value)):
        return None
    halves, quarters = parts.value(2, value), parts.value(4, value)
    rise = float(np.mean(halves - value))
    ratio = float(np.clip(np.mean(quarters - halves) / rise, *RATIOS)) if rise > 0 else RATIOS[1]
    fair = value - (halves - value) / (ratio - 1)
    level, span = float(np.mean(value - fair)), max(float(np.ptp(fair)), 1e-300)
    return Optimism(level, level / span, np.mean(parts.tables(2, fair), axis=0))


def _can_split(run: Run) -> bool:
    if run.stocks is None or run.blocks is None or not run.devices.is_alone or not is_cpu():
        return False
    is_even = all(stock.weights is None for stock in run.stocks)
    return is_even and run.stocks[0].locations.shape[-1] >= FEWEST and run.problem.num_actions > 1


@dataclasses.dataclass(frozen=True)
class Parts:
    """Backups with equal parts of the draws that a run keeps."""

    run: Run

    def tables(self, num: int, value: Float[np.ndarray, " S"]) -> list[Table]:
        """Q = r + γ E[V] by the draws of each of `num` parts."""
        return [self._table(k, num, value) for k in range(num)]

    def value(self, num: int, start: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
        """The mean of V over solves with one part each, from a start that is near."""
        found = []
        for k in range(num):
            value = start
            for _ in range(SWEEPS):
                value = self._table(k, num, value).max(axis=1)
            found.append(value)
        return np.mean(found, axis=0)

    def _table(self, k: int, num: int, value: Float[np.ndarray, " S"]) -> Table:
        assert self.run.stocks is not None
        expected = np.full(self.run.rewards.shape, np.nan)
        for block, stock in zip(self.run.reused, self.run.stocks, strict=True):
            expected[block.states[:, None], block.actions] = _means(self.run, stock, value, k, num)
        return self._completed(expected)

    def _completed(self, expected: Table) -> Table:
        run, discount = self.run, self.run.problem.discount
        mask = as_mask(run.problem, run.reused)
        if not mask.all():
            expected = run.completion.complete(Observed(expected, mask), np.zeros_like(expected), ()).q
        return np.where(run.is_ended, 0, run.rewards + discount * expected)


def _means(run: Run, stock: Stock, value: Float[np.ndarray, " S"], k: int, num: int) -> Float[np.ndarray, "rows K"]:
    """The mean of V over part k of the draws of every pair."""
    n, shape = stock.locations.shape[-1], stock.locations.shape[:3]
    part = np.asarray(stock.locations)[..., k * n // num : (k + 1) * n // num]
    means = [values.mean(axis=1) for values in values_of(run.problem, part, value)]
    return stock.rows.pairs(np.concatenate(means).reshape(shape))
