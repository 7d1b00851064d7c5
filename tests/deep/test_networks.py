"""Networks: what they are given, what they give, in which range."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.deep.networks import Output, features, make_actor, make_critic, make_output, make_q_network, varying_range
from hamq.problem import zoo
from hamq.problem.tables import reward_table
from tests.deep.posed import pose, tiny

OUTPUT = Output(7.0, 2.0)


def states_of(problem):
    return jnp.asarray(problem.grid.states(), jnp.float32)


def test_features_fill_the_cube():
    problem = pose()
    seen = np.asarray(jax.vmap(lambda s: features(problem.grid, s))(states_of(problem)))
    np.testing.assert_allclose(seen.min(axis=0), -1, atol=1e-6)
    np.testing.assert_allclose(seen.max(axis=0), 1, atol=1e-6)
    np.testing.assert_allclose(features(problem.grid, jnp.asarray([0.0, 0.25])), [0, 0.5], atol=1e-6)


def test_a_circle_has_no_seam():
    grid = pose(periodic=True).grid
    ends = [np.asarray(features(grid, jnp.asarray([x, 0.25]))) for x in (-1.0, 1.0)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)
    np.testing.assert_allclose(features(grid, jnp.asarray([-0.5, 0.25])), [0, 1, 0.5], atol=1e-6)


def test_q_network_gives_an_affine_output_per_action():
    problem = pose()
    network = make_q_network(problem, tiny(), OUTPUT, key=jr.key(0))
    state = jnp.asarray([0.3, -0.7])
    assert network(state).shape == (3,)
    np.testing.assert_allclose(network(state), 7 + 2 * network.mlp(features(problem.grid, state)), rtol=1e-6)


def test_critic_scales_state_and_action():
    problem = zoo.double_integrator(num_actions=101)
    low, high = varying_range(problem)
    critic = make_critic(problem, tiny(), OUTPUT, key=jr.key(0))
    state = states_of(problem)[17]
    for action, scaled in ((low, -1.0), (high, 1.0), (np.add(low, high) / 2, 0.0)):
        q = critic(state, jnp.asarray(action, jnp.float32))
        assert q.shape == ()
        expected = critic.mlp(jnp.concatenate([features(problem.grid, state), jnp.asarray([scaled])]))
        np.testing.assert_allclose(q, 7 + 2 * expected, rtol=1e-5)


def test_actor_stays_in_the_range_and_reaches_its_ends():
    problem = zoo.pendulum(points=5, num_actions=11)
    actor = make_actor(problem, tiny(), key=jr.key(0))
    actions = np.asarray(jax.vmap(actor)(states_of(problem)))
    assert actions.shape == (25, 1)
    assert np.all(np.abs(actions) < 1)
    for sign in (-1.0, 1.0):
        pushed = eqx.tree_at(lambda a: a.mlp.layers[-1].bias, actor, jnp.asarray([20 * sign]))
        np.testing.assert_allclose(jax.vmap(pushed)(states_of(problem)), sign, atol=1e-5)


def test_output_knows_the_rewards():
    problem = pose()
    rewards = reward_table(problem)
    raw = make_output(problem, tiny(output="raw"), rewards)
    assert (raw.offset, raw.scale) == (0, 1)
    scaled = make_output(problem, tiny(output="reward"), rewards)
    np.testing.assert_allclose([scaled.offset, scaled.scale], [10 * rewards.mean(), 3 * rewards.std()])
    assert make_output(problem, tiny(output="reward"), np.ones((20, 3))).scale == 1


def test_an_actor_needs_actions_that_vary():
    with pytest.raises(ValueError, match=r"actions of posed do not vary.*use dqn"):
        make_actor(pose(num_actions=1), tiny(), key=jr.key(0))
