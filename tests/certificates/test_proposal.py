"""Proposals of a pilot that knows the law, and how draws are shared out."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.certificates.intervals import predicted_width
from hamq.certificates.proposal import Pilot, allot, correct, propose
from hamq.exact.bellman import make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem

DISCOUNT = 0.9
MARGIN = np.random.default_rng(3).uniform(0.1, 0.3, (20, 3))
"""Half-widths that verification will have: another one in each pair."""
ENDS = {"goes on": None, "ends": lambda state: state[0] > 0.9}


@functools.cache
def posed(ends: str):
    """The operator of a 5 × 4 grid with three actions, and its Q*."""
    problem = Problem(
        Grid([-1.0, -1.0], [1.0, 1.0], [5, 4]),
        [-1.0, 0.0, 1.0],
        GaussianKernel(lambda state, action: 0.8 * state + 0.3 * action, [0.1, 0.2]),
        lambda state, action: jnp.cos(3 * state[0]) + state[1] * action - 0.2 * action**2,
        DISCOUNT,
        terminal=ENDS[ends],
    )
    return make_operator(problem), solve_exact(problem, tolerance=1e-9).q


class ExactStock:
    """Draws so many that they are the law."""

    def __init__(self, operator):
        self.operator = operator

    def expected(self, problem, value):
        return (self.operator.law(value - value.mean()) + value.mean()).astype(np.float64)


def pilot_of(operator, q, error=0.0):
    value = q.max(axis=1) if operator.ended is None else np.where(operator.ended, 0, q.max(axis=1))
    residual = operator.backup(value) - q
    return Pilot(residual, np.full(q.shape, error), ExactStock(operator))


def proposed(operator, q, pilot, num_rounds, per_round, allots=True):
    value = q.max(axis=1) if operator.ended is None else np.where(operator.ended, 0, q.max(axis=1))
    corrected, centre = correct(operator.problem, q, value, operator.ended, pilot)
    return propose(corrected, centre, q.argmax(axis=1), lambda draws: MARGIN, num_rounds, per_round, allots)


def bent(q, ended, size=0.3):
    """A table that is wrong, and whose greedy policy is too."""
    q = q + size * np.random.default_rng(0).normal(size=q.shape)
    return q if ended is None else np.where(ended[:, None], 0, q)


def confirmed(operator, function, sign, choose):
    """The function moved by b/(1 − γ), b what Tu ± m misses it by: where no state ends that is 0 up to a constant."""
    table = operator.backup(function) + sign * (MARGIN if operator.ended is None else MARGIN * ~operator.ended[:, None])
    missed = choose(table) - function
    assert np.ptp(missed) < 1e-3
    if operator.ended is not None:
        np.testing.assert_allclose(missed, 0, atol=1e-3)
    return function + missed.mean() / (1 - DISCOUNT)


@pytest.mark.parametrize("ends", ENDS)
def test_exact_pilots_propose_what_the_operator_confirms(ends):
    """Tu + m = u, Tl − m = l and T^π p − m = p, so that what verification finds within m confirms them."""
    operator, true = posed(ends)
    q = bent(true, operator.ended)
    proposal = proposed(operator, q, pilot_of(operator, q), 4.0, 100)
    states, policy = np.arange(len(q)), q.argmax(axis=1)
    best, own = true.max(axis=1), operator.evaluate(policy).value
    assert np.max(best - own) > 0.05, "a policy that is as good as the best is no test of what follows it"
    upper = confirmed(operator, proposal.upper, 1, lambda table: table.max(axis=1))
    lower = confirmed(operator, proposal.lower, -1, lambda table: table.max(axis=1))
    followed = confirmed(operator, proposal.policy, -1, lambda table: table[states, policy])
    going = np.ones(len(q), bool) if operator.ended is None else ~operator.ended
    for low, high in ((best, upper), (lower, best), (followed, own)):
        gap = (high - low)[going]
        assert np.all(gap > 0.9 * MARGIN.min())
        assert np.all(gap <= MARGIN.max() / (1 - DISCOUNT) + 0.01)
        np.testing.assert_allclose((high - low)[~going], 0, atol=1e-3)


def test_tables_better_than_their_pilot_are_hardly_moved():
    """Residuals that are all noise: the same functions as where the pilot saw none."""
    operator, true = posed("goes on")
    sure = proposed(operator, true, pilot_of(operator, true), 4.0, 100)
    noise = 0.1 * np.random.default_rng(0).normal(size=true.shape)
    noisy = pilot_of(operator, true)._replace(residual=noise, error=np.full(true.shape, 0.2))
    found = proposed(operator, true, noisy, 4.0, 100)
    np.testing.assert_allclose(found.upper, sure.upper, atol=1e-3)
    np.testing.assert_allclose(found.lower, sure.lower, atol=1e-3)


def test_margins_hold_the_errors_of_the_pilot():
    """With a state that ends, where constants count: errors of a pilot push the functions apart."""
    operator, true = posed("ends")
    q, going = bent(true, operator.ended), ~operator.ended
    sure, unsure = (proposed(operator, q, pilot_of(operator, q, e), 4.0, 100) for e in (0.0, 0.1))
    assert np.all((unsure.upper - unsure.lower - (sure.upper - sure.lower))[going] > 0.1)


def width_of(spread):
    return lambda draws: predicted_width(spread, 1.0, draws, 1e-4)


@pytest.mark.parametrize("budget", [2.0, 7.5, 40.0])
def test_draws_are_shared_out_within_the_budget(budget):
    rng = np.random.default_rng(0)
    gap = rng.exponential(0.3, (60, 5))
    gap[np.arange(60), rng.integers(0, 5, 60)] = 0
    rounds = allot(gap, width_of(rng.uniform(0.05, 0.3, gap.shape)), budget, 100, 0.95)
    assert rounds.min() >= 1
    assert 0.8 * budget < rounds.mean() <= budget
    assert rounds.max() > budget


def test_draws_go_where_they_decide():
    """Pairs alike but for their gap get fewer draws the larger it is; those alike but for their spread more."""
    gap = np.tile(np.linspace(0, 1, 8), (20, 1))
    rounds = allot(gap, width_of(np.full(gap.shape, 0.2)), 10.0, 100, 0.95)
    assert np.all(np.diff(rounds, axis=1) <= 0)
    assert rounds[0, 0] > 2 * rounds[0, -1]
    spread = np.tile(np.linspace(0.01, 0.3, 8), (20, 1))
    rounds = allot(np.zeros((20, 8)), width_of(spread), 10.0, 100, 0.95)
    assert np.all(np.diff(rounds, axis=1) >= 0)
    assert rounds[0, -1] > rounds[0, 0]


def test_no_allotment_gives_every_pair_the_same():
    operator, true = posed("goes on")
    proposal = proposed(operator, true, pilot_of(operator, true), 4.0, 100, allots=False)
    np.testing.assert_array_equal(proposal.rounds, 4)
