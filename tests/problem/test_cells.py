"""Rows of the law: closed forms against quadrature, quadrature against brute sums, and what does not fit."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from hamq.problem import zoo
from hamq.problem.cells import all_rows, available_bytes, estimate, log_masses, require_room
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem

LAWS = ["cell", "linear", "point"]
LOWER, UPPER, POINTS = [-1.0, -2.0], [1.0, 1.0], [4, 3]
MATRIX = [[0.3, 0.25], [0.25, 0.6]]


def mean(state, action):
    return 0.9 * state + 0.5 * action


def reward(state, action):
    return state[0] + 0 * action


def bumpy(next_state, state, action):
    """No normaliser in closed form, periodic in the second coordinate with the box's length 3."""
    x, y = next_state - mean(state, action)
    return -3 * x**2 + jnp.cos(2 * np.pi / 3 * y) - 2 * jnp.exp(-8 * (x - jnp.sin(2 * np.pi / 3 * y)) ** 2)


def problem(kernel, law="cell", periodic=(False, False)) -> Problem:
    return Problem(
        grid=Grid(LOWER, UPPER, POINTS, list(periodic)),
        actions=[-1.0, 1.0],
        kernel=kernel,
        reward=reward,
        discount=0.9,
        law=law,
    )


def total_variation(a, b):
    return 0.5 * np.abs(a - b).sum(axis=-1).max()


def dense_row(mine, log_density, num_images=0, size=600):
    """One row by a midpoint sum over the box: 600 points per axis, shared out by the definition of the law."""
    grid = mine.grid
    axes = [low + width * (np.arange(size) + 0.5) / size for low, width in zip(grid.lower, grid.widths, strict=True)]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    turns = range(-num_images, num_images + 1)
    shifts = [np.asarray([i, j]) * grid.periodic * np.asarray(grid.widths) for i in turns for j in turns]
    shifts = np.unique(shifts, axis=0)
    density = sum(np.exp(log_density(x + shift)) for shift in shifts)
    shares = [hat_shares(grid, i, axes[i]) if mine.law == "linear" else cell_shares(grid, i, axes[i]) for i in (0, 1)]
    row = np.einsum("xy,ax,by->ab", density, *shares).ravel()
    return row / row.sum()


def cell_shares(grid, axis, x):
    gaps = np.abs(distance(grid, axis, x))
    return (gaps == gaps.min(axis=0)).astype(float)


def hat_shares(grid, axis, x):
    return np.maximum(0, 1 - np.abs(distance(grid, axis, x)) / grid.spacing[axis])


def distance(grid, axis, x):
    gaps = x - grid.axis_nodes(axis)[:, None]
    return gaps - grid.periodic[axis] * grid.widths[axis] * np.round(gaps / grid.widths[axis])


LINES = [(False, False), (False, True), (True, True)]
SOON = [("cell", LINES[0]), ("cell", LINES[1]), ("linear", LINES[0]), ("linear", LINES[2]), ("point", LINES[1])]
LATER = [case for case in itertools.product(LAWS, LINES) if case not in SOON]


@pytest.mark.parametrize(("law", "periodic"), [*SOON, *(pytest.param(*case, marks=pytest.mark.slow) for case in LATER)])
def test_closed_form_equals_quadrature(law, periodic):
    """The same normal, given as a vector of variances and as a diagonal matrix."""
    closed = all_rows(problem(GaussianKernel(mean, [0.2, 0.5]), law, periodic), 1e-7)
    summed = all_rows(problem(GaussianKernel(mean, np.diag([0.2, 0.5])), law, periodic), 1e-7)
    assert closed.error == 0
    assert summed.error <= 1e-7
    assert total_variation(closed.masses, summed.masses) <= summed.error + 1e-14
    for rows in (closed, summed):
        np.testing.assert_allclose(rows.masses.sum(axis=-1), 1, rtol=1e-12)


def test_a_full_covariance_against_scipy():
    mine = problem(GaussianKernel(mean, MATRIX))
    row = all_rows(mine, 1e-7).masses[7, 1]
    centre, precision = 0.9 * mine.grid.states()[7] + 0.5, np.linalg.inv(MATRIX)

    def density(y, x):
        z = np.asarray([x, y]) - centre
        return np.exp(-0.5 * z @ precision @ z)

    first, second = mine.grid.axis_edges(0), mine.grid.axis_edges(1)
    wanted = [
        scipy.integrate.dblquad(density, a, b, c, d, epsabs=1e-10)[0]
        for a, b in itertools.pairwise(first)
        for c, d in itertools.pairwise(second)
    ]
    np.testing.assert_allclose(row, np.asarray(wanted) / np.sum(wanted), atol=1e-8)


@pytest.mark.parametrize("law", ["cell", "linear"])
@pytest.mark.parametrize("periodic", [(False, False), (False, True)])
def test_correlated_rows_against_a_dense_sum(law, periodic):
    mine = problem(GaussianKernel(mean, MATRIX), law, periodic)
    rows = all_rows(mine, 1e-7)
    precision = np.linalg.inv(MATRIX)
    for s, a in ((0, 0), (10, 1)):
        z0 = 0.9 * mine.grid.states()[s] + 0.5 * mine.actions[a]
        wanted = dense_row(mine, lambda x, z0=z0: -0.5 * np.einsum("...i,ij,...j", x - z0, precision, x - z0), 3)
        assert total_variation(rows.masses[s, a], wanted) < 2e-4


@pytest.mark.parametrize("law", ["cell", "linear"])
@pytest.mark.parametrize("periodic", [(False, False), (False, True)])
def test_unnormalised_rows_against_a_dense_sum(law, periodic):
    mine = problem(UnnormalizedKernel(bumpy), law, periodic)
    rows = all_rows(mine, 1e-7)
    np.testing.assert_allclose(rows.masses.sum(axis=-1), 1, rtol=1e-12)
    evaluate = jax.jit(jax.vmap(bumpy, in_axes=(0, None, None)))
    for s, a in ((0, 0), (10, 1)):
        state, action = jnp.asarray(mine.grid.states()[s], jnp.float32), jnp.asarray(mine.actions[a], jnp.float32)

        def log_density(x, state=state, action=action):
            flat = jnp.asarray(x.reshape(-1, 2), jnp.float32)
            return np.asarray(evaluate(flat, state, action), np.float64).reshape(x.shape[:-1])

        assert total_variation(rows.masses[s, a], dense_row(mine, log_density)) < 2e-4


def test_point_masses_are_densities_at_the_nodes():
    mine = problem(UnnormalizedKernel(bumpy), "point")
    states = mine.grid.states()
    with jax.enable_x64(True):
        logs = np.asarray(jax.vmap(lambda x: bumpy(x, jnp.asarray(states[4]), jnp.asarray(-1.0)))(jnp.asarray(states)))
    wanted = np.exp(logs) / np.exp(logs).sum()
    rows = all_rows(mine, 1e-7)
    np.testing.assert_allclose(rows.masses[4, 0], wanted, rtol=1e-12)
    assert rows.error == 0


def test_the_error_covers_what_is_wrong():
    mine = problem(UnnormalizedKernel(bumpy))
    rough, fine = all_rows(mine, 1e-2), all_rows(mine, 1e-7)
    assert fine.error < 1e-7 < total_variation(rough.masses, fine.masses) <= rough.error <= 1e-2
    assert rough.evaluations < fine.evaluations


def test_a_budget_ends_the_refinement_and_the_error_says_so():
    mine = problem(UnnormalizedKernel(bumpy))
    cheap = all_rows(mine, 1e-7, max_evaluations=estimate(mine)[1])
    assert cheap.error > 1e-7
    assert cheap.evaluations == estimate(mine)[1]
    assert total_variation(cheap.masses, all_rows(mine, 1e-7).masses) <= cheap.error


@pytest.mark.parametrize("law", ["cell", "point"])
def test_float32_rows_agree(law):
    mine = problem(GaussianKernel(mean, [0.2, 0.5] if law == "cell" else MATRIX), law)
    rows = all_rows(mine, 1e-7).masses
    state, action = jnp.asarray(mine.grid.states()[5], jnp.float32), jnp.asarray(-1.0)
    single = log_masses(mine, state, action)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(np.exp(single), rows[5, 0], atol=1e-6)


@pytest.mark.parametrize("kind", ["product", "full"])
def test_a_mean_far_outside_still_has_a_row(kind):
    covariance = [0.01, 0.01] if kind == "product" else [[0.01, 0.002], [0.002, 0.01]]
    away = GaussianKernel(lambda s, a: 0 * s + jnp.stack([9.0 * a, -10.0 * a]), covariance)  # 80 σ
    mine = problem(away, "linear")
    rows = all_rows(mine, 1e-6)
    assert np.all(np.isfinite(rows.masses))
    np.testing.assert_allclose(rows.masses.sum(axis=-1), 1, rtol=1e-9)
    corner = mine.grid.points[1] - 1  # action −1 pulls to (−, +), action 1 to (+, −)
    assert np.all(rows.masses[:, 0, corner] > 0.9)


def test_repelling_agents_against_a_dense_sum():
    mine = zoo.repelling_agents(2, strength=10.0, points=5)
    rows = all_rows(mine, 1e-7)
    s, a = 6, 5  # both agents near (−0.5, −0.5), the second pushed to the right
    z0 = mine.grid.states()[s] + 0.1 * mine.actions[a]

    def log_density(x):
        repulsion = np.exp(-0.5 * ((x[..., 0] - x[..., 1]) / 0.15) ** 2)
        return -0.5 * (((x - z0) / 0.2) ** 2).sum(axis=-1) - 10.0 * repulsion

    assert total_variation(rows.masses[s, a], dense_row(mine, log_density)) < 2e-4


# What does not fit, and what is no density.


def test_estimates_count_bytes_and_evaluations():
    product = problem(GaussianKernel(mean, [0.2, 0.5]))
    full = problem(GaussianKernel(mean, MATRIX))
    assert estimate(product) == (8 * 24 * 12, 24 * 12)
    assert estimate(full) == (8 * 24 * 12, 24 * (9 + 4) * 12)  # 3 × 3 and 2 × 2 points in each of 12 cells
    hats = problem(GaussianKernel(mean, MATRIX), "linear")
    assert estimate(hats) == (8 * 24 * 12, 24 * (9 + 4) * 6)  # in each of 3 × 2 pieces
    huge = zoo.repelling_agents(40)
    assert estimate(huge)[0] == 8 * 9 * 9**80


def test_rows_that_do_not_fit_are_refused_with_the_number():
    with pytest.raises(
        ValueError,
        match=r"Exhaustive needs 1\.57e\+78 bytes for the 1\.48e\+38 masses of each of 1\.33e\+39 pairs, and .* "
        r"are allowed; use fewer points or a product kernel, raise max_bytes, or sample",
    ):
        require_room(zoo.repelling_agents(40), "Exhaustive", None, None)
    with pytest.raises(ValueError, match=r"needs 9\.33e\+04 bytes .*, and 1\.00e\+04 are allowed"):
        require_room(zoo.repelling_agents(2, points=6), "It", 10**4, None)


def test_evaluations_that_take_too_long_are_refused_with_the_number():
    mine = zoo.repelling_agents(2, points=6)
    needed = estimate(mine)[1]
    assert needed == 36 * 9 * 13 * 6**2
    with pytest.raises(ValueError, match=r"It needs at least 1\.52e\+05 density evaluations, and 1\.00e\+05 are allowed"):
        require_room(mine, "It", None, 10**5)
    require_room(mine, "It", None, needed)
    require_room(zoo.pendulum(), "It", None, 1)  # closed forms evaluate no density


def test_the_limit_is_half_of_the_memory():
    assert 2**28 < available_bytes() < 2**46


@pytest.mark.parametrize(
    "broken",
    [
        lambda n, s, a: jnp.where((s[0] > 0) & (a > 0), jnp.nan, 0.0) - jnp.sum(n**2),
        lambda n, s, a: jnp.where((s[0] > 0) & (a > 0), -jnp.inf, 0.0) - jnp.sum(n**2),
        lambda n, s, a: jnp.where((s[0] > 0) & (a > 0), jnp.inf, 0.0) - jnp.sum(n**2),
        lambda n, s, a: jnp.where((s[0] > 0) & (a > 0) & (n[0] > 0), jnp.nan, 0.0) - jnp.sum(n**2),
    ],
    ids=["nan", "-inf", "inf", "nan somewhere"],
)
@pytest.mark.parametrize("law", ["cell", "point"])
def test_a_density_without_mass_is_named(broken, law):
    no_mass = r"has no finite mass in the box at state \(0\.333333, -2\), action 1 .*never NaN"
    no_density = r"is (nan|inf) at the next state .*, from state \(0\.333333, -2\) with action 1; it must be"
    with pytest.raises(ValueError, match=f"{no_mass}|{no_density}"):
        all_rows(problem(UnnormalizedKernel(broken), law), 1e-6)


def test_a_density_may_be_zero_in_places():
    halved = UnnormalizedKernel(lambda n, s, a: jnp.where(n[0] > 0, -jnp.inf, 0.0) - jnp.sum(n**2))
    rows = all_rows(problem(halved), 1e-6)
    np.testing.assert_allclose(rows.masses.sum(axis=-1), 1, rtol=1e-12)
    assert np.all(rows.masses.reshape(-1, 4, 3)[:, 3] == 0)


@pytest.mark.parametrize("width", [0.002, 0.005, 0.02, 0.1])
def test_error_covers_densities_narrower_than_the_first_nodes_are_apart(width):
    """A peak between the nodes of two rules makes them agree on the same wrong row; the error must not follow them."""
    centre = 0.13  # beside the edge at 0.125 between two cells

    def logdensity(point, state, action):
        return -0.5 * jnp.sum(((point - centre) / width) ** 2) + 0 * state[0] * action

    grid = Grid([-1.0], [1.0], [9])
    problem = Problem(grid, [0.0, 1.0], UnnormalizedKernel(logdensity), lambda s, a: -(s[0] ** 2), 0.9)
    rows = all_rows(problem, 1e-6)
    exact = np.diff(scipy.stats.norm.cdf(grid.axis_edges(0), centre, width))
    assert 0.5 * np.abs(rows.masses - exact / exact.sum()).sum(axis=-1).max() <= rows.error + 1e-12


def looped(next_state, state, action):
    """−4 |s' − μ|² by a loop that cannot be differentiated backwards."""
    gap = jnp.sum((next_state - mean(state, action)) ** 2)
    return jax.lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] - gap), (0, jnp.zeros_like(gap)))[1]


def called(next_state, state, action):
    """The same by Python, which must be given float64."""
    gap = jnp.sum((next_state - mean(state, action)) ** 2)
    return jax.pure_callback(lambda g: -4 * g, jax.ShapeDtypeStruct((), gap.dtype), gap, vmap_method="expand_dims")


@pytest.mark.parametrize("logdensity", [looped, called])
def test_densities_that_have_no_derivative(logdensity):
    found = all_rows(problem(UnnormalizedKernel(logdensity)), 1e-6)
    wanted = all_rows(problem(GaussianKernel(mean, [0.125, 0.125])), 1e-6)
    assert total_variation(found.masses, wanted.masses) <= found.error + 1e-12
