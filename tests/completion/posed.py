"""Small tables with holes for the tests of `completion`, and their optima by CVXPY."""

import numpy as np
import pytest

from hamq.completion.completion import Observed


def observed(seed=0, shape=(60, 10), rank=2, fraction=0.5, level=1.0, noise=0.0, empty_rows=(), empty_columns=()):
    """(Observed, the full table): NaN off Ω, at least one entry in every row and column that is not meant to be empty."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])) + level
    mask = rng.random(shape) < fraction
    mask[np.arange(shape[0]), np.arange(shape[0]) % shape[1]] = True
    mask[list(empty_rows)] = False
    mask[:, list(empty_columns)] = False
    values = np.where(mask, table + noise * rng.normal(size=shape), np.nan)
    return Observed(values, mask), table


def zeros(data: Observed) -> np.ndarray:
    return np.zeros(data.mask.shape)


def optimum(data: Observed, penalty: float | None = None) -> tuple[np.ndarray, float]:
    """(X, value) of min ‖X‖_* with X = Y on Ω or, with a penalty, of ½‖P_Ω(X − Y)‖² + λ‖X‖_*."""
    cvxpy = pytest.importorskip("cvxpy")
    x = cvxpy.Variable(data.mask.shape)
    y = data.values[data.mask]
    if penalty is None:
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(x)), [x[data.mask] == y])
    else:
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x[data.mask] - y) / 2 + penalty * cvxpy.normNuc(x)))
    problem.solve(solver=cvxpy.SCS, eps=1e-8, max_iters=50_000)
    return x.value, problem.value
