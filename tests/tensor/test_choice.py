"""The best action: enumeration is exact, coordinates are exact where they do not interact and never lose."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.tensor.choice import best, best_and_more, make_choices

NUM_STATES = 12


def pose(actions):
    return Problem(
        Grid([-1.0, -1.0], [1.0, 1.0], [3, 3]),
        actions,
        GaussianKernel(lambda s, a: 0.5 * s, [0.3, 0.3]),
        lambda s, a: jnp.sum(s),
        0.9,
        law="linear",
        expected=("outside", "noise", "aliasing"),
    )


UNEVEN = ProductActions([[-1.0, 0.0, 1.0, 3.0], [2.0, 5.0], [-0.3, 0.0, 0.9]])


def test_few_actions_are_one_list():
    problem = pose(UNEVEN)
    choices = make_choices(problem)
    assert choices.sizes == (24,) and not choices.is_product
    listed = np.asarray([choices.action(jnp.asarray([i])) for i in range(24)])
    np.testing.assert_allclose(listed, list(itertools.product(*UNEVEN.levels)), rtol=1e-6)
    np.testing.assert_array_equal(choices.actions(np.arange(24)[:, None]), listed)


def test_scalars_stay_scalars():
    choices = make_choices(pose([-1.0, 0.5, 2.0]))
    assert choices.sizes == (3,) and choices.action(jnp.asarray([1])).shape == ()
    assert float(choices.action(jnp.asarray([2]))) == 2.0


def test_many_actions_are_levels():
    choices = make_choices(pose(UNEVEN), max_enumerated=5)
    assert choices.sizes == (4, 2, 3) and choices.is_product and choices.tables.shape == (3, 4)
    for levels in itertools.product(range(4), range(2), range(3)):
        expected = [UNEVEN.levels[i][level] for i, level in enumerate(levels)]
        np.testing.assert_allclose(choices.action(jnp.asarray(levels)), expected, rtol=1e-6)
        np.testing.assert_array_equal(choices.actions(np.asarray([levels]))[0], choices.action(jnp.asarray(levels)))
    assert choices.middle().tolist() == [2, 1, 1]


def table_of_values(sizes, seed):
    return jnp.asarray(np.random.default_rng(seed).standard_normal((NUM_STATES, *sizes)), jnp.float32)


def values_from(table):
    """Q `[T, C]` of levels `[T, C, k]`, looked up."""

    def values(levels):
        return jax.vmap(lambda of_state, rows: of_state[tuple(rows.T)])(table, levels)

    return values


def test_enumeration_is_exact():
    choices = make_choices(pose(UNEVEN))
    table = table_of_values(choices.sizes, 0)
    starts = jnp.zeros((NUM_STATES, 1), jnp.int32)
    values, levels = best(choices, values_from(table), starts)
    np.testing.assert_array_equal(values, np.max(table, axis=1))
    np.testing.assert_array_equal(levels[:, 0], np.argmax(table, axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_coordinates_are_exact_where_they_do_not_interact(seed):
    choices = make_choices(pose(UNEVEN), max_enumerated=5)
    generator = np.random.default_rng(seed)
    parts = [generator.standard_normal((NUM_STATES, n)) for n in choices.sizes]
    table = parts[0][:, :, None, None] + parts[1][:, None, :, None] + parts[2][:, None, None, :]
    starts = jnp.asarray(choices.random(generator, NUM_STATES))
    values, levels = best(choices, values_from(jnp.asarray(table, jnp.float32)), starts)
    np.testing.assert_allclose(values, table.reshape(NUM_STATES, -1).max(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(levels, np.stack([part.argmax(axis=1) for part in parts], axis=1))


@pytest.mark.parametrize("seed", range(5))
def test_coupled_actuators_never_lose(seed):
    """On random tables: not below the start, the value is that of the levels, no level is padding."""
    choices = make_choices(pose(UNEVEN), max_enumerated=5)
    table = table_of_values(choices.sizes, seed)
    starts = choices.random(np.random.default_rng(seed), NUM_STATES)
    values, levels = (np.asarray(v) for v in best(choices, values_from(table), jnp.asarray(starts)))
    rows = np.arange(NUM_STATES)
    assert np.all(levels < np.asarray(choices.sizes)) and np.all(levels >= 0)
    np.testing.assert_array_equal(values, np.asarray(table)[rows, *levels.T])
    assert np.all(values >= np.asarray(table)[rows, *starts.T])
    assert np.any(values == np.max(table, axis=(1, 2, 3)))


@pytest.mark.parametrize("max_enumerated", [32, 5])
def test_a_fixed_state_keeps_its_action(max_enumerated):
    """Whatever the others do: where every value is lost, and where another start is better."""
    choices = make_choices(pose(UNEVEN), max_enumerated)
    table = table_of_values(choices.sizes, 7).at[0].set(-jnp.inf)
    generator = np.random.default_rng(0)
    starts = jnp.asarray(np.stack([choices.random(generator, NUM_STATES) for _ in range(3)]))
    is_fixed = jnp.arange(NUM_STATES) % 2 == 0

    def values(levels):
        return values_from(table)(levels), levels

    nothing = jnp.zeros(starts.shape[1:], jnp.int32)
    found, levels, more = best_and_more(choices, values, starts, nothing, is_fixed)
    free, others, _ = best_and_more(choices, values, starts, nothing)
    rows = np.arange(NUM_STATES)
    np.testing.assert_array_equal(levels, np.where(is_fixed[:, None], starts[0], others))
    np.testing.assert_array_equal(found, np.where(is_fixed, np.asarray(table)[rows, *np.asarray(starts[0]).T], free))
    np.testing.assert_array_equal(more[1:], levels[1:])


def test_starts_begin_in_the_middle():
    choices = make_choices(hamq.problems.spring_chain(4, num_actuators=4, points=3, num_actions=5))
    assert choices.sizes == (5, 5, 5, 5)
    starts = choices.starts(3)
    assert starts.shape == (3, 4) and starts[0].tolist() == [2, 2, 2, 2]
    assert np.all(starts >= 0) and np.all(starts < 5)
    assert choices.starts(0).shape == (0, 4)
    np.testing.assert_array_equal(choices.starts(5)[:3], starts)
