"""Densities of one's own against plain NumPy: Gauss points in every cell, and value iteration (`plain.py`)."""

import numpy as np
import pytest

from hamq.exact.value_iteration import solve_exact
from tests.exact import plain


@pytest.mark.parametrize(
    "posed",
    [
        plain.SMALL_INCOME,
        plain.SMALL_GUMBEL,
        pytest.param(plain.GUMBEL, marks=pytest.mark.slow),
        pytest.param(plain.INCOME, marks=pytest.mark.slow),
    ],
    ids=lambda posed: posed.name,
)
def test_exact_is_what_plain_sums_give(posed):
    """Both are within their tolerances, and the bounds of ours hold the answer of a plain solve that is far finer."""
    best = plain.solve(posed, 1e-8).q
    solution = solve_exact(posed.pose(), 1e-6)
    assert solution.converged and solution.error <= 1e-6
    assert np.abs(solution.q - best).max() <= 1e-6 + 1e-8
    assert np.all(solution.lower <= best + 1e-8) and np.all(best - 1e-8 <= solution.upper)
    away = np.abs(solution.q - best).max()
    assert away <= solution.error + 1e-8


def test_plain_sums_know_when_they_have_settled():
    """The reference against itself: sixteen times the points change nothing that its tolerance would see."""
    posed = plain.SMALL_INCOME
    answer = plain.solve(posed, 1e-6)
    finer = plain.value_iteration(plain.rows(posed, 8 * answer.points[-1]), plain.rewards(posed), posed.discount, 1e-9)
    assert np.abs(answer.q - finer).max() <= 1e-6
