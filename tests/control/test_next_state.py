"""Next states of densities that are not normal have the law itself: against fine sums in NumPy."""

import jax.random as jr
import numpy as np
import pytest

import hamq
from hamq.control.chain_draws import PairChains
from hamq.control.next_state import Account, DensityModel, Step, make_model, step
from hamq.problem.point_draws import draw_points, num_uniforms, pick_by_axis
from hamq.types import HamqWarning
from tests.control import noisy
from tests.control.noisy import PLANE, coarse, fine_law, pose
from tests.stats import assert_distribution, assert_mean_equals

NUM = 4000
STATE, ACTION = [0.5, -0.4], 1.0


def slow_but(fast, names):
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


def steps(problem, state, action, num=NUM, key=0, **options):
    """Independent next states of one pair `[num, d]`: one step of so many rollouts."""
    states = np.tile(np.asarray(state, np.float32), (num, 1))
    return step(make_model(problem, **options), states, np.full(num, action, np.float32), key=jr.key(key))


def edges_of(problem, num):
    """Of equal boxes, or of the cells of the grid."""
    if problem.law == "cell":
        return [problem.grid.axis_edges(i) for i in range(problem.grid.dimension)]
    return [np.linspace(low, high, num + 1) for low, high in zip(problem.grid.lower, problem.grid.upper, strict=True)]


def assert_follows(problem, state, action, found, resolution=0.12):
    """χ² over cells (or equal boxes that are no pieces of the grid), false alarm 1e-6, and means and second moments."""
    middles, masses = fine_law(problem, state, action, {1: 20_000, 2: 1200}[problem.grid.dimension])
    edges = edges_of(problem, 11)
    assert_distribution(
        coarse(problem, found, np.ones(len(found)), edges), coarse(problem, middles, masses, edges), resolution=resolution
    )
    if problem.law == "linear":
        moments = np.concatenate([found, found**2], axis=1)
        assert_mean_equals(moments, masses @ np.concatenate([middles, middles**2], axis=1), resolution=0.3)


@pytest.mark.parametrize("law", ["cell", "linear"])
@pytest.mark.parametrize("name", slow_but(("gumbel", "forbidden"), PLANE))
def test_one_step_has_the_law(name, law):
    problem = pose(name, law)
    moved = steps(problem, STATE, ACTION)
    assert np.all(moved.effective == 1) and np.all(moved.error < 6e-3)
    assert_follows(problem, STATE, ACTION, np.asarray(moved.states, np.float64))
    if name == "forbidden" and law == "linear":
        assert np.all(np.sum(np.asarray(moved.states, np.float64) ** 2, axis=1) > 0.36 - 1e-6)


@pytest.mark.parametrize("law", ["cell", "linear"])
def test_income_is_simulated_as_in_numpy(law):
    """Returns of a fixed policy within 3 standard errors of an independent simulation, for 1 of 370 keys not."""
    problem, num, length = pose("income", law), 2000, 25
    starts = np.full((num, 1), 1.2)
    rolled = hamq.rollouts(problem, {"all": _spend}, starts=starts, steps=length, key=5)
    found, expected = rolled.returns["all"], _simulate(problem, num, length)
    error = np.sqrt(found.var() / num + expected.var() / num)
    assert abs(found.mean() - expected.mean()) < 3 * error < 0.4
    assert rolled.effective["all"] == 1 and "masses by quadrature" in rolled.how


def _spend(states):
    return np.where(states[:, 0] > 1, 0.1, 0.4)


def _simulate(problem, num, length):
    """Draws of the normal in log s' that fall into the box; nearest node where law="cell"."""
    rng, (low,), (high,) = np.random.default_rng(1), problem.grid.lower, problem.grid.upper
    s, total = np.full(num, 1.2), np.zeros(num)
    for t in range(length):
        a = _spend(s[:, None])
        total += 0.9**t * (np.log(1 + s**2) - a)
        following = np.full(num, np.nan)
        while np.isnan(following).any():
            tried = np.exp(np.log(0.6 * s + a + 0.2) + 0.5 * rng.standard_normal(num))
            fits = np.isnan(following) & (tried >= low) & (tried <= high)
            following[fits] = tried[fits]
        spacing = problem.grid.spacing[0]
        s = low + spacing * np.round((following - low) / spacing) if problem.law == "cell" else following
    return total


def test_pairs_that_are_alike_share_their_luck():
    """Same uniforms, nearly the same action: next states that are near each other, and none the same as another's."""
    problem = pose("gumbel", "linear")
    one, other = (np.asarray(steps(problem, STATE, a, 200).states) for a in (1.0, 1.02))
    assert np.mean(np.abs(one - other)) < 0.05 and len(np.unique(one[:, 0])) == 200
    again = np.asarray(steps(problem, STATE, 1.0, 50).states)
    np.testing.assert_array_equal(again, one[:50])  # whatever the number of rollouts
    assert np.all(np.asarray(steps(problem, STATE, 1.0, 200, key=1).states) != one)


def test_rows_are_kept_for_their_own_pair():
    """Asked twice, in another order: the same nodes, and others for another action."""
    problem = pose("gumbel", "cell")
    model, states, actions = make_model(problem), np.zeros((200, 2), np.float32), np.repeat(np.float32([-1, 1]), 100)
    first = step(model, states, actions, key=jr.key(0)).states
    again = step(model, states, actions, key=jr.key(0)).states
    np.testing.assert_array_equal(first, again)
    assert first[100:].mean() - first[:100].mean() > 0.3


def test_what_has_ended_is_not_asked():
    """A terminal state may have no density at all."""

    def nowhere(following, state, action):
        return noisy.jnp.where(state[0] > 1, noisy.jnp.nan, 0.0) - noisy.jnp.sum(following**2) + 0 * action

    problem = hamq.Problem(
        hamq.Grid([-2.0, -2.0], [2.0, 2.0], [9, 9]), [0.0, 1.0], hamq.UnnormalizedKernel(nowhere), noisy.reward, 0.9,
        terminal=lambda state: state[0] > 1, law="linear", expected=noisy.EXPECTED,
    )  # fmt: skip
    moved = step(make_model(problem), np.float32([[1.5, 0], [0, 0]]), np.float32([0, 0]), key=jr.key(0))
    assert np.array_equal(moved.states[0], [1.5, 0]) and moved.rewards[0] == 0 and np.all(moved.states[1] != 0)
    with pytest.raises(ValueError, match=r"is nan at the next state .* from state \(1\.5, 0\) with action 0"):
        make_model(problem).draw(np.float32([[1.5, 0]]), np.float32([0]), np.asarray([0]), key=jr.key(0))


def test_a_pair_without_density_is_refused():
    problem = pose("exponential", "linear")
    given = np.asarray([[0.0, 0.0], [9.0, 0.0]]), np.zeros(2), np.full((2, num_uniforms(2)), 0.5)
    with pytest.raises(ValueError, match=r"no finite mass in the box at state \(9, 0\), action 0 \(1 of 2 pairs\)"):
        draw_points(problem, *given, 1e-3)


def test_cells_are_picked_axis_by_axis():
    masses = np.asarray([[0.1, 0.2, 0.0, 0.3, 0.0, 0.4]] * 6)
    uniforms = np.asarray([[0, 0], [0.29, 0.99], [0.31, 0], [0.31, 0.42], [0.31, 0.43], [0.999, 0.999]])
    found = pick_by_axis(masses, (2, 3), uniforms, np.arange(6))
    np.testing.assert_array_equal(found, [[0, 0], [0, 1], [1, 0], [1, 0], [1, 2], [1, 2]])


@pytest.mark.slow
@pytest.mark.parametrize("law", ["linear", "cell"])
def test_chains_follow_a_curved_density_in_four_dimensions(law):
    """E[s'], E[s'²] of the ridge: a bias of at most 0.02 (σ are .3 to .6) and 5 standard errors."""
    problem = pose("curved", law)
    assert make_model(problem).method == "chains"
    moved = steps(problem, [0.2, 0.0, -0.2, 0.1], 1.0)
    assert np.mean(moved.effective) > 10 and not np.any(np.isnan(moved.effective))
    expected = _curved_moments(problem)
    found = np.concatenate([moved.states, moved.states**2], axis=1)
    z = 5 * found.std(axis=0) / np.sqrt(NUM)
    assert np.all(np.abs(found.mean(axis=0) - expected) < z + 0.02) and np.all(z < 0.1)


def _curved_moments(problem):
    """By rejection from the normal law without walls; cells by their nodes."""
    rng, centre = np.random.default_rng(0), 0.5 * np.array([0.2, 0.0, -0.2, 0.1]) + 0.2
    z = rng.standard_normal((2_000_000, 4))
    u = np.stack(
        [0.6 * z[:, 0], 0.25 * z[:, 1] + 0.36 * z[:, 0] ** 2 - 0.3, 0.5 * z[:, 2], 0.3 * z[:, 3] + 0.25 * z[:, 2]], 1
    )
    x = centre + u
    x = x[np.all(np.abs(x) <= 2, axis=1)]
    x = np.round(x / 0.5) * 0.5 if problem.law == "cell" else x
    return np.concatenate([x.mean(axis=0), (x**2).mean(axis=0)])


@pytest.mark.slow
def test_chains_are_as_long_as_they_must_be():
    """The narrow ridge needs more than 128 draws; what is asked for is kept."""
    problem = pose("narrow", "linear")
    short, found = (PairChains(problem, num) for num in (128, None))
    states, actions = np.tile(np.float32([0.2, 0.0, -0.2, 0.1]), (200, 1)), np.ones(200, np.float32)
    few, many = (
        np.mean(each.draw(states, actions, np.arange(200), key=jr.key(1)).effective < 10) for each in (short, found)
    )
    assert short.num_draws == 128 < found.num_draws <= 2048 and few > 0.1 and many < 0.08


@pytest.mark.slow
def test_chains_of_two_dimensions_have_the_law_too():
    problem = pose("gumbel", "linear")
    moved = steps(problem, STATE, ACTION, method="chains")
    assert_follows(problem, STATE, ACTION, np.asarray(moved.states, np.float64))


def test_what_draws_are_worth_is_said():
    """Errors of masses, chains that are worth little; NaN counts as nothing."""
    problem = pose("gumbel", "linear")
    masses = Account(make_model(problem))
    masses.add(Step(np.zeros((3, 2)), np.zeros(3), np.ones(3), np.asarray([0.001, 0.2, np.nan]), np.zeros(3, bool)))
    (sentence,) = masses.sentences()
    assert "the masses of 2 of 3 next states of gumbel may be off by up to" in sentence and "method='chains'" in sentence
    for is_uncrossed, remedy in ((False, "use a num_draws above 128"), (True, "compare with method='masses'")):
        chains, flags = Account(DensityModel(problem, "chains", 128)), np.full(3, is_uncrossed)
        chains.add(Step(np.zeros((3, 2)), np.zeros(3), np.asarray([40.0, 3.0, np.nan]), np.zeros(3), ~flags, flags))
        assert chains.effective == 0
        with pytest.warns(HamqWarning, match=rf"rollouts: the chains of 2 of 3 next states of gumbel are .* {remedy}"):
            chains.warn("rollouts", "", stacklevel=1)


def test_refusals(as_user):
    with pytest.raises(ValueError, match="method must be None or one of masses, chains, got 'fit'"):
        make_model(pose("gumbel"), None, "fit")
