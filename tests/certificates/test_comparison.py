"""Distances from the exact table, on tables for which they are known."""

import dataclasses

import numpy as np
import pytest

from hamq.certificates.comparison import compare
from hamq.exact.bellman import evaluate_policy, make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.problem import zoo
from hamq.types import HamqError


@pytest.fixture(scope="module")
def exact():
    return solve_exact(zoo.double_integrator(points=9))


@pytest.fixture(scope="module")
def operator(exact):
    return make_operator(exact.problem)


def test_what_is_compared_with_is_an_exact_answer(as_user):
    with pytest.raises(HamqError, match=r"compare: the second is what solve_exact returned, got ndarray"):
        compare(np.zeros((2, 2)), np.zeros((2, 2)))


def test_the_exact_table_has_no_distance(exact, operator):
    found = compare(exact, exact, operator)
    assert (found.frobenius, found.sup, found.advantage, found.agreement) == (0, 0, 0, 1)
    span = np.ptp(exact.value)
    assert abs(found.policy_loss) < 1e-5 * span and abs(found.worst_loss) < 1e-5 * span
    assert found.constant_action_loss > 0.1 and 0 <= found.random_policy_loss < found.constant_action_loss


def test_a_level_is_no_advantage(exact, operator):
    found = compare(exact.q + 3.0, exact, operator)
    assert found.sup == pytest.approx(3) and found.advantage < 1e-12 and found.agreement == 1
    assert found.frobenius == pytest.approx(3 * np.sqrt(exact.q.size) / np.linalg.norm(exact.q))


def test_advantages_are_relative(exact, operator):
    mean = exact.q.mean(axis=1, keepdims=True)
    assert compare(mean + 0.5 * (exact.q - mean), exact, operator).advantage == pytest.approx(0.5)


def test_the_loss_is_that_of_the_greedy_policy(exact, operator):
    """Everywhere the worst action: its loss is V* − V^π, by an evaluation of its own."""
    found = compare(-exact.q, exact, operator)
    policy = exact.q.argmin(axis=1)
    losses = exact.value - evaluate_policy(exact.problem, policy, tolerance=1e-6).value
    assert found.policy_loss == pytest.approx(losses.mean(), abs=1e-4)
    assert found.worst_loss == pytest.approx(losses.max(), abs=1e-4)
    assert found.agreement < 0.2


def test_two_rows_for_scale(exact, operator):
    """By hand: all constant actions, and one greedy step on the random policy's values."""
    num_states, num_actions = exact.q.shape
    constant = [
        np.mean(exact.value - evaluate_policy(exact.problem, np.full(num_states, a), operator=operator).value)
        for a in range(num_actions)
    ]
    even = np.full((num_states, num_actions), 1 / num_actions)
    value = evaluate_policy(exact.problem, even, operator=operator).value
    greedy = operator.backup(value).argmax(axis=1)
    after = np.mean(exact.value - evaluate_policy(exact.problem, greedy, operator=operator).value)
    found = compare(exact, exact, operator)
    assert found.constant_action_loss == pytest.approx(min(constant), abs=1e-4)
    assert found.random_policy_loss == pytest.approx(after, abs=1e-4)


def test_equally_good_actions_agree(exact, operator):
    """Q* between bounds: actions that the bounds cannot tell apart are both right."""
    loose = dataclasses.replace(exact, error=float(np.ptp(exact.q)))
    assert compare(-exact.q, loose, operator).agreement == 1


def test_it_reads_as_a_sentence(exact, operator):
    text = str(compare(exact.q + 3.0, exact, operator))
    assert "sup 3" in text and "agrees in 100% of the states" in text and "best constant action" in text


def test_refusals(exact):
    with pytest.raises(ValueError, match=r"compare: the table must .* the shape \(81, 10\) of .*, got \(3, 3\)"):
        compare(np.zeros((3, 3)), exact)
    with pytest.raises(ValueError, match="compare: Q is nan at state 0"):
        compare(np.full(exact.q.shape, np.nan), exact)
