"""Random numbers of chains: threefry's, independent, and the same in however many parts they are made."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from hamq.sampling.noise import make_noise, threefry
from tests.stats import assert_mean_equals

noise = jax.jit(make_noise, static_argnums=(0, 1, 2))


def test_threefry_is_that_of_jax():
    @jax.jit
    def both(words, counter):
        wanted = threefry_2x32((words[0], words[1]), jnp.concatenate([jnp.full(50, 5, jnp.uint32), counter]))
        return threefry(words, jnp.uint32(5), counter), wanted

    found, wanted = both(np.asarray(jr.key_data(jr.key(7))), np.arange(50, dtype=np.uint32))
    np.testing.assert_array_equal(np.concatenate(found), wanted)


@pytest.mark.parametrize(("d", "jumps"), [(2, False), (2, True), (5, True)])
def test_a_part_has_the_numbers_of_the_whole(d, jumps):
    start, whole = noise(40, d, jumps, key=jr.key(1), stream=3)
    again, part = noise(15, d, jumps, key=jr.key(1), stream=3, first=20)
    jax.tree.map(np.testing.assert_array_equal, again, start)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[20:35]), part, whole)


@pytest.mark.parametrize(("d", "jumps"), [(2, True), (5, True)])
def test_numbers_are_independent_and_follow_their_laws(d, jumps):
    """40,000 transitions: every number of a transition by its own quantile transform, alone and in pairs."""
    _, made = noise(40_000, d, jumps, key=jr.key(2))
    made = jax.tree.map(np.asarray, made)
    columns = [stats.norm.cdf(made.momentum), np.exp(made.log_uniform)[:, None], made.mass_choice[:, None]]
    jump = made.jump
    if d == 2:
        columns += [jump.choice, stats.t.cdf(jump.student, 4), jump.even, np.exp(jump.log_uniform)[:, None]]
    else:
        columns += [jump.axis, jump.choice.reshape(len(jump.axis), -1), stats.norm.cdf(jump.normal), jump.even]
        columns += [np.exp(jump.log_uniform)]
    u = np.concatenate([np.asarray(column, np.float64) for column in columns], axis=1) - 0.5
    assert_mean_equals(u, 0.0, resolution=0.02)
    assert_mean_equals(u**2, 1 / 12, resolution=0.01)
    i, j = np.triu_indices(u.shape[1], 1)
    assert_mean_equals(u[:, i] * u[:, j], 0.0, resolution=0.01)
    assert_mean_equals(u[1:] * u[:-1], 0.0, resolution=0.01)


def test_streams_and_keys_differ():
    numbers = [noise(5, 2, True, key=jr.key(k), stream=s)[1].momentum for k in (0, 1) for s in (0, 1)]
    assert len(np.unique(np.concatenate(numbers))) == 4 * 10
