"""Draws for targets: the sampler's own, coupled, in independent sets; expectations that they give."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.deep.targets import Chosen, choose, draw_sets, expectations, settled_sets
from hamq.exact.bellman import make_operator
from hamq.learning.draws import prepare
from hamq.problem.problem import action_values
from hamq.sampling.draws import Target
from hamq.sampling.exhaustive import Exhaustive, masses_cost
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from tests.deep.posed import pose
from tests.stats import assert_mean_equals

NUM_SETS = 400
SAMPLERS = {"hmc": HMC(50, calibrate=False), "iid": IID(20), "importance": Importance(200)}


PROBLEM, CIRCLE = pose(), pose(periodic=True)


def drawn(problem, sampler, num_sets, key=0, snap=True):
    sampler, _ = prepare(problem, sampler, key=jr.key(1), by_calls=False)
    draw = jax.jit(lambda key: draw_sets(problem, sampler, action_values(problem), num_sets, key=key, snap=snap))
    return (sampler, *draw(jr.key(key)))


def table_of(problem, sets, value):
    """E[V'] of every pair and set, `[S, A, sets]`."""
    num_states, num_actions, num_sets = sets.weights.shape[:3]
    shape = (num_states, num_actions * num_sets)
    action, number = (i.reshape(-1) for i in np.indices((num_actions, num_sets), np.int32))
    every = Chosen(
        *map(jnp.asarray, (np.arange(num_states), np.broadcast_to(action, shape), np.broadcast_to(number, shape)))
    )
    return np.asarray(jax.jit(expectations)(sets, every, value)).reshape(num_states, num_actions, num_sets)


def value_of(problem):
    """A table that varies by 1 around 100, asymmetric."""
    x, y = problem.grid.states().T
    return 100 + 0.5 * np.sin(3 * x) + 0.2 * y**2


def exact_expectations(problem, value):
    operator = make_operator(problem)
    return (operator.backup(value) - operator.rewards) / problem.discount


@pytest.mark.parametrize("periodic", [False, True], ids=["box", "circle"])
def test_exhaustive_targets_are_exact(periodic):
    problem = CIRCLE if periodic else PROBLEM
    _, sets, spent = drawn(problem, Exhaustive(), settled_sets(Exhaustive(), 20, 7, 400))
    value = value_of(problem)
    found = table_of(problem, sets, jnp.asarray(value, jnp.float32))
    assert found.shape == (20, 3, 1), "nothing is random: one set"
    np.testing.assert_allclose(found[..., 0], exact_expectations(problem, value), atol=3e-5)
    assert np.all(np.asarray(spent.density_evaluations) == 3 * masses_cost(problem))


@pytest.mark.parametrize("name", SAMPLERS)
def test_targets_have_the_exact_mean(name):
    problem = CIRCLE if name == "iid" else PROBLEM
    _, sets, spent = drawn(problem, SAMPLERS[name], NUM_SETS)
    value = value_of(problem)
    found = table_of(problem, sets, jnp.asarray(value, jnp.float32))
    assert_mean_equals(np.moveaxis(found, 2, 0), exact_expectations(problem, value), resolution=0.1)
    assert not np.any(spent.has_failed)


def draws_of_their_own(sampler):
    """(draws, where they are on the grid, what they cost) of a few sets, each drawn alone."""

    @jax.jit
    def draw(state, action, number, which):
        set_key = jr.split(jr.fold_in(jr.key(4), number), 3)[which]
        draws, info = sampler.draw(Target(PROBLEM, state, action), key=set_key)
        return draws, jax.vmap(PROBLEM.grid.locate, in_axes=1)(draws.points), info

    states, actions = PROBLEM.grid.states().astype(np.float32), np.asarray(action_values(PROBLEM))
    found = {(s, a, k): draw(states[s], actions[a], s, k) for s, a, k in ((0, 0, 0), (7, 2, 1), (7, 1, 1), (19, 2, 2))}
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize(("snap", "sampler"), [(True, HMC(5, num_leapfrog=2)), (False, IID(5))], ids=["snapped", "points"])
def test_sets_are_the_samplers_draws_coupled(snap, sampler):
    """Set i of a state draws with one key for all its actions."""
    sampler, sets, spent = drawn(PROBLEM, sampler, 3, key=4, snap=snap)
    of_their_own = draws_of_their_own(sampler)
    for (s, a, k), (draws, located, _) in of_their_own.items():
        if snap:
            np.testing.assert_array_equal(sets.locations[s, a, k], located)
        else:
            np.testing.assert_allclose(sets.locations[s, a, k], draws.points, atol=1e-5)
        np.testing.assert_allclose(sets.weights[s, a, k], np.exp(draws.log_weights), atol=1e-5)
    for count in ("density_evaluations", "gradient_evaluations"):
        assert getattr(spent, count)[7] == 9 * getattr(of_their_own[7, 1, 1][2], count)


def test_points_are_evaluated_where_they_are():
    _, sets, _ = drawn(PROBLEM, IID(6), 2, snap=False)
    chosen = Chosen(jnp.asarray([3, 11]), jnp.asarray([[0, 2], [1, 1]]), jnp.asarray([[1, 0], [0, 1]]))
    found = jax.jit(lambda *given: expectations(*given, lambda points: 5 + points[:, 0] * points[:, 1] ** 2))(sets, chosen)
    sets = jax.tree.map(np.asarray, sets)
    for r, s in enumerate((3, 11)):
        for m in range(2):
            a, k = int(chosen.action[r, m]), int(chosen.set[r, m])
            x, y = np.asarray(sets.locations[s, a, k], np.float64)
            expected = np.sum(np.asarray(sets.weights[s, a, k]) * (5 + x * y**2))
            np.testing.assert_allclose(found[r, m], expected, rtol=1e-5)


def test_pairs_are_chosen_uniformly():
    chosen = choose(4, 3, 2, 20_000, False, key=jr.key(0))
    assert chosen.action.shape == (20_000, 1)
    numbers = np.stack([chosen.state, chosen.action[:, 0], chosen.set[:, 0]], axis=1)
    counts = np.bincount(numbers @ [6, 2, 1], minlength=24)
    assert np.all(np.abs(counts - 20_000 / 24) < 5 * np.sqrt(20_000 / 24))


def test_whole_rows_have_all_actions_and_one_set():
    chosen = choose(50, 3, 40, 7, True, key=jr.key(0))
    np.testing.assert_array_equal(chosen.action, np.tile(np.arange(3), (3, 1)))  # 7 pairs are rounded up to 3 rows
    sets = np.asarray(chosen.set)
    assert np.all(sets == sets[:, :1])
    assert len(set(sets[:, 0].tolist())) > 1 and len(set(np.asarray(chosen.state).tolist())) > 1


def test_sets_make_the_draws_asked_for():
    assert settled_sets(IID(100), 100, None, 400) == 4
    assert settled_sets(IID(1), 1, None, 400) == 400
    assert settled_sets(IID(300), 300, None, 400) == 2
    assert settled_sets(IID(100), 100, 7, 400) == 7
    assert settled_sets(Exhaustive(), 625, 7, 400) == 1
