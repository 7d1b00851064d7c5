"""The chains: equations of motion a second time, energy, symmetry, noise, and what linear control makes of them."""

import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

import hamq
from hamq.exact.value_iteration import outside_surprises
from hamq.problem.zoo.chain import pushed_links

NAMES = ["spring_chain", "pendulum_chain"]
MODULES = {name: importlib.import_module(f"hamq.problem.zoo.{name}") for name in NAMES}
SIZES = [(1, 1), (2, 1), (2, 2), (5, 3), (6, 1)]


def make(name, num_links, num_actuators=1, **options):
    return getattr(hamq.problems, name)(num_links, num_actuators, **options)


def action_of(problem, pushes):
    """As the problem's functions take it: one push is a scalar."""
    return jnp.asarray(pushes if problem.action_shape else pushes[0])


def gain(drift, push, state_cost, action_cost, discount):
    """K of the best linear control a = −K s, from Riccati's equation of the discounted problem."""
    cost = solve_discrete_are(math.sqrt(discount) * drift, math.sqrt(discount) * push, state_cost, action_cost)
    return np.linalg.solve(action_cost + discount * push.T @ cost @ push, discount * push.T @ cost @ drift), cost


# Both.


@pytest.mark.parametrize(("num_links", "num_actuators", "expected"), [(5, 1, (0,)), (6, 3, (0, 2, 4)), (5, 3, (0, 1, 3))])
def test_actuators_are_spread_evenly(num_links, num_actuators, expected):
    assert pushed_links(num_links, num_actuators) == expected
    assert pushed_links(num_links, num_links) == tuple(range(num_links))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_linear_model_is_the_jacobian_at_rest(x64, name, size):
    mine, (drift, push) = make(name, *size), MODULES[name].linear_model(*size)
    rest = jnp.zeros(2 * size[0]), jnp.zeros(mine.action_shape)
    mean, jacobian = mine.kernel.mean, jax.jacobian(mine.kernel.mean, argnums=(0, 1))
    at_rest, (of_state, of_action) = jax.jit(lambda *rest: (mean(*rest), jacobian(*rest)))(*rest)
    np.testing.assert_allclose(at_rest, 0, atol=1e-15)
    np.testing.assert_allclose(of_state, drift, atol=1e-15)
    np.testing.assert_allclose(of_action.reshape(push.shape), push, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_a_mirrored_chain_moves_as_the_mirror_image(x64, name):
    """Left and right change places, and so do the signs: with an actuator on every link both are symmetries."""
    mine, rng = make(name, 4, 4), np.random.default_rng(1)
    links, pushes = rng.uniform(-1, 1, (4, 2)), rng.uniform(-1, 1, 4)
    moved = mine.kernel.mean(jnp.asarray(links.ravel()), jnp.asarray(pushes)).reshape(4, 2)
    mirrored = mine.kernel.mean(jnp.asarray(links[::-1].ravel()), jnp.asarray(pushes[::-1])).reshape(4, 2)
    np.testing.assert_allclose(mirrored[::-1], moved, atol=1e-15)
    np.testing.assert_allclose(mine.kernel.mean(jnp.asarray(-links.ravel()), jnp.asarray(-pushes)).reshape(4, 2), -moved)


@pytest.mark.parametrize("name", NAMES)
def test_float32_is_enough(name):
    mine, rng = make(name, 10, 5), np.random.default_rng(2)
    state, action = rng.uniform(-2, 2, 20), rng.uniform(-2, 2, 5)
    single = mine.kernel.mean(jnp.asarray(state, jnp.float32), jnp.asarray(action, jnp.float32))
    assert single.dtype == jnp.float32
    with jax.enable_x64(True):
        double = np.asarray(mine.kernel.mean(jnp.asarray(state), jnp.asarray(action)))
    np.testing.assert_allclose(single, double, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_one_actuator_has_scalars_and_several_a_product(name):
    alone, pair = make(name, 2, 1), make(name, 2, 2)
    limit = MODULES[name].LARGEST_PUSH if name == "spring_chain" else MODULES[name].LARGEST_TORQUE
    np.testing.assert_allclose(alone.actions, np.linspace(-limit, limit, 9))
    assert alone.action_levels is None
    assert pair.action_levels == (tuple(np.linspace(-limit, limit, 9).tolist()),) * 2
    np.testing.assert_array_equal(make(name, 2, 1, num_actions=1).actions, [0.0])


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_the_same_objects_each_time(name):
    first, second = make(name, 2), make(name, 3)
    assert first.kernel.mean is second.kernel.mean and first.reward is second.reward


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_links": 0}, r"num_\w+ must be a whole number of at least 1, got 0; the state has two coordinates for each"),
        ({"num_links": 2.0}, r"num_\w+ must be a whole number of at least 1, got 2\.0"),
        ({"num_links": 2, "num_actuators": 0}, r"num_actuators must be a whole number of at least 1, got 0"),
        ({"num_links": 2, "num_actuators": 3}, r"num_actuators = 3 is more than num_\w+ = 2; use one for each"),
        (
            {"num_links": 2, "num_actions": 0},
            r"num_actions must be a whole number of at least 1, got 0; they are the levels",
        ),
        ({"num_links": 2, "noise": 0.0}, r"noise must be a finite number above 0, got 0\.0; it multiplies every σ"),
        ({"num_links": 2, "points": 1}, r"at least 2 points per axis"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_refusals(as_user, name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(name, **options)


# Springs.


@pytest.mark.parametrize("size", SIZES)
def test_springs_are_linear(x64, size):
    mine, (drift, push) = make("spring_chain", *size), MODULES["spring_chain"].linear_model(*size)
    rng = np.random.default_rng(3)
    for _ in range(5):
        state, pushes = rng.uniform(-2, 2, 2 * size[0]), rng.uniform(-2, 2, size[1])
        moved = mine.kernel.mean(jnp.asarray(state), action_of(mine, pushes))
        np.testing.assert_allclose(moved, drift @ state + push @ pushes, rtol=0, atol=1e-14)


def test_two_masses_by_hand(x64):
    mine = make("spring_chain", 2)
    moved = mine.kernel.mean(jnp.asarray([1.0, 0.5, -2.0, 1.0]), jnp.asarray(2.0))
    forces = (0 - 2 * 1 - 2) - 0.3 * 0.5 + 2, (1 - 2 * -2 + 0) - 0.3 * 1
    np.testing.assert_allclose(moved, [1 + 0.2 * 0.5, 0.5 + 0.2 * forces[0], -2 + 0.2 * 1, 1 + 0.2 * forces[1]])
    np.testing.assert_allclose(mine.reward(jnp.asarray([1.0, 0.5, -2.0, 1.0]), jnp.asarray(2.0)), -0.5 * 6.25 - 0.2)


def test_noise_of_the_springs():
    mine, loud = make("spring_chain", 3), make("spring_chain", 3, noise=2.0)
    mixing = np.random.default_rng(0).standard_normal((6, 6))
    expected = 0.15**2 * (0.5 * np.eye(6) + 0.5 * mixing @ mixing.T / 6)
    np.testing.assert_allclose(mine.kernel.covariance, expected, rtol=1e-12)
    np.testing.assert_allclose(loud.kernel.covariance, 4 * expected, rtol=1e-12)
    assert not mine.is_product and np.all(np.abs(expected) > 0)


def test_riccati_solves_the_springs_without_walls(x64):
    """V(s) = −sᵀPs − c satisfies Bellman's equation with the problem's own reward, mean and covariance."""
    mine = make("spring_chain", 2)
    drift, push = MODULES["spring_chain"].linear_model(2, 1)
    best, cost = gain(drift, push, 0.5 * np.eye(4), 0.05 * np.eye(1), mine.discount)
    noise_cost = mine.discount / (1 - mine.discount) * np.trace(cost @ np.asarray(mine.kernel.covariance))

    def q_value(state, action):
        moved = np.asarray(mine.kernel.mean(jnp.asarray(state), jnp.asarray(action)))
        spread = np.trace(cost @ np.asarray(mine.kernel.covariance))
        return float(mine.reward(jnp.asarray(state), jnp.asarray(action))) - mine.discount * (
            moved @ cost @ moved + spread + noise_cost
        )

    for state in np.random.default_rng(4).uniform(-1, 1, (5, 4)):
        action = -(best @ state)[0]
        np.testing.assert_allclose(q_value(state, action), -state @ cost @ state - noise_cost, rtol=1e-10)
        assert q_value(state, action) > max(q_value(state, action + 0.1), q_value(state, action - 0.1))


def test_means_outside_are_expected():
    ((kind, _),) = outside_surprises(make("spring_chain", 2))
    assert kind in make("spring_chain", 2).expected


# Pendulums.


def energy(angles, velocities):
    """From the positions of the bobs: a spring of no length has half its constant times the squared distance."""
    bobs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=1)
    return 0.5 * jnp.sum(velocities**2) + jnp.sum(bobs[:, 1]) + 0.6 * jnp.sum((bobs[1:] - bobs[:-1]) ** 2)


def power_of(angles, velocities, pushes):
    accelerations = MODULES["pendulum_chain"].acceleration(angles, velocities, pushes)
    return jax.jvp(energy, (angles, velocities), (velocities, accelerations))[1]


def test_power_is_that_of_motors_and_friction(x64):
    rng = np.random.default_rng(5)
    for num_links, num_actuators in SIZES:
        angles, velocities = rng.uniform(-2, 2, (2, num_links))
        pushes = rng.uniform(-3, 3, num_actuators)
        power = jax.jit(power_of)(angles, velocities, jnp.asarray(pushes))
        driven = velocities[np.asarray(pushed_links(num_links, num_actuators))]
        np.testing.assert_allclose(power, -0.5 * np.sum(velocities**2) + np.sum(pushes * driven), rtol=1e-10)


def test_angles_move_with_the_new_velocities(x64):
    mine = make("pendulum_chain", 1)
    faster = 0.2 + 0.1 * (math.sin(1.0) - 0.5 * 0.2 + 3.0)
    np.testing.assert_allclose(mine.kernel.mean(jnp.asarray([1.0, 0.2]), jnp.asarray(3.0)), [1 + 0.1 * faster, faster])
    np.testing.assert_allclose(mine.reward(jnp.asarray([1.0, 0.2]), jnp.asarray(3.0)), math.cos(1) - 1 - 0.002 - 0.09)


def test_every_second_pendulum_has_a_motor():
    shapes = {n: hamq.problems.pendulum_chain(n).action_shape for n in (1, 2, 3, 4, 50)}
    assert shapes == {1: (), 2: (), 3: (2,), 4: (2,), 50: (25,)}
    for n in range(2, 20):  # none is far from a motor
        gaps = np.diff([*pushed_links(n, (n + 1) // 2), n])
        assert gaps.max() <= 2


@pytest.mark.parametrize("num_pendulums", [1, 2])
def test_means_stay_near_the_box(num_pendulums):
    mine = hamq.problems.pendulum_chain(num_pendulums)
    assert mine.notes == () and mine.expected == () and mine.is_product
    assert outside_surprises(mine) == []


def test_linear_control_can_be_beaten():
    """On a coarse grid, from 60° off and less: the levels nearest to LQR, clipped, lose a quarter more than the best."""
    mine = hamq.problems.pendulum_chain(2, points=9)
    best = hamq.solve_exact(mine, tolerance=0.01)
    linear, _ = gain(
        *MODULES["pendulum_chain"].linear_model(2, 1), np.diag([0.5, 0.05] * 2), 0.01 * np.eye(1), mine.discount
    )
    states = mine.grid.states()
    policy = np.abs(-(states @ linear.T) - mine.actions).argmin(axis=1)  # clips as well
    clipped = hamq.evaluate_policy(mine, policy, tolerance=0.01).value
    starts = np.all(np.abs(states) <= np.asarray([math.pi / 3, 0.1] * 2), axis=1)
    assert starts.sum() == 25
    assert clipped[starts].mean() < 1.25 * best.value[starts].mean() < 0
