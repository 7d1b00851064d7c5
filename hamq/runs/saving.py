"""A solution → a run folder, or the run that such a folder would hold."""

import os
from pathlib import Path

import numpy as np

from hamq.runs.config import RunConfig, new_config
from hamq.runs.errors import RunError
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import Manifest, package_versions
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run
from hamq.runs.result import arrays_of, fields_of, outcome_of
from hamq.runs.summary import summarise
from hamq.solution import Solution
from hamq.tensor.solution import TensorSolution


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
