"""The error that draws leave to expect: against formulas, and against errors that were made."""

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.completion.anchors import Anchors
from hamq.learning import q_iteration
from hamq.learning.expected_error import chosen_moves, expected_errors, left_by_calibration, measured
from hamq.learning.q_iteration import solve
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from hamq.types import HamqWarning

DISCOUNT = 0.9


def logdensity(next_state, state, action):
    return -2 * (next_state[0] - 0.5 * state[0] - 0.3 * action) ** 2


def spiral(next_state, state, action):
    """Thin and long: a mixture of normal laws at its modes has little of it."""
    u = next_state - 0.2 * state - 0.2 * action
    radius, angle = jnp.sqrt(jnp.sum(u**2) + 1e-6), jnp.arctan2(u[1], u[0])
    return -0.5 * (jnp.sin(0.5 * angle - 4 * radius) / 0.04) ** 2 - 0.5 * (radius / 0.8) ** 2


def reward(state, action):
    return jnp.sin(2 * state[0]) - 0.1 * action**2


def problem_of(actions, dimension=1, density=logdensity, law="cell"):
    grid = Grid([-2.0] * dimension, [2.0] * dimension, 11 if dimension == 1 else 5)
    return Problem(grid, jnp.asarray(actions), UnnormalizedKernel(density), reward, DISCOUNT, law=law)


@pytest.fixture
def runs(monkeypatch):
    """(run, Q) of every solve."""
    seen = []

    def kept(run, q, is_fair):
        seen.append((run, q))
        return expected_errors(run, q, is_fair)

    monkeypatch.setattr(q_iteration, "expected_errors", kept)
    return seen


@pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")
@pytest.mark.parametrize("law", ["cell", pytest.param("linear", marks=pytest.mark.slow)])
def test_one_action_is_linear(runs, law):
    """(I − γP)⁻¹·γε has a variance that NumPy can write down; 256 noises tell it to 9 % (standard deviation)."""
    solve(problem_of([0.0], law=law), IID(200) if law == "cell" else Importance(200), key=3)
    ((run, q),) = runs
    noise, moves = measured(run, q[:, 0]), chosen_moves(run, q).toarray()
    assert np.allclose(moves.sum(axis=1), 1, atol=1e-5)
    num = noise.parts.shape[2]
    variance = num / (num - 1) * np.sum(noise.parts[:, 0] ** 2, axis=1)
    spread = DISCOUNT * np.linalg.inv(np.eye(len(q)) - DISCOUNT * moves)
    expected = np.sqrt(np.mean(spread**2 @ variance)) / np.ptp(q)
    found = expected_errors(run, q, False)
    assert found is not None and found.total == found.draws == pytest.approx(expected, rel=0.2)
    assert found.total < found.rare < 3 * found.total


@pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")
def test_parts_of_independent_draws_have_the_variance_of_their_mean(runs):
    """11 pairs × 15 degrees of freedom: 11 % (standard deviation)."""
    solve(problem_of([0.0]), IID(400), key=1)
    ((run, q),) = runs
    noise = measured(run, q[:, 0])
    assert noise.parts.shape == (11, 1, 16)
    at = q[:, 0][np.asarray(run.stocks[0].locations).reshape(-1, 400)[:11]]
    assert np.allclose(noise.expected[:, 0], at.mean(axis=1))
    found = 16 / 15 * np.sum(noise.parts**2)
    assert found == pytest.approx(np.sum(at.var(axis=1)) / 400, rel=0.5)


@pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")
def test_errors_are_as_large_as_expected():
    """24 solves: their mean square has a standard error of about a quarter of itself."""
    problem = problem_of([-1.0, 0.0, 1.0])
    exact = solve(problem, Exhaustive(1e-6))
    found = [solve(problem, IID(100), key=key) for key in range(24)]
    made = np.asarray([np.mean((each.q - exact.q) ** 2) for each in found]) / np.ptp(exact.value) ** 2
    expected = np.asarray([each.expected_error for each in found]) ** 2
    ratio, error = made.mean() / expected.mean(), made.std(ddof=1) / np.sqrt(24) / expected.mean()
    assert error < 0.5 and abs(ratio - 1) < 4 * error, (ratio, error)


def test_calibration_leaves_what_its_correction_does_not_explain():
    """Means of 4 chains y + z, of variance 1 + 3: the correction −z leaves a quarter, however noisy one pair is."""
    rng = np.random.default_rng(0)
    y, z = rng.normal(size=(4000, 1, 4)), np.sqrt(3) * rng.normal(size=(4000, 1, 4))
    means = y + z
    parts = (means - means.mean(axis=2, keepdims=True)) / 4
    many = np.full((4000, 1), 1e6)
    assert left_by_calibration(-z.mean(axis=2), parts, many, 4) == pytest.approx(0.25, abs=0.05)
    assert left_by_calibration(-means.mean(axis=2), parts, np.full((4000, 1), 5.0), 4) == 1  # nearly a function per draw
    assert left_by_calibration(-means.mean(axis=2), parts, many, 4) == 0.1  # what nobody believes
    assert left_by_calibration(0 * z.mean(axis=2), parts, many, 4) == 1


def test_chains_that_disagree_count_with_what_they_disagree_by(runs):
    """Each of four chains is moved by two cells: pieces of a chain do not differ, whole chains do."""
    with pytest.warns(HamqWarning):
        solve(problem_of([0.0]), HMC(400, 2, 0.5, calibrate=False), key=0)
    ((run, q),) = runs
    before = expected_errors(run, q, False)
    locations = np.asarray(run.stocks[0].locations)
    moved = np.clip(locations.astype(int) + np.repeat([-2, 0, 0, 2], 100), 0, 10).astype(locations.dtype)
    object.__setattr__(run, "stocks", (run.stocks[0]._replace(locations=moved),))
    after = expected_errors(run, q, False)
    assert before is not None and after is not None and after.total > 3 * before.total
    of_chains = q[:, 0][moved.reshape(-1, 4, 100)[:11]].mean(axis=2)
    found = 16 / 15 * np.sum(measured(run, q[:, 0]).parts ** 2)
    assert found == pytest.approx(np.sum(of_chains.var(axis=1, ddof=1)) / 4, rel=1e-6)


@pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")
def test_what_a_completion_misses_is_expected_elsewhere_too(runs):
    """Columns of three of seven actions, which lead to places that no mixture of two others leads to."""
    problem = problem_of(np.linspace(-3, 3, 7).tolist())
    solve(problem, IID(500), Anchors(num_columns=2, num_states=8), key=0)
    ((run, q),) = runs
    found = expected_errors(run, q, False)
    assert found is not None and found.total > 2 * found.draws


def test_poor_weights_are_not_converged():
    problem = problem_of([-1.0, 1.0], dimension=2, density=spiral)
    with pytest.warns(HamqWarning, match="the expected error of Q is .* more than the 3% that are allowed") as heard:
        solution = solve(problem, Importance(300), key=0)
    assert len(heard) == 1  # one rule, one place
    assert not solution.converged and "settle nothing" in solution.result
    assert solution.expected_error is not None and solution.expected_error > 0.03


def test_too_few_independent_draws_are_not_converged():
    """Each pair has what its draws promise, and their number is too small."""
    with pytest.warns(HamqWarning, match=r"worth 40 independent ones .* more than the 3% that are allowed; use more draws"):
        solution = solve(problem_of([-1.0, 0.0, 1.0]), IID(40), key=0)
    assert not solution.converged and "pairs have fewer than" not in solution.result


def test_good_draws_are_not_warned_about():
    solution = solve(problem_of([-1.0, 0.0, 1.0]), IID(4000), key=0)
    assert solution.converged and solution.expected_error is not None and 0 < solution.expected_error < 0.03
    assert f"the expected error of Q is {solution.expected_error:.1%} of the range of V" in solution.result
