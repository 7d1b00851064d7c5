"""Backups that the cores of a CPU share."""

import jax
import numpy as np
import pytest

from hamq.learning import backup
from hamq.learning.backup import make_stock
from hamq.learning.draws import PairDraws
from hamq.problem.zoo.pendulum import pendulum

NUM = 5 * 64 + 3
"""States of the draws: five tiles and a part of one, which two or four threads cannot share evenly."""


def some_draws(num_states: int, *, weighs: bool) -> PairDraws:
    generator = np.random.default_rng(0)
    locations = generator.integers(0, num_states, (NUM, 2, 11)).astype(np.uint16)
    logs = np.log(generator.dirichlet(np.ones(11), (NUM, 2))).astype(np.float32)
    return PairDraws(locations, logs if weighs else None)


@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize("cores", [2, 4])
def test_threads_change_no_bit(monkeypatch, cores, weighs):
    """All tiles are backed up, in any number of shares, also where V is asked for in a thread with another setting."""
    problem = pendulum()
    draws = some_draws(problem.num_states, weighs=weighs)
    value = np.random.default_rng(1).standard_normal(problem.num_states)
    alone = make_stock(draws)
    assert not alone.shares
    monkeypatch.setattr(backup, "SHARED", 1)
    monkeypatch.setattr(backup.os, "cpu_count", lambda: cores)
    shared = make_stock(draws)
    assert len(shared.shares) == (2 if cores == 2 else 3)
    assert len({share.locations.shape for share in shared.shares}) == 1
    expected = alone.expected(problem, value)
    np.testing.assert_array_equal(shared.expected(problem, value), expected)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(shared.expected(problem, value), expected)
    by_hand = value[draws.locations]
    weights = 1 / 11 if draws.log_weights is None else np.exp(draws.log_weights)
    np.testing.assert_allclose(expected, np.sum(weights * by_hand, axis=-1), rtol=1e-5, atol=1e-5)
