"""The slack that bounds from draws have for float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.certificates.experiment import ROUNDING, rounding_of
from hamq.problem.grid import Grid
from hamq.problem.kernel import GaussianKernel
from hamq.problem.problem import Problem
from tests.certificates.test_experiment import experiment

COVARIANCES = {"product": [0.04], "function": lambda state, action: jnp.full((1,), 0.04)}


def far(lower: float, covariance="product", points: int = 51) -> Problem:
    """A box of width 1 that begins at `lower`."""
    kernel = GaussianKernel(lambda state, action: state, COVARIANCES[covariance])
    return Problem(Grid([lower], [lower + 1], [points]), np.zeros((1, 1)), kernel, lambda s, a: s[0], 0.9, name="far")


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("lower", [100.0, -3000.0])
def test_wrong_cells_are_within_the_slack(lower, covariance):
    """Of a normal law, and of an even one, with the mean and the points in float32; not 20 times fewer."""
    problem, rng = far(lower, covariance), np.random.default_rng(0)
    mean = lower + 0.5003
    normal = mean + 0.2 * rng.standard_normal(400_000)
    for exact, given in ((lower + rng.random(400_000), 0.0), (normal, np.float64(np.float32(mean)) - mean)):
        exact = exact[(exact > lower) & (exact < lower + 1)]
        expected = np.rint((exact - lower) / problem.grid.spacing[0]).astype(int)
        found = jax.vmap(problem.grid.locate)(jnp.asarray(exact[:, None] + given, jnp.float32))
        wrong = np.mean(np.asarray(found) != expected)
        assert wrong <= rounding_of(problem)
    assert wrong >= rounding_of(problem) / 20


@pytest.mark.parametrize("kind", ["guaranteed", "asymptotic"])
def test_bounds_have_it(kind):
    """The same draws, of a function between −3 and 3, in a near and in a far box."""
    f = np.random.default_rng(0).uniform(-3, 3, size=(1, 200))
    near, away = (experiment(far(lower), kind)._bound(f, 3.0, 3.0, np.full(1, 1.7)) for lower in (0.0, 3000.0))
    assert away - near == pytest.approx(6 * (rounding_of(far(3000.0)) - rounding_of(far(0.0))), rel=1e-9)
    assert away - near > 0.1


def test_near_zero_it_is_small():
    assert rounding_of(far(0.0, points=5)) == ROUNDING


def test_narrow_noise_has_more():
    """Along one axis given the others: what a sampler conditions on."""
    variances = np.array([0.04, 0.01])
    correlated = np.array([[0.04, 0.019], [0.019, 0.01]])
    grid = Grid([1000.0, 1000.0], [1001.0, 1001.0], [11, 11])
    made = {}
    for name, covariance in (("alone", variances), ("together", correlated)):
        kernel = GaussianKernel(lambda state, action: state, covariance)
        made[name] = rounding_of(Problem(grid, np.zeros((1, 1)), kernel, lambda s, a: s[0], 0.9, name=name))
    conditional = np.sqrt([0.04 - 0.019**2 / 0.01, 0.01 - 0.019**2 / 0.04])
    each = 2.0**-23 * 1001
    assert made["alone"] == pytest.approx(each * (20 + np.sum(1 / np.sqrt(variances))))
    assert made["together"] == pytest.approx(each * (20 + np.sum(1 / conditional)))
