"""The table of Q in whatever a user hands over to be judged, and the problem that it is of."""

from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.problem.problem import Problem, is_same, pair_name
from hamq.solution import AbstractSolution
from hamq.types import HamqError


def problem_of(caller: str, given: Any, problem: Problem | None) -> Problem:
    """The problem of a solution, or the one that stands beside a table."""
    if isinstance(given, Problem):
        raise HamqError(f"{caller}: what is judged comes first: {caller}(solution), or {caller}(table, problem).")
    if problem is not None:
        return problem
    if not isinstance(given, AbstractSolution):
        raise HamqError(f"{caller}: a {type(given).__name__} does not know its problem; give {caller}(table, problem).")
    return given.problem


def checked_table(caller: str, problem: Problem, given: Any) -> Float[np.ndarray, "S A"]:
    """Of a solution, a run or an array, in float64; of a tensor train, one backup of V. Refuses what is no table of this
    problem."""
    problem.require_enumerable(caller)
    if isinstance(given, AbstractSolution) and not is_same(given.problem, problem):
        raise HamqError(
            f"{caller}: {given.problem!r} and {problem!r} are different problems; give the problem that was solved."
        )
    q = given.table() if isinstance(given, AbstractSolution) else getattr(given, "q", given)
    if q is None:
        raise HamqError(f"{caller}: this {type(given).__name__} has no table of Q; finish the run.")
    q = np.asarray(q)
    shape = (problem.num_states, problem.num_actions)
    if q.shape != shape or q.dtype.kind not in "iuf":
        raise HamqError(
            f"{caller}: the table must hold real numbers and have the shape {shape} of {problem.name}, got {q.shape} of "
            f"{q.dtype}; give Q for every state and action."
        )
    q = q.astype(np.float64)
    if not np.isfinite(q).all():
        s, a = (int(i) for i in np.argwhere(~np.isfinite(q))[0])
        raise HamqError(f"{caller}: Q is {q[s, a]} at {pair_name(problem, s, a)}; every entry must be finite.")
    return q
