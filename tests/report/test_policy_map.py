"""Policy maps: what is drawn is what the tables and trains say."""

import dataclasses

import numpy as np
import pytest

from hamq.exact.value_iteration import solve_exact
from hamq.problem import zoo
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.report.policy_map import is_plot, plain, plot, write_plot
from hamq.sampling.iid import IID
from hamq.solution import History, Solution
from hamq.tensor.solve import solve_tensor
from hamq.types import HamqError
from tests.exact.posed import swing


@pytest.fixture(scope="module")
def exact():
    return solve_exact(zoo.double_integrator(points=[7, 9]), tolerance=1e-3)


@pytest.fixture(scope="module")
def cart():
    """A table of four dimensions without meaning."""
    problem = zoo.cartpole(points=[3, 4, 5, 6])
    q = np.random.default_rng(0).normal(size=(problem.num_states, problem.num_actions))
    return Solution(problem, q, History(), "made up", True)


def panels(figure, num_columns):
    """What is drawn, first coordinate first, by row and column; None where nothing is."""
    found = [axes for axes in figure.axes if axes.get_subplotspec() is not None and axes.get_label() != "<colorbar>"]
    maps = [np.asarray(axes.images[0].get_array()).T if axes.images else None for axes in found]
    return [maps[start : start + num_columns] for start in range(0, len(maps), num_columns)]


def test_the_maps_show_action_and_value_of_every_state(exact):
    figure = plot(exact)
    [[actions], [values]] = panels(figure, 1)
    np.testing.assert_array_equal(actions, exact.problem.actions[exact.policy].reshape(7, 9))
    np.testing.assert_array_equal(values, exact.value.reshape(7, 9))
    image = figure.axes[0].images[0]
    assert image.get_clim() == (exact.problem.actions.min(), exact.problem.actions.max())
    assert image.origin == "lower" and image.get_extent()[0] < exact.problem.grid.lower[0]
    assert [figure.axes[1].get_xlabel(), figure.axes[1].get_ylabel()] == list(exact.problem.axis_names)


def test_the_reference_says_what_is_given_up(exact):
    worst = dataclasses.replace(exact, q=-exact.q, error=None)
    figure = plot(worst, exact, titles=["worst", "exact"])
    [[other, lost, best], [value, error, best_value]] = panels(figure, 3)
    assert [axes.get_title() for axes in figure.axes[:3:2]] == ["worst", "exact"]
    np.testing.assert_array_equal(best, exact.problem.actions[exact.policy].reshape(7, 9))
    np.testing.assert_array_equal(other, exact.problem.actions[exact.q.argmin(axis=1)].reshape(7, 9))
    np.testing.assert_allclose(lost, (exact.q.max(axis=1) - exact.q.min(axis=1)).reshape(7, 9))
    np.testing.assert_allclose(error, (-exact.q.min(axis=1) - exact.q.max(axis=1)).reshape(7, 9))
    np.testing.assert_allclose(value - error, best_value)
    assert figure.axes[1].get_title() == f"given up, mean {lost.mean():.2g}"
    assert figure.axes[4].get_title() == f"error, rms {np.sqrt(np.mean(error**2)):.2g}"
    same = panels(plot(exact, exact), 3)
    assert not same[0][2].any() and not same[1][2].any()


def test_one_dimension_has_lines():
    problem = Problem(
        Grid([-1.0], [1.0], [9]),
        np.linspace(-1, 1, 5),
        GaussianKernel(lambda state, action: 0.8 * state + 0.2 * action, [0.1]),
        lambda state, action: -(state[0] ** 2) - 0.1 * action**2,
        0.9,
        axis_names=["place"],
    )
    exact = solve_exact(problem, tolerance=1e-3)
    worst = dataclasses.replace(exact, q=-exact.q, error=None, lower=None, upper=None)
    actions, value = plot(exact).axes
    np.testing.assert_array_equal(actions.lines[0].get_ydata(), problem.actions[exact.policy])
    np.testing.assert_array_equal(value.lines[0].get_ydata(), exact.value)
    np.testing.assert_allclose(value.lines[0].get_xdata(), np.linspace(-1, 1, 9))
    assert value.get_xlabel() == "place" and value.get_ylabel() == "value"
    _, lost, _, error = plot(worst, exact, titles=["worst", "exact"]).axes
    np.testing.assert_allclose(lost.lines[0].get_ydata(), exact.q.max(axis=1) - exact.q.min(axis=1))
    np.testing.assert_allclose(error.lines[0].get_ydata(), worst.value - exact.value)
    with pytest.raises(HamqError, match="axes must be"):
        plot(exact, axes=(1, 0))


def test_no_gap_without_an_exact_answer(cart):
    figure = plot(cart, dataclasses.replace(cart, q=-cart.q))
    assert len(panels(figure, 2)) == 2 and all(drawn is not None for row in panels(figure, 2) for drawn in row)
    shared = [figure.axes[k].images[0].get_clim() for k in (2, 3)]
    assert shared[0] == shared[1]


def test_slices_of_more_dimensions(cart):
    lower, upper = cart.problem.grid.lower[1], cart.problem.grid.upper[1]
    table = cart.policy.reshape(3, 4, 5, 6)
    for velocity, node in ((lower, 0), (lower + 0.4 * (upper - lower), 1), (upper, 3)):
        figure = plot(cart, axes=(2, 0), at=[0, velocity, 0, cart.problem.grid.upper[3]])
        [[actions], _] = panels(figure, 1)
        np.testing.assert_array_equal(actions, cart.problem.actions[table[:, node, :, 5]].T)
    names = cart.problem.axis_names
    assert figure.get_suptitle() == f"{names[1]} = {upper:.3g}, {names[3]} = {cart.problem.grid.upper[3]:.3g}"


def test_each_coordinate_of_the_action_has_a_row():
    problem = zoo.repelling_agents(points=5)
    q = np.random.default_rng(1).normal(size=(25, problem.num_actions))
    reference = Solution(problem, q, History(), "made up", True, q, q, 0.0)
    figure = plot(reference, Solution(problem, -q, History(), "made up", True))
    [first, second, values] = panels(figure, 3)
    chosen = np.asarray(problem.actions)[q.argmax(axis=1)].reshape(5, 5, 2)
    np.testing.assert_array_equal(first[0], chosen[:, :, 0])
    np.testing.assert_array_equal(second[0], chosen[:, :, 1])
    assert second[2] is None and values[2] is not None


def test_a_train_is_asked_at_the_nodes():
    """The value of a train is its own; the action is the one of a backup of it."""
    problem = zoo.double_integrator(points=[4, 5], num_actions=3, law="linear")
    solution = solve_tensor(problem, sampler=IID(4), rank=3, max_rank=3, iterations=2)
    best = solve_exact(problem, tolerance=1e-2)
    figure = plot(best, solution)
    [[_, actions, lost], [_, values, error]] = panels(figure, 3)
    states = problem.grid.states()
    np.testing.assert_array_equal(actions, solution.actions(states).reshape(4, 5))
    np.testing.assert_allclose(values, solution.value(states).reshape(4, 5), rtol=1e-6)
    chosen = best.q[np.arange(20), solution.policy(states)].reshape(4, 5)
    np.testing.assert_allclose(lost, best.value.reshape(4, 5) - chosen, atol=1e-9)
    np.testing.assert_allclose(error, values - best.value.reshape(4, 5))
    turned = panels(plot(solution, axes=(1, 0)), 1)
    np.testing.assert_array_equal(turned[0][0], actions.T)


def test_names_stay_text(tmp_path):
    posed = swing()
    hostile = Problem(posed.grid, posed.actions, posed.kernel, posed.reward, 0.9, axis_names=("$\\bad", "ω$"))
    q = np.random.default_rng(2).normal(size=(35, 3))
    figure = plot(Solution(hostile, q, History(), "made up", True), titles=["$\\frac$"])
    for suffix in (".png", ".pdf", ".svg"):
        path = tmp_path / f"map{suffix}"
        write_plot(path, figure)
        assert is_plot(path)
    assert figure.axes[0].get_title() == plain("$\\frac$") == "\\$\\frac\\$"
    (tmp_path / "other.png").write_bytes(b"\x89PNG")
    assert not is_plot(tmp_path / "other.png")


def test_refusals(exact, cart):
    with pytest.raises(ValueError, match="at least one solution"):
        plot()
    with pytest.raises(ValueError, match=r"axes must be two different ones of 0 to 1, got \(0, 0\)"):
        plot(exact, axes=(0, 0))
    with pytest.raises(ValueError, match="titles must have one entry per solution, got 2 for 1"):
        plot(exact, titles=["a", "b"])
    with pytest.raises(ValueError, match="at must be a state of 2 coordinates"):
        plot(exact, at=[0.0])
    with pytest.raises(ValueError, match="at must lie in the box, and on axis 1 it is 99"):
        plot(cart, at=[0, 99, 0, 0])
    with pytest.raises(ValueError, match="on axis 0 it is nan"):
        plot(exact, at=[np.nan, 0])
    with pytest.raises(ValueError, match="must be of one problem"):
        plot(exact, cart)
    with pytest.raises(ValueError, match="is NaN in 1 entries"):
        plot(dataclasses.replace(exact, q=np.where(np.arange(exact.q.size).reshape(exact.q.shape) == 4, np.nan, exact.q)))
