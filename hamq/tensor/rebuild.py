"""The engine of a solution that was kept without it."""

from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.tensor.backup import Engine
from hamq.tensor.settings import resolve
from hamq.tensor.solve import Run, seed_of
from hamq.types import Key


def rebuild_engine(
    problem: Problem, sampler: AbstractSampler | None, order: tuple[int, ...], num_starts: int, key: Key | int
) -> Engine:
    """The backups that `solve_tensor` made with these arguments, draw for draw; nothing is spent yet."""
    settings = resolve(problem, sampler, 1, 1, 1, 1.0, order, num_starts)
    return Run(problem, settings, seed_of(key)).engine
