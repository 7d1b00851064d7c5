"""Independent coordinates with densities of any kind: masses against plain sums, and what is refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.cells import axis_rows_of, evaluations_per_pair, needs_quadrature, rows_of
from hamq.problem.grid import Grid
from hamq.problem.kernels.axes import AxesKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.point_draws import draw_points
from hamq.problem.problem import Problem
from tests.problem.axes import LOGS, pose, reference

PAIRS = [([0.4, 1.1, 0.3, -2.0], -1.0), ([2.9, 0.2, -0.9, 3.0], 0.4), ([0.0, 4.0, 1.0, 0.5], 1.0)]


def total_variation(a, b):
    return 0.5 * np.abs(a - b).sum(axis=-1)


@pytest.mark.parametrize("law", ["cell", "linear", "point"])
@pytest.mark.parametrize("axis", range(4))
def test_masses_of_an_axis_against_numpy(axis, law):
    points = (7, 6, 9, 8)
    problem = pose(points=points, law=law)
    states, actions = np.asarray([s for s, _ in PAIRS]), np.asarray([a for _, a in PAIRS])
    found = axis_rows_of(problem, axis, states, actions, 1e-7)
    exact = np.stack([reference(axis, np.asarray(s), a, points[axis], law) for s, a in PAIRS])
    away = total_variation(found.masses, exact)
    # The gamma density has no derivatives at 0, and the estimate is one: three times what was asked for.
    assert np.all(found.errors <= 1e-7) and np.all(away <= 3e-7), away
    assert np.all(found.errors == 0) == (law == "point")


@pytest.mark.parametrize("law", ["cell", pytest.param("linear", marks=pytest.mark.slow)])
def test_rows_are_the_outer_products_of_the_axes(law):
    points = (4, 3, 5, 4)
    problem = pose(points=points, law=law)
    states, actions = np.asarray([s for s, _ in PAIRS]), np.asarray([a for _, a in PAIRS])
    rows = rows_of(problem, states, actions, 1e-6)
    for (state, action), masses, error in zip(PAIRS, rows.masses, rows.errors, strict=True):
        each = [reference(i, np.asarray(state), action, n, law) for i, n in enumerate(points)]
        exact = functools.reduce(np.multiply.outer, each).ravel()
        assert total_variation(masses, exact) <= 3e-6 and error <= 1e-6
    # A sum over the axes, not a product: the whole box would take 240 cells of 17⁴ points.
    assert evaluations_per_pair(problem) <= rows.evaluations.min() and rows.evaluations.max() < 5_000


@pytest.mark.parametrize("law", ["linear", pytest.param("cell", marks=pytest.mark.slow)])
def test_same_law_as_the_sum_of_the_logs(law):
    """In two dimensions, with an angle: the box is integrated as a whole, and axis by axis."""
    problem = pose((0, 3), (5, 6), law)
    logs = problem.kernel.functions
    joint = UnnormalizedKernel(lambda n, s, a: logs[0](n[0], s, a) + logs[1](n[1], s, a))
    other = pose((0, 3), (5, 6), law, kernel=joint)
    states, actions = np.asarray([[0.3, -3.0], [2.5, 1.0]]), np.asarray([0.5, -1.0])
    ours, theirs = (rows_of(each, states, actions, 1e-6) for each in (problem, other))
    assert np.all(total_variation(ours.masses, theirs.masses) <= 2e-6)
    assert 10 * ours.evaluations.max() < theirs.evaluations.min()
    found = [problem.density(jnp.asarray(s), jnp.asarray(a)) for s, a in zip(states, actions, strict=True)]
    for density, other_density in zip(
        found, [other.density(jnp.asarray(s), jnp.asarray(a)) for s, a in zip(states, actions, strict=True)], strict=True
    ):
        point = jnp.asarray([1.3, 4.0])  # one turn further on than -2.28
        np.testing.assert_allclose(density.log(point), other_density.log(point), rtol=1e-5)
        np.testing.assert_allclose(density.gradient(point), other_density.gradient(point), rtol=1e-4)
        np.testing.assert_allclose(density.log(point), sum(density.log_of_axis(i, point[i]) for i in range(2)), rtol=1e-5)


def test_points_of_an_axis():
    """Equal masses between the quantiles of the reference, by the inverse distribution function of 400 uniforms."""
    problem = pose(points=(7, 6, 9, 8), law="linear")
    num = 400
    states, actions = np.tile(PAIRS[0][0], (num, 1)), np.full(num, PAIRS[0][1])
    uniforms = np.random.default_rng(0).random((num, 3))
    drawn = draw_points(problem, states, actions, uniforms, 1e-4, axis=2)
    assert drawn.points.shape == (num, 1)
    x = drawn.points[:, 0]
    last = 0.6 + 0.3 * 0.3**2
    assert np.all((x <= -0.1 + 1e-6) | ((x >= 0.5 - 1e-6) & (x <= last + 1e-6)))
    share = 0.9 / (0.9 + last - 0.5)  # uniform: the mass of the lower piece is its length
    assert abs(np.mean(x < 0) - share) <= 5 * np.sqrt(share * (1 - share) / num)
    assert abs(np.mean(x[x < 0]) + 0.55) <= 5 * 0.9 / np.sqrt(12 * num * share)


def test_a_product_is_known():
    problem = pose()
    assert problem.is_product and not problem.has_closed_masses and needs_quadrature(problem)
    assert problem.kernel.normal is None and not problem.kernel.has_one_mode
    assert "AxesKernel" in repr(problem)
    assert not needs_quadrature(pose(law="point"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda x, s, a: 0.0 * x, "must be a list of functions .* one per axis, got <function"),
        ([], r"must be a list of functions .* got \[\]"),
        ([LOGS[0], 3.0], r"logdensities\[1\] must be a function of \(next_coordinate, state, action\), got 3\.0"),
    ],
)
def test_what_is_no_list_of_functions_is_refused(as_user, given, sentence):
    with pytest.raises(ValueError, match=f"AxesKernel: .*{sentence}"):
        hamq.AxesKernel(given)


def test_functions_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"logdensities has 3 functions and the grid has 4 dimensions; give one for each"):
        pose(kernel=AxesKernel(LOGS[:3]))
    with pytest.raises(ValueError, match=r"logdensities\[1\] must return shape \(\) for ONE state .* got \(4,\)"):
        pose(kernel=AxesKernel([LOGS[0], lambda x, s, a: s, *LOGS[2:]]))
    with pytest.raises(ValueError, match=r"logdensities\[0\] must return floats, got bool"):
        pose(kernel=AxesKernel([lambda x, s, a: x > 0, *LOGS[1:]]))
    calls = []
    with pytest.raises(ValueError, match=r"logdensities\[3\] is not a pure function"):
        pose(kernel=AxesKernel([*LOGS[:3], lambda x, s, a: calls.append(0) or x * len(calls)]))


def line(logdensity) -> Problem:
    grid = Grid([-1.0, -1.0], [1.0, 1.0], [3, 4])
    kernel = AxesKernel([lambda x, s, a: -(x**2), logdensity])
    return Problem(grid, [0.5], kernel, lambda s, a: -s[0] * a, 0.5, name="line")


def test_no_number_is_refused_by_name():
    with pytest.raises(ValueError, match=r"the log-density of axis 1 of line is nan at the next coordinate .* -inf where"):
        hamq.solve_exact(line(lambda x, s, a: jnp.log(x)))
    with pytest.raises(ValueError, match=r"the density of axis 1 of line has no finite mass .* \(-1, -1\), action 0\.5"):
        hamq.solve_exact(line(lambda x, s, a: jnp.where(s[1] > 0, 0.0 * x, -jnp.inf)))


def test_a_function_may_serve_two_axes():
    def narrow(x, s, a):
        return -((x - 0.3) ** 2) / 0.02

    grid = Grid([-1.0, 0.0], [1.0, 1.0], [3, 4])
    problem = Problem(grid, [0.5], AxesKernel([narrow, narrow]), lambda s, a: -s[0] * a, 0.5, expected=("aliasing",))
    rows = [axis_rows_of(problem, i, np.zeros((1, 2)), np.asarray([0.5]), 1e-6).masses[0] for i in range(2)]
    assert rows[0].shape == (3,) and rows[1].shape == (4,)
    assert rows[0][1] > 0.9 and rows[1][1] > 0.85


def test_compiled_programs_go_with_their_functions():
    """The program of one axis is found by that axis' function alone."""
    kernel = AxesKernel(LOGS)
    assert [kernel.functions_of_axis(i) for i in range(4)] == [(f,) for f in LOGS]
    assert kernel.functions == tuple(LOGS)
    assert jax.tree.leaves(kernel) == []
