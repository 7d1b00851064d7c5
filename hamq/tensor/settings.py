"""What `solve_tensor` was asked to do, checked before anything is computed."""

import math
from typing import Any, NamedTuple

import numpy as np

from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler, require_count
from hamq.types import HamqError


class TensorSettings(NamedTuple):
    sampler: AbstractSampler | None
    rank: int
    max_rank: int
    iterations: int
    tolerance: float
    order: tuple[int, ...] | None
    num_starts: int


def resolve(problem, sampler, rank, max_rank, iterations, tolerance, order, num_starts) -> TensorSettings:
    if not isinstance(problem, Problem):
        raise HamqError(
            f"solve_tensor: problem must be a hamq.Problem, such as hamq.problems.spring_chain(6), got {problem!r}."
        )
    if problem.law != "linear":
        raise HamqError(
            f"solve_tensor interpolates V between the nodes, which is law='linear', and {problem.name} has "
            f"law={problem.law!r}; build it with law='linear'."
        )
    if problem.grid.dimension < 2:
        raise HamqError(f"solve_tensor needs at least 2 dimensions, and {problem.name} has 1; use solve or solve_exact.")
    for name, value in (("rank", rank), ("max_rank", max_rank), ("iterations", iterations)):
        require_count(f"solve_tensor: {name}", value)
    require_count("solve_tensor: num_starts", num_starts, least=0)
    if max_rank < rank:
        raise HamqError(f"solve_tensor: max_rank = {max_rank} is below rank = {rank}; raise it.")
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 < tolerance < math.inf:
        raise HamqError(
            f"solve_tensor: tolerance must be a number above 0, the residual as a part of V, got {tolerance!r}; 0.01 is 1 %."
        )
    if sampler is not None and not isinstance(sampler, AbstractSampler):
        raise HamqError(f"solve_tensor: sampler must be a sampler of hamq, such as hamq.HMC(64), or None, got {sampler!r}.")
    return TensorSettings(sampler, rank, max_rank, iterations, float(tolerance), _checked_order(problem, order), num_starts)


def _checked_order(problem: Problem, order: Any) -> tuple[int, ...] | None:
    if order is None:
        return None
    numbers = np.asarray(order)
    d = problem.grid.dimension
    if numbers.dtype.kind not in "iu" or sorted(numbers.tolist()) != list(range(d)):
        raise HamqError(f"solve_tensor: order must hold each of the axes 0 to {d - 1} once, got {order!r}.")
    return tuple(int(axis) for axis in numbers)
