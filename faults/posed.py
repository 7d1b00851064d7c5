"""A table of action values, its solution and its certificate, made by hand: nothing is solved, and JAX is not started."""

import numpy as np

from hamq.certificates.certificate import Certificate
from hamq.problem.problem import Problem
from hamq.solution import Cost, History, Solution

Q = np.asarray([[0.5, -1.0], [2.0, 0.25], [-0.125, 3.0]])


def solution(history: History) -> Solution:
    return Solution(_named(), Q, history, "stopped by hand", True, Q - 1, Q + 1, 1.0)


def certificate() -> Certificate:
    loss = np.asarray([0.5, 1.5, 0.25])
    return Certificate(_named(), "guaranteed", 0.95, Q - 0.5, Q + 0.5, 0.5, loss, 9.0, 100.0, 1234, Cost(60, 120, 30), 1.5)


def _named() -> Problem:
    """A problem with a name and nothing else, which is all that is written of it: a whole one would start JAX."""
    problem = object.__new__(Problem)
    object.__setattr__(problem, "name", "posed")
    return problem
