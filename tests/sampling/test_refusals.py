"""Every refusal and every warning of the samplers, by its message."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.learning.draws import draw_each, warn_of
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.draws import make_info
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from hamq.types import HamqWarning, as_key
from tests.sampling.posed import pose

NAN, INF = float("nan"), float("inf")


def reward(state, action):
    return state[0] + 0 * action


def user_problem(logdensity, d=1, points=3, actions=(-1.0, 1.0), **options) -> Problem:
    grid = Grid([-1.0] * d, [1.0] * d, points)
    return Problem(grid, list(actions), UnnormalizedKernel(logdensity), reward, 0.9, name="mine", **options)


@pytest.mark.parametrize("sampler", [HMC, IID, Importance])
@pytest.mark.parametrize("value", [0, -3, 2.5, True])
def test_number_of_samples(as_user, sampler, value):
    with pytest.raises(ValueError, match=rf"num_samples must be a whole number of at least 1, got {value}"):
        sampler(value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_leapfrog": 0}, "num_leapfrog must be a whole number of at least 1, got 0"),
        ({"num_warmup": -1}, "num_warmup must be a whole number of at least 0, got -1"),
        ({"num_chains": 0}, "num_chains must be a whole number of at least 1, got 0"),
        ({"num_chains": 3}, "num_samples = 10 does not divide into num_chains = 3 chains"),
        ({"walls": "brick"}, "walls must be one of logit, reflect, sigmoid, got 'brick'"),
        ({"step_size": 0.0}, "step_size must be a positive number, got 0.0; use None"),
        ({"step_size": -0.1}, "step_size must be a positive number, got -0.1"),
        ({"step_size": NAN}, "step_size must be a positive number, got nan"),
        ({"step_size": "small"}, "step_size must be a positive number, got 'small'"),
        ({"sharpness": 0}, "sharpness must be a positive number, got 0; the authors"),
        ({"sharpness": -80.0}, "sharpness must be a positive number, got -80.0"),
        ({"sharpness": NAN}, "sharpness must be a positive number, got nan"),
        ({"sharpness": INF}, "sharpness must be a positive number, got inf"),
    ],
)
def test_chain_settings(as_user, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        HMC(10, **options)


def test_unknown_method(as_user):
    with pytest.raises(ValueError, match="method must be product, masses, rejection or None"):
        IID(10, "guess")


@pytest.mark.parametrize("sampler", [HMC(5), Importance(5)])
def test_point_masses_cannot_be_followed(sampler):
    with pytest.raises(ValueError, match=r"cannot follow the point masses of law='point'"):
        draw_each(pose("product", "point"), sampler, key=0)


@pytest.mark.parametrize(
    ("kernel", "method", "message"),
    [
        (
            "correlated",
            "product",
            "correlated has not; use method=None",
        ),
        ("two-modes", "rejection", "method='rejection' draws from normals, and two-modes is none; use HMC"),
    ],
)
def test_methods_that_do_not_fit(kernel, method, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        draw_each(pose(kernel), IID(5, method), key=0)


def bell(next_state, state, action):
    return -jnp.sum((next_state - 0.5 * state) ** 2) + 0 * action


def test_independent_draws_in_six_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"IID cannot draw independently from mine: .* density evaluations .* use HMC"):
        draw_each(user_problem(bell, d=6, points=5), IID(5), key=0)


def test_masses_in_six_dimensions_are_refused():
    with pytest.raises(
        ValueError, match=r"Exhaustive needs .* density evaluations for every pair of mine.*use fewer points"
    ):
        draw_each(user_problem(bell, d=6, points=5), Exhaustive(), key=0)


def test_rejection_that_never_falls_into_the_box(monkeypatch):
    monkeypatch.setattr("hamq.sampling.iid.MAX_TRIES", 100)

    def mean(state, action):
        return state + 40 * jnp.where(state[0] > 0.9, action, 0.0)

    kernel = GaussianKernel(mean, ((0.2, 0.1), (0.1, 0.2)))
    grid = Grid([-1.0, -1.0], [1.0, 1.0], 3)
    problem = Problem(grid, [0.0, 1.0], kernel, reward, 0.9, name="far")
    with pytest.raises(ValueError, match=r"no valid draw at state 6 \(1, -1\), action 1 \(1\) \(3 pairs failed\)"):
        draw_each(problem, IID(3, "rejection"), key=0)


def hostile(next_state, state, action):
    """−inf everywhere for one pair; √ has a NaN gradient (inf·0) at the walls of all others. Action −2: NaN for another."""
    is_nowhere = (state[0] > -0.5) & (state[0] < 0.5) & (action > 0)
    log = bell(next_state, state, action) + jnp.where(is_nowhere, -INF, 0.0)
    log += jnp.where((state[0] > 0.5) & (action < -1.5), NAN, 0.0)
    return log - jnp.sqrt(jnp.maximum(1 - next_state[0] ** 2, 0.0))


@pytest.mark.parametrize("sampler", [HMC(4, num_leapfrog=2, step_size=0.5), Importance(20)], ids=["hmc", "importance"])
def test_density_without_a_number(sampler):
    """Stopped, with the name of the pair; NaN is refused whatever the states that were asked for."""
    with pytest.raises(ValueError, match=r"no valid draw at state 1 \(0\), action 1 \(1\) \(1 pairs failed\)"):
        draw_each(user_problem(hostile, law="linear"), sampler, key=0)
    for states in (None, np.asarray([0])):
        with pytest.raises(ValueError, match=r"is nan at the next state -0\.998, from state 1 with action -2;"):
            draw_each(user_problem(hostile, actions=[-2.0, 1.0], law="linear"), sampler, states, key=0)


@pytest.mark.parametrize("walls", ["logit", pytest.param("reflect", marks=pytest.mark.slow)])
def test_gradient_that_is_not_a_number_at_a_wall(walls):
    """A number inside: draws of the first state, whose pairs have one, stay numbers and in the box."""
    sampler = HMC(40, num_leapfrog=2, step_size=0.5, walls=walls)
    drawn = draw_each(user_problem(hostile, law="linear"), sampler, np.asarray([0]), key=0)
    points = np.asarray(drawn.draws.locations)
    assert np.all(np.abs(points) <= 1)
    assert np.ptp(points, axis=-1).min() > 0.1
    assert np.mean(drawn.info.acceptance) > 0.5


def test_stiff_soft_walls():
    with pytest.warns(HamqWarning) as found:
        HMC(4, step_size=0.5, walls="sigmoid", sharpness=80.0).prepare(pose("product"), key=as_key(0))
    message = str(found[0].message)
    widest = np.sqrt(0.5)
    assert f"step_size·sharpness·σ = {0.5 * 80 * widest:.3g} is above 2" in message
    assert f"use step_size below {2 / (80 * widest):.3g}, sharpness below {2 / (0.5 * widest):.3g}" in message
    assert "walls='logit'" in message


SENTENCES = {
    "3 of 84 chains never moved; use a smaller step_size (None adapts it) or walls='logit'": {"is_stuck": 3},
    "3 of 84 pairs have several modes that the chain did not cross; use more samples": {"num_modes": 3},
    "the weights of 3 of 84 pairs leave fewer than 30 of 400 draws; use more samples, or IID, which draws from the masses "
    "of the cells": {"weight_share": 3},
    "3.6% of the draws lie outside the box; use a larger sharpness or walls='logit'": {"outside": 3},
    "6 trajectories ended in a non-finite energy and were rejected; use a smaller step_size": {"num_nonfinite": 3},
}
BAD = {"is_stuck": True, "num_modes": 2, "weight_share": 0.05, "outside": 1.0, "num_nonfinite": 2}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_warnings_say_what_to_change(sentence):
    """Three bad pairs of 42 × 2; the tests below see them come about."""
    good = jax.tree.map(lambda leaf: np.full((42, 2), leaf), make_info())
    for name, count in SENTENCES[sentence].items():
        getattr(good, name).ravel()[:count] = BAD[name]
    with pytest.warns(HamqWarning, match=re.escape(f"product: {sentence}.")) as found:
        warn_of(pose("product"), good, Importance(400))
    assert len(found) == 1


def test_good_draws_are_not_warned_about():
    warn_of(pose("product"), jax.tree.map(lambda leaf: np.full((42, 2), leaf), make_info()), Importance(400))


@pytest.mark.slow
def test_soft_walls_that_leak():
    with pytest.warns(HamqWarning, match=r"product: \d+\.\d% of the draws lie outside the box; use a larger sharpness"):
        draw_each(pose("product"), HMC(20, step_size=0.2, walls="sigmoid", sharpness=2.0), key=0)


@pytest.mark.slow
def test_weights_that_collapse():
    """A thin ring in three dimensions: nothing like its Laplace approximations."""

    def ring(next_state, state, action):
        return -2000 * (jnp.sum(next_state**2) - 0.6) ** 2 + 0 * action * state[0]

    with pytest.warns(
        HamqWarning,
        match=r"mine: the weights of \d+ of 54 pairs leave fewer than 10 of 100 draws",
    ):
        draw_each(user_problem(ring, d=3), Importance(100), key=0)


@pytest.mark.slow
def test_chains_that_never_moved():
    """Steps of 20 standard deviations are all rejected."""
    with pytest.warns(HamqWarning, match=r"product: \d+ of 84 chains never moved; use a smaller step_size"):
        draw_each(pose("product"), HMC(5, step_size=20.0), key=0)


@pytest.mark.parametrize("key", [None, 1.5, True, "seed", [0, 1]])
def test_keys_of_the_wrong_type(as_user, key):
    with pytest.raises(ValueError, match=r"key must be a JAX key \(jax.random.key\(0\)\) or an int seed, got"):
        draw_each(pose("product"), IID(2), key=key)
