"""The references of the bank against closed forms, against other rules, and against their own draws."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.densities import line, plane, quadrature
from tests.densities.bank import BANK, BY_NAME
from tests.densities.quadrature import draw, nodes, row, states
from tests.densities.reference import expected_returns, policy_value, reference, reward_table, sampled
from tests.stats import assert_distribution

STATE, ACTION = 7, 1.0
"""A pair whose mass is inside of the box and touches no wall."""
DEAR = [density for density in BANK if density.dimension > 2 or density.order == 2]
LAWS = {
    "normal": lambda m: stats.norm(m, 0.43),
    "laplace": lambda m: stats.laplace(m, 0.31),
    "student": lambda m: stats.t(3, m, 0.29),
    "cauchy": lambda m: stats.cauchy(m, 0.17),
    "lognormal": lambda m: stats.lognorm(0.63, m - 0.62, math.exp(-0.41)),
    "gamma": lambda m: stats.gamma(1.7, m - 0.58, 1 / 2.3),
    "gamma_pole": lambda m: stats.gamma(0.7, m - 0.31, 1 / 1.9),
    "exponential": lambda m: stats.expon(m - 0.37, 0.41),
    "gumbel": lambda m: stats.gumbel_r(m, 0.34),
    "pareto": lambda m: stats.lomax(1.4, m - 0.27, 0.33),
    "triangular": lambda m: stats.triang(0.5, m - 0.83, 1.66),
    "uniform": lambda m: stats.uniform(m - 0.71, 1.42),
    "noise_twentieth": lambda m: stats.norm(m, line.SPACING / 20),
    "noise_ten_boxes": lambda m: stats.norm(m, 40.0),
    "near_deterministic": lambda m: stats.norm(m, 0.0011),
}


def cut_masses(density, law):
    """Of the cells of an axis, from a distribution function cut to the box."""
    at = nodes(density, 0)
    edges = np.concatenate([at[:1], (at[1:] + at[:-1]) / 2, at[-1:]])
    masses = np.diff(law.cdf(edges))
    return masses / masses.sum()


def test_the_bank_is_what_the_issue_asks_for():
    assert len(BANK) >= 44
    assert len(BY_NAME) == len(BANK)
    assert {density.dimension for density in BANK} == {1, 2, 3, 4}
    assert sum(density.law == "linear" for density in BANK) >= 8


@pytest.mark.parametrize("name", LAWS)
def test_masses_of_cells_are_those_of_distribution_functions(name):
    density = BY_NAME[name]
    state = states(density)[STATE]
    found = row(density, state, ACTION, law="cell")
    exact = cut_masses(density, LAWS[name](line.centre(state, ACTION)[0]))
    assert np.abs(found - exact).sum() < 1e-5


def test_masses_on_a_circle_are_those_of_von_mises():
    density = BY_NAME["von_mises"]
    state = states(density)[3]
    law = stats.vonmises(3.1, line._turn(state, ACTION)[0])
    edges = nodes(density, 0)[0] + (np.arange(13) - 0.5) * 2 * np.pi / 12
    np.testing.assert_allclose(row(density, state, ACTION), np.diff(law.cdf(edges)), atol=1e-6)


def test_hats_are_means_of_an_interpolated_value():
    density = BY_NAME["gumbel"]
    state, value = states(density)[STATE], np.cos(1.7 * nodes(density, 0))
    law = stats.gumbel_r(line.centre(state, ACTION)[0], 0.34)
    fine = np.linspace(-2, 2, 400_001)
    weights = law.pdf(fine)
    expected = np.sum(weights * np.interp(fine, nodes(density, 0), value)) / np.sum(weights)
    assert row(density, state, ACTION) @ value == pytest.approx(expected, abs=1e-5)


def test_masses_of_a_plane_are_products_where_its_axes_are_independent():
    density = BY_NAME["uniform_2d"]
    state = states(density)[24]
    m = plane.centre(state, ACTION)
    axes = [stats.uniform(m[0] - 0.77, 1.54), stats.uniform(m[1] - 0.53, 1.06)]
    edges = np.concatenate([[-2], np.linspace(-2, 2, 7)[:-1] + 1 / 3, [2]])
    exact = np.multiply.outer(*(np.diff(law.cdf(edges)) for law in axes)).ravel()
    np.testing.assert_allclose(row(density, state, ACTION), exact / exact.sum(), atol=1e-12)


@pytest.mark.parametrize("name", ["ring", "shell", "tube_4d"])
def test_curves_have_the_masses_of_weighted_uniform_points(name):
    """Monte Carlo in the box: nothing in common with panels and rules."""
    density, generator = BY_NAME[name], np.random.default_rng(0)
    state, action = states(density)[density.num_states // 2 + 1], density.actions[-1]
    points = generator.uniform(-1, 1, (1_000_000, density.dimension)) * np.asarray(density.upper)
    log = quadrature.log_density(density, state, action, list(points.T))
    weights = np.exp(log - log.max())
    cells = [np.round((p + u) / (2 * u) * (n - 1)) for p, u, n in zip(points.T, density.upper, density.points, strict=True)]
    flat = np.ravel_multi_index([cell.astype(int) for cell in cells], density.points)
    found = np.bincount(flat, weights, density.num_states) / weights.sum()
    noise = np.sqrt(np.bincount(flat, weights**2, density.num_states)) / weights.sum()
    # 5.5 standard errors: a false alarm in 4e-8 of 125 masses.
    assert np.all(np.abs(found - row(density, state, action)) <= 5.5 * noise + 1e-4)


def test_draws_follow_their_masses():
    density, generator = BY_NAME["banana"], np.random.default_rng(1)
    state = states(density)[24]
    points = np.stack([draw(density, state, ACTION, generator) for _ in range(4000)])
    cells = np.round((points + 2) / 4 * 6).astype(int)
    counts = np.bincount(np.ravel_multi_index(cells.T, (7, 7)), minlength=49)
    assert_distribution(counts, row(density, state, ACTION, law="cell"), resolution=0.1)


def test_q_star_is_a_fixed_point_and_its_policy_loses_nothing():
    truth = reference(BY_NAME["gap"])
    backed_up = truth.rewards + 0.9 * truth.masses @ truth.value
    np.testing.assert_allclose(truth.q, backed_up, atol=1e-10)
    np.testing.assert_allclose(policy_value(truth, truth.policy), truth.value, atol=1e-9)
    np.testing.assert_allclose(expected_returns(truth, truth.policy, 300)[0], truth.value, atol=1e-9)
    assert truth.loss(np.zeros(21, int)) > 0.01


def test_returns_have_the_mean_and_variance_of_a_simulation():
    truth, generator, count = reference(BY_NAME["gap"]), np.random.default_rng(2), 20_000
    at, total = np.full(count, 5), np.zeros(count)
    for t in range(3):
        total += 0.9**t * truth.rewards[at, truth.policy[at]]
        reached = np.cumsum(truth.masses[at, truth.policy[at]], axis=1)
        at = (reached < generator.random((count, 1))).sum(axis=1).clip(0, 20)
    mean, variance = (each[5] for each in expected_returns(truth, truth.policy, 3))
    assert abs(total.mean() - mean) < 5 * np.sqrt(variance / count)
    assert total.var() == pytest.approx(variance, rel=0.05)


def test_more_independent_draws_are_worth_more():
    density = BY_NAME["exponential"]
    few, many = sampled(density, 100), sampled(density, 10_000)
    assert 7 < few.distance / many.distance < 14  # √100, about
    assert reward_table(density).shape == (13, 3)


@pytest.mark.parametrize("density", [d for d in BANK if d not in DEAR], ids=lambda d: d.name)
def test_references_are_sure_of_themselves(density):
    truth = reference(density)
    np.testing.assert_allclose(truth.masses.sum(axis=-1), 1, atol=1e-12)
    assert truth.doubt < 2e-3 * truth.span
    assert len(set(truth.policy.tolist())) > 1 or density.name in ("noise_ten_boxes", "uniform_moving")


@pytest.mark.slow
@pytest.mark.parametrize("density", DEAR, ids=lambda d: d.name)
def test_references_that_take_seconds_are_sure_of_themselves(density):
    test_references_are_sure_of_themselves(density)
