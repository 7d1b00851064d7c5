"""What is averaged beside V keeps its expectation: against sums over the box in float64, with no random number.

The sums are midpoint rules whose little cells do not cross the cells of the grid; their error is below 1e-4 here.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from hamq.certificates.variates import MAX_PRODUCTS, has_conditionals, has_stein, look, stein_functions
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.draws import Target
from tests.sampling.posed import pose, user_log
from tests.stats import assert_mean_equals

POINTS = (7, 6)
FINE = 240  # a multiple of 2(points − 1), and of points on a circle times 2 where there is one
STATE, ACTION = np.asarray([0.8, -1.7]), 0.5  # the mean lies at a wall of the first axis, near one of the second
ERROR = 1e-4


@pytest.fixture(scope="module")
def functions():
    return np.random.default_rng(0).normal(size=(2, POINTS[0] * POINTS[1]))


@eqx.filter_jit
def looked_at(problem, state, action, points, functions, conditions, uses_stein):
    return look(Target(problem, state, action), points, functions, conditions, uses_stein)


def seen(problem, functions, points):
    """In float64, at points `[n, 2]`."""
    with jax.enable_x64(True):
        arrays = (jnp.asarray(a, jnp.float64) for a in (STATE, ACTION, points.T, functions))
        found = looked_at(problem, *arrays, has_conditionals(problem), has_stein(problem))
        return [None if table is None else np.asarray(table) for table in found]


def little_cells(problem):
    """Middles `[n, 2]` of little cells, and their masses under the exact law."""
    grid = problem.grid
    sizes = [FINE * points // (points - 1) if circle else FINE for points, circle in zip(POINTS, grid.periodic, strict=True)]
    axes = [low + width * (np.arange(n) + 0.5) / n for low, width, n in zip(grid.lower, grid.widths, sizes, strict=True)]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    if isinstance(problem.kernel, UnnormalizedKernel):
        logs = user_log(problem.kernel.logdensity, x, STATE, ACTION)
    else:
        turns = (-2, -1, 0, 1, 2) if grid.periodic[0] else (0,)
        turn = np.asarray([grid.widths[0], 0])
        logs = scipy.special.logsumexp([gaussian_log(problem, x + num * turn) for num in turns], axis=0)
    masses = np.exp(logs - logs.max())
    return x, masses / masses.sum()


def gaussian_log(problem, x):
    covariance = np.asarray(problem.kernel.covariance)
    precision = np.linalg.inv(covariance if covariance.ndim == 2 else np.diag(covariance))
    offset = x - 0.7 * STATE - 0.4 * ACTION
    return -0.5 * np.einsum("si,ij,sj->s", offset, precision, offset)


def value_at(problem, functions, x):
    """V of points in NumPy: of the nearest node, or between nodes."""
    shares = [axis_shares(problem, i, x[:, i]) for i in (0, 1)]
    return np.einsum("jab,na,nb->jn", functions.reshape(-1, *POINTS), *shares, optimize=True)


def axis_shares(problem, axis, x):
    grid = problem.grid
    gaps = np.abs(x[:, None] - grid.axis_nodes(axis))
    gaps = np.minimum(gaps, grid.widths[axis] - gaps) if grid.periodic[axis] else gaps
    if problem.law == "linear":
        return np.maximum(0, 1 - gaps / grid.spacing[axis])
    return (gaps == gaps.min(axis=1, keepdims=True)).astype(float)


CASES = [
    ("correlated", "cell"),
    ("periodic", "cell"),
    ("circle-two-modes", "cell"),
    pytest.param("correlated", "linear", marks=pytest.mark.slow),
    pytest.param("product", "linear", marks=pytest.mark.slow),
    pytest.param("periodic", "linear", marks=pytest.mark.slow),
    pytest.param("two-modes", "cell", marks=pytest.mark.slow),
]
NUM_STEIN = {"correlated": 6, "product": 6, "two-modes": 6, "periodic": 2, "circle-two-modes": 5}


@pytest.mark.parametrize(("name", "law"), CASES)
def test_variates_keep_the_expectation(name, law, functions):
    problem = pose(name, law, POINTS)
    x, masses = little_cells(problem)
    plain, conditional, stein = seen(problem, functions, x)
    value = value_at(problem, functions, x)
    np.testing.assert_allclose(plain, value, atol=1e-9)

    assert len(stein) == NUM_STEIN[name]
    spread = np.sqrt(stein**2 @ masses)
    assert np.all(spread > 0.05), "a function that is 0 everywhere says nothing"
    np.testing.assert_allclose(stein @ masses / spread, 0, atol=20 * ERROR)

    assert (conditional is not None) == (name in ("correlated", "product", "periodic"))
    if conditional is not None:
        expected = value @ masses
        np.testing.assert_allclose(conditional @ masses / 2, expected, atol=ERROR)
        # An average of conditional expectations varies less than V.
        deviation = [np.sqrt((table - expected[:, None]) ** 2 @ masses) for table in (conditional / 2, value)]
        assert np.all(deviation[0] < 0.7 * deviation[1])


@pytest.mark.parametrize(("name", "law"), CASES[:2])
def test_conditional_expectations_are_those_along_each_axis(name, law, functions):
    """At five points: the sum over both lines through a point, by the density along the line."""
    problem = pose(name, law, POINTS)
    places = np.random.default_rng(1).uniform(problem.grid.lower, problem.grid.upper, (5, 2))
    _, conditional, _ = seen(problem, functions, places)
    expected = np.zeros((2, 5))
    for n, place in enumerate(places):
        for j in (0, 1):
            width, low = problem.grid.widths[j], problem.grid.lower[j]
            line = np.tile(place, (50_400, 1))
            line[:, j] = low + width * (np.arange(50_400) + 0.5) / 50_400
            turns = (-1, 0, 1) if problem.grid.periodic[j] else (0,)
            shift = np.eye(2)[j] * width
            density = np.sum([np.exp(gaussian_log(problem, line + turn * shift)) for turn in turns], axis=0)
            expected[:, n] += value_at(problem, functions, line) @ (density / density.sum())
    np.testing.assert_allclose(conditional, expected, atol=ERROR)


@pytest.mark.slow
def test_many_dimensions_have_squares_only(x64):
    """Five independent normals near walls, 20,000 exact draws of each; false alarm 1e-6 over ten functions."""
    d = MAX_PRODUCTS + 1
    mean, std, ends = np.linspace(-0.9, 1.4, d), np.linspace(0.3, 0.9, d), np.asarray([-1.0, 1.0])
    kernel = GaussianKernel(lambda state, action: jnp.asarray(mean, state.dtype) + 0 * action, std**2)
    grid = Grid([-1.0] * d, [1.0] * d, 3)
    problem = Problem(grid, [0.0], kernel, lambda state, action: state[0] + 0 * action, 0.9)
    density = problem.density(jnp.zeros(d), jnp.asarray(0.0))
    a, b = ((end - mean) / std for end in ends)
    draws = scipy.stats.truncnorm.rvs(a, b, mean, std, (20_000, d), random_state=np.random.default_rng(0))
    found = jax.jit(jax.vmap(lambda x: stein_functions(problem, density, x)))(jnp.asarray(draws))
    assert found.shape == (20_000, 2 * d)
    assert_mean_equals(found, 0.0, resolution=0.1)


@pytest.mark.parametrize(
    ("name", "law", "conditionals", "stein"),
    [
        ("product", "cell", True, True),
        ("periodic", "linear", True, True),
        ("correlated", "cell", True, True),
        ("correlated-periodic", "cell", False, False),  # wrapped: no axis has a closed form given the others
        ("two-modes", "cell", False, True),
        ("circle-two-modes", "linear", False, True),
        ("product", "point", False, False),
        ("two-modes", "point", False, False),
    ],
)
def test_where_variates_are_known(name, law, conditionals, stein):
    problem = pose(name, law, POINTS)
    assert (has_conditionals(problem), has_stein(problem)) == (conditionals, stein)


def test_circles_alone_have_conditionals_only():
    kernel = GaussianKernel(lambda state, action: state + action, [0.2])
    circle = Problem(Grid([0.0], [1.0], [4], [True]), [0.0], kernel, lambda state, action: state[0] + action, 0.9)
    assert has_conditionals(circle)
    assert not has_stein(circle)
