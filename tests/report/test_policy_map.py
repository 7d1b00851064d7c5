"""Policy maps: what is drawn is what the tables say."""

import dataclasses

import numpy as np
import pytest

from hamq.exact.value_iteration import solve_exact
from hamq.problem import zoo
from hamq.report.policy_map import plot


@pytest.fixture(scope="module")
def exact():
    return solve_exact(zoo.double_integrator(points=[7, 9]), tolerance=1e-3)


def images(figure):
    return [axes.images[0] for axes in figure.axes if axes.images and axes.get_title()]


def test_the_map_shows_the_greedy_action_of_every_state(exact):
    (image,) = images(plot(exact))
    shown = np.asarray(image.get_array())
    assert shown.shape == (9, 7)  # first coordinate to the right, second upwards
    expected = exact.problem.actions[exact.policy].reshape(7, 9)
    np.testing.assert_array_equal(shown, expected.T)


def test_the_reference_says_what_is_given_up(exact):
    worst = dataclasses.replace(exact, q=-exact.q)
    figure = plot(exact, worst, titles=["exact", "worst"])
    first, second, lost = images(figure)
    assert np.any(np.asarray(first.get_array()) != np.asarray(second.get_array()))
    given_up = (exact.q.max(axis=1) - exact.q.min(axis=1)).reshape(7, 9).T
    np.testing.assert_allclose(np.asarray(lost.get_array()), given_up)
    assert "given up, mean" in figure.axes[2].get_title()
    same = images(plot(exact, exact))[2]
    np.testing.assert_array_equal(np.asarray(same.get_array()), 0)


def test_slices_of_more_dimensions():
    solution = solve_exact(zoo.cartpole(), tolerance=1e-2)
    low, high = (images(plot(solution, axes=(2, 0), at=[0, velocity, 0, 0]))[0].get_array() for velocity in (-3.5, 3.5))
    table = solution.policy.reshape(5, 5, 5, 5)
    np.testing.assert_array_equal(np.asarray(low), solution.problem.actions[table[:, 0, :, 2]])
    assert np.any(np.asarray(low) != np.asarray(high))


def test_refusals(exact):
    with pytest.raises(ValueError, match="at least one solution"):
        plot()
    with pytest.raises(ValueError, match=r"axes must be two different ones of 0 to 1, got \(0, 0\)"):
        plot(exact, axes=(0, 0))
    with pytest.raises(ValueError, match="titles must have one entry per solution, got 2 for 1"):
        plot(exact, titles=["a", "b"])
    with pytest.raises(ValueError, match="at must be a state of 2 coordinates"):
        plot(exact, at=[0.0])
    with pytest.raises(ValueError, match="must be of one problem"):
        plot(exact, solve_exact(zoo.double_integrator(points=5), tolerance=1e-2))
