"""What the records say, as numbers with intervals: of pictures, tables and claims."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hamq.control.statistics import bootstrap_interval, difference_interval, interquartile_mean
from hamq.paper.records import Group, Record


class Estimate(NamedTuple):
    """Interquartile mean over seeds, with a 95 % bootstrap interval (none for a single seed)."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return number(self.value)
        return f"{number(self.value)} [{number(self.low)}, {number(self.high)}]"

    @property
    def lowest(self) -> float:
        """The lower end of the interval, or the value where there is none."""
        return self.value if self.low is None else self.low

    @property
    def highest(self) -> float:
        return self.value if self.high is None else self.high


class Evidence(NamedTuple):
    """All records of a folder: of the figures by group, of the studies by name."""

    records: dict[Group, list[Record]]
    studies: dict[str, Any]

    def has(self, task: str, variant: str, method: str) -> bool:
        return any(run.is_finite for run in self.records.get(Group(task, variant, method), ()))

    def runs(self, task: str, variant: str, method: str) -> list[Record]:
        """Those that did not diverge."""
        return [run for run in self.records[Group(task, variant, method)] if run.is_finite]

    def final(self, task: str, variant: str, method: str, field: str) -> np.ndarray:
        return np.asarray([record.final[field] for record in self.runs(task, variant, method)], float)

    def estimate(self, task: str, variant: str, method: str, field: str) -> Estimate:
        return estimate(self.final(task, variant, method, field))

    def cost(self, task: str, variant: str, method: str, field: str) -> float:
        return float(interquartile_mean([record.cost[field] for record in self.runs(task, variant, method)]))

    def gradients(self, task: str, variant: str, method: str) -> float:
        """At the end of the curve: of networks, what drawing anew for every target would have cost."""
        return float(interquartile_mean([run.curve["gradient_evaluations"][-1] for run in self.runs(task, variant, method)]))

    def ratio(self, task: str, variant: str, methods: tuple[str, str], field: str) -> Estimate:
        """The first method's final number over the second's, paired by seed."""
        a, b = (self.final(task, variant, method, field) for method in methods)
        value = interquartile_mean(a) / interquartile_mean(b)
        if len(a) != len(b) or len(a) < 2:
            return Estimate(value, None, None)
        low, high = difference_interval(a, b, paired=True, scale="log_ratio")
        return Estimate(value, math.exp(low), math.exp(high))

    def difference(self, task: str, variant: str, methods: tuple[str, str], field: str) -> Estimate:
        a, b = (self.final(task, variant, method, field) for method in methods)
        value = interquartile_mean(a) - interquartile_mean(b)
        if len(a) != len(b) or len(a) < 2:
            return Estimate(value, None, None)
        return Estimate(value, *difference_interval(a, b, paired=True))

    def reached_at(self, task: str, variant: str, method: str, level: float, spent: str = "samples") -> float | None:
        """What was spent when the error (interquartile mean over seeds) first fell to the level; None: it never did."""
        runs = self.runs(task, variant, method)
        errors = interquartile_mean([run.curve["frobenius"] for run in runs])
        amounts = interquartile_mean([run.curve[spent] for run in runs])
        below = np.flatnonzero(np.asarray(errors) <= level)
        return float(np.asarray(amounts)[below[0]]) if len(below) else None


def estimate(values: np.ndarray | Sequence[float]) -> Estimate:
    value = float(interquartile_mean(values))
    return Estimate(value, None, None) if len(values) < 2 else Estimate(value, *bootstrap_interval(values))


def number(value: float) -> str:
    """Three digits, without an exponent where that is short: 0.00160, 2.50, 4e6."""
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 1e5:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 5e-5:
        return "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-")
    return f"{value:#.3g}".rstrip(".")
