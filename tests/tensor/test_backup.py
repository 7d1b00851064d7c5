"""Backups of trains against the exact solver and against sums written out in NumPy."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.cells import all_rows
from hamq.problem.tables import reward_table
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.iid import IID
from hamq.tensor.backup import Bellman, Engine
from hamq.tensor.choice import make_choices
from hamq.tensor.contraction import padded
from hamq.tensor.expectation import make_expectation
from tests.tensor.posed import pose_plane


def engine_of(problem, order=(1, 0), sampler=None, max_enumerated=32, num_starts=1):
    choices = make_choices(problem, max_enumerated)
    sampler = Exhaustive() if sampler is None else sampler
    return Engine(Bellman(problem, choices, make_expectation(problem, sampler, choices, order, 0), order), num_starts)


def as_cores(problem, value, order=(1, 0)):
    """A table of V on a plane as a padded train with its axes in this order."""
    table = value.reshape(problem.grid.points).transpose(order)
    left, strengths, right = np.linalg.svd(table, full_matrices=False)
    train = (left[None], (strengths[:, None] * right)[:, :, None])
    return jnp.asarray(padded(train, len(strengths)))


@functools.cache
def solved(ends=False):
    problem = pose_plane(terminal=(lambda state: state[0] > 1.2) if ends else None)
    return problem, hamq.solve_exact(problem)


def levels_of_all(problem, count):
    return np.broadcast_to(np.arange(problem.num_actions, dtype=np.int32)[None, :, None], (count, problem.num_actions, 1))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_exact_value_is_a_fixed_point(order):
    """V* of law="linear" on its own nodes: its backup, its actions and its Q, in float32."""
    problem, exact = solved()
    engine, cores = engine_of(problem, order), as_cores(problem, exact.value, order)
    states = problem.grid.states().astype(np.float32)
    values, levels = engine.greedy(cores, states)
    scale = np.abs(exact.value).max()
    np.testing.assert_allclose(values, exact.value, atol=1e-4 * scale)
    q = engine.action_values(cores, states, levels_of_all(problem, len(states)))
    np.testing.assert_allclose(q, exact.q, atol=1e-4 * scale)
    # Where two actions are equal to rounding either is right.
    np.testing.assert_allclose(exact.q[np.arange(len(states)), levels[:, 0]], exact.value, atol=1e-4 * scale)
    np.testing.assert_allclose(engine.interpolate(cores, states), exact.value, atol=1e-5 * scale)


def test_backup_of_any_value():
    """r + γ·Σ P·V written out, for a V that is no fixed point; evaluate, kept or anew, is its row of Q."""
    problem, _ = solved()
    value = np.random.default_rng(0).standard_normal(problem.num_states)
    rows = all_rows(problem, 1e-9).masses
    q = reward_table(problem) + problem.discount * rows @ value
    engine, cores = engine_of(problem), as_cores(problem, value)
    states = problem.grid.states().astype(np.float32)
    np.testing.assert_allclose(engine.action_values(cores, states, levels_of_all(problem, len(states))), q, atol=1e-4)
    levels = np.random.default_rng(1).integers(0, 3, (len(states), 1)).astype(np.int32)
    chosen = q[np.arange(len(states)), levels[:, 0]]
    np.testing.assert_allclose(engine.evaluate_anew(cores, states, levels), chosen, atol=1e-4)
    np.testing.assert_allclose(engine.greedy(cores, states)[0], q.max(axis=1), atol=1e-4)


def test_what_is_kept_belongs_to_the_best_action():
    """Kept with one V, evaluated with another: r + γ·E[V] of the actions that were best for the first."""
    problem, exact = solved()
    engine, states = engine_of(problem), problem.grid.states().astype(np.float32)
    _, levels, kept = engine.greedy_and_keep(as_cores(problem, exact.value), states)
    assert len(set(levels[:, 0].tolist())) == 3
    other = as_cores(problem, np.random.default_rng(0).standard_normal(problem.num_states))
    anew = engine.evaluate_anew(other, states, levels)
    np.testing.assert_allclose(engine.evaluate(other, kept, len(states)), anew, atol=1e-5)


def test_terminal_states_are_worth_nothing():
    problem, exact = solved(ends=True)
    engine, cores = engine_of(problem), as_cores(problem, exact.value)
    states = problem.grid.states().astype(np.float32)
    ended = states[:, 0] > 1.2
    assert 0 < ended.sum() < len(states) and np.all(exact.value[ended] == 0)
    levels = np.zeros((len(states), 1), np.int32)
    values, _, kept = engine.greedy_and_keep(cores, states)
    kept = engine.evaluate(cores, kept, len(states))
    anew = engine.evaluate_anew(cores, states, levels)
    for found in (values, kept, anew):
        assert np.all(found[ended] == 0) and np.all(found[~ended] != 0)
    np.testing.assert_allclose(values, exact.value, atol=1e-4 * np.abs(exact.value).max())


def test_chunks_do_not_matter():
    """1, a chunk, one more than a chunk: every state has the value it has among the others."""
    problem, exact = solved()
    engine, cores = engine_of(problem), as_cores(problem, exact.value)
    size = engine._chunk
    low, high = problem.grid.lower, problem.grid.upper
    states = np.random.default_rng(0).uniform(low, high, (size + 1, 2)).astype(np.float32)
    whole, levels = engine.greedy(cores, states)
    assert whole.shape == (size + 1,) and levels.shape == (size + 1, 1)
    for part in (slice(0, 1), slice(0, size), slice(size, size + 1)):
        values, chosen, kept = engine.greedy_and_keep(cores, states[part])
        np.testing.assert_array_equal(values, whole[part])
        np.testing.assert_array_equal(chosen, levels[part])
        np.testing.assert_allclose(engine.evaluate(cores, kept, len(chosen)), values, atol=1e-5)


def test_what_was_done_is_counted():
    problem, exact = solved()
    engine, cores = engine_of(problem, sampler=IID(8)), as_cores(problem, exact.value)
    states = problem.grid.states().astype(np.float32)[:5]
    _, levels, kept = engine.greedy_and_keep(cores, states)
    assert (engine.reads, engine.pairs, engine.cost.samples) == (5, 15, 120)
    engine.evaluate(cores, kept, 5)
    assert (engine.reads, engine.pairs, engine.cost.samples) == (10, 15, 120)
    engine.evaluate_anew(cores, states, levels)
    assert (engine.reads, engine.pairs, engine.cost.samples) == (15, 20, 160)


def test_draws_give_what_sums_give():
    """The same law by 2000 shared draws: within what 2000 antithetic draws leave."""
    problem, exact = solved()
    cores = as_cores(problem, exact.value)
    states = problem.grid.states().astype(np.float32)[::5]
    exactly, drawn = (engine_of(problem, sampler=s).greedy(cores, states)[0] for s in (None, IID(2000)))
    np.testing.assert_allclose(drawn, exactly, atol=0.01 * np.abs(exact.value).max())


def test_states_of_indices():
    """Multi-indices are in the order of the cores, states in the order of the grid."""
    problem, _ = solved()
    engine = engine_of(problem, (1, 0))
    indices = np.asarray([[6, 0], [2, 5]])
    nodes = [problem.grid.axis_nodes(0), problem.grid.axis_nodes(1)]
    expected = [[nodes[0][0], nodes[1][6]], [nodes[0][5], nodes[1][2]]]
    np.testing.assert_allclose(engine.states(indices), expected, rtol=1e-6)


def test_coordinate_search_starts_from_its_own_and_from_shared_starts():
    """Two actuators that only pay together: found from next to the prize, missed from the middle."""
    levels = hamq.ProductActions([[-1.0, 0.0, 1.0]] * 2)

    def reward(state, action):
        return jnp.where(jnp.all(action == 1), 5.0, -jnp.sum(action**2)) + 0 * jnp.sum(state)

    def mean(state, action):
        return 0.5 * state + 0.01 * action

    problem = hamq.Problem(
        hamq.Grid([-1.0, -1.0], [1.0, 1.0], [3, 3]),
        levels,
        hamq.GaussianKernel(mean, [0.1, 0.1]),
        reward,
        0.5,
        law="linear",
        expected=("outside", "noise", "aliasing"),
    )
    states, cores = np.zeros((1, 2), np.float32), as_cores(problem, np.zeros(9), (0, 1))
    engine = engine_of(problem, (0, 1), max_enumerated=4, num_starts=1)
    assert engine.bellman.choices.sizes == (3, 3)
    assert engine.greedy(cores, states)[0][0] == 0
    found, chosen, kept = engine.greedy_and_keep(cores, states, np.asarray([[0, 2]], np.int32))
    assert found[0] == pytest.approx(5) and chosen[0].tolist() == [2, 2]
    assert engine.evaluate(cores, kept, 1)[0] == pytest.approx(5)
    engine.starts = jnp.asarray([[0, 2], [1, 1]], jnp.int32)
    assert engine.greedy(cores, states)[0][0] == pytest.approx(5)
