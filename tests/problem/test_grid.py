"""The grid: nearest nodes, cells, circles, interpolation; and grids that nobody can enumerate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.problem.grid import Grid

FEW = settings(max_examples=15)


# A strategy may not build the grid itself: beartype draws random numbers, which hypothesis forbids there.
AXES = st.lists(st.tuples(st.floats(-10, 10), st.floats(0.1, 20), st.integers(2, 6), st.booleans()), min_size=1, max_size=3)


def grid_of(axes) -> Grid:
    lower, width, points, periodic = zip(*axes, strict=True)
    return Grid(lower, np.asarray(lower) + np.asarray(width), points, periodic)


def points_about(grid: Grid, n: int = 64) -> np.ndarray:
    """Points inside the box and up to a width outside it."""
    uniform = np.random.default_rng(0).uniform(-1, 2, (n, grid.dimension))
    return np.asarray(grid.lower) + uniform * np.asarray(grid.widths)


def each(function, points) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(function)(jnp.asarray(points)))


@given(AXES)
@FEW
def test_states_come_back_from_locate(axes):
    grid = grid_of(axes)
    assert grid.states().shape == (grid.num_states, grid.dimension)
    indices = np.random.default_rng(0).integers(grid.num_states, size=64)
    states = grid.states_at(indices)
    np.testing.assert_array_equal(states, grid.states()[indices])
    np.testing.assert_array_equal(each(grid.locate, states), indices)
    np.testing.assert_array_equal(jax.vmap(grid.locate)(jnp.asarray(states, jnp.float32)), indices)


def test_last_axis_is_fastest():
    states = Grid([0, 0], [1, 2], [2, 3]).states()
    np.testing.assert_array_equal(states, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])


@given(AXES)
@FEW
def test_nearest_node_by_brute_force(axes):
    grid = grid_of(axes)
    points = points_about(grid)
    found = each(grid.coordinates, points)
    for i in range(grid.dimension):
        gaps = points[:, i, None] - grid.axis_nodes(i)
        if grid.periodic[i]:
            gaps -= grid.widths[i] * np.round(gaps / grid.widths[i])
        np.testing.assert_array_equal(found[:, i], np.abs(gaps).argmin(axis=1))


@given(AXES)
@FEW
def test_cells_tile_the_box(axes):
    grid = grid_of(axes)
    for i in range(grid.dimension):
        nodes, edges, h = grid.axis_nodes(i), grid.axis_edges(i), grid.spacing[i]
        assert len(edges) == len(nodes) + 1
        assert np.all((edges[:-1] <= nodes) & (nodes <= edges[1:]))
        lengths = np.diff(edges)
        ends = h if grid.periodic[i] else h / 2
        np.testing.assert_allclose(lengths, [ends, *[h] * (len(nodes) - 2), ends], rtol=1e-9)
        np.testing.assert_allclose(edges[-1] - edges[0], grid.widths[i], rtol=1e-12)


def test_a_circle_leaves_its_end_out():
    grid = Grid([-np.pi, -1], [np.pi, 1], [4, 3], periodic=[True, False])
    np.testing.assert_allclose(grid.axis_nodes(0), [-np.pi, -np.pi / 2, 0, np.pi / 2])
    np.testing.assert_allclose(grid.axis_nodes(1), [-1, 0, 1])
    np.testing.assert_allclose(grid.axis_edges(0), np.pi * np.asarray([-1.25, -0.75, -0.25, 0.25, 0.75]))


@given(AXES)
@FEW
def test_wrap_moves_by_whole_turns(axes):
    grid = grid_of(axes)
    points = points_about(grid)
    wrapped = each(grid.wrap, points)
    turns = (points - wrapped) / np.asarray(grid.widths)
    circle = np.asarray(grid.periodic)
    np.testing.assert_allclose(turns, np.round(turns) * circle, atol=1e-9)
    inside = (wrapped >= np.asarray(grid.lower) - 1e-12) & (wrapped <= np.asarray(grid.upper) + 1e-12)
    assert np.all(inside[:, circle])
    np.testing.assert_array_equal(each(grid.coordinates, wrapped), each(grid.coordinates, points))


def test_contains_ignores_circles():
    grid = Grid([-1, -1], [1, 1], 3, periodic=[True, False])
    points = jnp.asarray([[5.0, 0.0], [0.0, 1.0], [0.0, 1.5]])
    np.testing.assert_array_equal(jax.vmap(grid.contains)(points), [True, True, False])


@given(AXES, st.integers(0, 2**32 - 1))
@FEW
def test_interpolation_meets_the_nodes_and_stays_between(axes, seed):
    grid = grid_of(axes)
    rng = np.random.default_rng(seed)
    values, indices = rng.normal(size=216), rng.integers(grid.num_states, size=64)  # 216: one shape to compile

    def interpolated(points, values=values):
        return each(lambda p: grid.interpolate(jnp.asarray(values), p), points)

    points = points_about(grid)
    found, used = interpolated(points), values[: grid.num_states]
    np.testing.assert_allclose(interpolated(grid.states_at(indices)), values[indices], atol=1e-9)
    np.testing.assert_allclose(found, interpolated(each(grid.wrap, points)), atol=1e-9)
    np.testing.assert_allclose(interpolated(points, np.ones(216)), 1, atol=1e-12)
    assert np.all((found >= used.min() - 1e-9) & (found <= used.max() + 1e-9))


@given(AXES)
@FEW
def test_interpolation_is_exact_for_multilinear_functions(axes):
    grid = grid_of(axes)
    grid = Grid(grid.lower, grid.upper, grid.points)  # no circles: a linear function has none

    def multilinear(s):
        return np.prod(1 + (s - np.asarray(grid.lower)) / np.asarray(grid.widths), axis=-1)

    points = points_about(grid)
    clipped = np.clip(points, grid.lower, grid.upper)  # constant beyond the box
    values = np.zeros(216)
    values[: grid.num_states] = multilinear(grid.states())
    found = each(lambda p: grid.interpolate(jnp.asarray(values), p), points)
    np.testing.assert_allclose(found, multilinear(clipped), rtol=1e-9)


def test_interpolation_closes_the_circle():
    grid = Grid([0.0], [4.0], 4, periodic=True)
    values = jnp.asarray([0.0, 1.0, 2.0, 3.0])
    points = jnp.asarray([[3.0], [3.5], [4.0], [-0.25]])
    found = jax.vmap(lambda p: grid.interpolate(values, p))(points)
    np.testing.assert_allclose(found, [3, 1.5, 0, 0.75], atol=1e-6)


def test_a_huge_grid_can_be_described_and_not_enumerated():
    grid = Grid([-1.0] * 40, [1.0] * 40, 9)
    assert grid.num_states == 9**40  # a Python int: nothing wraps
    assert grid.coordinates(jnp.zeros(40)).tolist() == [4] * 40
    with pytest.raises(ValueError, match=r"enumerate 1\.478e\+38 states in 4\.730e\+40 bytes; use fewer points"):
        grid.states()
    with pytest.raises(ValueError, match=r"Grid.locate must enumerate the grid's 1\.478e\+38 states"):
        grid.locate(jnp.zeros(40))
    with pytest.raises(ValueError, match=r"Grid.interpolate must enumerate"):
        grid.interpolate(jnp.zeros(3), jnp.zeros(40))


def test_ten_to_the_twelve_states_are_refused_by_number():
    with pytest.raises(ValueError, match=r"1\.000e\+12 states in 9\.600e\+13 bytes"):
        Grid([0.0] * 12, [1.0] * 12, 10).states()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([0, 0], [1, 0], 3), r"axis 1 has lower = 0\.0 and upper = 0\.0; lower must be below upper"),
        (([0, 2], [1, 1], 3), r"axis 1 has lower = 2\.0 and upper = 1\.0"),
        (([0, 0], [1, np.inf], 3), r"axis 1 runs from 0\.0 to inf; the box must be finite"),
        (([np.nan], [1], 3), r"axis 0 runs from nan to 1\.0; the box must be finite"),
        (([0, 0], [1], 3), r"upper has 1 entries and lower has 2; give one per state dimension"),
        (([0, 0], [1, 1], [3]), r"points has 1 entries and lower has 2"),
        (([0, 0], [1, 1], 3, [True]), r"periodic has 1 entries and lower has 2"),
        (([0], [1], 1), r"at least 2 points per axis, got points = 1 on axis 0"),
        (([0, 0], [1, 1], [3, 0]), r"at least 2 points per axis, got points = 0 on axis 1"),
        (([0], [1], 2.5), r"points must be one int or a list of them, got array\(2\.5\)"),
        (([0], [1], True), r"points must be one int"),
        (([0], [1], 3, [1]), r"periodic must be one bool or a list of them"),
        ((0, 1, 3), r"lower must be a list of numbers, one per state dimension"),
        (([], [], 3), r"lower must be a list of numbers"),
        ((["a"], [1], 3), r"lower must be a list of numbers"),
        (([0j], [1], 3), r"lower must be a list of numbers"),
    ],
)
def test_refusals(as_user, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Grid(*arguments)
