"""What the first pairs say of all: evaluations that a tolerance takes, what is spent where they are too many, progress."""

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.exact.value_iteration import solve_exact
from hamq.problem import cells, pacing
from hamq.problem.cells import all_rows, rows_of
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.pacing import Meter, spread
from hamq.problem.problem import Problem
from hamq.problem.summits import Fall
from hamq.types import HamqWarning


def on_disc(next_state, state, action):
    return jnp.where(jnp.sum((next_state - 0.6 * state - 0.3 * action) ** 2) < 0.49, 0.0, -jnp.inf)


def reward(state, action):
    return jnp.sin(2 * state[0]) - action**2


def disc(points=6) -> Problem:
    """Uniform on a disc: the error of its masses falls as the first power of the evaluations."""
    grid = Grid([-2.0, -2.0], [2.0, 2.0], [points, points])
    return Problem(grid, [-1.0, 0.0, 1.0], UnnormalizedKernel(on_disc), reward, 0.9)


@pytest.mark.parametrize("num", [1, 2, 5, 16, 64, 2601, 21_600])
def test_every_pair_has_its_turn_and_the_first_come_from_everywhere(num):
    order = spread(num)
    np.testing.assert_array_equal(np.sort(order), np.arange(num))
    if num > 100:
        assert np.diff(np.sort(order[:16])).max() < 3 * num / 16


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_what_is_needed_follows_from_how_errors_fell(power):
    fall = Fall(1e-8)
    for spent in (100, 200, 400, 800, 1600):
        fall.add(np.asarray([spent, spent]), np.asarray([spent**-power, 1e-9]), np.ones(2))
    needed = fall.needed()
    np.testing.assert_allclose(needed, [1e-8 ** (-1 / power), 1600], rtol=1e-6)


def test_an_error_that_does_not_fall_needs_more_than_there_is():
    fall = Fall(1e-6)
    for spent in (100, 200, 400):
        fall.add(np.asarray([spent]), np.asarray([1e-2]), np.ones(1))
    assert fall.needed()[0] > 1e30


def test_needed_is_about_what_it_then_takes():
    """Of a disc: said at a hundredth, found at a quarter of that."""
    problem = disc()
    states, actions = problem.grid.states()[[14, 21]], np.zeros(2)
    least = int(rows_of(problem, states, actions, 1e-2).evaluations.max())
    said = rows_of(problem, states, actions, 2.5e-3, least).needed
    taken = rows_of(problem, states, actions, 2.5e-3).evaluations
    assert said is not None
    assert np.all((taken / 3 < said) & (said < 3 * taken)), (said, taken)


def test_a_long_wait_is_said_after_the_first_pairs_where_nobody_listens(monkeypatch):
    problem, told = disc(9), []
    monkeypatch.setattr(pacing, "LONG", 10**6)
    with pytest.warns(HamqWarning, match=r"masses of all 243 pairs take about \de\+07 more evaluations"):
        rows = all_rows(problem, 2e-3)
    all_rows(problem, 2e-3, progress=lambda *given: told.append(given))  # who listens is not warned
    assert told and rows.evaluations > 10**6
    with pytest.warns(HamqWarning, match="a larger tolerance, a smaller max_evaluations"):
        solve_exact(problem, 0.1)


def test_a_short_one_is_not():
    assert all_rows(disc(9), 2e-2).evaluations > 10**5


def test_a_tolerance_out_of_reach_is_given_up_early_and_said(monkeypatch):
    """A sixteenth of the default is spent, the first pairs apart; what it would take is told at once and in the end."""
    allowed, told, problem = 8_000_000, [], disc(9)
    monkeypatch.setattr(cells, "MAX_EVALUATIONS", allowed)
    solution = solve_exact(problem, 1e-7, progress=lambda *given: told.append(given))
    pairs = problem.num_states * problem.num_actions
    first, each = pacing.PILOT_PAIRS * allowed / pairs, allowed / pairs / pacing.HOPELESS
    rows = all_rows(problem, 1e-10)
    assert rows.evaluations < 2 * (first + pairs * each)
    assert rows.needed > 1e3 * allowed
    assert not solution.converged
    assert "stands in the way of 1e-07" in solution.result and "would be needed" in solution.result
    said = next(k for k, (what, _, _) in enumerate(told) if "evaluations, 8e+06 are allowed" in what)
    assert told[said][1] <= 2 * pacing.PILOT_PAIRS


def test_evaluations_that_somebody_asked_for_are_spent():
    problem = disc(9)
    rows = all_rows(problem, 1e-10, max_evaluations=6_000_000)
    assert 6_000_000 < rows.evaluations < 3 * 6_000_000


def test_pairs_that_need_more_than_the_first_try_get_it(monkeypatch):
    problem = disc()
    monkeypatch.setattr(pacing, "PILOT_EVALUATIONS", 2000)
    rows = all_rows(problem, 2e-3)
    assert rows.error <= 2e-3
    assert rows.evaluations > 2000 * problem.num_states * problem.num_actions


def test_progress_is_told_while_pairs_are_refined(monkeypatch):
    told, clock = [], iter(np.arange(0, 1e6, 0.1))
    monkeypatch.setattr(pacing.time, "monotonic", lambda: next(clock))
    all_rows(disc(), 5e-3, progress=lambda *given: told.append(given))
    assert told[0] == ("integrating the density", 0, 108) and told[-1] == ("integrating the density", 108, 108)
    done = [each[1] for each in told]
    assert done == sorted(done) and len(told) > 4


def test_a_meter_is_quiet_between_two_lines(monkeypatch):
    now, told = [0.0], []
    monkeypatch.setattr(pacing.time, "monotonic", lambda: now[0])
    meter = Meter(lambda *given: told.append(given), 10)
    for second in (0.1, 0.2, 0.7, 0.8):
        now[0] = second
        meter.within(100, 3)
    meter.settled(10, "")
    assert [each[1] for each in told] == [0, 3, 10]
