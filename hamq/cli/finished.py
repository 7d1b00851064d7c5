"""Finished runs, by the words that name their folders: read, told apart, and made solutions again."""

from collections.abc import Sequence
from pathlib import Path

from hamq.cli import problems
from hamq.exact.solution import Solution
from hamq.problem.problem import Problem
from hamq.runs.errors import damaged
from hamq.runs.loading import as_solution
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run
from hamq.runs.storage import CONFIG
from hamq.tensor.solution import TensorSolution


def read_finished(words: Sequence[str]) -> dict[str, Run]:
    """The finished runs by what they were asked for by."""
    found: dict[str, Run] = {}
    for word in words:
        one = read_run(word)
        if any(one.path.resolve() == other.path.resolve() for other in found.values()):
            raise ValueError(f"{word} is given twice; give every run once.")
        require_finished(word, one)
        found[word] = one
    return found


def require_finished(name: str, found: Run) -> None:
    if not found.is_finished:
        raise ValueError(f"{name} is not finished: it has {len(found.history)} iterations; continue it with --resume.")


def short_names(words: Sequence[str]) -> list[str]:
    """The last parts of the paths, as many of them as tell the runs apart."""
    parts = [Path(word).absolute().parts for word in words]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(words)


def problem_of(name: str, found: Run) -> Problem:
    """The problem of a run, made again; refused if it is another one by now."""
    named = named_of(found)
    problem = problems.build(named)
    if problem_hash(problem) != found.manifest.problem:
        raise ValueError(f"{named.name} is no longer the problem that {name} solved; solve it again.")
    return problem


def named_of(found: Run) -> problems.Named:
    """What the config says was solved."""
    given = found.config.get("problem")
    kinds = {"name": str, "options": dict}
    if not isinstance(given, dict) or {name: type(value) for name, value in given.items()} != kinds:
        raise damaged(found.path, CONFIG, f"its problem is {given!r:.60}, not a name with options")
    return problems.Named(**given)


def solution_of(found: Run, problem: Problem) -> Solution | TensorSolution:
    """What the run found for its problem, as the library gave it."""
    if found.cores is not None:
        return as_solution(found, problem)
    assert found.q is not None
    result, converged = str(found.result), bool(found.converged)
    return Solution(problem, found.q, found.history, result, converged, found.lower, found.upper, found.error)
