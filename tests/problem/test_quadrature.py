"""Quadrature that adapts: jumps, peaks and ridges against exact masses, and errors that cover what is wrong."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from hamq.problem.cells import all_rows, rows_of
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.problem.rules import ORDERS, lobatto, make_pieces, make_rule, orders


def reward(state, action):
    return -jnp.sum(state**2) + 0 * action


def posed(logdensity, points, law="cell", width=2.0) -> Problem:
    d = len(points)
    grid = Grid([-width] * d, [width] * d, list(points))
    return Problem(grid, [-1.0, 1.0], UnnormalizedKernel(logdensity), reward, 0.9, law=law)


def total_variation(a, b):
    return 0.5 * np.abs(a - b).sum(axis=-1)


def between(next_state, state, action):
    """Uniform on an interval whose ends move with state and action."""
    return jnp.where(jnp.abs(next_state[0] - state[0]) < action, 0.0, -jnp.inf)


@pytest.mark.parametrize("points", [3, 8])
def test_jumps_anywhere_are_seen(points):
    """Uniform noise at 300 random places: two rules of one family agree by accident on some of them."""
    problem = posed(between, [points])
    random = np.random.default_rng(0)
    centres, halves = random.uniform(-1.2, 1.2, 300), random.uniform(0.05, 0.7, 300)
    edges = problem.grid.axis_edges(0)
    low, high = centres - halves, centres + halves
    exact = np.clip(np.minimum(edges[1:], high[:, None]) - np.maximum(edges[:-1], low[:, None]), 0, None)
    exact /= exact.sum(axis=1, keepdims=True)
    for tolerance in (1e-2, 1e-5):
        found = rows_of(problem, centres[:, None], halves, tolerance)
        away = total_variation(found.masses, exact)
        assert np.all(found.errors <= tolerance)
        assert np.all(away <= 3 * tolerance), away.max()
        assert found.evaluations.max() < 1000


def peak(next_state, state, action):
    return -0.5 * jnp.sum(((next_state - state) / 5e-4) ** 2) + 0 * action


@pytest.mark.parametrize(("points", "most"), [((9,), 2_000), ((5, 6), 40_000)])
@pytest.mark.parametrize("law", ["cell", "linear"])
def test_a_peak_of_a_thousandth_of_a_cell_is_found(points, most, law):
    """Its mass is where its centre is, shared by the hats."""
    problem = posed(peak, points, law)
    states = np.random.default_rng(1).uniform(-1.9, 1.9, (20, len(points)))
    found = rows_of(problem, states, np.ones(20), 1e-4)
    means = found.masses @ problem.grid.states()
    if law == "linear":  # hats reproduce linear functions
        np.testing.assert_allclose(means, states, atol=2e-3)
    else:
        spacing = np.asarray(problem.grid.spacing)
        nodes = np.round((states + 2) / spacing) * spacing - 2
        np.testing.assert_allclose(means, nodes, atol=2e-3)
    assert found.evaluations.max() < most


@pytest.mark.parametrize("points", [9, 61])
def test_a_narrow_peak_on_a_broad_one(points):
    """Half of the mass in a twentieth of a cell: fine sums of both normals say how it is shared."""
    narrow = 4 / (points - 1) / 20

    def logdensity(n, s, a):
        peak = -0.5 * ((n[0] - s[0]) / narrow) ** 2 - jnp.log(narrow)
        return jnp.logaddexp(peak, -0.5 * n[0] ** 2) + 0 * a

    problem = posed(logdensity, [points])
    states = np.random.default_rng(2).uniform(-1.5, 1.5, (1000, 1))
    edges = problem.grid.axis_edges(0)
    exact = np.diff(scipy.stats.norm.cdf(edges[None], states, narrow) + scipy.stats.norm.cdf(edges)[None], axis=1)
    exact /= exact.sum(axis=1, keepdims=True)
    found = rows_of(problem, states, np.ones(1000), 1e-4)
    assert total_variation(found.masses, exact).max() < 2e-4


def test_a_narrow_peak_on_a_broad_one_in_the_plane():
    """A third of the mass in a seventeenth of a cell: more points of a part must not forget what fewer saw."""
    narrow, share = 0.5 / 17, 0.35

    def logdensity(n, s, a):
        broad = -0.5 * jnp.sum(n**2) / 0.6**2 - 2 * np.log(0.6) + np.log(1 - share)
        return jnp.logaddexp(broad, -0.5 * jnp.sum((n - s) ** 2) / narrow**2 - 2 * np.log(narrow) + np.log(share)) + 0 * a

    problem = posed(logdensity, [9, 9])
    states = np.random.default_rng(0).uniform(-1.5, 1.5, (400, 2))
    edges = problem.grid.axis_edges(0)

    def masses(centres, width):
        first, second = (np.diff(scipy.stats.norm.cdf(edges[None], centres[:, i, None], width), axis=1) for i in (0, 1))
        return first[:, :, None] * second[:, None]

    exact = (1 - share) * masses(np.zeros_like(states), 0.6) + share * masses(states, narrow)
    exact = exact.reshape(len(states), -1) / exact.sum(axis=(1, 2))[:, None]
    found = rows_of(problem, states, np.ones(400), 1e-5)  # as sharp as `solve` looks in the plane
    assert total_variation(found.masses, exact).max() < 1e-3


def test_a_ridge_in_three_dimensions():
    """A curved ridge, whose masses factor: u₁ given u₀ and u₂ given u₁ are normal, so a dense sum over u₀ is enough."""

    def logdensity(n, s, a):
        u = n - 0.5 * s - jnp.asarray([0.3, -0.15, 0.1]) * a
        bend, slope = u[1] - 1.2 * u[0] ** 2 + 0.3, u[2] - 0.5 * u[1]
        return -0.5 * ((u[0] / 0.6) ** 2 + (bend / 0.12) ** 2 + (slope / 0.25) ** 2)

    problem = posed(logdensity, [5, 5, 5])
    state, action = np.array([0.4, -0.2, 0.7]), 1.0
    found = rows_of(problem, state[None], np.asarray([action]), 1e-3)
    exact = ridge_masses(problem.grid, 0.5 * state + np.array([0.3, -0.15, 0.1]) * action)
    assert found.errors[0] <= 1e-3
    assert total_variation(found.masses[0], exact) < 2e-3
    assert found.evaluations[0] < 300_000


def ridge_masses(grid, centre, size=400):
    """Midpoint sums over u₀ and u₁, the normal distribution function over u₂."""
    edges = [grid.axis_edges(i) for i in range(3)]
    (x, wx, cx), (y, wy, cy) = (_fine(edges[i], size) for i in (0, 1))
    u0, u1 = x - centre[0], y - centre[1]
    density = np.exp(-0.5 * ((u0 / 0.6) ** 2)[:, None] - 0.5 * ((u1[None] - 1.2 * u0[:, None] ** 2 + 0.3) / 0.12) ** 2)
    density *= wx[:, None] * wy[None]
    last = np.diff(scipy.stats.norm.cdf(edges[2][:, None], centre[2] + 0.5 * u1, 0.25), axis=0)
    masses = np.zeros((5, 5, 5))
    for i, j in itertools.product(range(5), range(5)):
        masses[i, j] = (density[cx == i][:, cy == j] @ last[:, cy == j].T).sum(axis=0)
    return masses.ravel() / masses.sum()


def _fine(edges, size):
    widths = np.diff(edges)
    steps = (np.arange(size) + 0.5) / size
    points = (edges[:-1, None] + widths[:, None] * steps).ravel()
    return points, np.repeat(widths / size, size), np.repeat(np.arange(len(widths)), size)


def test_no_share_of_an_interval_has_the_same_sum_in_both_rules():
    """Where cumulative weights met, a jump there would be seen by neither rule."""
    for fine, coarse in ORDERS:
        nodes, weights = lobatto(fine)
        other, others = np.polynomial.legendre.leggauss(coarse)
        other, others = (other + 1) / 2, others / 2
        places = np.sort(np.concatenate([nodes, other]))
        middles = (places[:-1] + places[1:]) / 2
        gaps = [abs(weights[nodes < t].sum() - others[other < t].sum()) for t in middles]
        assert min(gaps) > 0.002, (fine, coarse, min(gaps))


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_rules_are_exact_for_polynomials(dimension):
    random = np.random.default_rng(3)
    for order, (fine, coarse) in enumerate(orders(dimension)):
        rule = make_rule(dimension, order, False)
        powers = random.integers(0, min(2 * fine - 3, 2 * coarse - 1) + 1, dimension)
        exact = np.prod(1 / (powers + 1))
        values = np.prod(rule.positions**powers, axis=1)
        # The end points are moved by 1e-9, and their weights with them: what is left is far below that.
        np.testing.assert_allclose(values[: rule.num_fine] @ rule.fine[:, 0], exact, rtol=2e-9)
        np.testing.assert_allclose(values[rule.num_fine :] @ rule.coarse[:, 0], exact, rtol=1e-10)


def test_hats_share_parts_of_pieces():
    """The corners of a part get what the hats of its piece have there, by a dense sum."""
    pieces = make_pieces(Grid([0.0, 0.0], [1.0, 1.0], [2, 2]), "linear")
    rule, low, size = make_rule(2, 1, True), np.array([[0.25, 0.5]]), np.array([[0.5, 0.25]])
    found = pieces.shared(np.ones((1, rule.num_fine)) @ rule.fine, low, size)[0]
    steps = (np.arange(1000) + 0.5) / 1000
    x, y = 0.25 + 0.5 * steps, 0.5 + 0.25 * steps
    wanted = [np.mean(a) * np.mean(b) for a in (1 - x, x) for b in (1 - y, y)]
    np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_states_between_grid_points_have_rows():
    problem = posed(lambda n, s, a: -0.5 * jnp.sum(((n - s) / 0.4) ** 2) + 0 * a, [9])
    on_grid = all_rows(problem, 1e-8).masses[3, 0]
    states = problem.grid.states()[[3, 4]].mean(axis=0, keepdims=True)
    rows = rows_of(problem, np.concatenate([problem.grid.states()[[3]], states]), np.full(2, -1.0), 1e-8).masses
    np.testing.assert_allclose(rows[0], on_grid, atol=1e-12)
    mean = rows[1] @ problem.grid.states()[:, 0]
    assert problem.grid.states()[3, 0] < mean < problem.grid.states()[4, 0]


@pytest.mark.parametrize(("value", "said"), [(jnp.nan, "nan"), (jnp.inf, "inf")])
def test_what_is_no_density_is_named_with_its_place(value, said):
    problem = posed(lambda n, s, a: jnp.where((n[0] > 1.5) & (a > 0), value, -(n[0] ** 2)), [5])
    rows_of(problem, np.zeros((1, 1)), np.asarray([-1.0]), 1e-3)
    with pytest.raises(
        ValueError, match=rf"is {said} at the next state (1\.[5-9]\d*|2), from state 0 with action 1; it must"
    ):
        rows_of(problem, np.zeros((2, 1)), np.asarray([-1.0, 1.0]), 1e-3)


def test_progress_is_told():
    told = []
    problem = posed(between, [5])
    with pytest.raises(ValueError, match="no finite mass"):  # a negative half-width
        all_rows(problem, 1e-3, progress=lambda *given: told.append(given))
    wide = posed(lambda n, s, a: -jnp.sum((n - s) ** 2) + 0 * a, [5])
    all_rows(wide, 1e-3, progress=lambda *given: told.append(given))
    assert told[-1] == ("integrating the density", 10, 10)
