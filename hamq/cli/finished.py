"""Finished runs, by the words that name their folders: read, told apart, and made solutions again."""

from collections.abc import Sequence
from pathlib import Path

from hamq.cli import problems
from hamq.exact.solution import Solution
from hamq.problem.problem import Problem
from hamq.runs.loading import as_solution
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run
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
    problem = problems.build(problems.Named(**found.config["problem"]))
    if problem_hash(problem) != found.manifest.problem:
        raise ValueError(f"{found.config['problem']['name']} is no longer the problem that {name} solved; solve it again.")
    return problem


def solution_of(found: Run, problem: Problem) -> Solution | TensorSolution:
    """What the run found for its problem, as the library gave it."""
    if found.cores is not None:
        return as_solution(found, problem)
    assert found.q is not None
    result, converged = str(found.result), bool(found.converged)
    return Solution(problem, found.q, found.history, result, converged, found.lower, found.upper, found.error)
