"""The regression check: ratios against the last record. Seconds differ between machines; ratios of one run much less."""

from typing import NamedTuple

from benchmarks.suite.record import ratio

LEAST = 0.6


class Fall(NamedTuple):
    name: str
    peer: str
    before: float
    now: float
    best_now: float


def falls(before: dict, now: dict) -> list[Fall]:
    """The comparisons of a part of which even the upper quartile is below 0.6 of the recorded median.

    A comparison that is in one of the two only (a peer that is missing, another size) is not judged.
    """
    old = {(row["name"], row["peer"]): ratio(row)[1] for row in before["comparisons"]}
    found = []
    for row in now["comparisons"]:
        _, median, high = ratio(row)
        recorded = old.get((row["name"], row["peer"]))
        if recorded is not None and high < LEAST * recorded:
            found.append(Fall(row["name"], row["peer"], recorded, median, high))
    return found
