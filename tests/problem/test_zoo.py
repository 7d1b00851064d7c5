"""The zoo: printed digits, equations of motion derived a second time, known defects, and where each number is from."""

import importlib
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.exact.value_iteration import outside_distances, outside_surprises
from hamq.problem.tables import mean_table, reward_table
from hamq.problem.zoo.preset import Preset, Sourced
from hamq.problem.zoo.repelling_agents import make_logdensity
from hamq.types import HamqWarning

NAMES = ["pendulum", "double_integrator", "cartpole", "acrobot", "cart_double_pendulum"]
PRESETS = ["paper", "corrected"]
MODULES = {name: importlib.import_module(f"hamq.problem.zoo.{name}") for name in NAMES}


def make(name, **options):
    return getattr(hamq.problems, name)(**options)


# Constants.


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_is_built_without_a_warning(name, preset):
    mine = make(name, preset=preset)  # the test run turns warnings into errors
    assert mine.name == name
    assert mine.num_states == (15625 if name == "cart_double_pendulum" else 625)
    assert (mine.num_actions, mine.discount, mine.law) == (10, 0.95, "cell")
    assert not any(mine.grid.periodic)
    found = outside_surprises(mine)
    assert [kind for kind, _ in found] == (["outside"] if name == "acrobot" else [])
    assert {kind for kind, _ in found} <= set(mine.expected)


@pytest.mark.parametrize(
    ("name", "printed", "swapped"),
    [
        ("pendulum", (0.868, 1.550), ()),
        ("double_integrator", (0.848, 0.848), ()),
        ("cartpole", (0.641, 0.848, 0.759, 0.917), (0,)),
        ("acrobot", (0.686, 1.550, 0.686, 1.550), (0, 2)),
    ],
)
def test_covariances_as_printed_and_by_the_rule(name, printed, swapped):
    paper, corrected = make(name), make(name, preset="corrected")
    assert paper.kernel.covariance == printed
    rule = np.sqrt(0.12 * np.asarray(paper.grid.widths))
    np.testing.assert_allclose(corrected.kernel.covariance, rule, rtol=1e-12)
    off = np.abs(rule - printed) > 1e-3
    assert tuple(np.flatnonzero(off)) == swapped


def test_covariance_of_the_cart_double_pendulum():
    widths = np.asarray(make("cart_double_pendulum").grid.widths)
    np.testing.assert_allclose(make("cart_double_pendulum").kernel.covariance, (widths / 6) ** 2)
    corrected = make("cart_double_pendulum", preset="corrected").kernel.covariance
    np.testing.assert_allclose(corrected, np.sqrt(0.12 * widths))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", NAMES)
def test_provenance_is_complete(name, preset):
    found = hamq.problems.provenance(name, preset=preset)
    assert all(isinstance(value, Sourced) for value in found.values())
    assert {value.source for value in found.values()} <= {"paper", "authors' code", "peer", "assumed"}
    mine = make(name, preset=preset)
    assert found["covariance"].value == mine.kernel.covariance
    assert (found["lower"].value, found["upper"].value) == (mine.grid.lower, mine.grid.upper)
    assert found["discount"].value == mine.discount
    assert found["action_range"].value == (mine.actions[0], mine.actions[-1])
    # Every constant of the file is one of them.
    for key, value in vars(MODULES[name]).items():
        if key.isupper() and not key.startswith("_"):
            assert isinstance(value, (Sourced, Preset, dict)), key
        if isinstance(value, Sourced):
            assert value in found.values(), key


def test_sources_of_the_time_steps():
    found = {name: hamq.problems.provenance(name)["time_step"] for name in NAMES}
    assert found == {
        "pendulum": Sourced(0.3, "peer"),
        "double_integrator": Sourced(0.1, "peer"),
        "cartpole": Sourced(0.1, "authors' code"),
        "acrobot": Sourced(0.1, "assumed"),
        "cart_double_pendulum": Sourced(0.1, "assumed"),
    }


def test_provenance_of_nothing():
    with pytest.raises(ValueError, match=r"the paper's problems are pendulum, .*; got 'lunar_lander'"):
        hamq.problems.provenance("lunar_lander")
    with pytest.raises(ValueError, match=r"cartpole: preset must be one of paper, corrected, got 'papr'"):
        hamq.problems.provenance("cartpole", preset="papr")


# Equations of motion, each derived a second time from positions alone.


def rod(pivot, direction, mass, length):
    """Mass points with the same energy as a uniform rod: three Gauss nodes integrate quadratics exactly."""
    t, w = np.polynomial.legendre.leggauss(3)
    return [(mass * float(wi) / 2, pivot + float(ti + 1) / 2 * length * direction) for ti, wi in zip(t, w, strict=True)]


def upright(angle):
    return jnp.stack([jnp.sin(angle), jnp.cos(angle)])


def cartpole_points(q):
    angle, x = q
    cart = jnp.stack([x, 0 * x])
    return [(1.0, cart), *rod(cart, upright(angle), 0.1, 2 * 0.5)]  # l is half the pole


def cart_double_pendulum_points(q):
    x, first, second = q
    cart = jnp.stack([x, 0 * x])
    joint = cart + 0.5 * upright(first)
    return [(1.0, cart), *rod(cart, upright(first), 0.1, 0.5), *rod(joint, upright(second), 0.1, 0.5)]


def acrobot_points(q):
    """Each link has the inertia m l² about its centre: two halves of its mass at the distance l."""
    first, second = q[0], q[0] + q[1]
    points, pivot = [], jnp.zeros(2)
    for angle in (first, second):
        down = -upright(angle)  # θ₁ = 0 hangs
        centre = pivot + 0.05 * down
        points += [(0.05, centre + 0.1 * down), (0.05, centre - 0.1 * down)]
        pivot = pivot + 0.1 * down
    return points


def energies(points_of, q, v):
    kinetic = potential = 0.0
    velocities = jax.jvp(lambda q: [p for _, p in points_of(q)], (q,), (v,))[1]
    for (mass, position), velocity in zip(points_of(q), velocities, strict=True):
        kinetic = kinetic + 0.5 * mass * jnp.sum(velocity**2)
        potential = potential + mass * 9.8 * position[1]
    return kinetic, potential


def lagrangian_accelerations(points_of, q, v, force):
    def lagrangian(q, v):
        kinetic, potential = energies(points_of, q, v)
        return kinetic - potential

    mass = jax.hessian(lagrangian, 1)(q, v)
    mixed = jax.jacobian(jax.grad(lagrangian, 1), 0)(q, v)
    return jnp.linalg.solve(mass, force + jax.grad(lagrangian, 0)(q, v) - mixed @ v)


# problem, preset, where q and q̇ lie in the state, which coordinate the action pushes, positions
SYSTEMS = {
    "cartpole": ("cartpole", "paper", [0, 2], [1, 3], 1, cartpole_points),
    "cart_double_pendulum": ("cart_double_pendulum", "paper", [0, 2, 4], [1, 3, 5], 0, cart_double_pendulum_points),
    "acrobot": ("acrobot", "corrected", [0, 2], [1, 3], 1, acrobot_points),
}


def rates(mine, state, action, time_step=0.1):
    return (mine.kernel.mean(state, action) - state) / time_step


@pytest.mark.parametrize("system", SYSTEMS)
def test_accelerations_against_the_lagrangian(x64, system):
    name, preset, where_q, where_v, pushed, points_of = SYSTEMS[system]
    mine = make(name, preset=preset)
    rng = np.random.default_rng(0)
    states = rng.uniform(mine.grid.lower, mine.grid.upper, (50, mine.grid.dimension))
    actions = rng.uniform(mine.actions[0], mine.actions[-1], 50)

    @jax.vmap
    def both(state, action):
        q, v = state[jnp.asarray(where_q)], state[jnp.asarray(where_v)]
        force = action * jnp.eye(len(where_q))[pushed]
        wanted = lagrangian_accelerations(points_of, q, v, force)
        found = rates(mine, state, action)
        return found[jnp.asarray(where_q)], v, found[jnp.asarray(where_v)], wanted

    moved, velocity, found, wanted = jax.jit(both)(jnp.asarray(states), jnp.asarray(actions))
    np.testing.assert_allclose(moved, velocity, atol=1e-10)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("system", SYSTEMS)
def test_energy_is_conserved_without_force(x64, system):
    name, preset, where_q, where_v, _, points_of = SYSTEMS[system]
    drift = energy_drift(make(name, preset=preset), where_q, where_v, points_of)
    assert drift < 1e-6


def test_the_printed_acrobot_does_not_conserve_energy(x64):
    """φ₁ without its factor l₁: the reason for the corrected preset."""
    _, _, where_q, where_v, _, points_of = SYSTEMS["acrobot"]
    assert energy_drift(make("acrobot"), where_q, where_v, points_of) > 0.05  # in 0.4 s


def energy_drift(mine, where_q, where_v, points_of, step=2e-3, num_steps=200):
    """Largest relative change of the energy along a free motion, by RK4."""
    start = jnp.asarray([0.4, 1.0, -0.7, -1.5, 1.1, 0.8][: mine.grid.dimension])

    def slope(state):
        return rates(mine, state, jnp.zeros(()))

    def advance(state, _):
        k1 = slope(state)
        k2 = slope(state + step / 2 * k1)
        k3 = slope(state + step / 2 * k2)
        k4 = slope(state + step * k3)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return state, jnp.stack(energies(points_of, state[jnp.asarray(where_q)], state[jnp.asarray(where_v)]))

    _, parts = jax.jit(lambda s: jax.lax.scan(advance, s, None, length=num_steps))(start)
    total = np.asarray(parts.sum(axis=1))
    return np.abs(total - total[0]).max() / np.asarray(parts[:, 0]).max()


def test_presets_of_the_acrobot_differ_in_the_coriolis_term_only(x64):
    still = jnp.asarray([0.3, 2.0, -1.0, 0.0])
    moving = jnp.asarray([0.3, 2.0, -1.0, 1.0])
    paper, corrected = (make("acrobot", preset=preset).kernel.mean for preset in PRESETS)
    torque = jnp.asarray(0.5)
    np.testing.assert_allclose(paper(still, torque), corrected(still, torque), rtol=1e-12)
    assert np.abs(paper(moving, torque) - corrected(moving, torque)).max() > 0.1


def test_pendulum_and_double_integrator_by_hand(x64):
    state, action = jnp.asarray([0.5, -2.0]), jnp.asarray(0.25)
    wanted = [0.5 - 0.3 * 2, -2 + 0.3 * (math.sin(0.5) + 2 + 0.25)]
    np.testing.assert_allclose(make("pendulum").kernel.mean(state, action), wanted, rtol=1e-12)
    np.testing.assert_allclose(make("double_integrator").kernel.mean(state, action), [0.3, -1.975], rtol=1e-12)
    np.testing.assert_allclose(
        make("pendulum").reward(state, action), math.exp(math.cos(0.5) - 1) - 0.1 * 0.25**2, rtol=1e-12
    )
    np.testing.assert_allclose(make("double_integrator").reward(state, action), -0.5 * (0.25 + 4), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_float32_and_float64_agree(name):
    mine = make(name)
    chosen = np.random.default_rng(1).integers(mine.num_states, size=40)
    means, rewards = mean_table(mine)[chosen], reward_table(mine)[chosen]
    states, actions = jnp.asarray(mine.grid.states_at(chosen), jnp.float32), jnp.asarray(mine.actions, jnp.float32)

    def over_pairs(function):
        return jax.jit(jax.vmap(jax.vmap(function, (None, 0)), (0, None)))(states, actions)

    single_means, single_rewards = over_pairs(mine.kernel.mean), over_pairs(mine.reward)
    assert single_means.dtype == single_rewards.dtype == jnp.float32
    np.testing.assert_allclose(single_means, means, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(single_rewards, rewards, atol=1e-4)


# Known defects, as the docstrings say them.


@pytest.mark.parametrize(
    ("name", "preset", "fraction"),
    [
        ("pendulum", "paper", 0.25),
        ("double_integrator", "paper", 0.08),
        ("cartpole", "paper", 0.53),
        ("acrobot", "paper", 0.97),
        ("acrobot", "corrected", 0.96),
        ("cart_double_pendulum", "paper", 0.77),
    ],
)
def test_fraction_of_means_outside_the_box(name, preset, fraction):
    mine = make(name, preset=preset)
    outside = outside_distances(mine, mean_table(mine)).max(axis=-1) > 0
    assert round(outside.mean(), 2) == fraction


def test_acrobot_is_far_outside_and_says_so():
    ((_, sentence),) = outside_surprises(make("acrobot"))
    assert "for 5376 of 6250 pairs, up to 164 on axis 3" in sentence


def test_rewards_alias_on_the_papers_grid():
    angles = np.linspace(-np.pi / 2, np.pi / 2, 5)
    by_angle = reward_table(make("cartpole")).reshape(5, -1)
    np.testing.assert_allclose(by_angle, np.broadcast_to(np.cos(angles)[:, None] ** 4, by_angle.shape), atol=1e-12)
    double = reward_table(make("cart_double_pendulum")).reshape([5] * 6 + [10])
    np.testing.assert_allclose(double[2, 2, :, 2, 2, 2, 0] - 1, [1, 0, 1, 0, 1], atol=1e-12)  # hanging pays
    (note,) = make("cartpole").notes
    assert "the reward oscillates between the grid points of axis 0" in note
    assert [axis for note in make("cart_double_pendulum").notes for axis in range(6) if f"axis {axis}" in note] == [
        2,
        4,
    ]
    assert make("cartpole", points=[61, 5, 5, 5]).notes == ()
    assert make("pendulum").notes == make("double_integrator").notes == make("acrobot").notes == ()


# Options.


def test_options_reach_the_problem():
    mine = make("pendulum", points=[7, 9], num_actions=3, noise=2.0, discount=0.9, law="linear")
    assert mine.grid.points == (7, 9)
    np.testing.assert_array_equal(mine.actions, [-1, 0, 1])
    np.testing.assert_allclose(mine.kernel.covariance, [4 * 0.868, 4 * 1.550])  # twice the standard deviations
    assert (mine.discount, mine.law) == (0.9, "linear")
    np.testing.assert_allclose(np.diff(make("cartpole", num_actions=50).actions), 20 / 49)
    np.testing.assert_array_equal(make("cartpole", num_actions=1).actions, [0.0])


def test_periodic_axes_are_full_turns():
    assert make("pendulum", periodic=True).grid.periodic == (True, False)
    assert make("acrobot", periodic=True).grid.periodic == (True, False, True, False)
    assert make("cart_double_pendulum", periodic=True).grid.periodic == (False, False, True, False, True, False)
    assert make("acrobot", periodic=[False, False, True, False]).grid.periodic == (False, False, True, False)
    for name in ("cartpole", "double_integrator"):
        with pytest.raises(ValueError, match=rf"{name}: periodic must be False, got True; no axis of its box is"):
            make(name, periodic=True)
    with pytest.raises(ValueError, match=r"periodic is True on axis 1, which is not a full turn of an angle; .*: 0\."):
        make("pendulum", periodic=[True, True])
    with pytest.raises(ValueError, match=r"axes that may be circles: none"):
        make("cartpole", periodic=[True, False, False, False])
    with pytest.raises(ValueError, match=r"periodic has 1 entries for 2 axes"):
        make("pendulum", periodic=[True])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"preset": "original"}, r"preset must be one of paper, corrected, got 'original'"),
        ({"points": 1}, r"at least 2 points per axis, got points = 1 on axis 0"),
        ({"points": [5, 5]}, r"points has 2 entries and lower has 4"),
        ({"num_actions": 0}, r"num_actions must be a whole number of at least 1, got 0; they are spread evenly over"),
        ({"num_actions": 2.5}, r"num_actions must be a whole number of at least 1, got 2\.5"),
        ({"noise": 0.0}, r"noise must be a finite number above 0, got 0\.0"),
        ({"noise": -1.0}, r"noise must be a finite number above 0, got -1\.0"),
        ({"noise": float("nan")}, r"noise must be a finite number above 0, got nan"),
        ({"noise": "high"}, r"noise must be a finite number above 0, got 'high'"),
        ({"discount": 1.0}, r"discount must be in \[0, 1\), got 1\.0"),
        ({"law": "cells"}, r"law must be one of cell, linear, point, got 'cells'"),
    ],
)
@pytest.mark.parametrize("name", ["cartpole", "acrobot"])
def test_refusals(as_user, name, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(name, **options)


def test_another_noise_may_be_warned_about():
    with pytest.warns(HamqWarning, match=r"pendulum: on axis [01] the noise spans"):
        make("pendulum", noise=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_the_same_objects_each_time(name):
    first, second = make(name), make(name)
    assert first.kernel.mean is second.kernel.mean
    assert first.reward is second.reward


# Agents that repel each other.


def test_logdensity_of_the_agents_by_two_loops(x64):
    rng = np.random.default_rng(2)
    for n, strength in ((1, 3.0), (2, 10.0), (5, 3.0)):
        mine = hamq.problems.repelling_agents(n, strength=strength)
        x, s = rng.uniform(-1, 1, (2, n))
        a = rng.uniform(-1, 1, n) if n <= 3 else 0.4
        gauss = sum(-0.5 * ((x[i] - s[i] - 0.1 * np.broadcast_to(a, n)[i]) / 0.2) ** 2 for i in range(n))
        repulsion = sum(np.exp(-0.5 * ((x[i] - x[j]) / 0.15) ** 2) for i, j in itertools.combinations(range(n), 2))
        found = mine.kernel.logdensity(jnp.asarray(x), jnp.asarray(s), jnp.asarray(a))
        np.testing.assert_allclose(found, gauss - strength * repulsion, rtol=1e-12)


def test_agents_in_float32():
    mine = hamq.problems.repelling_agents(12, strength=10.0)
    x, s = np.random.default_rng(3).uniform(-1, 1, (2, 12))
    single = mine.kernel.logdensity(jnp.asarray(x, jnp.float32), jnp.asarray(s, jnp.float32), jnp.float32(0.5))
    assert single.dtype == jnp.float32
    with jax.enable_x64(True):
        double = np.asarray(mine.kernel.logdensity(jnp.asarray(x), jnp.asarray(s), jnp.asarray(0.5)))
    np.testing.assert_allclose(single, double, rtol=1e-5)


def test_actions_of_the_agents():
    sizes = {n: hamq.problems.repelling_agents(n).actions.shape for n in (1, 2, 3, 4, 40)}
    assert sizes == {1: (3, 1), 2: (9, 2), 3: (27, 3), 4: (9,), 40: (9,)}
    assert hamq.problems.repelling_agents(4, per_agent=True).actions.shape == (81, 4)
    np.testing.assert_allclose(hamq.problems.repelling_agents(2, per_agent=False).actions, np.linspace(-1, 1, 9))
    expected = list(itertools.product((-1.0, 0.0, 1.0), repeat=3))
    np.testing.assert_array_equal(hamq.problems.repelling_agents(3).actions, expected)


def test_each_of_any_number_of_agents_may_have_actions():
    assert hamq.problems.repelling_agents(2).action_levels == ((-1.0, 0.0, 1.0),) * 2
    assert hamq.problems.repelling_agents(4).action_levels is None
    mine = hamq.problems.repelling_agents(40, per_agent=True)
    assert mine.num_actions == 3**40 and mine.action_levels == ((-1.0, 0.0, 1.0),) * 40
    assert "1.48e+38 states in 40 dimensions × 1.22e+19 actions" in repr(mine)


def test_targets_are_evenly_spaced(x64):
    mine = hamq.problems.repelling_agents(4)
    best = mine.reward(jnp.asarray([-0.75, -0.25, 0.25, 0.75]), jnp.asarray(0.0))
    assert best == 0
    np.testing.assert_allclose(mine.reward(jnp.zeros(4), jnp.asarray(1.0)), -0.3125 - 0.01, rtol=1e-12)
    assert mine.notes == ()


def test_forty_agents_can_be_described():
    mine = hamq.problems.repelling_agents(40)
    assert mine.num_states == 9**40
    assert "1.48e+38 states in 40 dimensions × 9 actions" in repr(mine)


def test_one_density_per_strength(as_user):
    first, second = (hamq.problems.repelling_agents(3, strength=5) for _ in range(2))
    assert first.kernel.logdensity is second.kernel.logdensity is make_logdensity(5.0)
    assert first.kernel.logdensity is not hamq.problems.repelling_agents(3).kernel.logdensity


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_agents": 0}, r"num_agents must be a whole number of at least 1, got 0; it is the dimension of the state"),
        ({"num_agents": 2.0}, r"num_agents must be a whole number of at least 1, got 2\.0"),
        ({"num_agents": True}, r"num_agents must be a whole number"),
        ({"strength": -1.0}, r"strength must be a finite number of at least 0, got -1\.0; 0 means no repulsion"),
        ({"strength": float("inf")}, r"strength must be a finite number of at least 0, got inf"),
        ({"strength": "strong"}, r"strength must be a finite number of at least 0, got 'strong'"),
        ({"points": 1}, r"at least 2 points per axis"),
        ({"points": [9]}, r"points has 1 entries and lower has 2"),
    ],
)
def test_refusals_of_the_agents(as_user, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        hamq.problems.repelling_agents(**options)
