"""Optimism: a maximum over noisy backups is too large on average, and 1/(1−γ) times as much in the end.

The noise falls with the number of draws, and the optimism with it. So both halves of the draws are solved on their own: if V
is too large by b with all draws, it is too large by about 2b with a half (twice the variance), and

    V_fair = 2 V − ½ (V of the first half + V of the second),    Q = r + γ E[V_fair] with all draws,

the jackknife. Choosing with one half and evaluating with the other was tried too; it errs on the other side by as much,
because the policy of a half loses more (docs/solving.md). One backup of each half says beforehand whether the optimism is
material. Draws with weights are left as they are: weights that calibrate all draws of a pair, or normalise them, do not do so
for a half. The optimism of calibrated draws is a third of that of even ones.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.completion.completion import Observed
from hamq.learning.backup import Stock
from hamq.learning.health import values_of
from hamq.learning.preparation import Run
from hamq.learning.selection import as_mask
from hamq.types import is_cpu

MATERIAL = 0.005
"""Part of the range of V that the mean optimism must exceed to be removed."""
SWEEPS = 60
"""Of the solve of a half."""
FEWEST = 8
"""Draws per pair below which a half says little."""

HALVES = (0, 1)

Table = Float[np.ndarray, "S A"]


class Optimism(NamedTuple):
    """Mean of V minus V_fair, and Q without it."""

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
    halves, value = Halves(run), q.max(axis=1)
    tables = [halves.table(k, value) for k in HALVES]
    excess = sum(table.max(axis=1) for table in tables) / 2 - (sum(tables) / 2).max(axis=1)
    if float(np.mean(excess)) / (1 - run.problem.discount) <= MATERIAL * float(np.ptp(value)):
        return None
    fair = 2 * value - sum(halves.value(k, value) for k in HALVES) / 2
    level, span = float(np.mean(value - fair)), max(float(np.ptp(fair)), 1e-300)
    return Optimism(level, level / span, sum(halves.table(k, fair) for k in HALVES) / 2)


def _can_split(run: Run) -> bool:
    if run.stocks is None or run.blocks is None or not run.devices.is_alone or not is_cpu():
        return False
    is_even = all(stock.weights is None for stock in run.stocks)
    return is_even and run.stocks[0].locations.shape[-1] >= FEWEST and run.problem.num_actions > 1


@dataclasses.dataclass(frozen=True)
class Halves:
    """Backups with the two halves of the draws that a run keeps."""

    run: Run

    def table(self, k: int, value: Float[np.ndarray, " S"]) -> Table:
        """Q = r + γ E[V] by the draws of half k."""
        assert self.run.stocks is not None
        expected = np.full(self.run.rewards.shape, np.nan)
        for block, stock in zip(self.run.reused, self.run.stocks, strict=True):
            expected[block.states[:, None], block.actions] = _half_means(self.run, stock, value, k)
        return self._completed(expected)

    def value(self, k: int, start: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
        """V of a solve with half k alone, from a start that is near."""
        value = start
        for _ in range(SWEEPS):
            value = self.table(k, value).max(axis=1)
        return value

    def _completed(self, expected: Table) -> Table:
        run, discount = self.run, self.run.problem.discount
        if run.completion is not None:
            mask = as_mask(run.problem, run.reused)
            expected = run.completion.complete(Observed(expected, mask), np.zeros_like(expected), ()).q
        return np.where(run.is_ended, 0, run.rewards + discount * expected)


def _half_means(run: Run, stock: Stock, value: Float[np.ndarray, " S"], k: int) -> Float[np.ndarray, "num K"]:
    """The mean of V over the first (k = 0) or the second half of the draws of every pair."""
    n, shape = stock.locations.shape[-1], stock.locations.shape[:3]
    half = slice(0, n // 2) if k == 0 else slice(n // 2, n)
    values = values_of(run.problem, np.asarray(stock.locations)[..., half], value)
    return stock.rows.pairs(np.concatenate([part.mean(axis=1) for part in values]).reshape(shape))
