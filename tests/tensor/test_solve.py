"""solve_tensor: against tables where there are some, in closed loop where there are none."""

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.tensor import train
from hamq.types import NonFiniteError
from tests.tensor.posed import pose_plane

TRACES = []


@functools.cache
def planar(name):
    problem = getattr(hamq.problems, name)(points=9, law="linear", num_actions=5)
    return problem, hamq.solve_exact(problem), hamq.solve_tensor(problem, rank=9, max_rank=9, tolerance=1e-4)


@pytest.mark.parametrize("name", ["pendulum", pytest.param("double_integrator", marks=pytest.mark.slow)])
def test_the_table_is_found_again(name):
    """At full rank with exact sums: V* of the exact solver to 0.1 %, where 1 % would do."""
    problem, exact, solution = planar(name)
    states = problem.grid.states()
    scale = np.abs(exact.value).max()
    assert solution.converged and solution.residual <= 1e-4
    np.testing.assert_allclose(solution.value(states), exact.value, atol=1e-3 * scale)
    np.testing.assert_allclose(solution.backup(states), exact.value, atol=1e-3 * scale)
    assert "residual 0.0" in solution.result and f"at rank {max(solution.ranks)}" in solution.result


def test_what_a_solution_says():
    problem, exact, solution = planar("pendulum")
    states = problem.grid.states()[::7]
    q = solution.q(states)
    np.testing.assert_allclose(q, exact.q[::7], atol=1e-3 * np.abs(exact.q).max())
    policy = solution.policy(states)
    np.testing.assert_array_equal(policy, q.argmax(axis=1))
    actions = np.asarray(problem.actions)[policy]
    np.testing.assert_allclose(solution.actions(states), actions, rtol=1e-6)
    assert solution.action(states[3]) == pytest.approx(actions[3])
    np.testing.assert_allclose(solution.action_gap(states), 0, atol=1e-5)
    middle = (states[0] + problem.grid.states()[1]) / 2
    between = solution.value(middle[None])[0]
    assert between == pytest.approx(solution.value(problem.grid.states()[:2]).mean(), rel=1e-4)
    np.testing.assert_array_equal(solution.history.residual[-1], solution.residual)
    assert "pendulum" in repr(solution) and solution.result in repr(solution)


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        (np.zeros(2), r"must have the shape \[B, 2\], got \[2\]"),
        (np.asarray([[0, 0], [0, np.nan]]), "state 1 is not finite"),
    ],
)
def test_states_are_checked(states, sentence):
    with pytest.raises(ValueError, match=sentence):
        planar("pendulum")[2].value(states)


def test_the_order_of_the_axes_does_not_matter_at_full_rank():
    problem, exact, _ = planar("pendulum")
    turned = hamq.solve_tensor(problem, rank=9, max_rank=9, tolerance=1e-4, order=(1, 0))
    assert turned.order == (1, 0) and turned.cores[0].shape[1] == 9
    np.testing.assert_allclose(turned.value(problem.grid.states()), exact.value, atol=1e-3 * np.abs(exact.value).max())


def test_terminal_states():
    problem = pose_plane(terminal=lambda state: state[0] > 1.2)
    exact = hamq.solve_exact(problem)
    solution = hamq.solve_tensor(problem, rank=6, max_rank=6, tolerance=1e-4)
    scale = np.abs(exact.value).max()
    np.testing.assert_allclose(solution.value(problem.grid.states()), exact.value, atol=1e-3 * scale)


def test_a_reward_that_is_no_number_is_named():
    problem = pose_plane(reward=lambda state, action: jnp.where(state[0] > 1.2, jnp.nan, state[1] - action))
    with pytest.raises(NonFiniteError, match=r"the backup is nan at state \(.*\), action \[.*\] \(\d+ of \d+ states\)"):
        hamq.solve_tensor(problem, rank=2, max_rank=2, iterations=1)


def interrupted(problem, options, after):
    """Solved in two parts: the checkpoint after so many iterations, then the rest."""

    class Stop(Exception):
        pass

    kept = []

    def callback(iterate):
        if iterate.iteration == after:
            kept.append(iterate.checkpoint())
            raise Stop

    with pytest.raises(Stop):
        hamq.solve_tensor(problem, **options, callback=callback)
    return hamq.solve_tensor(problem, **options, resume=kept[0])


def test_resumed_is_bit_for_bit_the_same():
    """Interrupted in the sweeps, at frozen points, and after the rank has grown."""
    problem = planar("pendulum")[0]
    options = {"rank": 2, "max_rank": 3, "tolerance": 1e-9, "iterations": 9, "sampler": hamq.IID(16), "key": 3}
    whole = hamq.solve_tensor(problem, **options)
    grown = int(np.argmax(whole.history.rank == 3))
    assert 3 <= grown < len(whole.history) - 1
    for after in (1, 3, grown, grown + 1):
        resumed = interrupted(problem, options, after)
        for a, b in zip(whole.cores, resumed.cores, strict=True):
            np.testing.assert_array_equal(a, b)
        for name in ("residual", "rank", "points", "reads", "samples"):
            np.testing.assert_array_equal(whole.history[name], resumed.history[name])
        assert resumed.result == whole.result and resumed.residual == whole.residual


def test_what_cannot_be_resumed():
    problem = planar("pendulum")[0]
    with pytest.raises(ValueError, match="resume has no 'counts'"):
        hamq.solve_tensor(problem, resume={})
    kept = []
    options = {"rank": 2, "sampler": hamq.IID(16)}
    hamq.solve_tensor(problem, **options, iterations=1, order=(0, 1), callback=lambda it: kept.append(it.checkpoint()))
    with pytest.raises(ValueError, match=r"resume has the axes in the order \[0, 1\], this run in \[1, 0\]"):
        hamq.solve_tensor(problem, **options, iterations=2, order=(1, 0), resume=kept[0])


def test_keys_decide():
    problem = planar("pendulum")[0]
    options = {"rank": 2, "max_rank": 2, "iterations": 3, "sampler": hamq.IID(16)}
    first, again, other = (hamq.solve_tensor(problem, **options, key=key).cores for key in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.allclose(train.dense(first), train.dense(other), rtol=1e-6)


def counted_mean(state, action):
    TRACES.append(1)
    return 0.8 * state + 0.1 * jnp.roll(state, 1) + 0.1 * action


def test_nothing_is_compiled_once_the_rank_has_settled():
    """Sweeps, frozen points and evaluations have all been seen after one iteration at frozen points."""
    problem = Problem(
        Grid([-1.0] * 3, [1.0] * 3, [4] * 3),
        [-1.0, 0.0, 1.0],
        GaussianKernel(counted_mean, [0.1] * 3),
        lambda s, a: -jnp.sum(s**2) - 0.1 * a**2,
        0.9,
        law="linear",
        expected=("noise", "outside", "aliasing"),
    )
    seen = []

    def callback(iterate):
        seen.append((iterate.row.rank, len(TRACES)))

    hamq.solve_tensor(problem, rank=3, max_rank=3, iterations=7, tolerance=1e-12, callback=callback)
    ranks, counts = zip(*seen, strict=True)
    assert set(ranks) == {3} and len(counts) >= 4
    assert len(set(counts[2:])) == 1, f"traces after every iteration: {counts}"


@pytest.mark.filterwarnings("ignore:solve_tensor. problem. draws are too few:hamq.types.HamqWarning")  # 8 of them are
@pytest.mark.parametrize("kind", ["gaussian", pytest.param("unnormalized", marks=pytest.mark.slow)])
def test_programs_go_with_the_problem(kind):
    """Nothing holds on to the user's functions, or to what was compiled for them, once problem and solution are gone."""

    def mean(state, action):
        return 0.8 * state + 0.3 * action

    def logdensity(next_state, state, action):
        return -2 * jnp.sum((next_state - mean(state, action)) ** 2)

    is_gaussian = kind == "gaussian"
    problem = Problem(
        Grid([-1.0] * 2, [1.0] * 2, [3] * 2),
        [-1.0, 1.0],
        GaussianKernel(mean, [0.25, 0.25]) if is_gaussian else UnnormalizedKernel(logdensity),
        lambda s, a: -jnp.sum(s**2) - 0.1 * a**2,
        0.9,
        law="linear",
        expected=("noise", "outside", "aliasing"),
    )
    gone = [weakref.ref(mean), weakref.ref(logdensity), weakref.ref(problem.reward)]
    sampler = hamq.IID(8) if is_gaussian else hamq.Importance(8)
    solution = hamq.solve_tensor(problem, sampler=sampler, rank=2, max_rank=2, iterations=1)
    assert np.isfinite(solution.q([[0.0, 0.0]])).all()
    del problem, solution, mean, logdensity
    gc.collect()
    assert [function() for function in gone] == [None] * 3


def rollouts(problem, actions_of, starts, num_steps, seed=0):
    """Discounted return of every start: the kernel's mean plus its noise, stopped at the walls."""
    generator = np.random.default_rng(seed)
    covariance = np.asarray(problem.kernel.covariance)
    root = np.diag(np.sqrt(covariance)) if covariance.ndim == 1 else np.linalg.cholesky(covariance)
    mean, reward = jax.jit(jax.vmap(problem.kernel.mean)), jax.jit(jax.vmap(problem.reward))
    states, returns = starts.astype(np.float32), np.zeros(len(starts))
    for t in range(num_steps):
        actions = jnp.asarray(actions_of(states), jnp.float32)
        returns += problem.discount**t * np.asarray(reward(jnp.asarray(states), actions))
        noise = generator.standard_normal(states.shape) @ root.T
        states = np.asarray(mean(jnp.asarray(states), actions)) + noise
        states = np.clip(states, problem.grid.lower, problem.grid.upper).astype(np.float32)
    return returns


def gain(problem, solution, num_steps=40):
    """What the policy earns more than no action, over 64 starts with the same noise: mean and standard error."""
    low, high = np.asarray(problem.grid.lower), np.asarray(problem.grid.upper)
    starts = np.random.default_rng(1).uniform(low / 2, high / 2, (64, len(low)))
    ours = rollouts(problem, solution.actions, starts, num_steps)
    shape = problem.action_shape
    idle = rollouts(problem, lambda states: np.zeros((len(states), *shape)), starts, num_steps)
    difference = ours - idle
    return difference.mean(), difference.std(ddof=1) / 8, idle.mean()


def test_springs_in_four_dimensions():
    """Correlated noise, draws: V against the table of the exact solver would take an hour; the policy is run instead."""
    problem = hamq.problems.spring_chain(2, points=5, num_actions=5)
    solution = hamq.solve_tensor(problem, rank=5, max_rank=5, iterations=5, tolerance=0.02)
    assert solution.residual < 0.05 and solution.history.samples[-1] > 0
    mean, error, _ = gain(problem, solution)
    assert mean > 5 * error


@pytest.mark.slow
def test_pendulums_in_eight_dimensions():
    """5⁸ states, 81 actions by coordinates: no table; upright from 60° off is better than falling."""
    problem = hamq.problems.pendulum_chain(4, points=5)
    solution = hamq.solve_tensor(problem, rank=4, max_rank=4, iterations=3, tolerance=0.005)
    assert solution.residual < 0.03 and len(solution.cores) == 8
    mean, error, idle = gain(problem, solution)
    assert mean > 5 * error and mean > 0.1 * abs(idle)


@pytest.mark.slow
def test_acrobot_is_not_of_low_rank():
    """Rank 3 of 25 leaves a residual, and the result says so, and what to do."""
    problem = hamq.problems.acrobot(law="linear", points=5, num_actions=3)
    solution = hamq.solve_tensor(problem, rank=2, max_rank=3, iterations=12, tolerance=0.002)
    assert not solution.converged and solution.residual > 0.004
    assert "where 0.20% was asked for; " in solution.result
    assert "raise max_rank = 3" in solution.result or "does not compress" in solution.result


@pytest.mark.slow
def test_noise_does_not_compress():
    """A reward that is different at every node: no rank below the full one helps, and the result says that."""
    problem = Problem(
        Grid([0.0] * 4, [3.0] * 4, [4] * 4),
        [0.0, 1.0],
        GaussianKernel(lambda s, a: 0.5 * s, [1.0] * 4),
        lambda s, a: jnp.sin(1e3 * jnp.sin(s[0] + 3 * s[1] + 7 * s[2] + 17 * s[3])) + 0 * a,
        0.3,
        law="linear",
        expected=("noise", "outside", "aliasing"),
    )
    solution = hamq.solve_tensor(problem, rank=2, max_rank=6, iterations=20, tolerance=0.01)
    assert not solution.converged and solution.residual > 0.3
    assert "V does not compress on this grid" in solution.result and solution.history.rank[-1] < 6


def test_unfinished_says_so():
    problem = planar("pendulum")[0]
    options = {"rank": 2, "max_rank": 2, "iterations": 1, "sampler": hamq.IID(16)}
    solution = hamq.solve_tensor(problem, **options, tolerance=1e-6)
    assert not solution.converged and "still falling after 1 iterations; use more iterations" in solution.result


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 0}, "rank"),
        ({"max_rank": 3}, "max_rank = 3 is below rank = 8; raise it"),
        ({"iterations": 0}, "iterations"),
        ({"tolerance": 0.0}, "tolerance must be a number above 0"),
        ({"tolerance": True}, "tolerance must be a number above 0"),
        ({"order": (0, 0)}, r"order must hold each of the axes 0 to 1 once, got \(0, 0\)"),
        ({"order": (0.0, 1.0)}, "order must hold each of the axes"),
        ({"num_starts": -1}, "num_starts"),
        ({"sampler": "hmc"}, "sampler must be a sampler of hamq"),
    ],
)
def test_refusals(as_user, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        hamq.solve_tensor(planar("pendulum")[0], **options)


def test_refused_problems(as_user):
    with pytest.raises(ValueError, match=r"problem must be a hamq\.Problem"):
        hamq.solve_tensor("pendulum")
    with pytest.raises(ValueError, match="build it with law='linear'"):
        hamq.solve_tensor(hamq.problems.pendulum(points=5))
    line = Problem(
        Grid([0.0], [1.0], [3]), [0.0], GaussianKernel(lambda s, a: s, [0.2]), lambda s, a: s[0], 0.9, law="linear"
    )
    with pytest.raises(ValueError, match="needs at least 2 dimensions"):
        hamq.solve_tensor(line)
