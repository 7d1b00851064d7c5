"""Training: repeatable, side by side, recorded, paid for; and it learns."""

import functools
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.certificates.comparison import compare
from hamq.deep.config import deep_config
from hamq.deep.train import make_train, train_seeds
from hamq.exact.bellman import make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.problem import zoo
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from tests.deep.posed import ends, pose, tiny

PROBLEM = pose(terminal=ends)
RUNNING = pose()


@functools.cache
def exact():
    return solve_exact(PROBLEM)


@functools.cache
def seeds_of(algorithm):
    """Seeds 0, 1 and again 0 of a short run, made once: DQN with draws, DDPG with sums."""
    sampler = IID(3) if algorithm == "dqn" else Exhaustive()
    train = make_train(PROBLEM, tiny(algorithm=algorithm, steps=20, num_records=2), sampler, exact())
    compiled = jax.jit(train)
    return train, [jax.tree.map(np.asarray, compiled(jr.key(seed))) for seed in (0, 1, 0)]


@pytest.mark.parametrize("algorithm", ["dqn", "ddpg"])
def test_seeds_decide(algorithm):
    _, (first, other, again) = seeds_of(algorithm)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    running = ~ends(PROBLEM.grid.states().T)
    assert np.all((first.q != other.q)[running])


@pytest.mark.parametrize("algorithm", ["dqn", pytest.param("ddpg", marks=pytest.mark.slow)])
def test_side_by_side_is_one_by_one(algorithm):
    train, singles = seeds_of(algorithm)
    together = jax.jit(jax.vmap(train))(jnp.stack([jr.key(0), jr.key(1)]))
    for i, single in enumerate(singles[:2]):
        np.testing.assert_allclose(together.q[i], single.q, atol=1e-3)
        np.testing.assert_allclose(together.curves.frobenius[i], single.curves.frobenius, atol=1e-4)


def test_nothing_is_worth_anything_at_the_end():
    ended = make_operator(PROBLEM).ended
    assert ended is not None and 0 < ended.sum() < 20
    for algorithm in ("dqn", "ddpg"):
        q = seeds_of(algorithm)[1][0].q
        assert np.all(q[ended] == 0) and np.all(q[~ended] != 0)


@pytest.mark.parametrize("algorithm", ["dqn", "ddpg"])
def test_curves_are_the_distances_of_the_tables(algorithm):
    trained = seeds_of(algorithm)[1][0]
    found = compare(trained.q, exact())
    curves = trained.curves
    np.testing.assert_array_equal(curves.step, [0, 10, 20])
    np.testing.assert_allclose(curves.frobenius[-1], found.frobenius, rtol=1e-4)
    np.testing.assert_allclose(curves.advantage[-1], found.advantage, rtol=1e-4)
    np.testing.assert_allclose(curves.mse[-1], np.mean((trained.q - exact().q) ** 2), rtol=1e-4)
    np.testing.assert_array_equal(curves.policies[-1], trained.policy)
    np.testing.assert_array_equal(trained.greedy, np.argmax(trained.q, axis=1))
    if algorithm == "dqn":
        assert trained.actions is None
        np.testing.assert_array_equal(trained.policy, trained.greedy)


def test_results_are_counted():
    config = tiny(steps=20, num_records=2)
    (result,) = train_seeds(RUNNING, config, HMC(6, num_leapfrog=2), [5])
    cost, history = result.cost, result.history
    assert (cost.samples, cost.samples_drawn) == (20 * 4 * 6, 20 * 3 * 2 * 6)
    np.testing.assert_array_equal(history.samples, [0, 240, 480])
    per_set = (6 + 5) * 2 + 1  # leapfrog steps of 6 draws after a warm-up of 5, and the start
    searched, rest = divmod(cost.gradient_evaluations - 120 * per_set, 120)
    assert searched >= 0 and rest == 0, "mode search costs the same for every set"
    np.testing.assert_array_equal(history.gradient_evaluations, cost.gradient_evaluations)
    np.testing.assert_allclose(history.fresh_gradient_evaluations, np.asarray([0, 40, 80]) * (per_set + searched))
    assert np.all(np.isnan(history.frobenius)), "no exact table was given"
    assert "dqn on 'posed', seed 5" in repr(result)


@pytest.mark.parametrize(
    ("algorithm", "sampler", "size"),
    [
        pytest.param("dqn", Exhaustive(), 81, marks=pytest.mark.slow, id="dqn-exhaustive"),
        pytest.param("dqn", IID(1), 1, id="dqn-one"),
        pytest.param("ddpg", IID(20), 20, marks=pytest.mark.slow, id="ddpg-iid"),
    ],
)
def test_it_learns(algorithm, sampler, size):
    """Two seeds in seconds: within 3 % of Q*, and less than a third of the best constant action's loss.

    Batches are whole rows, which are counted: 148 pairs are rounded up to 30 rows of 5.
    """
    problem = zoo.double_integrator(points=9, num_actions=5 if algorithm == "dqn" else 21, discount=0.9)
    exact, operator = solve_exact(problem), make_operator(problem)
    steps = 2000
    changes = {"steps": steps, "batch_size": 148, "learning_rate": 4e-3, "width": 32, "num_train_actions": 5}
    config = deep_config("faster", algorithm, **changes)
    for result in train_seeds(problem, config, sampler, range(2), exact):
        assert result.cost.samples == steps * 150 * size
        start, end = result.history.frobenius[[0, -1]]
        assert end < 0.03 < 0.3 < start
        loss = np.mean(exact.value - operator.evaluate(result.policy).value)
        assert loss < compare(exact, exact, operator).constant_action_loss / 3


@pytest.mark.parametrize(
    ("sampler", "law", "snap", "message"),
    [
        (IID(2), "linear", True, "law='linear'.*use law='cell', or snap=False"),
        (Exhaustive(), "cell", False, "no use for Exhaustive.*use snap=True"),
        (IID(2), "point", False, "needs a continuous law, got law='point'"),
        (HMC(2), "point", True, "HMC draws from the continuous density"),
    ],
)
def test_laws_that_do_not_fit(sampler, law, snap, message):
    with pytest.raises(ValueError, match=message):
        make_train(pose(law=law), tiny(snap=snap), sampler)


def test_an_exact_table_of_another_problem():
    with pytest.raises(ValueError, match=r"exact has shape \(20, 4\).*20 states × 3 actions"):
        make_train(RUNNING, tiny(), IID(2), np.zeros((20, 4)))


def test_no_seeds():
    with pytest.raises(ValueError, match="at least one seed, got none"):
        train_seeds(RUNNING, tiny(), IID(2), [])


def test_without_optax(monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    monkeypatch.delitem(sys.modules, "hamq.deep.loop")
    with pytest.raises(ImportError, match=r"pip install 'hamq\[deep\]'"):
        import hamq.deep.loop  # noqa: F401
