"""The slack that bounds from draws have for float32."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.certificates.experiment import ALL_RULES, LEAST, make_experiment, rounding_of
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.normal import axis_log_masses
from hamq.problem.problem import Problem
from hamq.sampling.truncated_correlated import in_order
from hamq.types import as_key
from tests.certificates.test_experiment import experiment


def stay(state, action):
    return state


def go(state, action):
    return 0 * state + action


def first(state, action):
    return state[0]


def even(state, action):
    return jnp.full((1,), 0.04, state.dtype)


KINDS = {"constant": lambda std: [std**2], "function": lambda std: even}


@functools.cache
def far(lower: float, kind: str = "constant", points: int = 51, std: float = 0.2) -> Problem:
    """A box of width 1 that begins at `lower`."""
    assert kind == "constant" or std == 0.2
    return Problem(
        Grid([lower], [lower + 1], [points]),
        np.zeros((1, 1)),
        GaussianKernel(stay, KINDS[kind](std)),
        first,
        0.9,
        name="far",
        expected=("noise",),
    )


@functools.partial(jax.jit, static_argnums=0)
def located(grid, points):
    return jax.vmap(grid.locate)(points)


@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("lower", [100.0, -3000.0])
def test_wrong_cells_are_within_the_slack(lower, noise):
    """Of a normal law, and of an even one, with the mean and the points in float32; not 20 times fewer."""
    problem, rng = far(lower, noise), np.random.default_rng(0)
    mean = lower + 0.5003
    normal = mean + 0.2 * rng.standard_normal(400_000)
    for exact, given in ((lower + rng.random(400_000), 0.0), (normal, np.float64(np.float32(mean)) - mean)):
        exact = exact[(exact > lower) & (exact < lower + 1)]
        expected = np.rint((exact - lower) / problem.grid.spacing[0]).astype(int)
        padded = np.resize(exact[:, None] + given, (400_000, 1)).astype(np.float32)  # one length, one program
        found = located(problem.grid, padded)[: len(exact)]
        wrong = np.mean(np.asarray(found) != expected)
        assert wrong <= rounding_of(problem)
    assert wrong >= rounding_of(problem) / 20


@pytest.mark.parametrize("kind", ["guaranteed", "asymptotic"])
def test_bounds_have_it(kind):
    """A function between −3 and 3."""
    f = np.random.default_rng(0).uniform(-3, 3, size=(1, 200))
    problem = far(0.0)
    exact, rounded = (experiment(problem, kind)._replace(rounding=share) for share in (0.0, 0.01))
    more = rounded._bound(f, 3.0, 3.0, np.full(1, 1.7)) - exact._bound(f, 3.0, 3.0, np.full(1, 1.7))
    assert more == pytest.approx(0.06)
    for lower in (0.0, 3000.0):
        made, _ = make_experiment(far(lower), kind, 1e-3, ALL_RULES, key=as_key(0))
        assert made.rounding == rounding_of(far(lower))


def test_near_zero_it_is_small():
    assert rounding_of(far(0.0, points=5)) == LEAST


COVARIANCE = np.array([[0.04, 0.019], [0.019, 0.01]])


def pair(covariance, lower: float = 0.0, law: str = "cell") -> Problem:
    """Two axes of width 1."""
    grid, kernel = Grid([lower] * 2, [lower + 1] * 2, [11, 11]), GaussianKernel(stay, covariance)
    return Problem(grid, np.zeros((1, 1)), kernel, first, 0.9, law=law, name="pair", expected=("noise",))


@pytest.mark.parametrize("covariance", [np.diag(COVARIANCE), COVARIANCE], ids=["alone", "together"])
def test_narrow_noise_has_more(covariance):
    """Along one axis given the other: what a sampler conditions on."""
    inverse = np.linalg.inv(np.diag(covariance) if covariance.ndim == 1 else covariance)
    variances = np.diag(COVARIANCE)
    expected = 2.0**-23 * np.sum(
        1001 * (10 + np.sqrt(np.diag(inverse))) + variances * np.diag(inverse) + 10 * np.sqrt(variances)
    )
    assert rounding_of(pair(covariance, 1000.0)) == pytest.approx(expected)
    given = covariance.tolist()
    assert rounding_of(pair(lambda state, action: jnp.asarray(given, state.dtype), 1000.0)) == pytest.approx(expected)


@pytest.mark.parametrize("inflation", [1e3, 1e5, 1e7])
def test_factors_in_float32_are_within_the_slack(inflation):
    """The law of one axis given the other, factored in float32: |σ'/σ − 1|/2 is more than its total variation."""
    std, rho = np.array([0.7, 1.1]), np.sqrt(1 - 1 / inflation)
    covariance = np.outer(std, std) * np.array([[1, rho], [rho, 1]])
    problem = pair(covariance)
    given = np.full(2, 0.5, np.float32), np.zeros(1, np.float32)
    ordered = jax.jit(lambda state, action: in_order(problem.grid, problem.density(state, action).normal))(*given)
    found, order = np.asarray(ordered.factor, np.float64), np.asarray(ordered.order)
    true = np.linalg.cholesky(covariance[np.ix_(order, order)])
    wrong = abs(found[1, 1] / true[1, 1] - 1) / 2
    assert not wrong > rounding_of(problem)  # NaN stops at the first draw
    assert rounding_of(problem) > 2.0**-23 * inflation


@functools.partial(jax.jit, static_argnums=(0, 1))
def log_masses(grid, law, mean, std):
    return axis_log_masses(grid, 0, law, mean, std)


@pytest.mark.parametrize("law", ["cell", "linear"])
@pytest.mark.parametrize(("std", "mean"), [(0.03, 0.5), (0.3, 0.4), (3.0, 0.4), (30.0, 0.2), (0.02, 1.5), (0.02, 2.6)])
def test_masses_in_float32_are_within_the_slack(law, std, mean):
    """Of one axis with 101 points on [0, 1]: wide noise, narrow noise, and means far outside of the box."""
    grid, kernel = Grid([0.0], [1.0], [101]), GaussianKernel(go, [std**2])
    problem = Problem(grid, np.full((1, 1), mean), kernel, first, 0.9, law=law, name="one", expected=("noise",))

    def masses(dtype):
        found = np.exp(np.asarray(log_masses(grid, law, dtype(mean), dtype(std)), np.float64))
        return found / found.sum()

    with jax.enable_x64(True):
        exact = masses(np.float64)
    assert np.abs(masses(np.float32) - exact).sum() / 2 <= rounding_of(problem)


def test_wide_noise_has_more():
    one, ten = (rounding_of(far(0.0, std=std, points=101)) for std in (1.0, 10.0))
    assert ten - one == pytest.approx(2.0**-23 * (900 + 0.1 - 1), rel=1e-6)


def test_densities_of_users_are_taken_as_they_are():
    kernel = UnnormalizedKernel(lambda point, state, action: -jnp.sum((point - state) ** 2))
    problem = Problem(Grid([50.0], [51.0], [5]), np.zeros((1, 1)), kernel, lambda s, a: s[0], 0.9, name="user")
    assert rounding_of(problem) == LEAST
