import copy
import pickle

import numpy as np
import pytest

from hamq.exact.value_iteration import solve_exact
from hamq.solution import History, Solution
from tests.exact.posed import swing


@pytest.fixture(scope="module")
def solution():
    return solve_exact(swing())


def test_policy_and_value_are_read_off_q(solution):
    np.testing.assert_array_equal(solution.policy, solution.q.argmax(axis=1))
    np.testing.assert_array_equal(solution.value, solution.q.max(axis=1))
    assert solution.policy.dtype.kind == "i"


def test_no_action_is_chosen_from_nan(solution):
    q = solution.q.copy()
    q[4, 1] = np.nan
    broken = Solution(solution.problem, q, solution.history, "made up", False)
    for name in ("policy", "value"):
        with pytest.raises(ValueError, match=r"q of swing is NaN in 1 entries, first at state 4 .*, action 1"):
            getattr(broken, name)


def test_repr_is_one_line_with_the_bound(solution):
    assert repr(solution).startswith("Solution('swing': 35 × 3, |q - Q*| <= ")
    assert "certified to" in repr(solution) and "\n" not in repr(solution)
    assert "no bound" in repr(Solution(solution.problem, solution.q, solution.history, "made up", False))


def test_a_solution_is_frozen(solution):
    with pytest.raises(AttributeError):
        solution.q = None
    with pytest.raises(ValueError, match="read-only"):
        solution.history.error[0] = 0


def test_history_gives_columns_and_rows():
    history = History(sweep=[1, 2], error=[0.5, 0.25])
    assert len(history) == 2 and history[-1] == {"sweep": 2, "error": 0.25}
    np.testing.assert_array_equal(history["error"], history.error)
    assert repr(history) == "History(2 rows: sweep, error)"
    with pytest.raises(AttributeError, match="has the columns sweep, error, not 'rank'"):
        _ = history.rank
    with pytest.raises(ValueError, match=r"one length, got \{'sweep': 1, 'error': 2\}"):
        History(sweep=[1], error=[1.0, 2.0])


def test_history_can_be_copied_and_pickled():
    history = History(sweep=[1, 2])
    for twin in (copy.deepcopy(history), pickle.loads(pickle.dumps(history))):
        np.testing.assert_array_equal(twin.sweep, history.sweep)
