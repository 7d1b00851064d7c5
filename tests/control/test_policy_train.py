"""The greedy action as a train: right on the nodes at full rank, and its error is that of what is shown."""

import numpy as np
import pytest

from hamq.control import policy_train as policy_module
from hamq.control.policy_train import policy_train
from hamq.problem import zoo
from hamq.sampling.iid import IID
from hamq.tensor import train
from hamq.tensor.solve import solve_tensor

RANKS = policy_module.RANKS


@pytest.fixture(autouse=True)
def one_rank(monkeypatch):
    """Each rank compiles programs of its own; test_larger_ranks_wait_for_the_budget has them all."""
    monkeypatch.setattr(policy_module, "RANKS", (4,))


@pytest.fixture(scope="module")
def solved():
    problem = zoo.spring_chain(1, points=5, num_actions=3)
    return solve_tensor(problem, sampler=IID(4), rank=3, iterations=2)


def test_a_train_of_full_rank_is_the_policy_on_the_nodes(solved, monkeypatch):
    monkeypatch.setattr(policy_module, "RANKS", (5,))
    found = policy_train(solved, 0)
    nodes = np.indices((5, 5)).reshape(2, -1).T
    expected = solved.actions(solved.engine.states(nodes))
    np.testing.assert_allclose(train.entries(found.cores, nodes), expected, atol=1e-3 * np.ptp(expected))
    assert 0 < found.error < 0.25  # between the nodes it is not


def test_the_error_is_that_of_what_is_shown(solved, monkeypatch):
    """A train of another policy is as far off as it is."""
    monkeypatch.setattr(policy_module, "fit", lambda cores, *_: train.constant([5, 5], 100.0))
    found = policy_train(solved, 0)
    assert found.error == pytest.approx(100 / 4, rel=0.05)


def test_larger_ranks_wait_for_the_budget(solved, monkeypatch):
    monkeypatch.setattr(policy_module, "GOOD", 0.0)
    monkeypatch.setattr(policy_module, "RANKS", RANKS)
    tried = []
    monkeypatch.setattr(policy_module, "_fitted", lambda *given: tried.append(given[3]) or train.constant([5, 5], 0.0))
    policy_train(solved, 0, budget=0.0)
    assert tried == [4]
    policy_train(solved, 0)
    assert tried == [4, 4, 8, 16]
    monkeypatch.setattr(policy_module, "GOOD", 1.0)
    policy_train(solved, 0)
    assert tried[4:] == [4]
