"""Which law draws, what is refused, and that solve_tensor is right for densities that are not nearly normal."""

import functools
import re

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.tensor.backup import Bellman, Engine
from hamq.tensor.choice import make_choices
from hamq.tensor.effective import Effective, draws_that_do, effective_draws, in_words, require_draws
from hamq.tensor.expectation import TiltedExpectation
from hamq.tensor.fitting import Wide, choose_law, random_pairs, worth
from hamq.tensor.law import Survey, survey, survey_of
from hamq.tensor.tabulated import make_table_law
from hamq.tensor.tilted import NormalLaw
from hamq.types import HamqWarning, NonFiniteError
from tests.tensor.densities import optimal_value, pose


@functools.cache
def solved(name):
    return hamq.solve_tensor(pose(name))


@pytest.mark.parametrize("name", ["gumbel", pytest.param("lognormal", marks=pytest.mark.slow), "bimodal"])
def test_solved_like_by_quadrature(name):
    """V within 2 % of its range of value iteration by quadrature in NumPy, in every state, by default."""
    states, value = optimal_value(name)
    solution = solved(name)
    off = np.abs(solution.value(states) - value).max()
    assert off < 0.02 * np.ptp(value), f"off by {off:.3g} in a range of {np.ptp(value):.3g}: {solution.result}"


def test_the_sentence_says_what_the_draws_are_worth():
    solution = solved("gumbel")
    effective = solution.effective
    assert effective is not None and effective.draws == 256
    assert 230 < effective.tenth <= effective.median <= 256
    assert re.match(r"residual 0\.\d+% of V in the sampled problem at rank ", solution.result)
    assert "all pairs share their draws, and the residual does not see the error of these: " in solution.result
    assert f"{effective.median:.0f} of 256 draws per pair are effective" in solution.result


def test_laws_are_surveyed_by_the_program_of_the_solve(monkeypatch):
    """Its draws at given pairs are those of a program made for them; the solve itself compiles none."""
    problem = pose("gumbel")
    choices, order = make_choices(problem), (1, 0)
    law = make_table_law(2, 256, 1, 0)
    engine = Engine(Bellman(problem, choices, TiltedExpectation(problem, law, order), order), 1)
    pairs = random_pairs(problem, choices, 40, 3)
    points, weights = engine.prepared(8, pairs.states, pairs.levels)
    found = survey_of(problem.grid, points[:, ::-1], weights)
    expected = survey(problem, law, pairs.states, pairs.actions)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    monkeypatch.setattr("hamq.tensor.fitting.survey", None)
    hamq.solve_tensor(problem, iterations=1)


def test_exact_sums_have_no_draws():
    assert in_words(effective_draws(np.ones(5), 0)) == ""


def pose_in(logdensity, dimension):
    return Problem(
        Grid([-6.0] * dimension, [6.0] * dimension, [3] * dimension),
        [-1.0, 0.0, 1.0],
        UnnormalizedKernel(logdensity),
        lambda state, action: jnp.sum(state) - action**2,
        0.9,
        law="linear",
        name="own",
        expected=("outside", "noise", "aliasing"),
    )


def skewed(next_state, state, action):
    """Gumbel noise: the least squares of its scores fit a law of a fifth of its width."""
    away = next_state - 0.5 * state - 0.3 * action
    return jnp.sum(-away - jnp.exp(-away))


def test_a_law_that_misses_mass_is_not_taken(monkeypatch):
    """In five dimensions there is no table, and the fitted normal law is too narrow: refused, not solved wrongly."""
    monkeypatch.setattr("hamq.tensor.fitting._slices", lambda *given: [])
    monkeypatch.setattr("hamq.tensor.effective.FACTORS", (4,))
    problem = pose_in(skewed, 5)
    with pytest.raises(ValueError, match=r"own: no law that hamq.tensor can fit draws .* more draws do not help here \(tri"):
        choose_law(problem, make_choices(problem), 64, 0, 0.4, 0)


def needles(next_state, state, action):
    """Two, each a thousandth of the box wide: nearly no point of the box meets one."""
    away = next_state - 0.5 * state - 0.3 * action
    both = [-0.5 * jnp.sum(((away - side) / 0.012) ** 2) for side in (2.4, -2.4)]
    return jnp.logaddexp(*both)


def test_a_law_that_misses_a_mode_is_not_taken(monkeypatch):
    """A table narrows to one of two needles and its weights are even; more draws do not find the other."""
    monkeypatch.setattr("hamq.tensor.fitting._slices", lambda *given: [])
    monkeypatch.setattr("hamq.tensor.effective.FACTORS", (4,))
    problem = pose_in(needles, 2)
    with pytest.raises(ValueError, match=r"draws miss a part of it; more draws do not help here .*sampler=hamq.HMC\(2000\)"):
        choose_law(problem, make_choices(problem), 64, 0, 0.4, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hamq.errors.HamqWarning")  # it says how far off it may be
def test_the_remedy_for_needles_works():
    """Half of the mass on each of them, where both are in the box: V of those two points, within what 100 draws can err."""
    problem = pose_in(needles, 2)
    nodes = problem.grid.axis_nodes(0)
    states = problem.grid.states()

    def weights(state, action):
        ends = [0.5 * state + 0.3 * action + side for side in (2.4, -2.4)]
        ends = [end for end in ends if np.all(np.abs(end) <= 6)]
        hats = [[np.maximum(1 - np.abs(x - nodes) / 6, 0) for x in end] for end in ends]
        return np.mean([np.outer(*hat).ravel() for hat in hats], axis=0)

    masses = np.asarray([[weights(state, action) for action in (-1.0, 0.0, 1.0)] for state in states])
    rewards = states.sum(axis=1)[:, None] - np.asarray([1.0, 0.0, 1.0])
    value = np.zeros(len(states))
    for _ in range(300):
        value = np.max(rewards + 0.9 * masses @ value, axis=1)
    found = hamq.solve(problem, sampler=hamq.HMC(2000)).value
    assert np.sqrt(np.mean((found - value) ** 2)) < 0.1 * np.ptp(value)


def test_more_draws_are_tried_before_they_are_advised():
    assert draws_that_do(lambda count: 0.01 * count, 256) == 4096
    assert draws_that_do(lambda count: 5.0, 256) is None
    assert draws_that_do(lambda count: count, 2**15) is None  # more than anybody would wait for


@pytest.mark.slow
def test_a_normal_law_is_fitted_beyond_tables():
    problem = pose_in(lambda x, s, a: -0.5 * jnp.sum((x - 0.5 * s - 0.3 * a) ** 2), 5)
    assert isinstance(choose_law(problem, make_choices(problem), 64, 0, 0.4, 0), NormalLaw)


def survey_with(shares, mean=0.0, std=1.0):
    count = len(shares)
    return Survey(np.asarray(shares), np.full((count, 2), mean), np.full((count, 2), std))


def test_worth():
    """The share of the worst twentieth; none at all where one pair in sixteen has another mean or spread, or no numbers."""
    reference = Wide(np.zeros((16, 2)), np.ones((16, 2)), np.full(16, 10_000.0))
    even = survey_with(np.full(100, 0.5))
    assert worth(even, 400, reference) == pytest.approx(0.5)
    assert worth(survey_with([0.0] * 10 + [0.5] * 90), 400, reference) == 0
    for mean, std in ((1.0, 1.0), (0.0, 0.5), (np.nan, 1.0)):
        assert worth(survey_with(np.full(100, 0.5), mean, std), 400, reference) == 0
    blind = reference._replace(effective=np.full(16, 5.0))
    assert worth(survey_with(np.full(100, 0.5), 1.0), 400, blind) == pytest.approx(0.5)
    modes = np.zeros((16, 2, 2))
    modes[3, 1] = 20.0
    for mass, share in ((0.2, 0.0), (0.01, 0.5)):
        seen = blind._replace(modes=modes, masses=np.asarray([[1 - mass, mass]] * 16))
        assert worth(even, 400, seen) == pytest.approx(share)


def test_effective_draws():
    """Quantiles; what is no number counts as none."""
    assert effective_draws(np.full(10, 0.5), 64) == Effective(64, 32.0, 32.0)
    assert effective_draws(np.asarray([np.nan] * 2 + [1.0] * 8), 64).tenth == 0


@pytest.mark.parametrize(("share", "draws"), [(0.05, 256), (1.0, 4), (0.6, 8)])
def test_enough_draws(share, draws):
    """12.8 effective draws; few that were asked for, with even weights."""
    require_draws("own", effective_draws(np.full(10, share), draws), lambda count: 0.0)


def test_few_draws_are_warned_of():
    with pytest.warns(HamqWarning, match=r"5.1 of 256 draws per pair carry the weight on own .*hamq.Importance\(1024\)"):
        require_draws("own", effective_draws(np.full(10, 0.02), 256), lambda count: 0.02 * count)


@pytest.mark.parametrize(
    ("shares", "remedy"), [(np.full(10, 0.01), r"sampler=hamq.Importance\(4096\)"), (np.full(10, np.nan), "use hamq.solve")]
)
def test_one_or_two_draws_are_refused(shares, remedy):
    with pytest.raises(ValueError, match=f"a backup is then the value of one or two draws; .*{remedy}"):
        require_draws("own", effective_draws(shares, 256), lambda count: count * np.nan_to_num(shares[0]))


def test_a_density_that_is_no_number_is_refused():
    problem = pose_in(lambda x, s, a: jnp.where(s[0] > 0, jnp.nan, -0.5 * jnp.sum((x - s) ** 2)) + 0 * a, 2)
    with pytest.raises(
        NonFiniteError, match=r"own: the log-density is nan at next state \[.* return -inf where the density"
    ):
        choose_law(problem, make_choices(problem), 64, 0, 0.4, 0)
