"""Planted bugs. Each must turn the tests named beside it red: `python tests/mutants/run.py` tries them all.

`old` occurs exactly once in `file`; quote as much of the line as that takes. A good mutant is a bug that
somebody could write: a wrong sign, a missing factor, a dropped accept step. `tests` are pytest paths or node
ids, as few and as fast as see the bug.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = [
    Mutant(
        "mean-shift-not-looked-at",
        "tests/stats.py",
        old="np.all(shift <= bound)",
        new="np.any(shift <= bound)",
        tests=("tests/test_stats.py",),
    ),
    Mutant(
        "mean-weak-test-allowed",
        "tests/stats.py",
        old="np.all(bound <= resolution)",
        new="np.all(resolution > 0)",
        tests=("tests/test_stats.py",),
    ),
    Mutant(
        "distribution-pooled-mass-forgotten",
        "tests/stats.py",
        old="visible = pooled + math.sqrt",
        new="visible = math.sqrt",
        tests=("tests/test_stats.py",),
    ),
]
