"""DDPG: the critic descends its regression, the actor climbs the critic, each with the other held fixed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.deep.ddpg import Pair, make_ddpg
from hamq.deep.learner import Batch
from hamq.deep.networks import Output
from tests.deep.posed import pose, tiny

OUTPUT = Output(5.0, 2.0)


@pytest.fixture
def posed(x64):
    learner, trained = make_ddpg(pose(num_actions=9), tiny(algorithm="ddpg", num_train_actions=3), OUTPUT)
    parameters = jax.jit(lambda key: learner.init(key=key))(jr.key(0))
    states = jnp.asarray(np.random.default_rng(0).uniform([-1, -2], [1, 1], (6, 2)))
    action = jnp.asarray([[0, 1], [2, 2], [1, 0], [0, 2], [1, 1], [2, 0]])
    batch = Batch(states, action, 5 + jnp.asarray(np.random.default_rng(1).normal(size=(6, 2))))
    return learner, trained, parameters, batch


def networks(learner, parameters):
    return eqx.combine(parameters, learner.frame)


def critic_loss(learner, parameters, batch):
    """The mean over 6 states with 2 actions each."""
    critic = networks(learner, parameters).critic
    actions = jnp.asarray([-1.0, 0.0, 1.0])[batch.action].reshape(12, 1)
    states = jnp.repeat(batch.states, 2, axis=0)
    missing = jax.vmap(critic)(states, actions) - batch.targets.reshape(12)
    return jnp.sum(missing**2) / 12 / OUTPUT.scale**2


def actor_gain(learner, parameters, batch):
    critic, actor = networks(learner, parameters)
    return jnp.sum(jax.vmap(lambda s: critic(s, actor(s)))(batch.states)) / 6 / OUTPUT.scale


def slope(function, parameters, part, direction, step=1e-5):
    """Central difference along a direction of the critic's or the actor's parameters."""

    def moved(sign):
        shifted = jax.tree.map(lambda p, d: p + sign * step * d, parameters[part], direction)
        return Pair(*(shifted if i == part else kept for i, kept in enumerate(parameters)))

    return (function(moved(1)) - function(moved(-1))) / (2 * step)


def test_gradients_equal_differences(posed):
    learner, _, parameters, batch = posed
    gradient = jax.tree.map(np.asarray, jax.jit(lambda *given: learner.gradient(*given))(parameters, batch))
    parameters = jax.tree.map(np.asarray, parameters)
    functions = (lambda p: critic_loss(learner, p, batch), lambda p: -actor_gain(learner, p, batch))
    for part, function in enumerate(functions):
        leaves, tree = jax.tree.flatten(parameters[part])
        random = np.random.default_rng(part)
        direction = jax.tree.unflatten(tree, [random.normal(size=leaf.shape) for leaf in leaves])
        along = sum(np.sum(g * d) for g, d in zip(jax.tree.leaves(gradient[part]), jax.tree.leaves(direction), strict=True))
        assert abs(float(along)) > 1e-3
        np.testing.assert_allclose(along, slope(jax.jit(function), parameters, part, direction), rtol=1e-6)


def test_value_is_what_the_actor_gets(posed):
    learner, _, parameters, batch = posed
    critic, actor = networks(learner, parameters)
    one = jax.jit(lambda s: critic(s, actor(s)))
    expected = [float(one(s)) for s in np.asarray(batch.states)]
    np.testing.assert_allclose(jax.jit(lambda *given: learner.value(*given))(parameters, batch.states), expected)


def test_table_has_all_actions_and_training_a_few(posed):
    learner, trained, parameters, batch = posed
    np.testing.assert_array_equal(trained, [0, 4, 8])
    q = np.asarray(jax.jit(lambda *given: learner.table(*given))(parameters, batch.states))
    assert q.shape == (6, 9)
    critic = networks(learner, parameters).critic
    one = jax.jit(lambda *given: critic(*given))(np.asarray(batch.states)[2], np.asarray([0.75]))
    np.testing.assert_allclose(q[2, 7], one)


def test_policy_is_the_nearest_action(posed):
    learner = posed[0]
    done = jnp.asarray([[-1.0], [-0.88], [-0.86], [0.1], [0.13], [1.0]])
    np.testing.assert_array_equal(learner.policy(jnp.zeros((6, 9)), done), [0, 0, 1, 4, 5, 8])
