"""The neural V: it learns V*, spends what it was given, and keeps to ends."""

import numpy as np
import pytest

from hamq.certificates.tensor_residual import tensor_residuals
from hamq.control.rollouts import rollouts
from hamq.deep.value_network import FittedConfig, backup_each, fit_value_network
from hamq.exact.bellman import make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.sampling.iid import IID
from tests.deep.posed import ends, pose

SMALL = FittedConfig(backups_per_round=128, steps_per_round=100, batch_size=64, width=16)


PROBLEM = pose(law="linear")


def test_learns_the_exact_value():
    """Within 10 % of what V* varies by, on a grid where interpolation hardly matters."""
    problem = pose(points=(17, 15), law="linear")
    exact = solve_exact(problem)
    solution = fit_value_network(problem, max_backups=20 * 128, config=SMALL, sampler=IID(256))
    states, best = problem.grid.states(), exact.q.max(axis=1)
    assert np.sqrt(np.mean((solution.value(states) - best) ** 2)) < 0.1 * np.std(best)
    assert solution.history.residual[-1] < 0.02 < solution.history.residual[0]
    found = tensor_residuals(solution, count=200)
    assert found.nodes.rms == pytest.approx(solution.history.residual[-1], rel=0.5)
    rolled = rollouts(problem, {"network": solution.actions}, starts=states[:3], steps=2)
    assert set(rolled.returns) == {"network"}


def test_budget_is_kept():
    solution = fit_value_network(PROBLEM, max_backups=3 * 128 + 127, config=SMALL)
    np.testing.assert_array_equal(solution.history.backups, [128, 256, 384])
    assert "after 384 backups" in repr(solution)


def test_backup_is_the_exact_one_with_many_draws():
    """max_a r + γ E[V] of an untrained network, against the exact operator on its table; the grid is fine."""
    problem = pose(points=(33, 33), law="linear", terminal=ends)
    solution = fit_value_network(problem, max_backups=128, config=SMALL, sampler=IID(1000))
    states = problem.grid.states()
    values = solution.value(states)
    is_over = make_operator(problem).ended
    assert is_over is not None and np.all(values[is_over] == 0) and np.all(values[~is_over] != 0)
    exact = make_operator(problem).backup(values).max(axis=1)
    chosen = np.arange(0, len(states), 37)
    found = backup_each(solution.operator, solution.network, states[chosen].astype(np.float32))[0]
    np.testing.assert_allclose(found, exact[chosen], atol=0.05 * np.std(exact))


def test_keys_decide():
    first, again, other = (fit_value_network(PROBLEM, max_backups=128, config=SMALL, key=key) for key in (0, 0, 1))
    states = PROBLEM.grid.states()
    np.testing.assert_array_equal(first.value(states), again.value(states))
    assert np.all(first.value(states) != other.value(states))


def test_refusals(as_user):
    with pytest.raises(ValueError, match="max_backups = 100 is less than one round of 128"):
        fit_value_network(PROBLEM, max_backups=100, config=SMALL)
    with pytest.raises(ValueError, match="learning_rate must be a positive number, got 0"):
        FittedConfig(learning_rate=0)
    with pytest.raises(ValueError, match="width must be a whole number of at least 1"):
        FittedConfig(width=0)
