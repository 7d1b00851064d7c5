"""Families of kernels that are defined here, one class each: everything works with them, and nothing asks for their type."""

import gc
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.control.decoders import make_policy
from hamq.control.next_state import make_model
from hamq.problem.cells import axis_rows_of
from hamq.problem.kernels.kernel import Normal, NormalFunctions
from hamq.problem.programs import program
from hamq.runs.problem_hash import problem_hash
from tests.stats import assert_mean_equals


def step(state, action):
    return jnp.stack([0.7 * state[0] + 0.4 * action, 0.6 * state[1] + 0.2 * state[0]])


class HeavyDensity(hamq.AbstractDensity):
    """Student's t with three degrees of freedom about the mean: `log` is all that is needed."""

    mean: jax.Array
    scale: float = eqx.field(static=True)

    def log(self, point):
        return -2.5 * jnp.log1p(jnp.sum(((point - self.mean) / self.scale) ** 2) / 3)


class HeavyKernel(hamq.AbstractKernel):
    scale: float = eqx.field(static=True)

    def at(self, grid, state, action):
        return HeavyDensity(step(state, action), self.scale)


class LogisticDensity(hamq.AbstractDensity):
    """Independent coordinates, which say so."""

    mean: jax.Array

    def log(self, point):
        return sum(self.log_of_axis(i, point[i]) for i in range(2))

    def log_of_axis(self, axis, coordinate):
        z = (coordinate - self.mean[axis]) / 0.3
        return -z - 2 * jax.nn.softplus(-z)


class LogisticKernel(hamq.AbstractKernel):
    def at(self, grid, state, action):
        return LogisticDensity(step(state, action))

    def is_product(self, grid, action_shape):
        return True


class OwnNormalDensity(hamq.AbstractDensity):
    mean: jax.Array

    def log(self, point):
        return -0.5 * jnp.sum(((point - self.mean) / 0.5) ** 2)

    @property
    def normal(self):
        return Normal(self.mean, jnp.full((2,), 0.5, self.mean.dtype))

    def axis_log_masses(self, grid, axis, law):
        return hamq.GaussianKernel(step, [0.25, 0.25]).at(grid, self.mean, 0.0).axis_log_masses(grid, axis, law)


def pose(kernel, law="cell", points=(7, 6)):
    grid = hamq.Grid([-1.5, -1.5], [1.5, 1.5], list(points))
    return hamq.Problem(
        grid,
        np.linspace(-1, 1, 3),
        kernel,
        lambda s, a: jnp.cos(2 * s[0]) - s[1] ** 2 - 0.1 * a**2,
        0.9,
        law=law,
        name="own",
    )


def as_function(kernel):
    """The same law as an UnnormalizedKernel."""
    return hamq.UnnormalizedKernel(lambda n, s, a: kernel.at(None, s, a).log(n))


@pytest.fixture(scope="module")
def heavy():
    problem = pose(HeavyKernel(0.4))
    return problem, hamq.solve_exact(problem, tolerance=1e-4)


def test_exact_as_for_a_function(heavy):
    problem, exact = heavy
    same = hamq.solve_exact(pose(as_function(problem.kernel)), tolerance=1e-4)
    assert exact.result == same.result and exact.result.startswith("estimated to")
    np.testing.assert_allclose(exact.q, same.q, atol=1e-9)


def test_solve_and_certify(heavy):
    problem, exact = heavy
    by_masses = hamq.solve(problem, key=0)
    assert "masses of all 126 pairs" in by_masses.result
    assert np.abs(by_masses.q - exact.q).max() <= 2e-3 * np.ptp(exact.q)
    drawn = hamq.solve(problem, sampler=hamq.IID(500), key=0)
    assert np.sqrt(np.mean((drawn.q - exact.q) ** 2)) <= 0.03 * np.ptp(exact.q)
    certificate = hamq.certify(drawn)
    true = np.abs(drawn.q - exact.q).max()
    assert true - 1e-3 <= certificate.error <= 1.2 * true


@pytest.mark.slow
def test_chains_of_a_normal_family_are_the_same():
    problems = pose(OwnNormalKernel()), pose(hamq.GaussianKernel(step, [0.25, 0.25]))
    drawn = [hamq.draw_each(problem, hamq.HMC(40), np.asarray([5]), key=1) for problem in problems]
    np.testing.assert_array_equal(*(each.draws.locations for each in drawn))


@pytest.mark.slow
def test_chains_of_an_own_family(heavy):
    problem, exact = heavy
    drawn = hamq.solve(problem, sampler=hamq.HMC(400), completion=None, key=0)
    assert np.sqrt(np.mean((drawn.q - exact.q) ** 2)) <= 0.03 * np.ptp(exact.q)
    certificate = hamq.certify(drawn, method="asymptotic")
    assert np.all(certificate.lower <= exact.q + 1e-3) and np.all(exact.q <= certificate.upper + 1e-3)


def test_simulate_and_decode(heavy):
    problem, exact = heavy
    start = 17
    starts = np.tile(problem.grid.states()[start], (400, 1))
    found = hamq.rollouts(problem, {"greedy": make_policy(exact)}, starts=starts, steps=60, key=5)
    assert_mean_equals(found.returns["greedy"], np.asarray(exact.value[start]), resolution=0.6)
    chosen = make_policy(exact)(problem.grid.states())
    np.testing.assert_allclose(chosen, problem.actions[exact.policy])


def test_the_hash_sees_the_density():
    assert problem_hash(pose(HeavyKernel(0.4))) == problem_hash(pose(HeavyKernel(0.4)))
    assert problem_hash(pose(HeavyKernel(0.4))) != problem_hash(pose(HeavyKernel(0.41)))


def test_programs_belong_to_one_kernel():
    """Two kernels of one class share no compiled program; a kernel that is gone takes its own along."""
    kernel = HeavyKernel(0.3)
    assert program("once", kernel.functions, lambda x: x, jnp.ones(3)) is not program(
        "once", HeavyKernel(0.4).functions, lambda x: x, jnp.ones(3)
    )
    run = program("twice", kernel.functions, lambda x: 2 * x, jnp.ones(3))
    assert run is program("twice", kernel.functions, lambda x: 3 * x, jnp.ones(3))
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_a_product_sums_axis_by_axis():
    problem = pose(LogisticKernel())
    assert problem.is_product and not problem.has_closed_masses
    states, actions = problem.grid.states(), np.linspace(-1, 1, problem.num_states)
    for axis in range(2):
        found = axis_rows_of(problem, axis, states, actions, 1e-8).masses
        means = np.asarray(jax.vmap(step)(jnp.asarray(states), jnp.asarray(actions)), np.float64)[:, axis]
        ends = 1 / (1 + np.exp(-(problem.grid.axis_edges(axis) - means[:, None]) / 0.3))
        np.testing.assert_allclose(found, np.diff(ends) / (ends[:, -1:] - ends[:, :1]), atol=1e-6)
    exact = hamq.solve_exact(problem, tolerance=1e-4)
    assert exact.result.startswith("estimated to")
    whole = hamq.solve_exact(pose(as_function(problem.kernel)), tolerance=1e-4)
    np.testing.assert_allclose(exact.q, whole.q, atol=2e-4)


class OwnNormalKernel(hamq.AbstractKernel):
    has_one_mode = True
    has_closed_masses = True

    def at(self, grid, state, action):
        return OwnNormalDensity(step(state, action))

    @property
    def normal(self):
        return NormalFunctions(step, (0.25, 0.25))

    def is_product(self, grid, action_shape):
        return True


def test_a_family_that_is_normal_gets_all_that_normal_kernels_have():
    ours, theirs = pose(OwnNormalKernel()), pose(hamq.GaussianKernel(step, [0.25, 0.25]))
    exact, other = (hamq.solve_exact(problem) for problem in (ours, theirs))
    np.testing.assert_array_equal(exact.q, other.q)
    assert exact.result.startswith("certified to")
    assert make_model(ours).how == make_model(theirs).how == "normal law"
    drawn = (hamq.draw_each(problem, hamq.IID(50), np.asarray([5]), key=1) for problem in (ours, theirs))
    np.testing.assert_array_equal(*(each.draws.locations for each in drawn))
    assert hamq.lqr_policy(ours, at=([0.0, 0.0], 0.0)).gain == pytest.approx(
        hamq.lqr_policy(theirs, at=([0.0, 0.0], 0.0)).gain
    )


def test_what_is_no_density_is_refused():
    class Nothing(hamq.AbstractKernel):
        def at(self, grid, state, action):
            return 1.0

    with pytest.raises(ValueError, match=r"Nothing: at\(.*\) must return a hamq\.AbstractDensity, got float"):
        pose(Nothing())

    class Vector(hamq.AbstractDensity):
        def log(self, point):
            return point

    class Vectors(hamq.AbstractKernel):
        def at(self, grid, state, action):
            return Vector()

    with pytest.raises(ValueError, match=r"the log-density of Vectors must return shape \(\) .* got \(2,\)"):
        pose(Vectors())
