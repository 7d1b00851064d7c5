"""From functions and bounds of their backups to what is said of Q*, of a table and of its policy."""

import re
import time

import numpy as np
import pytest

from hamq.certificates.bracket import Bracket, known_from_rewards, make_certificate
from hamq.certificates.proposal import Proposal
from hamq.certificates.sampled import Judged, Verified, bracket_of, judge
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.solution import Cost
from tests.certificates.test_proposal import DISCOUNT, ENDS, bent, posed

NO_COST = Cost(0, 0, 0)


def bracket_by(operator, q, upper, lower, policy) -> Bracket:
    """What follows from these functions with their exact backups."""
    judged = judge(operator.problem, q)
    proposal = Proposal(upper, lower, policy, np.ones(q.shape, int))
    return bracket_of(judged, proposal, Verified(*(operator.backup(function) for function in (upper, lower, policy))))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ends", ENDS)
def test_any_functions_give_a_bracket(ends, seed):
    """Whatever is proposed: what it misses by is passed on to all states. Values of ended states are free too."""
    operator, true = posed(ends)
    q, rng = bent(true, operator.ended, 1.0), np.random.default_rng(seed)
    functions = true.max(axis=1) + rng.normal(size=(3, len(q))) + rng.choice([-8.0, 0.0, 8.0], (3, 1))
    found = bracket_by(operator, q, *functions)
    going = np.ones(len(q), bool) if operator.ended is None else ~operator.ended
    value = operator.evaluate(q.argmax(axis=1), tolerance=1e-9).value
    assert np.all(found.lower[going] <= true[going] + 1e-8)
    assert np.all(found.upper[going] >= true[going] - 1e-8)
    assert np.all(found.policy_value[going] <= value[going] + 1e-8)


def test_rounding_does_not_cross_the_answer():
    """With no discount Q* is the reward; u + (r − u) is less than r as often as not."""
    rng, rewards = np.random.default_rng(0), np.random.default_rng(1).normal(size=(200, 3))
    kernel = GaussianKernel(lambda state, action: state, [0.1])
    problem = Problem(Grid([0.0], [1.0], [200]), np.arange(3.0), kernel, lambda s, a: s[0], 0.0)
    judged = Judged(problem, rewards, rewards, None)
    for scale in (1e-3, 1.0, 1e3):
        u = scale * rng.normal(size=(3, 200))
        found = bracket_of(judged, Proposal(*u, np.ones((200, 3), int)), Verified(rewards, rewards, rewards))
        assert np.all((found.lower <= rewards) & (rewards <= found.upper))
        assert np.all(found.policy_value <= rewards.max(axis=1))
        assert np.max(found.upper - found.lower) < 1e-11 * scale + 1e-13


@pytest.mark.parametrize("far", [-3.0, 0.0, 3.0])
def test_a_constant_that_was_missed_costs_nothing(far):
    """V* + c and V^π + c give Q* and V^π themselves where no state ends."""
    operator, true = posed("goes on")
    q = bent(true, None, 1.0)
    best, value = true.max(axis=1), operator.evaluate(q.argmax(axis=1), tolerance=1e-10).value
    found = bracket_by(operator, q, best + far, best + far, value + far)
    np.testing.assert_allclose(found.upper, true, atol=1e-6)
    np.testing.assert_allclose(found.lower, true, atol=1e-6)
    np.testing.assert_allclose(found.policy_value, value, atol=1e-6)
    assert np.max(best - value) > 0.5, "a policy as good as the best is no test"


def test_ended_states_stop_what_helps():
    """Functions 5 too high and too low, by 0.4 in ended states: what these pass on is not as much as others lose."""
    operator, true = posed("ends")
    best, far, going = true.max(axis=1), np.where(operator.ended, 0.4, 5.0), ~operator.ended
    found = bracket_by(operator, true, best + far, best - far, best - far)
    assert np.all(found.upper[going] >= true[going] - 1e-8)
    assert np.all(found.lower[going] <= true[going] + 1e-8)
    assert np.all(found.policy_value[going] <= best[going] + 1e-8)
    assert np.all(found.upper[going] <= true[going] + 5)


def certificate_of(ends, found, q, draws=100.0, rewards=None):
    operator, _ = posed(ends)
    rewards = operator.rewards if rewards is None else rewards
    return make_certificate(
        operator.problem, q, rewards, operator.ended, found,
        method="guaranteed", confidence=0.95, draws=draws, cost=NO_COST, began=time.perf_counter(),
    )  # fmt: skip


@pytest.mark.parametrize("ends", ENDS)
def test_rewards_alone_bound_what_is_found(ends):
    """A bracket that says nothing is cut to what holds without draws, and called vacuous."""
    operator, true = posed(ends)
    known = known_from_rewards(operator.problem, operator.rewards, operator.ended)
    assert np.all((known.lower <= true) & (true <= known.upper))
    wide = Bracket(np.full(true.shape, -1e9), np.full(true.shape, 1e9), np.full(len(true), -1e9))
    made = certificate_of(ends, wide, true)
    np.testing.assert_array_equal(made.lower, known.lower)
    np.testing.assert_array_equal(made.upper, known.upper)
    assert made.error == made.known_before
    assert made.is_vacuous
    assert made.draws_needed > made.draws
    assert "100 draws per pair are too few to say anything of use about Q*" in made.sentence
    assert made.error <= float(re.findall(r"≤ ([\d.e+-]+)\.$", made.sentence)[0]) < 1.01 * made.error
    assert f"it takes about {made.draws_needed:,} to make them useful" in made.sentence
    np.testing.assert_allclose(made.policy_loss, known.upper.max(axis=1) - known.lower.min(axis=1))


@pytest.mark.parametrize("ends", ENDS)
def test_error_and_loss_follow_from_the_bracket(ends):
    operator, true = posed(ends)
    q = bent(true, operator.ended)
    value = operator.evaluate(q.argmax(axis=1), tolerance=1e-9).value
    made = certificate_of(ends, Bracket(true - 0.1, true + 0.2, value - 0.3), q)
    going = np.ones(len(q), bool) if operator.ended is None else ~operator.ended
    expected = np.maximum(np.abs(q - true - 0.2), np.abs(q - true + 0.1))[going].max()
    assert made.error == pytest.approx(expected)
    np.testing.assert_allclose(made.policy_loss[going], (true.max(axis=1) + 0.2 - value + 0.3)[going])
    np.testing.assert_array_equal(made.policy_loss[~going], 0)
    np.testing.assert_array_equal(made.upper[~going], 0)
    assert made.worst_loss == made.policy_loss.max()
    assert not made.is_vacuous
    assert "with 0.95 confidence (for independent draws of any law)" in made.sentence


def test_draws_needed_make_the_bracket_a_tenth_of_the_range():
    _, true = posed("goes on")
    half = np.ptp(true.max(axis=1))  # ten times as wide as is useful: a hundred times the draws
    made = certificate_of("goes on", Bracket(true - half, true + half, true.max(axis=1) - half), true)
    assert made.draws_needed == pytest.approx(10_000, rel=0.02)
    narrow = certificate_of("goes on", Bracket(true - 0.01, true + 0.01, true.max(axis=1) - 0.01), true)
    assert narrow.draws_needed is None


def test_rewards_of_one_sign_know_that_a_problem_may_end():
    """Rewards between 1 and 2, and an end that is worth 0: less than any reward."""
    operator, _ = posed("ends")
    rewards = np.where(operator.ended[:, None], 0, 1 + np.random.default_rng(0).random(operator.rewards.shape))
    known = known_from_rewards(operator.problem, rewards, operator.ended)
    going = ~operator.ended
    assert np.all(known.lower[going] < rewards[going])  # rounding goes outwards
    np.testing.assert_allclose(known.lower[going], rewards[going], rtol=1e-12)
    np.testing.assert_allclose(known.upper[going], rewards[going] + DISCOUNT / (1 - DISCOUNT) * rewards.max())
