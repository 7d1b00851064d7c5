"""The models of Gymnasium's MuJoCo tasks against the environments themselves, step by step; one policy in one of them."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.control.linear_quadratic import linearise
from hamq.envs.known import KNOWN
from hamq.problem.tables import terminal_table
from hamq.problem.zoo import gym_inverted_double_pendulum, gym_inverted_pendulum
from hamq.problem.zoo.gym_inverted_double_pendulum import COORDINATES, to_coordinates, to_joints
from hamq.problem.zoo.gym_mujoco import capsule

# How far the joints and their velocities are thrown: the whole rail that one step cannot leave, poles far beyond the end.
REACH = {
    "InvertedPendulum-v5": [0.5, 0.5, 3.0, 4.0],
    "InvertedDoublePendulum-v5": [0.4, 0.8, 0.8, 3.0, 4.0, 5.0],
}
PROBLEMS = {
    "InvertedPendulum-v5": gym_inverted_pendulum,
    "InvertedDoublePendulum-v5": gym_inverted_double_pendulum,
}
COUNT = 200


def to_joint_states(env_id, states):
    return to_joints(states) if env_id == "InvertedDoublePendulum-v5" else states


def to_model_states(env_id, joints):
    return to_coordinates(joints) if env_id == "InvertedDoublePendulum-v5" else joints


@pytest.fixture(scope="module", params=REACH)
def stepped(request):
    """(id, problem, joints, actions, next joints, observations, rewards, ends) of single steps of the real environment."""
    env, problem = gymnasium.make(request.param).unwrapped, PROBLEMS[request.param]()
    generator = np.random.default_rng(0)
    reach = np.asarray(REACH[request.param])
    joints, n = generator.uniform(-reach, reach, (COUNT, len(reach))), len(reach) // 2
    joints[::2] *= 0.2  # half of them near upright, where nothing ends
    actions, found = generator.choice(problem.actions, COUNT), []
    env.reset(seed=0)
    for state, action in zip(joints, actions, strict=True):
        env.set_state(state[:n], state[n:])
        seen, reward, is_ended, _, _ = env.step(np.asarray([action]))
        found.append((np.concatenate([env.data.qpos, env.data.qvel]), seen, float(reward), bool(is_ended)))
    env.close()
    return request.param, problem, joints, actions, *(np.asarray(column) for column in zip(*found, strict=True))


def called(function, *arguments):
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(function)(*(jnp.asarray(argument) for argument in arguments)))


def test_the_mean_is_the_environments_step(stepped):
    name, problem, joints, actions, following, *_ = stepped
    means = called(problem.kernel.mean, to_model_states(name, joints), actions)
    np.testing.assert_allclose(to_joint_states(name, means), following, rtol=1e-9, atol=1e-11)


def test_in_float32_as_samplers_call_it(stepped):
    name, problem, joints, actions, following, *_ = stepped
    states = jnp.asarray(to_model_states(name, joints), jnp.float32)
    means = np.asarray(jax.vmap(problem.kernel.mean)(states, jnp.asarray(actions, jnp.float32)))
    assert means.dtype == np.float32
    np.testing.assert_allclose(means, to_model_states(name, following), rtol=1e-5, atol=3e-5)


def test_the_reward_and_the_end_are_the_environments(stepped):
    name, problem, joints, actions, following, _, rewards, is_ended = stepped
    paid = called(problem.reward, to_model_states(name, joints), actions)
    assert 20 < is_ended.sum() < COUNT - 20  # both kinds are there
    # MuJoCo's tip is that of the last Runge-Kutta stage; the velocities of these throws make the most of it.
    np.testing.assert_allclose(paid, rewards, atol=1e-3)
    ends = called(problem.terminal, to_model_states(name, following))
    assert np.all(ends[is_ended])
    inside = np.all(np.abs(to_model_states(name, following)) < 0.9 * np.asarray(problem.grid.upper), axis=1)
    assert inside.sum() > 20 and not np.any(ends[inside & ~is_ended])


def test_the_state_map_gives_the_models_coordinates(stepped):
    name, problem, _, _, following, seen, _, _ = stepped
    known = KNOWN[name]
    slow = np.all(np.abs(following[:, following.shape[1] // 2 :]) < 10, axis=1)  # observed velocities are cut there
    assert slow.sum() > COUNT / 2
    np.testing.assert_allclose(known.state_map(seen[slow]), to_model_states(name, following[slow]), atol=1e-12)
    assert known.axis_names == problem.axis_names and known.problem == problem.name


@pytest.mark.parametrize("env_id", REACH)
def test_starts_are_in_the_box_and_far_from_an_end(env_id):
    env, problem = gymnasium.make(env_id).unwrapped, PROBLEMS[env_id]()
    starts = []
    for seed in range(100):
        env.reset(seed=seed)
        starts.append(np.concatenate([env.data.qpos, env.data.qvel]))
    env.close()
    states = to_model_states(env_id, np.asarray(starts))
    assert np.all(np.abs(states) < np.asarray(problem.grid.upper)) and not np.any(called(problem.terminal, states))
    assert 0 < np.mean(terminal_table(problem)) < 0.7


def test_capsules_are_those_of_mujoco():
    model = gymnasium.make("InvertedDoublePendulum-v5").unwrapped.model
    for body, (radius, length) in {1: (0.1, 0.2), 2: (0.045, 0.6), 3: (0.045, 0.6)}.items():
        expected = (model.body_mass[body], model.body_inertia[body].max())
        np.testing.assert_allclose(capsule(radius, length), expected, rtol=1e-9)


@pytest.mark.slow
def test_coordinates_are_the_roots_of_the_linear_quadratic_value():
    """Of the model in these coordinates: V = −(z₁² + … + z₅²), and an action moves z₁ and z₆ alone, to the digits given."""
    problem = gym_inverted_double_pendulum(discount=0.99)
    matrix = hamq.lqr_policy(problem).matrix[:6, :6]
    np.testing.assert_allclose(matrix, -np.diag([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), atol=0.15)
    push = linearise(problem, np.zeros(6), np.zeros(1)).b[:6, 0]
    assert np.abs(push[1:5]).max() < 0.06 < 0.5 < push[0]
    assert np.linalg.cond(np.asarray(COORDINATES)) < 100


def test_coordinates_and_joints_are_inverse_to_each_other():
    joints = np.random.default_rng(1).normal(size=(5, 6))
    np.testing.assert_allclose(to_joints(to_coordinates(joints)), joints, atol=1e-12)


def test_the_picture_shows_the_joints():
    problem = gym_inverted_double_pendulum()
    joints = np.asarray([0.3, 0.2, -0.1, 0.0, 0.0, 0.0])
    assert problem.scene is not None
    lines = [
        shape for shape in problem.scene.shapes(to_coordinates(joints)[0], 0.0) if getattr(shape, "tone", "") == "accent"
    ]
    ends = [np.subtract(line.end, line.start) for line in lines]  # type: ignore[union-attr]
    np.testing.assert_allclose(ends, [[0.6 * np.sin(a), 0.6 * np.cos(a)] for a in (0.2, 0.1)], atol=1e-9)


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_bad_options_are_refused(make):
    with pytest.raises(ValueError, match=f"{make.__name__}: num_actions must be a whole number of at least 2, got 1"):
        make(num_actions=1)
    with pytest.raises(ValueError, match=f"{make.__name__}: noise must be a number above 0 or . of them"):
        make(noise=-1.0)


@pytest.mark.slow
def test_a_pole_learned_with_hmc_stays_up():
    """Three whole episodes of the real environment; 100 of them are in benchmarks/environments.py."""
    solution = hamq.solve(gym_inverted_pendulum(), sampler=hamq.HMC(10), iterations=150)
    found = hamq.evaluate(solution, "InvertedPendulum-v5", episodes=3)
    assert np.array_equal(found.returns, [1000.0] * 3)
