"""A tensor train on the disk → a solution whose policy, q and actions can be asked for."""

import os
from typing import Any

from hamq.problem.problem import Problem
from hamq.runs.errors import RunError, damaged
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run
from hamq.runs.storage import CONFIG, TABLES
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from hamq.tensor.rebuild import rebuild_engine
from hamq.tensor.solution import TensorSolution

SAMPLERS = {kind.__name__: kind for kind in (Exhaustive, HMC, IID, Importance)}


def load_tensor(path: str | os.PathLike, problem: Problem) -> TensorSolution:
    """The solution that `hamq solve-tensor --out PATH` found for this problem; its draws are those of the solver."""
    return as_solution(read_run(path), problem)


def as_solution(run: Run, problem: Problem) -> TensorSolution:
    if run.cores is None or run.order is None:
        why = "it is of `hamq solve` or `hamq exact`; use read_run" if run.is_finished else "it is not finished"
        raise RunError(f"{run.path} has no tensor train: {why}; give the folder of a finished `hamq solve-tensor`.")
    if (found := problem_hash(problem)) != run.manifest.problem:
        raise RunError(
            f"{run.path} holds a run of the problem with hash {run.manifest.problem}, and {problem.name} has {found}; "
            "give the problem that it solved."
        )
    try:
        sampler, num_starts, seed = _sampler(run.config["sampler"]), run.config["num_starts"], run.config["seed"]
    except (KeyError, TypeError) as error:
        raise damaged(run.path, CONFIG, f"it does not say how backups are made ({error!r})") from error
    if [core.shape[1] for core in run.cores] != [problem.grid.points[axis] for axis in run.order]:
        raise damaged(run.path, TABLES, "its cores have other points than the grid")
    engine = rebuild_engine(problem, sampler, run.order, num_starts, seed)
    assert run.result is not None and run.converged is not None and run.residual is not None
    return TensorSolution(problem, run.cores, run.order, run.history, run.result, run.converged, run.residual, engine)


def _sampler(described: dict[str, Any] | None) -> AbstractSampler | None:
    if described is None:
        return None
    return SAMPLERS[described["kind"]](**{name: value for name, value in described.items() if name != "kind"})
