"""Seconds of several codes that take turns, and the ratio of two of them.

Every turn runs each code once, so that a busy machine hits all of them alike; the ratio of a turn is theirs over ours
(above 1: ours is faster), and what is reported is the median of the turns with its quartiles. The first call of each
(compilation, caches) is kept apart. CPU seconds are those of all threads of the process that works.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np


class Seconds(NamedTuple):
    wall: float
    cpu: float


class Times(NamedTuple):
    """The first call, and the turns after it."""

    first: Seconds
    turns: list[Seconds]

    def median(self, measure: str = "wall") -> float:
        return statistics.median(getattr(turn, measure) for turn in self.turns)

    def facts(self) -> dict[str, float]:
        return {"first_s": self.first.wall, "wall_s": self.median("wall"), "cpu_s": self.median("cpu")}


Side = Callable[[], Seconds]
"""Runs once and says what it took: `here(call)`, or `Worker.run` of a peer in a process of its own."""


def timed(call: Callable, *arguments: Any) -> tuple[Seconds, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(call(*arguments))
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu), result


def here(call: Callable) -> Side:
    """A code of this process as one side."""
    return lambda: timed(call)[0]


def take_turns(sides: dict[str, Side], repeats: int) -> dict[str, Times]:
    firsts = {name: side() for name, side in sides.items()}
    turns: dict[str, list[Seconds]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            turns[name].append(side())
    return {name: Times(firsts[name], turns[name]) for name in sides}


def spread(values: list[float]) -> list[float]:
    """[lower quartile, median, upper quartile]."""
    return [float(value) for value in np.percentile(values, [25, 50, 75])]


def compare(name: str, peer: str, ours: Times, theirs: Times, measure: str = "wall", note: str = "") -> dict:
    """One comparison of the record; `measure` says which of the two ratios the check and the picture take."""
    pairs = list(zip(ours.turns, theirs.turns, strict=True))
    return {
        "name": name,
        "peer": peer,
        "measure": measure,
        "ours": ours.facts(),
        "theirs": theirs.facts(),
        "wall": spread([their.wall / our.wall for our, their in pairs]),
        "cpu": spread([their.cpu / our.cpu for our, their in pairs]),
        "repeats": len(pairs),
        "note": note,
    }
