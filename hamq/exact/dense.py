"""The law of any kernel as dense rows, where they fit; their quadrature error is part of every bound."""

import numpy as np
from jaxtyping import Float

from hamq.problem import cells
from hamq.problem.problem import Problem

ROUNDING = 1e-13
"""Total variation that float64 may cost a row besides its quadrature error."""


class DenseLaw:
    """E[V] of all pairs, `[S] -> [S, A]`; `error` bounds the total variation between its masses and the true ones.

    The quadrature error in it is an estimate: the distance between two rules, of which the finer one is used.
    """

    def __init__(self, problem: Problem, tolerance: float, max_evaluations: int | None = None):
        rows = cells.all_rows(problem, tolerance, max_evaluations)
        self.masses = rows.masses.reshape(-1, problem.num_states)
        self.masses /= self.masses.sum(axis=1, keepdims=True)
        self.num_actions = problem.num_actions
        self.quadrature_error, self.error = rows.error, rows.error + ROUNDING
        self.num_nodes, self.evaluations = rows.num_nodes, rows.evaluations

    @property
    def num_summands(self) -> int:
        return self.masses.shape[1]

    def __call__(self, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        return np.matmul(self.masses, value).reshape(-1, self.num_actions)
