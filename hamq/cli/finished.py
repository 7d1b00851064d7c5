"""Finished runs, by the words that name their folders: read and told apart."""

from collections.abc import Sequence
from pathlib import Path

from hamq.errors import HamqError
from hamq.runs.loading import require_finished
from hamq.runs.reading import Run, read_run


def read_finished(words: Sequence[str]) -> dict[str, Run]:
    """The finished runs by what they were asked for by."""
    found: dict[str, Run] = {}
    for word in words:
        one = read_run(word)
        if any(one.path.resolve() == other.path.resolve() for other in found.values()):
            raise HamqError(f"{word} is given twice; give every run once.")
        require_finished(word, one)
        found[word] = one
    return found


def short_names(words: Sequence[str]) -> list[str]:
    """The last parts of the paths, as many of them as tell the runs apart."""
    parts = [Path(word).absolute().parts for word in words]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(words)
