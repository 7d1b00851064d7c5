"""Environments: Gymnasium's own checks, the solver's law in 10,000 random steps, seeds, batches and refusals."""

import importlib
import sys
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy.special import ndtr, ndtri
from scipy.stats import truncnorm

import hamq.envs
from hamq.control.next_state import make_model
from hamq.envs import ProblemEnv, ProblemVectorEnv
from hamq.envs.registration import environment_id, zoo_functions
from hamq.problem import zoo
from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel, ProductDensity
from hamq.problem.problem import Problem
from hamq.problem.zoo.repelling_agents import make_logdensity
from hamq.types import HamqWarning
from tests.stats import assert_distribution, assert_mean_equals

FAST = ("hamq/Pendulum-v0", "hamq/CartPole-v0")
NOT_PRODUCTS = ("hamq/SpringChain-v0", "hamq/RepellingAgents-v0")
PRODUCTS = tuple(name for name in hamq.envs.IDS if name not in NOT_PRODUCTS)
FALSE_ALARM = 1e-6
NUM_STEPS = 10_000


@pytest.fixture
def as_user():
    """No types checked, as users have it: what annotations forbid must still be refused by a sentence."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def slow_but(fast, names):
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


def pose(law="linear", terminal=None, actions=(-1.0, 0.0, 1.0), points=(5, 4), **changes) -> Problem:
    grid = changes.pop("grid", Grid([-1.0, -1.0], [1.0, 1.5], list(points)))
    kernel = changes.pop("kernel", GaussianKernel(drift, [0.16, 0.25]))
    actions = actions if isinstance(actions, ProductActions) else np.asarray(actions)
    expected = ("aliasing", "noise", "outside")
    return Problem(grid, actions, kernel, paid, 0.9, terminal, law=law, expected=expected, **changes)


def drift(state, action):
    return 0.8 * state + 0.3 * jnp.sum(action) * jnp.ones(2, state.dtype)


def paid(state, action):
    return jnp.cos(state[0]) + 0.5 * state[1] - 0.1 * jnp.sum(action**2)


def is_right(state):
    return state[0] > 0.4


# Gymnasium's checks.


def test_every_problem_of_the_zoo_is_registered():
    named = {"Pendulum", "DoubleIntegrator", "CartPole", "Acrobot", "CartDoublePendulum"}
    named |= {"RepellingAgents", "SpringChain", "PendulumChain"}
    assert {f"hamq/{name}-v0" for name in named} <= set(hamq.envs.IDS)
    public = {name for name in vars(zoo) if callable(getattr(zoo, name))} - {"Sourced", "provenance"}
    assert set(zoo_functions()) == public
    assert environment_id("gym_cartpole") == "hamq/GymCartPole-v0"


@pytest.mark.parametrize("name", slow_but(FAST[:1], hamq.envs.IDS))
def test_gymnasium_finds_nothing(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environment = gymnasium.make(name, render_mode="rgb_array")
        check_env(environment.unwrapped)
    environment.reset(seed=0)
    *_, truncated, _ = [environment.step(environment.action_space.sample()) for _ in range(2)][-1]
    assert not truncated
    frame = environment.render()
    assert frame.shape == (400, 400, 3) and frame.dtype == np.uint8


# The law.


def walk(environments, seed=0, at_least=NUM_STEPS):
    """(states, actions, next states, rewards, terminated, steps' numbers) of random steps that are not resets."""
    environments.action_space.seed(seed)
    states, _ = environments.reset(seed=seed)
    rows, is_over = [], np.zeros(environments.num_envs, bool)
    while sum(len(row[0]) for row in rows) < at_least:
        chosen = environments.action_space.sample()
        found, rewards, terminated, truncated, _ = environments.step(chosen)
        actions, times = environments.dynamics.actions(chosen), np.full(len(chosen), len(rows))
        rows.append([a[~is_over] for a in (states, actions, found, rewards, terminated, times)])
        states, is_over = found, terminated | truncated
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def densities(problem, states, actions):
    """The solver's density of every pair, in float64."""
    with jax.enable_x64(True):
        pairs = jnp.asarray(states, jnp.float64), jnp.asarray(actions, jnp.float64)
        found = jax.jit(jax.vmap(problem.density))(*pairs)
        return jax.tree.map(np.asarray, found)


def distribution(problem, states, actions, found):
    """P(next coordinate ≤ what was found) of every coordinate, from the density's mean and standard deviation alone."""
    density = densities(problem, states, actions)
    assert isinstance(density, ProductDensity)
    shares, grid = [], problem.grid
    for axis in range(grid.dimension):
        mean, std, x = density.mean[:, axis], density.std[:, axis], found[:, axis].astype(np.float64)
        low, high = grid.lower[axis], grid.upper[axis]
        if grid.periodic[axis]:
            turns = (high - low) * np.arange(-4, 5)[None, :]
            mean = (low + (mean - low) % (high - low))[:, None] - turns
            parts = ndtr((x[:, None] - mean) / std[:, None]) - ndtr((low - mean) / std[:, None])
            shares.append(parts.sum(axis=1))
        else:
            shares.append(truncnorm.cdf((x - mean) / std, (low - mean) / std, (high - mean) / std))
    return np.stack(shares, axis=1)


def assert_uniform_and_independent(shares, times):
    """Kolmogorov's distance by the bound of Dvoretzky, Kiefer, Wolfowitz and Massart; moments of normal scores.

    False alarm 1e-6 over all coordinates for each of: uniform, mean, noise, independent coordinates, independent steps.
    """
    n, d = shares.shape
    bound = np.sqrt(np.log(2 * d / FALSE_ALARM) / (2 * n))
    assert bound <= 0.03, f"too few steps: sees only distances above {bound}"
    steps = np.arange(1, n + 1)[:, None] / n
    ordered = np.sort(shares, axis=0)
    distance = np.maximum(steps - ordered, ordered - steps + 1 / n).max(axis=0)
    assert np.all(distance <= bound), f"distances {distance}, allowed {bound}"
    scores = ndtri(np.clip(shares, 1e-7, 1 - 1e-7))
    assert_mean_equals(scores, 0, resolution=0.07)  # the mean, and below the noise, in standard deviations
    assert_mean_equals(scores**2, 1, resolution=0.12)
    first, second = np.triu_indices(d, 1)
    if len(first):
        assert_mean_equals(scores[:, first] * scores[:, second], 0, resolution=0.07)
    half = np.searchsorted(times, times[-1] // 2 + 1)
    count = min(half, n - half)
    assert_mean_equals(scores[:count] * scores[half : half + count], 0, resolution=0.1)  # the same key twice?


def assert_follows_the_law(environments, seed=0):
    problem = environments.problem
    states, actions, found, rewards, terminated, times = walk(environments, seed)
    paid_here = jax.jit(jax.vmap(problem.reward))(states, actions)
    np.testing.assert_allclose(rewards, paid_here, rtol=1e-4, atol=1e-4)
    ends = np.zeros(len(found), bool) if problem.terminal is None else jax.jit(jax.vmap(problem.terminal))(found)
    np.testing.assert_array_equal(terminated, ends)
    assert_uniform_and_independent(distribution(problem, states, actions, found), times)


@pytest.mark.parametrize("name", slow_but(FAST[1:], PRODUCTS))
def test_ten_thousand_random_steps_have_the_mean_and_the_noise_of_the_solver(name):
    assert_follows_the_law(gymnasium.make_vec(name, num_envs=112, vectorization_mode="vector_entry_point"))


@pytest.mark.parametrize(
    "name", slow_but(FAST[:1], [f"hamq/{name}-v0" for name in ("Pendulum", "Acrobot", "CartDoublePendulum")])
)
def test_circles_are_wrapped(name):
    environments = gymnasium.make_vec(
        name, num_envs=112, vectorization_mode="vector_entry_point", periodic=True, noise=0.5, preset="corrected"
    )
    assert any(environments.problem.grid.periodic)
    assert_follows_the_law(environments, seed=1)


def test_episodes_that_end_follow_the_law():
    environments = ProblemVectorEnv(pose(terminal=is_right), num_envs=60, max_episode_steps=9)
    states, actions, found, rewards, terminated, times = walk(environments)
    assert np.mean(terminated) > 0.1 and not np.any(states[:, 0] > 0.4)
    np.testing.assert_array_equal(terminated, found[:, 0] > 0.4)
    assert_uniform_and_independent(distribution(environments.problem, states, actions, found), times)
    expected = np.cos(states[:, 0]) + 0.5 * states[:, 1] - 0.1 * actions**2
    np.testing.assert_allclose(rewards, expected, atol=1e-5)


@pytest.mark.slow
def test_one_environment_follows_the_law():
    problem = pose()
    environment = ProblemEnv(problem)
    state, _ = environment.reset(seed=5)
    environment.action_space.seed(5)
    rows = []
    for _ in range(NUM_STEPS):
        action = environment.action_space.sample()
        found, *_ = environment.step(action)
        rows.append((state, problem.actions[action].astype(np.float32), found))
        state = found
    states, actions, found = (np.asarray(column) for column in zip(*rows, strict=True))
    assert_uniform_and_independent(distribution(problem, states, actions, found), np.arange(len(states)))


def ranks(draw, functions, found, rng, num_references=9):
    """The rank of what was found among exact draws of the same pair, for each function of the next state.

    It is uniform on 0 … 9 whatever the law is, if what was found has it. `draw(rows)` proposes one next state for each of
    these pairs, and says which are accepted.
    """
    n = len(found)
    counts = np.zeros((len(functions), n), int)
    for _ in range(num_references):
        drawn, missing = np.zeros(found.shape), np.arange(n)
        while len(missing):
            proposed, is_accepted = draw(missing, rng)
            drawn[missing[is_accepted]] = proposed[is_accepted]
            missing = missing[~is_accepted]
        for i, function in enumerate(functions):
            counts[i] += function(drawn) < function(found.astype(np.float64))
    return counts


def assert_ranks(counts):
    for of_one in counts:
        assert_distribution(
            np.bincount(of_one, minlength=10), np.full(10, 0.1), resolution=0.06, false_alarm=FALSE_ALARM / len(counts)
        )


@pytest.mark.slow
def test_coupled_noise_has_the_law_of_exact_draws():
    """Steps whose mean lies in the box, against rejection from the whole normal law."""
    environments = gymnasium.make_vec("hamq/SpringChain-v0", num_envs=200, vectorization_mode="vector_entry_point")
    states, actions, found, *_ = walk(environments, at_least=30_000)
    grid = environments.problem.grid
    low, high = np.asarray(grid.lower), np.asarray(grid.upper)
    means = densities(environments.problem, states, actions).mean
    kept = np.flatnonzero(np.all((means >= low) & (means <= high), axis=1))[:NUM_STEPS]
    assert len(kept) == NUM_STEPS
    means, found = means[kept], found[kept]
    covariance = np.asarray(environments.problem.kernel.covariance)
    root = np.linalg.cholesky(covariance)

    def draw(rows, rng):
        points = means[rows] + rng.standard_normal((len(rows), 4)) @ root.T
        return points, np.all((points >= low) & (points <= high), axis=1)

    strongest = np.linalg.eigh(covariance)[1][:, 0]  # the combination with the least noise knows the correlations
    coordinates = [lambda x, i=i: x[:, i] for i in range(4)]
    functions = [*coordinates, lambda x: (x - means) @ strongest, lambda x: np.linalg.norm(x - means, axis=1)]
    assert_ranks(ranks(draw, functions, found, np.random.default_rng(0)))


@pytest.mark.slow
def test_unnormalised_density_has_the_law_of_exact_draws():
    """Rejection: the repulsion is at most 1."""
    environments = gymnasium.make_vec("hamq/RepellingAgents-v0", num_envs=100, vectorization_mode="vector_entry_point")
    states, actions, found, *_ = walk(environments)
    means = states + 0.1 * actions

    def draw(rows, rng):
        points = means[rows] + 0.2 * rng.standard_normal((len(rows), 2))
        repulsion = np.exp(-3 * np.exp(-0.5 * ((points[:, 0] - points[:, 1]) / 0.15) ** 2))
        return points, np.all(np.abs(points) <= 1, axis=1) & (rng.uniform(size=len(rows)) < repulsion)

    functions = [lambda x: x[:, 0], lambda x: x[:, 1], lambda x: np.abs(x[:, 0] - x[:, 1])]
    assert_ranks(ranks(draw, functions, found, np.random.default_rng(0)))


def test_cell_law_moves_on_nodes():
    """The nearest nodes of the continuous steps; starts too."""
    environments = ProblemVectorEnv(pose("cell"), num_envs=60)
    states, _, found, *_ = walk(environments, at_least=1200)
    grid = environments.problem.grid
    nodes = [np.asarray(grid.axis_nodes(i), np.float32) for i in range(2)]
    for points in (states, found):
        assert all(np.abs(points[:, i, None] - nodes[i]).min(axis=1).max() < 1e-6 for i in range(2))
    placed, _ = environments.reset(options={"state": [0.6, 1.4]})
    np.testing.assert_allclose(placed, np.broadcast_to([0.5, 1.5], (60, 2)))


# Seeds and batches.


def trajectory(environment, seed, num_steps=12):
    environment.action_space.seed(7)
    first, _ = environment.reset(seed=seed)
    rows = [environment.step(environment.action_space.sample())[:3] for _ in range(num_steps)]
    states, rewards, terminated = (np.asarray(column) for column in zip(*rows, strict=True))
    return np.concatenate([first[None], states]), rewards, terminated


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [lambda: ProblemEnv(pose()), lambda: ProblemVectorEnv(pose(), 60)], ids=["one", "batch"])
def test_a_seed_is_a_trajectory(make):
    states, *_ = same = trajectory(make(), 3)
    assert_same(same, trajectory(make(), 3))
    assert not np.any(np.all(states == trajectory(make(), 4)[0], axis=-1))


def test_resets_without_a_seed_go_on():
    environment = ProblemEnv(pose())
    first, second = (environment.reset(seed=s)[0] for s in (1, None))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, environment.reset(seed=1)[0])
    np.testing.assert_array_equal(second, environment.reset()[0])


def test_a_batch_of_one_goes_the_way_of_one_environment():
    one, batch = ProblemEnv(pose()), ProblemVectorEnv(pose(), 1)
    (state, _), (states, _) = one.reset(seed=3), batch.reset(seed=3)
    for t in range(10):
        np.testing.assert_array_equal(states[0], state)
        (state, reward, *_), (states, rewards, *_) = one.step(np.int64(t % 3)), batch.step(np.asarray([t % 3]))
        assert rewards[0] == np.float32(reward)


def test_what_has_ended_is_reset_by_the_next_step():
    """Terminal states and the time limit; that step ignores its action and is paid 0."""
    starts = [[-0.9, -0.5], [-0.2, 0.0]]
    problem = pose(terminal=is_right)
    environments = ProblemVectorEnv(problem, num_envs=60, max_episode_steps=4, starts=starts)
    states, _ = environments.reset(seed=0)
    ages, is_over, causes = np.zeros(60, int), np.zeros(60, bool), set()
    for t in range(30):
        states, rewards, terminated, truncated, _ = environments.step(np.full(60, t % 3))
        ages = np.where(is_over, 0, ages + 1)
        np.testing.assert_array_equal(truncated, ages == 4)
        assert np.all(rewards[is_over] == 0) and np.all(rewards[~is_over] != 0)
        assert not np.any(terminated & is_over)
        at_start = np.any(np.all(states[:, None] == np.asarray(starts, np.float32)[None], axis=2), axis=1)
        np.testing.assert_array_equal(at_start, is_over)
        causes |= {(bool(a), bool(b)) for a, b in zip(terminated, truncated, strict=True)}
        is_over = terminated | truncated
    assert causes == {(False, False), (True, False), (False, True), (True, True)}
    assert environments.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP


def test_made_by_gymnasium_with_the_zoos_options():
    options = dict(points=[7, 8], noise=0.5, num_actions=4, periodic=True)
    environment = gymnasium.make("hamq/Pendulum-v0", max_episode_steps=3, **options)
    problem, wanted = environment.unwrapped.problem, zoo.pendulum(law="linear", **options)
    assert (problem.grid, problem.kernel.covariance, problem.law) == (wanted.grid, wanted.kernel.covariance, "linear")
    assert environment.action_space == gymnasium.spaces.Discrete(4)
    environment.reset(seed=0)
    assert [environment.step(0)[3] for _ in range(3)] == [False, False, True]
    batch = gymnasium.make_vec("hamq/Pendulum-v0", num_envs=2, points=5, law="cell")
    assert isinstance(batch, ProblemVectorEnv)
    assert (batch.problem.law, batch.max_episode_steps, batch.num_envs) == ("cell", 200, 2)
    with pytest.raises(ValueError, match=r"hamq/Pendulum-v0: there is no option 'point'; its options are preset, points,"):
        gymnasium.make("hamq/Pendulum-v0", point=5)


# Starts, actions, refusals.


def test_starts():
    environment = ProblemEnv(pose(terminal=is_right))
    drawn = np.asarray([environment.reset(seed=i)[0] for i in range(300)])
    assert drawn[:, 0].max() <= 0.4 and drawn[:, 0].min() < -0.9  # terminal ones are drawn again
    wanted = [0.25, -0.5]
    np.testing.assert_array_equal(environment.reset(options={"state": wanted})[0], np.float32(wanted))
    some = ProblemEnv(pose(terminal=is_right), starts=[wanted, [0.9, 0.0], [-0.5, 1.0]])
    found = {tuple(some.reset(seed=i)[0].tolist()) for i in range(40)}
    assert found == {(0.25, -0.5), (-0.5, 1.0)}
    uniform = ProblemVectorEnv(pose(), 20_000).reset(seed=0)[0]
    assert_mean_equals(uniform, [0.0, 0.25], resolution=0.04)
    assert_mean_equals((uniform - [0.0, 0.25]) ** 2, [4 / 12, 2.5**2 / 12], resolution=0.04)


def test_actions_by_their_numbers():
    """A list is Discrete; a product is MultiDiscrete, in the order of the table's columns."""
    listed = ProblemEnv(pose(actions=(-1.0, 0.5, 2.0)))
    assert listed.action_space == gymnasium.spaces.Discrete(3)
    np.testing.assert_array_equal(listed.dynamics.actions([2, 1]), np.float32([2.0, 0.5]))
    vectors = ProblemEnv(pose(actions=[[0.0, 1.0], [1.0, 2.0], [2.0, 4.0]]))
    assert vectors.action_space == gymnasium.spaces.Discrete(3)
    np.testing.assert_array_equal(vectors.dynamics.actions([2]), np.float32([[2.0, 4.0]]))
    product = ProductActions([[-1.0, 0.0, 1.0], [0.5, 2.0]])
    environment = ProblemEnv(pose(actions=product))
    assert environment.action_space == gymnasium.spaces.MultiDiscrete([3, 2])
    for index in range(6):
        chosen = np.asarray(np.unravel_index(index, (3, 2)))[None]
        np.testing.assert_array_equal(environment.dynamics.actions(chosen)[0], np.float32(product.at(index)))
        np.testing.assert_array_equal(environment.dynamics.nearest(product.at(index)[None] + 0.2), chosen)
    np.testing.assert_array_equal(listed.dynamics.nearest([1.9, -7.0]), [2, 0])
    np.testing.assert_array_equal(vectors.dynamics.nearest([[1.4, 2.6]]), [1])
    huge = ProblemEnv(pose(actions=ProductActions([np.linspace(-1, 1, 9)] * 20)))
    assert huge.action_space == gymnasium.spaces.MultiDiscrete([9] * 20)


def test_refusals(as_user):
    problem = pose(terminal=is_right)
    environment, batch = ProblemEnv(problem), ProblemVectorEnv(problem, 2)
    for each in (environment, batch):
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) before step"):
            each.step(0)
        each.reset(seed=0)
    for call, sentence in [
        (lambda: environment.step(3), r"action must be in Discrete\(3\), got 3"),
        (lambda: batch.step([0, 5]), r"actions must be in MultiDiscrete\(\[3 3\]\), got \[0, 5\]"),
        (lambda: environment.reset(options={"stat": 1}), "options has 'stat'; the only option is"),
        (lambda: environment.reset(options={"state": [0.0]}), r"must have the shape \[2\] or \[n, 2\], got \[1\]"),
        (lambda: environment.reset(options={"state": [0.0, 9.0]}), r"has the state \[0.0, 9.0\], outside of the box"),
        (lambda: environment.reset(options={"state": [0.0, np.nan]}), "outside of the box"),
        (lambda: batch.reset(options={"state": [[0.0, 0.0]] * 3}), "has 3 states for 2 environments"),
        (lambda: ProblemEnv(problem, starts=[[0.9, 0.0]]), "all 1 starts are terminal"),
        (lambda: ProblemEnv(problem, render_mode="human"), "render_mode must be None or"),
        (lambda: ProblemEnv(problem, render_size=(400, 0)), r"render_size must be \(width, height\)"),
        (lambda: ProblemEnv("pendulum"), "problem must be a hamq.Problem, got str"),
        (lambda: ProblemEnv(pose("point")), "law='point'"),
        (lambda: ProblemVectorEnv(problem, 0), "num_envs"),
        (lambda: ProblemEnv(pose(terminal=lambda state: state[0] > -2)).reset(seed=0), "that is not terminal found in"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()


@pytest.mark.slow
def test_weights_that_collapse_are_told():
    problem = zoo.repelling_agents(1, strength=0.0, law="linear")
    environment = ProblemEnv(problem, model=make_model(problem, num_draws=2, method="chains"))
    environment.reset(seed=0)
    with pytest.warns(HamqWarning, match=r"100 of 100 next states of repelling_agents .* in model=make_model\(problem"):
        for _ in range(100):
            environment.step(0)
    assert make_logdensity(0.0) is problem.kernel.logdensity


def test_without_gymnasium_one_sentence(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[:2] == ["hamq", "envs"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"^hamq\.envs needs gymnasium: pip install 'hamq\[gym\]'\.$"):
        importlib.import_module("hamq.envs")
