"""Convergence of runs as charts: one curve for each, or for all that differ in nothing but their seed.

A group of seeds is shown by the median of those that reached the iteration, in a band from their lowest to their highest.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hamq.control.statistics import spread
from hamq.report.curves import Chart, Curve, charts_of
from hamq.solution import History

MEASURES = {
    "distance": "Distance to Q*, relative",
    "residual": "Residual",
    "change": "Largest change of Q",
    "error": "Certified error",
}
"""Columns of the history that fall as a run converges, and their words."""
TENSOR_WORDS = {"residual": "Residual, held out", "rank": "Largest rank"}
"""Of a tensor train they mean something else."""
COUNTS = {"rank": "Rank", "unidentified": "Unidentified states"}
"""Columns of whole numbers, shown for a single run where they vary."""
SPENT = "gradient_evaluations"
MAX_NAMED = 3
"""Seeds of one curve that are listed."""
NOT_SETTINGS = ("seed", "output")
"""Fields of a config in which runs of one group may differ."""


class Member(NamedTuple):
    """A run as convergence sees it; `problem` is the hash."""

    name: str
    config: Mapping[str, Any]
    problem: str
    history: History

    def words(self, column: str) -> str | None:
        """The title under which a column is shown; None if it is not."""
        if column not in self.history.columns or not np.isfinite(self.history.columns[column]).any():
            return None
        if self.config.get("command") == "exact":  # its residual is that of before the bounds' shift
            return MEASURES["error"] if column == "error" else None
        if self.config.get("command") == "solve-tensor":
            return TENSOR_WORDS.get(column)
        return MEASURES.get(column)


def seed_groups(members: Sequence[Member]) -> list[list[int]]:
    """Positions of the runs of one problem that differ only in the seed, in the order of their first."""
    groups: dict[str, list[int]] = {}
    for i, member in enumerate(members):
        settings = {name: value for name, value in member.config.items() if name not in NOT_SETTINGS}
        groups.setdefault(json.dumps([member.problem, settings], sort_keys=True), []).append(i)
    return list(groups.values())


def group_name(members: Sequence[Member]) -> str:
    """The names of the runs, the first of them where there are many."""
    names = [member.name for member in members]
    if len(names) == 1:
        return names[0]
    listed = ", ".join(names) if len(names) <= MAX_NAMED else f"{names[0]} and {len(names) - 1} other seeds"
    return f"{listed}: median, lowest to highest"


def convergence_charts(members: Sequence[Member]) -> list[Chart]:
    """Charts against iterations, and against gradients where these were spent along the way."""
    if len(members) == 1:
        return _single(members[0])
    groups = [[members[i] for i in group] for group in seed_groups(members)]
    titles = dict.fromkeys(title for member in members for column in MEASURES if (title := member.words(column)))
    charts = []
    for title in titles:
        for is_spent, across in ((False, "iteration"), (True, "gradient")):
            curves = [
                _curve(group, column, hue, is_spent)
                for hue, group in enumerate(groups)
                for column in MEASURES
                if all(member.words(column) == title and (_spends(member.history) or not is_spent) for member in group)
            ]
            charts.append(Chart(curves, is_log=True, title=title, across=across))
    return charts


def _single(member: Member) -> list[Chart]:
    """All that falls in one chart, and a chart for each count that varies."""
    columns = member.history.columns
    shown = {column: title for column in columns if (title := member.words(column))}
    names = [name for name in COUNTS if name in columns and name not in shown and np.ptp(columns[name]) > 0]
    counts = {COUNTS[name]: columns[name].tolist() for name in names}
    charts = charts_of({title: columns[column].tolist() for column, title in shown.items()} | counts)
    if _spends(member.history):
        spent = columns[SPENT].tolist()
        curves = [Curve(title, columns[name].tolist(), spent) for name, title in shown.items() if name in MEASURES]
        charts.append(Chart(curves, is_log=True, across="gradient"))
    return charts


def _spends(history: History) -> bool:
    """Whether gradients were taken in more than the first iteration."""
    return SPENT in history.columns and len(history) > 1 and bool(np.ptp(history.columns[SPENT]) > 0)


def _curve(group: Sequence[Member], column: str, hue: int, by_gradients: bool) -> Curve:
    """Median and band over the group; gradients are those of its median run."""
    length = max(len(member.history) for member in group)

    def aligned(name: str) -> np.ndarray:
        rows = np.full((len(group), length), np.nan)
        for row, member in zip(rows, group, strict=True):
            row[: len(member.history)] = member.history.columns[name]
        return np.where(np.isfinite(rows), rows, np.nan)

    values = aligned(column)
    is_measured = ~np.isnan(values).all(axis=0)
    values = values[:, is_measured]
    name = group_name(group)
    across = np.flatnonzero(is_measured) + 1
    if by_gradients:
        _, across, _ = spread(aligned(SPENT)[:, is_measured])
    if len(group) == 1:
        return Curve(name, values[0].tolist(), across.tolist(), hue=hue)
    low, middle, high = (part.tolist() for part in spread(values))
    return Curve(name, middle, across.tolist(), (low, high), hue)
