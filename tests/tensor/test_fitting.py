"""Which law draws, what is refused, and that solve_tensor is right for densities that are not nearly normal."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.grid import Grid
from hamq.problem.kernel import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.tensor.effective import Effective, effective_draws, in_words, require_draws
from hamq.tensor.fitting import Wide, choose_law, worth
from hamq.tensor.law import Survey
from hamq.tensor.tilted import NormalLaw
from hamq.types import HamqWarning, NonFiniteError
from tests.tensor.densities import optimal_value, pose


def actions_at(generator, count):
    return generator.choice([-1.0, 0.0, 1.0], count)


@functools.cache
def solved(name):
    return hamq.solve_tensor(pose(name))


@pytest.mark.parametrize("name", ["gumbel", "lognormal", "bimodal"])
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
    assert "residual of the sampled operator, whose draws all pairs share: " in solution.result
    assert f"{effective.median:.0f} of 256 draws per pair are effective" in solution.result


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


def test_a_law_that_misses_mass_is_not_taken():
    """In five dimensions there is no table, and the fitted normal law is too narrow: refused, not solved wrongly."""
    problem = pose_in(skewed, 5)
    with pytest.raises(ValueError, match=r"own: no law that hamq.tensor can fit draws from this density; .* hamq.solve"):
        choose_law(problem, actions_at, 64, 0, 0.4, 0)


@pytest.mark.slow
def test_a_normal_law_is_fitted_beyond_tables():
    problem = pose_in(lambda x, s, a: -0.5 * jnp.sum((x - 0.5 * s - 0.3 * a) ** 2), 5)
    assert isinstance(choose_law(problem, actions_at, 64, 0, 0.4, 0), NormalLaw)


def survey_of(shares, mean=0.0, std=1.0):
    count = len(shares)
    return Survey(np.asarray(shares), np.full((count, 2), mean), np.full((count, 2), std))


def test_worth():
    """The share of the worst twentieth; none at all where one pair in sixteen has another mean or spread, or no numbers."""
    reference = Wide(np.zeros((16, 2)), np.ones((16, 2)), np.full(16, 10_000.0))
    even = survey_of(np.full(100, 0.5))
    assert worth(even, 400, reference) == pytest.approx(0.5)
    assert worth(survey_of([0.0] * 10 + [0.5] * 90), 400, reference) == 0
    for mean, std in ((1.0, 1.0), (0.0, 0.5), (np.nan, 1.0)):
        assert worth(survey_of(np.full(100, 0.5), mean, std), 400, reference) == 0
    blind = reference._replace(effective=np.full(16, 5.0))
    assert worth(survey_of(np.full(100, 0.5), 1.0), 400, blind) == pytest.approx(0.5)


def test_effective_draws():
    """Quantiles; what is no number counts as none."""
    assert effective_draws(np.full(10, 0.5), 64) == Effective(64, 32.0, 32.0)
    assert effective_draws(np.asarray([np.nan] * 2 + [1.0] * 8), 64).tenth == 0


@pytest.mark.parametrize(("share", "draws"), [(0.05, 256), (1.0, 4), (0.6, 8)])
def test_enough_draws(share, draws):
    """12.8 effective draws; few that were asked for, with even weights."""
    require_draws("own", effective_draws(np.full(10, share), draws))


def test_few_draws_are_warned_of():
    with pytest.warns(HamqWarning, match=r"5.1 of 256 draws per pair carry the weight on own .*hamq.Importance\(1024\)"):
        require_draws("own", effective_draws(np.full(10, 0.02), 256))


@pytest.mark.parametrize(
    ("shares", "remedy"), [(np.full(10, 0.01), r"sampler=hamq.Importance\(2048\)"), (np.full(10, np.nan), "use hamq.solve")]
)
def test_one_or_two_draws_are_refused(shares, remedy):
    with pytest.raises(ValueError, match=f"a backup is then the value of one or two draws; .*{remedy}"):
        require_draws("own", effective_draws(shares, 256))


def test_a_density_that_is_no_number_is_refused():
    problem = pose_in(lambda x, s, a: jnp.where(s[0] > 0, jnp.nan, -0.5 * jnp.sum((x - s) ** 2)) + 0 * a, 2)
    with pytest.raises(
        NonFiniteError, match=r"own: the log-density is nan at next state \[.* return -inf where the density"
    ):
        choose_law(problem, actions_at, 64, 0, 0.4, 0)
