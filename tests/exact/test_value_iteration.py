import functools

import jax.numpy as jnp
import numpy as np
import pytest
import quantecon
from scipy.stats import norm

from hamq.exact.value_iteration import solve_exact
from hamq.problem import cells, zoo
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.tables import terminal_table
from hamq.types import HamqError, HamqWarning
from tests.exact.posed import ends, maze, model, spiky, swing

PROBLEMS = {
    "swing": swing,
    "linear": lambda: swing("linear"),
    "point": lambda: swing("point"),
    "circle": lambda: swing(periodic=True),
    "correlated": lambda: swing(covariance=((0.5, 0.2), (0.2, 0.5))),
    "maze": maze,
    "maze-linear": lambda: maze("linear"),
    "spiky": spiky,
    "terminal": lambda: swing(terminal=ends),
}


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "terminal"])  # their rows must sum to one
def test_q_is_that_of_quantecon(name):
    problem = PROBLEMS[name]()
    exact = model(problem)
    solver = quantecon.markov.DiscreteDP(exact.rewards, exact.masses, exact.discount)
    theirs = solver.solve(method="policy_iteration")
    ours = solve_exact(problem, tolerance=1e-8)
    assert ours.converged and ours.error <= 1e-8
    np.testing.assert_allclose(ours.value, theirs.v, atol=1.1e-8)
    np.testing.assert_array_equal(ours.policy, theirs.sigma)


@functools.cache
def forgetful(discount: float) -> Problem:
    """The next state does not depend on the pair: Q* = r + γ/(1−γ) Σ_s w(s) max_a r(s, a), w the masses."""
    return Problem(
        grid=Grid([-1.0], [2.0], [7]),
        actions=np.asarray([-1.0, 0.0, 2.0]),
        kernel=GaussianKernel(lambda s, a: jnp.full_like(s, 0.4) + 0 * a, [0.49]),
        reward=lambda s, a: jnp.sin(3 * s[0] + a),
        discount=discount,
        name="forgetful",
    )


@pytest.mark.parametrize("discount", [0.0, 0.6, 0.99])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-4, 1e-9])
def test_q_of_a_problem_with_a_closed_form_is_within_the_tolerance(discount, tolerance):
    solution = solve_exact(forgetful(discount), tolerance)
    points = np.linspace(-1, 2, 7)
    rewards = np.sin(3 * points[:, None] + np.asarray([-1.0, 0.0, 2.0]))
    edges = np.concatenate([[-1], (points[1:] + points[:-1]) / 2, [2]])
    masses = np.diff(norm.cdf(edges, loc=0.4, scale=0.7))
    masses /= masses.sum()
    expected = rewards + discount / (1 - discount) * masses @ rewards.max(axis=1)
    assert solution.converged and solution.error <= tolerance
    assert np.abs(solution.q - expected).max() <= tolerance
    assert np.all(solution.lower <= expected + 1e-12) and np.all(expected - 1e-12 <= solution.upper)


def test_q_on_a_circle_is_an_eigenfunction():
    """mean = s on a circle, r = cos θ: E[cos θ'] = λ cos θ, so that V = r/(1 − γλ); λ from wrapped cells."""
    n, discount, sigma = 12, 0.97, 0.5
    problem = Problem(
        grid=Grid([0.0], [2 * np.pi], [n], True),
        actions=np.asarray([0.0]),
        kernel=GaussianKernel(lambda s, a: s + 0 * a, [sigma**2]),
        reward=lambda s, a: jnp.cos(s[0]) + 0 * a,
        discount=discount,
    )
    cells_at = 2 * np.pi / n * (np.arange(-5 * n, 5 * n + 1)[:, None] + np.asarray([-0.5, 0.5]))
    masses = np.diff(norm.cdf(cells_at / sigma), axis=1)[:, 0]
    factor = np.sum(masses * np.cos(cells_at.mean(axis=1)))
    solution = solve_exact(problem, 1e-10)
    expected = np.cos(2 * np.pi / n * np.arange(n)) / (1 - discount * factor)
    np.testing.assert_allclose(solution.value, expected, atol=1.1e-10)


@pytest.mark.parametrize("name", ["swing", "terminal", "maze-linear", "spiky"])
def test_bounds_hold_at_every_tolerance(name):
    problem = PROBLEMS[name]()
    best = model(problem).optimal_q()
    ended = terminal_table(problem)
    running = np.ones(len(best)) if ended is None else ~ended
    for tolerance in (1.0, 1e-2, 1e-4, 1e-6):
        solution = solve_exact(problem, tolerance)
        assert solution.converged
        assert np.all(solution.lower <= best + 1e-11) and np.all(best - 1e-11 <= solution.upper)
        assert np.abs(solution.q - best).max() <= solution.error + 1e-11 <= tolerance + 1e-11
        widths = np.broadcast_to(2 * solution.error * running[:, None], best.shape)
        np.testing.assert_allclose(solution.upper - solution.lower, widths, atol=1e-12)


def test_terminal_states_are_worth_nothing_and_their_neighbours_know():
    free, ending = solve_exact(swing(), 1e-8), solve_exact(swing(terminal=ends), 1e-8)
    over = swing().grid.states()[:, 0] > 2.5
    assert over.sum() == 5
    for table in (ending.q, ending.lower, ending.upper):
        assert np.all(table[over] == 0)
    assert np.all(np.abs(free.q[~over] - ending.q[~over]) > 1e-4)


def test_acrobot_underflows_nowhere():
    """97 % of its means lie outside the box; many are 30 σ away."""
    solution = solve_exact(zoo.acrobot())
    assert solution.converged
    for table in (solution.q, solution.lower, solution.upper):
        assert np.all(np.isfinite(table))
    assert np.all(solution.lower <= solution.upper)


@pytest.mark.parametrize("name", ["pendulum", "double_integrator", "cartpole", "repelling_agents"])
def test_the_zoo_is_certified_to_a_millionth(name):
    solution = solve_exact(getattr(zoo, name)(), 1e-6)
    assert solution.converged and solution.error <= 1e-6
    # Quadrature of a density that is given as a function proves nothing.
    assert solution.result.startswith("estimated to" if name == "repelling_agents" else "certified to")


def test_cart_double_pendulum_is_certified_at_its_full_size():
    solution = solve_exact(zoo.cart_double_pendulum(), 1e-6)
    assert solution.q.shape == (15625, 10) and solution.error <= 1e-6
    assert len(solution.history) < 40


@pytest.mark.parametrize("tolerance", [0, -1.0, float("nan"), True, "small", None])
def test_a_tolerance_that_is_none_is_refused(tolerance, as_user):
    with pytest.raises(ValueError, match=r"tolerance must be a number above 0, got"):
        solve_exact(swing(), tolerance)


def test_a_warm_start_saves_sweeps_and_changes_no_bound():
    before, problem = solve_exact(swing(terminal=ends)), swing(terminal=ends, discount=0.951)
    cold = solve_exact(problem)
    for initial in (before.q, before.value):
        warm = solve_exact(problem, initial=initial)
        assert warm.converged and len(warm.history) < len(cold.history)
        assert np.all(warm.lower <= cold.upper) and np.all(cold.lower <= warm.upper)
    assert len(solve_exact(problem, initial=cold.q).history) <= 5
    spoilt = solve_exact(problem, initial=np.where(terminal_table(problem), 1e6, cold.value))
    assert len(spoilt.history) <= 5  # terminal states are worth 0, whatever is given


@pytest.mark.parametrize(
    ("initial", "sentence"),
    [("three", r"shape \(\d+, \d+\) or values of shape \(\d+,\), got \(3,\)"), ("nan", "finite")],
)
def test_a_start_that_is_none_is_refused(initial, sentence):
    start = np.zeros(3) if initial == "three" else np.full(swing().num_states, np.nan)
    with pytest.raises(HamqError, match=sentence):
        solve_exact(swing(), initial=start)


@pytest.mark.parametrize("max_sweeps", [0, -3, 2.5])
def test_no_sweeps_are_refused(max_sweeps, as_user):
    with pytest.raises(ValueError, match=r"max_sweeps must be a whole number of at least 1, got"):
        solve_exact(swing(), max_sweeps=max_sweeps)


def test_too_few_sweeps_are_said():
    solution = solve_exact(swing(discount=0.999), max_sweeps=3)
    assert not solution.converged and solution.error > 1e-6
    assert "3 sweeps were not enough for 1e-06" in solution.result and "raise max_sweeps" in solution.result


def test_float64_at_its_end_is_said_and_the_bounds_hold():
    problem = swing(discount=0.99)
    solution = solve_exact(problem, tolerance=1e-15)
    assert not solution.converged and 1e-15 < solution.error < 1e-9
    assert "float64 cannot certify 1e-15" in solution.result
    best = model(problem).optimal_q()
    assert np.all(solution.lower <= best + 1e-12) and np.all(best - 1e-12 <= solution.upper)


def test_the_error_of_a_coarse_rule_enters_the_bounds(monkeypatch):
    problem = spiky(width=0.1)
    best = model(problem).optimal_q()
    monkeypatch.setattr(cells, "MAX_EVALUATIONS", cells.estimate(problem)[1])  # no part is refined
    solution = solve_exact(problem, tolerance=1e-6)
    assert not solution.converged
    assert "quadrature's error of" in solution.result and "raise max_evaluations" in solution.result
    assert np.abs(solution.q - best).max() > 1e-3  # the rule is visibly wrong,
    assert np.all(solution.lower <= best) and np.all(best <= solution.upper)  # and the bounds know


def test_quadrature_is_refined_as_the_tolerance_asks(monkeypatch):
    asked, all_rows = [], cells.all_rows

    def spy(problem, tolerance, max_evaluations, progress=None):
        asked.append(tolerance)
        return all_rows(problem, tolerance, max_evaluations, progress)

    monkeypatch.setattr(cells, "all_rows", spy)
    assert solve_exact(spiky(), 1e-8).converged
    assert len(asked) == 1 and asked[0] < 1e-8  # a glance said how much V varies


def test_a_glance_that_is_wrong_costs_time_alone(monkeypatch):
    """Where all rows look alike V varies with the rewards alone, and rows are made twice."""
    asked, all_rows, problem = [], cells.all_rows, spiky()
    best = model(problem).optimal_q()

    def spy(problem, tolerance, max_evaluations, progress=None):
        asked.append(tolerance)
        return all_rows(problem, tolerance, max_evaluations, progress)._replace(error=tolerance)  # and not better

    def blind(problem):
        return np.full((problem.num_states, problem.num_actions, problem.num_states), 1 / problem.num_states)

    monkeypatch.setattr(cells, "all_rows", spy)
    monkeypatch.setattr(cells, "glance", blind)
    solution = solve_exact(problem, 1e-8)
    assert solution.converged and len(asked) == 2 and asked[1] < asked[0]
    assert np.abs(solution.q - best).max() <= 1e-8


def test_evaluations_that_are_used_up_are_said():
    problem = spiky(width=0.1)
    solution = solve_exact(problem, 1e-6, max_evaluations=1500)
    assert not solution.converged and "quadrature" in solution.result
    best = model(problem).optimal_q()
    assert np.all(solution.lower <= best) and np.all(best <= solution.upper)


def test_tables_that_do_not_fit_are_refused_with_the_number():
    with pytest.raises(ValueError, match=r"needs 4.20e\+03 bytes for 5 tables of 3.50e\+01 states × 3 actions"):
        solve_exact(swing(), max_bytes=4000)
    with pytest.raises(ValueError, match=r"multiply-adds a sweep\), and 5.00e\+03 are allowed; use fewer points"):
        solve_exact(swing(), max_bytes=5000)
    assert solve_exact(swing(), max_bytes=40_000).converged


def test_a_grid_that_nobody_can_enumerate_is_refused_at_once():
    problem = Problem(
        grid=Grid([-1.0] * 40, [1.0] * 40, 9),
        actions=np.asarray([0.0, 1.0]),
        kernel=GaussianKernel(lambda s, a: s + a, [0.5] * 40),
        reward=lambda s, a: s[0] + a,
        discount=0.9,
        name="huge",
    )
    with pytest.raises(ValueError, match=r"solving huge exactly must enumerate the grid's 1\.478e\+38 states"):
        solve_exact(problem)


def test_a_reward_or_mean_that_is_not_finite_names_its_pair():
    def broken(reward, mean):
        return Problem(
            grid=Grid([-1.0], [1.0], [5]),
            actions=np.asarray([0.0, 1.0]),
            kernel=GaussianKernel(mean, [0.5]),
            reward=reward,
            discount=0.9,
        )

    def nan_at_the_end(s, a):
        return jnp.where(s[0] > 0.9, jnp.nan, s[0]) + a

    with pytest.raises(ValueError, match=r"reward gives .*nan.* at state 4 \(1\), action 0"):
        solve_exact(broken(nan_at_the_end, lambda s, a: s + a))
    with pytest.raises(ValueError, match=r"mean gives .*nan.* at state 4 \(1\), action 0"):
        solve_exact(broken(lambda s, a: s[0] + a, lambda s, a: nan_at_the_end(s, a)[None]))


def test_means_far_outside_the_box_are_warned_about_unless_expected():
    def far(expected):
        return Problem(
            grid=Grid([-1.0], [1.0], [5]),
            actions=np.asarray([0.0, 9.0]),
            kernel=GaussianKernel(lambda s, a: s + a, [0.25]),
            reward=lambda s, a: s[0] + a,
            discount=0.9,
            expected=expected,
        )

    with pytest.warns(HamqWarning, match="8 standard deviations outside the box"):
        solve_exact(far(()))
    assert solve_exact(far(("outside",))).converged
