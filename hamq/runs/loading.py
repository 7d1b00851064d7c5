"""A run on the disk → the solution that a solver returned, for its problem; and a solution → a run folder."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hamq.errors import RunError, damaged
from hamq.problem.problem import Problem
from hamq.runs import naming
from hamq.runs.config import RunConfig, new_config, sampler_of
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import Manifest, package_versions
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run
from hamq.runs.storage import CONFIG, TABLES
from hamq.runs.summary import arrays_of, fields_of, outcome_of, summarise
from hamq.sampling.draws import AbstractSampler
from hamq.solution import Health, Solution
from hamq.tensor.rebuild import rebuild_engine
from hamq.tensor.solution import TensorSolution


def load(
    path: str | os.PathLike, problem: Problem | None = None, *, sampler: AbstractSampler | None = None
) -> Solution | TensorSolution:
    """The solution in this folder, as the solver returned it: a table, an exact answer or a tensor train.

    problem     that was solved; None: made again, where the run can name it (of the zoo, or from the shell)
    sampler     of a train, where it is none of hamq's own
    """
    run = read_run(path)
    require_finished(str(path), run)
    return solution_of(run, problem_of(str(path), run) if problem is None else problem, sampler)


def load_tensor(path: str | os.PathLike, problem: Problem) -> TensorSolution:
    """`load` of a run of `hamq solve-tensor`; refuses any other."""
    return train_of(read_run(path), problem)


def require_finished(name: str, run: Run) -> None:
    if not run.is_finished:
        raise RunError(f"{name} is not finished: it has {len(run.history)} iterations; continue it with --resume.")


def read_finished(paths: Sequence[str]) -> dict[str, Run]:
    """The finished runs by their paths; refuses one that is given twice."""
    found: dict[str, Run] = {}
    for path in paths:
        one = read_run(path)
        if any(one.path.resolve() == other.path.resolve() for other in found.values()):
            raise RunError(f"{path} is given twice; give every run once.")
        require_finished(path, one)
        found[path] = one
    return found


def short_names(paths: Sequence[str]) -> list[str]:
    """The last parts of the paths, as many of them as tell the runs apart."""
    parts = [Path(path).absolute().parts for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def problem_of(name: str, run: Run) -> Problem:
    """The problem of a run, made again; refused if it is another one by now."""
    named = run.setup.problem
    problem = naming.build(named)
    if problem_hash(problem) == run.manifest.problem:
        return problem
    if named.options is None:
        raise RunError(
            f"{name} was solved from Python, for another {named.name} than that of the zoo; give hamq.load its problem."
        )
    raise RunError(f"{named.name} is no longer the problem that {name} solved; solve it again.")


def solution_of(run: Run, problem: Problem, sampler: AbstractSampler | None = None) -> Solution | TensorSolution:
    """What a finished run found for its problem; refused if the problem is another one."""
    return table_of(run, problem) if run.cores is None else train_of(run, problem, sampler)


def table_of(run: Run, problem: Problem) -> Solution:
    """The table of a finished run of `hamq solve` or `hamq exact`."""
    _require_same(run, problem)
    assert run.q is not None and run.result is not None and run.converged is not None
    health = None if run.health is None else Health(**run.health)
    found = (run.q, run.history, run.result, run.converged, run.lower, run.upper, run.error, health)
    return Solution(problem, *found, run.expected_error, run.setup)


def train_of(run: Run, problem: Problem, sampler: AbstractSampler | None = None) -> TensorSolution:
    """The train with its backups, draw for draw those of the solver."""
    if run.cores is None or run.order is None:
        why = "it is of `hamq solve` or `hamq exact`; use hamq.load" if run.is_finished else "it is not finished"
        raise RunError(f"{run.path} has no tensor train: {why}; give the folder of a finished `hamq solve-tensor`.")
    _require_same(run, problem)
    settings = run.setup.settings
    if missing := [name for name in ("sampler", "num_starts", "seed") if name not in settings]:
        raise damaged(run.path, CONFIG, f"it does not say how backups are made ({missing[0]!r} is missing)")
    if [core.shape[1] for core in run.cores] != [problem.grid.points[axis] for axis in run.order]:
        raise damaged(run.path, TABLES, "its cores have other points than the grid")
    sampler = sampler or sampler_of(run.path, settings["sampler"])
    engine = rebuild_engine(problem, sampler, run.order, settings["num_starts"], settings["seed"])
    assert run.result is not None and run.converged is not None and run.residual is not None
    found = (run.cores, run.order, run.history, run.result, run.converged, run.residual, engine)
    return TensorSolution(problem, *found, origin=run.setup)


def _require_same(run: Run, problem: Problem) -> None:
    if (found := problem_hash(problem)) != run.manifest.problem:
        raise RunError(
            f"{run.path} holds a run of the problem with hash {run.manifest.problem}, and {problem.name} has {found}; "
            "give the problem that it solved."
        )


def save(solution: Solution | TensorSolution, path: str | os.PathLike, *, overwrite: bool = False) -> None:
    """Writes a finished run, which `hamq.load` and the commands of the shell read.

    A run that is there already is refused, or replaced with `overwrite`.
    """
    config, digest = config_of_solution(solution), problem_hash(solution.problem)
    with RunFolder.create(path, config.encode(), digest, overwrite=overwrite) as folder:
        folder.finish(solution, summarise(solution).encode())


def run_of(solution: Solution | TensorSolution, name: str = "") -> Run:
    """The run that `save` would write, without a folder."""
    path = Path(name or solution.problem.name)
    arrays = {name: np.asarray(array) for name, array in arrays_of(solution).items()}
    return Run(
        path=path,
        config=config_of_solution(solution).encode(),
        history=solution.history,
        manifest=Manifest(problem_hash(solution.problem), package_versions(), {}),
        **fields_of(path, arrays),
        **outcome_of(solution),
        summary=summarise(solution).encode(),
    )


def config_of_solution(solution: Solution | TensorSolution) -> RunConfig:
    """What made it; of a table that nobody knows more about, that it is one."""
    if solution.origin is not None:
        return solution.origin
    if isinstance(solution, TensorSolution):
        raise RunError(
            f"this TensorSolution of {solution.problem.name} does not know its sampler and seed, without which its backups "
            "cannot be made again; solve it with hamq.solve_tensor."
        )
    return new_config("solve" if solution.lower is None else "exact", solution.problem, {})
