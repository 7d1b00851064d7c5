"""Exact answers of independent coordinates that are not normal: against value iteration in NumPy on reference masses."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.exact.axis_masses import axis_masses
from hamq.exact.bellman import make_operator
from hamq.exact.factored import FactoredLaw
from hamq.problem.cells import DoesNotFit
from hamq.problem.kernels.axes import AxesKernel
from tests.problem.axes import DEPENDS_ON, pose, reference, reward


@functools.cache
def solved_in_numpy(law, points=(4, 3, 4, 5)):
    """Q* of dense rows, each the outer product of reference masses, swept until nothing moves."""
    problem = pose(points=points, law=law)
    states, actions = problem.grid.states(), np.asarray(problem.actions)
    rewards = reward(states.T[:, :, None], actions[None, :], np)
    rows = np.empty((len(states), len(actions), len(states)))
    for i, state in enumerate(states):
        for j, action in enumerate(actions):
            each = [reference(axis, state, action, n, law) for axis, n in enumerate(points)]
            rows[i, j] = functools.reduce(np.multiply.outer, each).ravel()
    q = np.zeros_like(rewards)
    for _ in range(250):
        q = rewards + problem.discount * rows @ q.max(axis=1)
    return problem, q


@pytest.mark.parametrize("law", ["cell", "linear", "point"])
def test_exact_against_numpy(law):
    problem, q = solved_in_numpy(law)
    exact = hamq.solve_exact(problem, tolerance=1e-4)
    assert exact.converged and exact.error <= 1e-4
    assert np.abs(exact.q - q).max() <= exact.error + 1e-9
    assert np.all(exact.lower <= q + 1e-9) and np.all(q <= exact.upper + 1e-9)
    assert exact.result.startswith("certified to" if law == "point" else "estimated to")


def test_the_error_of_the_axes_is_in_the_bound():
    """Loose masses, one row per value of what an axis depends on; the bound counts what all axes may miss."""
    problem = pose(points=(4, 3, 4, 5))
    loose, tight = (axis_masses(problem, DEPENDS_ON, tolerance) for tolerance in (1e-2, 1e-9))
    assert [factor.table.shape for factor in tight.factors] == [(4, 3, 4), (3, 3, 3), (4, 4), (4, 5, 3, 5)]
    assert 0 < tight.error <= 1e-9 and tight.error < loose.error <= 1e-2
    away = sum(0.5 * np.abs(a.table - b.table).sum(axis=-1).max() for a, b in zip(loose.factors, tight.factors, strict=True))
    assert away <= loose.error
    operator, value = make_operator(problem, 1e-2), np.linspace(-3, 5, problem.num_states)
    assert operator.law.quadrature_error == loose.error and operator.is_estimated
    assert operator.slack(value) >= problem.discount * loose.error * 8
    assert operator.law.evaluations == loose.evaluations > 0


def test_masses_are_shared_by_what_an_axis_does_not_see():
    """The whole law against rows of every pair."""
    problem = pose(points=(4, 3, 4, 5))
    law, value = FactoredLaw(problem, tolerance=1e-8), np.random.default_rng(0).normal(size=problem.num_states)
    assert law.depends_on == DEPENDS_ON
    states, actions = problem.grid.states(), np.asarray(problem.actions)
    found = law(value)
    for s, a in np.random.default_rng(1).integers((0, 0), (len(states), len(actions)), (40, 2)):
        each = [reference(axis, states[s], actions[a], n, "cell") for axis, n in enumerate(problem.grid.points)]
        expected = functools.reduce(np.multiply.outer, each).ravel() @ value
        assert abs(found[s, a] - expected) <= 1e-6


def test_too_many_evaluations_are_refused():
    with pytest.raises(DoesNotFit, match=r"density evaluations for the masses of its axes, and 1\.00e\+03 are allowed"):
        hamq.solve_exact(pose(), max_evaluations=1000)


def test_progress_is_told():
    told = []
    make_operator(pose(points=(3, 3, 3, 3)), progress=lambda *said: told.append(said))
    done = [said[1] for said in told]
    assert done == sorted(done) and told[-1][1] == told[-1][2] == 9 + 9 + 3 + 27
    assert told[0][0] == "integrating the density"


def test_an_axis_may_depend_on_nothing():
    """White noise on every axis: Q* − r is the same number for all pairs."""
    kernel = AxesKernel([lambda x, s, a: -x, lambda x, s, a: jnp.where(x < 0.4, 0.0, -jnp.inf)])
    problem = pose((0, 2), (5, 4), kernel=kernel)
    assert FactoredLaw(problem).depends_on == [(), ()]
    exact = hamq.solve_exact(problem, tolerance=1e-5)
    rewards = make_operator(problem).rewards
    assert np.ptp(exact.q - rewards) < 1e-9
    masses = np.exp(-problem.grid.axis_edges(0))
    income = -np.diff(masses) / (masses[0] - masses[-1])
    edges = np.minimum(problem.grid.axis_edges(1), 0.4)
    luck = np.diff(edges) / np.diff(edges).sum()
    expected = problem.discount / (1 - problem.discount) * np.outer(income, luck).ravel() @ rewards.max(axis=1)
    np.testing.assert_allclose((exact.q - rewards)[0, 0], expected, atol=2e-5)
