"""The order of the axes: chains are found again after their axes were shuffled."""

import time

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.tensor.choice import make_choices
from hamq.tensor.ordering import arranged, couplings, find_order


def shuffled(problem, places):
    """The same problem whose axis i is axis places[i] of the original; of its noise only the variances."""
    kernel, grid = problem.kernel, problem.grid
    back, places = np.argsort(places), np.asarray(places)

    def mean(state, action):
        return kernel.mean(state[back], action)[places]

    def pick(values):
        return [values[i] for i in places]

    covariance = np.asarray(kernel.covariance)
    variances = covariance if covariance.ndim == 1 else np.diag(covariance)
    return Problem(
        Grid(pick(grid.lower), pick(grid.upper), pick(grid.points)),
        problem.actions,
        GaussianKernel(mean, variances[places]),
        lambda state, action: problem.reward(state[back], action),
        problem.discount,
        law="linear",
        expected=("outside", "noise", "aliasing"),
    )


def order_of(problem):
    return find_order(problem, make_choices(problem))


def masses_in_a_row(order, places):
    """The numbers of the masses along the train, each once."""
    masses = [int(places[axis]) // 2 for axis in order]
    return [m for i, m in enumerate(masses) if i == 0 or masses[i - 1] != m]


@pytest.mark.parametrize("name", ["spring_chain", "pendulum_chain"])
@pytest.mark.parametrize("seed", range(3))
def test_a_shuffled_chain_is_found_again(name, seed):
    """Position and velocity of a mass side by side, masses in their row: from the left or from the right."""
    num = 5
    problem = getattr(hamq.problems, name)(num, points=3)
    places = np.random.default_rng(seed).permutation(2 * num)
    found = masses_in_a_row(order_of(shuffled(problem, places)), places)
    assert found in (list(range(num)), list(range(num))[::-1])


def test_a_chain_stays_as_it_is():
    order = order_of(hamq.problems.pendulum_chain(4, points=3))
    assert masses_in_a_row(order, range(8)) in ([0, 1, 2, 3], [3, 2, 1, 0])


def test_nothing_to_do_where_nothing_depends_on_anything():
    grid = Grid([-1.0] * 6, [1.0] * 6, [3] * 6)
    kernel = GaussianKernel(lambda s, a: 0.5 * s, [0.1] * 6)
    problem = Problem(grid, [0.0, 1.0], kernel, lambda s, a: jnp.sum(s), 0.9, law="linear", expected=("noise", "aliasing"))
    assert order_of(problem) == (0, 1, 2, 3, 4, 5)
    assert np.all(couplings(problem, make_choices(problem)) == 0)


def test_correlated_noise_is_a_bond():
    covariance = 0.1 * np.eye(5)
    for i, j in ((0, 3), (3, 1), (1, 4), (4, 2)):
        covariance[i, j] = covariance[j, i] = 0.04
    kernel = GaussianKernel(lambda s, a: 0.5 * s, covariance)
    grid = Grid([-1.0] * 5, [1.0] * 5, [3] * 5)
    problem = Problem(grid, [0.0, 1.0], kernel, lambda s, a: jnp.sum(s), 0.9, law="linear", expected=("noise", "aliasing"))
    assert order_of(problem) in ((0, 3, 1, 4, 2), (2, 4, 1, 3, 0))


def test_an_unnormalised_chain():
    """log p couples next coordinate i to next i + 1 and to state i, in shuffled names; d = 5."""
    places = np.asarray([3, 0, 4, 1, 2])

    def logdensity(next_state, state, action):
        x, s = next_state[places], state[places]
        return -2 * jnp.sum((x - s) ** 2) - jnp.sum(jnp.cos(x[1:] - x[:-1])) + 0 * action

    grid = Grid([-1.0] * 5, [1.0] * 5, [3] * 5)
    kernel = UnnormalizedKernel(logdensity)
    problem = Problem(grid, [0.0, 1.0], kernel, lambda s, a: jnp.sum(s), 0.9, law="linear", expected=("noise", "aliasing"))
    assert order_of(problem) in ((3, 0, 4, 1, 2), (2, 1, 4, 0, 3))


def test_sixty_axes_take_seconds():
    """A ring of 60: no order is shorter than 2·59 bonds, and the one that is found is."""
    d = 60
    names = np.random.default_rng(0).permutation(d)
    weights = np.zeros((d, d))
    weights[names, np.roll(names, 1)] = 1
    weights = weights + weights.T
    began = time.process_time()
    order = arranged(weights)
    assert time.process_time() - began < 10  # 2 on a laptop; a search without bounds takes minutes
    assert sorted(order) == list(range(d))
    # Every pair counts twice. A ring laid flat has 2·(d − 1), which is least; a random order is 7 times as long.
    assert length(weights, order) <= 1.25 * 2 * 2 * (d - 1)
    assert length(weights, np.arange(d)) > 5 * 2 * 2 * (d - 1)


def length(weights, order):
    place = np.argsort(order)
    return np.sum(weights * np.abs(place[:, None] - place[None, :]))
