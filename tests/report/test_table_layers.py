"""Tables on a page: its script shows the cell or the interpolation that NumPy computes, however the numbers are stored."""

import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.report import layers as layers_module
from hamq.report.layers import TableLayer, quantised
from hamq.report.page import make_page
from tests.report.test_page import evaluate, hats

GRIDS = {
    1: Grid([-1.0], [2.0], [6]),
    2: Grid([-1.0, 0.0], [2.0, 6.0], [5, 4], [False, True]),
    4: Grid([-1.0, 0.0, 2.0, -3.0], [2.0, 6.0, 3.0, 3.0], [5, 4, 3, 2], [False, True, False, False]),
}


def nearest_node(grid: Grid, axis: int, x: float) -> int:
    """By distances, around circles."""
    distance = np.abs(x - grid.axis_nodes(axis))
    if grid.periodic[axis]:
        distance = np.minimum(distance, grid.upper[axis] - grid.lower[axis] - distance)
    return int(np.argmin(distance))


def at(table: np.ndarray, grid: Grid, state, is_smooth: bool) -> float:
    if not is_smooth:
        return table[tuple(nearest_node(grid, axis, x) for axis, x in enumerate(state))]
    for axis, x in enumerate(state):  # the first axis goes with every step
        table = np.tensordot(hats(grid, axis, x), table, axes=(0, 0))
    return float(table)


def slices(grid: Grid, rng: np.random.Generator) -> tuple[list, list]:
    """Calls of `slice` over random pairs of axes, and the states at which they are."""
    calls, states = [], []
    for _ in range(6):
        x, *rest = (int(axis) for axis in rng.permutation(grid.dimension))
        y = rest[0] if rest else -1
        fixed = rng.uniform(grid.lower, grid.upper)
        xs = rng.uniform(grid.lower[x], grid.upper[x], 7)
        ys = [0.0] if y < 0 else rng.uniform(grid.lower[y], grid.upper[y], 5)
        calls.append([x, y, fixed.tolist(), xs.tolist(), list(ys)])
        for up in ys:
            for across in xs:
                state = np.where(np.arange(grid.dimension) == x, across, fixed)
                states.append(np.where(np.arange(grid.dimension) == y, up, state))
    return calls, states


@pytest.mark.parametrize("dimension", GRIDS)
@pytest.mark.parametrize("is_smooth", [False, True])
@pytest.mark.parametrize("max_floats", [10**6, 0], ids=["float32", "16 bits"])
def test_the_script_shows_what_numpy_computes(dimension, is_smooth, max_floats, tmp_path, monkeypatch):
    monkeypatch.setattr(layers_module, "MAX_FLOATS", max_floats)
    grid, rng = GRIDS[dimension], np.random.default_rng(dimension)
    table = rng.normal(size=grid.points)
    calls, states = slices(grid, rng)
    page = make_page("table", [TableLayer("v", table.ravel(), grid.points)], grid)
    found = evaluate(page, [[0, *call] for call in calls], tmp_path, is_smooth)
    expected = np.array([at(table, grid, state, is_smooth) for state in states])
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-6 if max_floats else 1.1e-5 * np.ptp(table))


def test_a_policy_has_its_levels_and_is_never_interpolated(tmp_path):
    grid, rng = GRIDS[4], np.random.default_rng(0)
    policy = rng.integers(0, 300, grid.num_states)  # more than a byte tells apart
    levels = np.sort(rng.normal(size=300))
    calls, states = slices(grid, rng)
    page = make_page("policy", [TableLayer("a", policy, grid.points, levels=levels.tolist())], grid)
    found = evaluate(page, [[0, *call] for call in calls], tmp_path, is_smooth=True)
    expected = [at(levels[policy].reshape(grid.points), grid, state, False) for state in states]
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-6)


def test_16_bits_err_by_half_a_step_and_keep_what_is_not_known():
    values = np.append(np.random.default_rng(0).normal(size=1000), [np.nan, 7.0, -7.0])
    codes, offset, scale = quantised(values)
    assert codes.dtype == np.uint16 and codes[1000] == 65535 and max(codes[:1000]) < 65535
    back = np.where(codes == 65535, np.nan, offset + scale * codes)
    np.testing.assert_allclose(back, values, atol=0.5001 * 14 / 65534)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    assert back[1001] == pytest.approx(7.0) and back[1002] == -7.0
    for constant in (3.0, np.nan):
        codes, offset, scale = quantised(np.full(4, constant))
        assert len(set(codes)) == 1 and (np.isnan(constant) or offset + scale * codes[0] == 3.0)


def test_what_is_not_known_stays_where_it_is(tmp_path, monkeypatch):
    grid = Grid([0.0, 0.0], [2.0, 2.0], 3)
    table = np.arange(9.0)
    table[4] = np.nan
    calls = [[0, 0, 1, [0, 0], [0.0, 1.0, 1.2], [1.0]], ["extremes", [3, None, 1]]]
    for max_floats in (10, 0):
        monkeypatch.setattr(layers_module, "MAX_FLOATS", max_floats)
        page = make_page("holes", [TableLayer("v", table, grid.points)], grid)
        found, _ = evaluate(page, calls, tmp_path, is_smooth=True)
        assert found == [pytest.approx(1.0, abs=1e-4), None, None]  # NaN is null in JSON


def test_runs_on_other_grids_keep_their_own_points(tmp_path):
    first, second = Grid([0.0, 0.0], [1.0, 1.0], [3, 2]), Grid([0.0, 0.0], [1.0, 1.0], [5, 3])
    coarse, fine = np.arange(6.0), 10 + np.arange(15.0)
    given = [TableLayer("v", coarse, first.points), TableLayer("v", fine, second.points, run=1)]
    page = make_page("two", given, first, runs=["coarse", "fine"])
    call = [0, 1, [0, 0], [0.25, 1.0], [0.1, 0.9]]
    of_first, of_second, difference, edges = evaluate(
        page, [[0, *call], [1, *call], ["difference", 0, 1, *call], ["edges", [0, 1], 0]], tmp_path
    )
    assert of_second == [13.0, 22.0, 15.0, 24.0]
    assert of_first[1::2] == [4.0, 5.0]
    np.testing.assert_allclose(difference, np.subtract(of_first, of_second))
    # The cells of both: halves of 1/4 and of 1/2 around the nodes.
    np.testing.assert_allclose(edges, [0, 0.125, 0.25, 0.375, 0.625, 0.75, 0.875, 1])


def test_cells_of_a_circle_begin_and_end_with_the_same_node(tmp_path):
    grid = Grid([0.0, 0.0], [4.0, 1.0], [4, 2], [True, False])
    page = make_page("circle", [TableLayer("v", np.arange(8.0), grid.points)], grid)
    (edges,) = evaluate(page, [["edges", [0], 0]], tmp_path)
    np.testing.assert_allclose(edges, [0, 0.5, 1.5, 2.5, 3.5, 4])
    (found,) = evaluate(page, [[0, 0, 1, [0, 0], [0.25, 1.0, 2.0, 3.0, 3.75], [0.0]]], tmp_path)
    assert found == [0, 2, 4, 6, 0]


def test_colours_begin_at_the_floor(tmp_path):
    page = make_page("p", [TableLayer("v", np.zeros(4), (2, 2))], Grid([0.0, 0.0], [1.0, 1.0], 2))
    calls = [["colourRange", [1, 3], False, 0], ["colourRange", [0, 0], False, 0], ["colourRange", [], False]]
    above, zero, empty = evaluate(page, calls, tmp_path)
    assert above == [0, 3] and zero[0] == 0 < zero[1] < 1e-20 and empty[0] < 0 < empty[1]
