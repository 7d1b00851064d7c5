"""Weights that obey Stein's identities: the functions have mean 0, the weights are weights, and errors fall."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import truncnorm

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel, UserDensity
from hamq.problem.problem import Problem
from hamq.sampling.calibration import LARGEST, RIDGE, calibrated_weights, cleaned, stein_functions, tilt, tilt_on_host
from hamq.sampling.draws import Target
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.walls import make_potential
from tests.stats import assert_mean_equals

MEAN, STD = np.asarray([0.3, -0.9], np.float32), np.asarray([0.5, 0.7], np.float32)
tilted = jax.jit(tilt)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softmax(logs):
    return np.exp(logs - logsumexp(logs))


def pose(periodic=(False, False), user=False):
    def mean(state, action):
        return MEAN + 0 * state + 0 * action

    def logdensity(next_state, state, action):
        away = next_state - MEAN
        if any(periodic):
            away = jnp.sin(away / 2) * 2
        return -0.5 * jnp.sum((away / STD) ** 2) + 0 * jnp.sum(state) + 0 * action

    kernel = UnnormalizedKernel(logdensity) if user else GaussianKernel(mean, covariance=[0.25, 0.49])
    grid = Grid(
        lower=[-1, -np.pi if any(periodic) else -1.0],
        upper=[1, np.pi if any(periodic) else 1.2],
        points=[5, 5],
        periodic=periodic,
    )
    return Problem(grid, [0.0, 1.0], kernel, lambda s, a: s[0], 0.9, expected=("noise", "outside", "aliasing"))


def exact_draws(problem, num, key):
    """Draws in chain coordinates with their gradients, one independent set."""
    target = Target(problem, jnp.zeros(2), jnp.zeros(()))
    points = IID(num).draw(target, key=key)[0].points.T
    potential = make_potential("logit", target.density, problem.grid, 1.0)
    y = jax.vmap(potential.lift)(points)
    return potential, points, y, jax.vmap(potential.gradient)(y)


def test_functions_have_mean_zero():
    problem = pose()

    def functions(key):
        potential, _, y, gradient = exact_draws(problem, 200, key)
        return jnp.mean(stein_functions(potential, y.T, gradient.T), axis=1)

    samples = np.asarray(jax.jit(jax.vmap(functions))(jr.split(jr.key(0), 2000)))
    assert_mean_equals(samples, np.zeros(4), resolution=0.02)


def test_functions_have_mean_zero_on_a_circle():
    """By quadrature: the density of a user on a circle, where y·∂U − 1 has no mean of 0."""
    problem = pose(periodic=(False, True), user=True)
    density = problem.density(jnp.zeros(2), jnp.zeros(()))
    assert isinstance(density, UserDensity)
    potential = make_potential("logit", density, problem.grid, 1.0)
    first, second = np.linspace(-16, 16, 601), np.linspace(-np.pi, np.pi, 257)[:-1]
    y = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2).astype(np.float32)

    @jax.jit
    def means(y):
        energies, gradients = jax.vmap(potential.energy)(y), jax.vmap(potential.gradient)(y)
        return jnp.sum(jax.nn.softmax(-energies)[None, :] * stein_functions(potential, y.T, gradients.T), axis=1)

    np.testing.assert_allclose(means(y), 0, atol=2e-4)


def test_weights_are_positive_and_nearly_obey():
    functions = normal(1, 3, 200) + 0.1
    log_weights = tilted(functions)
    weights = np.exp(np.asarray(log_weights, np.float64))
    assert weights.sum() == pytest.approx(1, abs=1e-5) and weights.min() > 0
    before, after = np.abs(functions.mean(axis=1)), np.abs(functions @ weights)
    # What is left is ρ·λ, and λ is about the mean before: a share of RIDGE/n.
    assert np.all(after < 3 * RIDGE / 200 * before.max())


@pytest.mark.parametrize("num_functions", [4, 12])
def test_weights_are_those_of_the_optimum(num_functions):
    """Against SciPy's minimum of the dual, for a batch of 20 sets of 100 draws with skewed functions."""
    even = normal(0, 20, num_functions, 100)
    functions = even + 0.3 * (even**2 - 1) + 0.1
    found = jax.jit(jax.vmap(tilt))(functions)
    for z, log_weights in zip(functions.astype(np.float64), np.asarray(found, np.float64), strict=True):
        z = z / np.sqrt(np.mean(z**2, axis=1, keepdims=True))

        def dual(multipliers, z=z):
            return logsumexp(multipliers @ z) + 0.5 * RIDGE / 100 * np.sum(multipliers**2)

        best = minimize(dual, np.zeros(num_functions), method="BFGS", options={"gtol": 1e-9}).x @ z
        np.testing.assert_allclose(log_weights, best - logsumexp(best), atol=0.02)


@pytest.mark.parametrize("value", [1, 0, np.nan])
def test_what_cannot_be_mended_keeps_even_weights(value):
    np.testing.assert_allclose(tilted(np.full((3, 200), value, np.float32)), -np.log(200), rtol=1e-5)


def test_error_falls_and_no_bias_comes_in():
    """E[s'] of 64 chains of 100 draws: calibrated means have less than a third of the variance, and the exact mean."""
    problem = pose()
    target = Target(problem, jnp.zeros(2), jnp.zeros(()))

    def mean(sampler, key):
        draws, _ = sampler.draw(target, key=key)
        return jnp.sum(jnp.exp(draws.log_weights)[None, :] * draws.points, axis=1)

    keys = jr.split(jr.key(2), 256)
    samplers = {calibrate: HMC(100, step_size=0.5, calibrate=calibrate) for calibrate in (None, False)}
    found = {
        calibrate: np.asarray(jax.jit(jax.vmap(functools.partial(mean, sampler)))(keys))
        for calibrate, sampler in samplers.items()
    }
    ends = (np.asarray([[-1, -1], [1, 1.2]]) - MEAN) / STD
    exact = truncnorm.mean(*ends, MEAN, STD)
    assert_mean_equals(found[None] - exact, np.zeros(2), resolution=0.02)
    assert np.all(found[None].var(axis=0) < found[False].var(axis=0) / 3)


def test_soft_walls_are_not_calibrated():
    with pytest.raises(ValueError, match="calibrate=True needs walls='logit', got walls='sigmoid'"):
        HMC(10, walls="sigmoid", calibrate=True)
    problem = pose()
    sampler, target = HMC(10, num_leapfrog=1, step_size=0.1, walls="reflect"), Target(problem, jnp.zeros(2), jnp.zeros(()))
    draws, info = jax.jit(lambda key: sampler.draw(target, key=key))(jr.key(0))
    np.testing.assert_allclose(draws.log_weights, -np.log(10), rtol=1e-5)
    assert float(info.weight_share) == pytest.approx(1)


def test_even_weights_before_are_none():
    functions = normal(4, 3, 200) + 0.2
    for constant in (0.0, -7.5):
        found = tilted(functions, np.full(200, constant, np.float32))
        np.testing.assert_allclose(found, tilted(functions), atol=1e-5)


def test_weights_before_are_kept_where_they_obey():
    """z is centred under w⁰, so that λ = 0 and nothing is tilted; without w⁰ it would be."""
    log_weights = normal(5, 200)
    weights = softmax(log_weights)
    functions = normal(6, 3, 200) + 0.5 * log_weights
    functions = functions - np.sum(weights * functions, axis=1, keepdims=True)
    np.testing.assert_allclose(tilted(functions, log_weights), np.log(weights), atol=1e-5)
    assert np.abs(np.asarray(tilted(functions)) - np.log(1 / 200)).max() > 0.1


def test_uneven_weights_are_tilted_to_obey():
    log_weights, functions = normal(7, 200), normal(8, 3, 200) + 0.2
    functions[:, 100:] = functions[:, :100]
    log_weights[100:] = log_weights[:100] - 1
    found = np.exp(np.asarray(tilted(functions, log_weights), np.float64))
    own = softmax(log_weights.astype(np.float64))
    assert found.sum() == pytest.approx(1, abs=1e-5) and found.min() > 0
    before, after = np.abs(functions @ own), np.abs(functions @ found)
    # What is left is ρ·λ, with ρ = RIDGE over the effective number of draws.
    assert np.all(after < 3 * RIDGE * np.sum(own**2) * before.max())
    # The second half has the z of the first and 1/e of its weights: the tilt keeps that ratio.
    np.testing.assert_allclose(np.log(found[:100] / found[100:]), 1, atol=1e-4)


@pytest.mark.parametrize("bad", [-np.inf, np.nan])
def test_draws_without_weight_stay_without(bad):
    log_weights, functions = normal(9, 200), normal(10, 3, 200) + 0.3
    log_weights[:10] = bad
    far_functions = functions.copy()
    far_functions[:, :10] = 1e3
    found, far = (np.asarray(tilted(f, log_weights)) for f in (functions, far_functions))
    assert np.all(np.exp(found[:10]) == 0) and np.exp(found).sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(found[10:], far[10:], atol=1e-4)


def test_importance_draws_gain_from_stein():
    """E[x] and E[x²] of N(0.4, 1) from 100 draws of N(0, 1.5²): the same means, a tenth of the variance."""

    def means(key):
        x = 1.5 * jr.normal(key, (100,))
        log_weights = -0.5 * (x - 0.4) ** 2 + 0.5 * (x / 1.5) ** 2
        both = jnp.stack([x, x**2])
        gradient = x - 0.4
        weights = jnp.exp(tilt(jnp.stack([gradient, x * gradient - 1]), log_weights))
        return jnp.sum(both * jax.nn.softmax(log_weights)[None, :], axis=1), jnp.sum(both * weights[None, :], axis=1)

    plain, calibrated = (np.asarray(v) for v in jax.jit(jax.vmap(means))(jr.split(jr.key(11), 400)))
    # The bias of self-normalised weights, here 0.0005, is not seen.
    assert_mean_equals(calibrated, [0.4, 1.16], resolution=0.02)
    assert np.all(calibrated.var(axis=0) < plain.var(axis=0) / 10)


@pytest.mark.parametrize("shift", [0.02, 0.3, 5.0])
def test_the_host_finds_the_same_weights(shift):
    """NumPy for many pairs against XLA for one; a function that is 5 deviations off cannot be tilted to 0."""
    rng = np.random.default_rng(0)
    functions = (rng.normal(size=(7, 3, 200)) * np.asarray([1, 30, 1e-3])[:, None] + 0.0).astype(np.float32)
    functions[:, 0] += shift
    wanted = np.exp([tilted(one) for one in functions])
    np.testing.assert_allclose(tilt_on_host(functions.copy()), wanted, rtol=2e-3, atol=1e-6)


def test_what_is_not_finite_counts_as_nothing():
    found = jax.jit(cleaned)(np.asarray([np.nan, np.inf, -np.inf, 1e30, -3.0], np.float32))
    np.testing.assert_array_equal(found, np.asarray([0, 0, 0, LARGEST, -3], np.float32))


def test_weights_in_loops_that_are_vectorised():
    """As networks with several seeds need them: nothing of the batch may be a tracer of the program around it."""
    functions = np.random.default_rng(0).normal(size=(2, 3, 8, 2)).astype(np.float32)
    loop = jax.vmap(lambda of_seed: jax.lax.map(calibrated_weights, of_seed))
    found = np.exp(jax.jit(loop)(functions))
    np.testing.assert_allclose(found, tilt_on_host(functions.reshape(6, 8, 2).swapaxes(1, 2)).reshape(2, 3, 8), rtol=1e-4)
