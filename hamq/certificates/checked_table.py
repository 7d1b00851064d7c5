"""The table of Q in whatever a user hands over to be judged."""

from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.exact.solution import Solution
from hamq.problem.problem import Problem, is_same, pair_name


def checked_table(caller: str, problem: Problem, given: Any) -> Float[np.ndarray, "S A"]:
    """Of a solution, a run or an array, in float64; refuses what is no table of this problem."""
    problem.require_enumerable(caller)
    if isinstance(given, Solution) and not is_same(given.problem, problem):
        raise ValueError(
            f"{caller}: {given.problem!r} and {problem!r} are different problems; give the problem that was solved."
        )
    q = getattr(given, "q", given)
    if q is None or callable(q):  # a run that has not ended, a tensor train
        raise ValueError(
            f"{caller}: this {type(given).__name__} has no table of Q; finish the run, or use tensor_residuals for a tensor "
            "train."
        )
    q = np.asarray(q)
    shape = (problem.num_states, problem.num_actions)
    if q.shape != shape or q.dtype.kind not in "iuf":
        raise ValueError(
            f"{caller}: the table must hold real numbers and have the shape {shape} of {problem.name}, got {q.shape} of "
            f"{q.dtype}; give Q for every state and action."
        )
    q = q.astype(np.float64)
    if not np.isfinite(q).all():
        s, a = (int(i) for i in np.argwhere(~np.isfinite(q))[0])
        raise ValueError(f"{caller}: Q is {q[s, a]} at {pair_name(problem, s, a)}; every entry must be finite.")
    return q
