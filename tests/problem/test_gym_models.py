"""The models of Gymnasium's classic tasks against the environments themselves, step by step."""

import math

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.envs.known import KNOWN
from hamq.problem import zoo
from hamq.problem.tables import terminal_table

# States over the whole reach of the environments, beyond the boxes of the models: velocities reach their bounds too.
REACH = {
    "Pendulum-v1": [10.0, 8.0],
    "CartPole-v1": [2.4, 5.0, 0.2, 5.0],
    "Acrobot-v1": [math.pi, math.pi, 4 * math.pi, 9 * math.pi],
}
COUNT = 300


def problem_of(env_id):
    return getattr(zoo, KNOWN[env_id].problem)()


@pytest.fixture(scope="module", params=REACH)
def stepped(request):
    """(id, problem, states, actions, next states, rewards, ends) of single steps of the real environment."""
    env, problem = gymnasium.make(request.param).unwrapped, problem_of(request.param)
    generator = np.random.default_rng(0)
    reach = np.asarray(REACH[request.param])
    states = generator.uniform(-reach, reach, (COUNT, len(reach)))
    actions = generator.choice(problem.actions, COUNT)
    played, found = KNOWN[request.param].action_map(actions), []
    env.reset(seed=0)
    for state, action in zip(states, played, strict=True):
        env.state, env.steps_beyond_terminated = state.copy(), None
        _, reward, is_ended, _, _ = env.step(action)
        found.append((np.asarray(env.state), float(reward), bool(is_ended)))
    return request.param, problem, states, actions, *(np.asarray(column) for column in zip(*found, strict=True))


def turned(problem, difference):
    """The short way round on circles."""
    widths = np.asarray(problem.grid.widths)
    return np.where(problem.grid.periodic, difference - widths * np.round(difference / widths), difference)


def test_the_mean_is_the_environments_step(stepped):
    _, problem, states, actions, following, _, _ = stepped
    with jax.enable_x64(True):
        means = np.asarray(jax.vmap(problem.kernel.mean)(jnp.asarray(states), jnp.asarray(actions)))
    # Pendulum-v1 rounds torques to float32; the others are float64 throughout.
    np.testing.assert_allclose(turned(problem, means - following), 0, atol=1e-6)


def test_in_float32_as_samplers_call_it(stepped):
    name, problem, states, actions, following, _, _ = stepped
    means = jax.vmap(problem.kernel.mean)(jnp.asarray(states, jnp.float32), jnp.asarray(actions, jnp.float32))
    # Acrobot's fastest states turn by a radian in a fraction of the step, which multiplies rounding errors.
    np.testing.assert_allclose(
        turned(problem, np.asarray(means) - following), 0, atol=2e-3 if name == "Acrobot-v1" else 1e-5
    )


def test_rewards_are_the_environments(stepped):
    _, problem, states, actions, _, rewards, _ = stepped
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(problem.reward)(jnp.asarray(states), jnp.asarray(actions)))
    np.testing.assert_allclose(found, rewards, atol=1e-6)


def test_ends_are_the_environments(stepped):
    name, problem, _, _, following, _, ends = stepped
    if problem.terminal is None:
        assert not ends.any()
        return
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(problem.terminal)(jnp.asarray(following)))
    assert np.array_equal(found, ends)
    assert 0.05 < ends.mean() < 0.95, f"{name}: too few of one kind to tell"


def test_axes_are_those_of_the_state_map(stepped):
    name, problem, *_ = stepped
    assert problem.axis_names == KNOWN[name].axis_names
    assert problem.law == "linear" and problem.is_product and problem.scene is not None


def test_the_outermost_nodes_of_the_cart_are_its_end():
    problem = zoo.gym_cartpole(points=4)
    ends = terminal_table(problem)
    assert ends is not None
    ended = ends.reshape(problem.grid.points)
    assert ended[[0, -1]].all() and ended[:, :, [0, -1]].all()
    assert not ended[1:-1, :, 1:-1].any()


def test_noise_is_a_factor_for_each_axis():
    whole, split = zoo.gym_pendulum(noise=2.0), zoo.gym_pendulum(noise=[1.0, 4.0])
    plain = np.sqrt(zoo.gym_pendulum().kernel.covariance)
    np.testing.assert_allclose(np.sqrt(whole.kernel.covariance), 2 * plain)
    np.testing.assert_allclose(np.sqrt(split.kernel.covariance), plain * [1, 4])


@pytest.mark.parametrize("make", [zoo.gym_pendulum, zoo.gym_cartpole, zoo.gym_acrobot])
@pytest.mark.parametrize("noise", [0, -1.0, math.nan, [1.0], "much", [1.0, "x", 1.0, 1.0], True])
def test_noise_that_is_none(make, noise):
    with pytest.raises(ValueError, match=r"noise must be a number above 0 or \d of them, one per axis, got"):
        make(noise=noise)


def test_one_action_is_no_choice():
    with pytest.raises(ValueError, match="num_actions must be a whole number of at least 2, got 1"):
        zoo.gym_pendulum(num_actions=1)
