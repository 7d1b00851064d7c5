"""The regulator: against the scalar formula, scipy, and Bellman's equation of its own quadratic value."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from hamq.control.action_range import action_range, nearest_actions
from hamq.control.linear_quadratic import best_rest, linearise, lqr_policy
from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.zoo import pendulum_chain, repelling_agents, spring_chain
from hamq.problem.zoo.pendulum_chain import linear_model


def scalar(a=1.2, b=0.5, cost=0.3, discount=0.9, target=0.0, periodic=False):
    """s' = a·s + b·u, −(s − target)² − cost·u²."""
    kernel = GaussianKernel(lambda s, u: a * s + b * u, [0.01])
    return Problem(
        Grid([-3.0], [5.0], [9], [periodic]),
        np.linspace(-50, 50, 5),
        kernel,
        lambda s, u: -((s[0] - target) ** 2) - cost * u**2,
        discount,
        law="linear",
        expected=("aliasing", "noise", "outside"),
    )


def test_scalar_formula():
    """P solves γb²P² + (ρ − γa²ρ − γb²)P − ρ = 0; K = γabP/(ρ + γb²P)."""
    a, b, cost, discount = 1.2, 0.5, 0.3, 0.9
    policy = lqr_policy(scalar())
    linear = cost - discount * (a**2 * cost + b**2)
    p = (-linear + math.sqrt(linear**2 + 4 * discount * b**2 * cost)) / (2 * discount * b**2)
    gain = discount * a * b * p / (cost + discount * b**2 * p)
    np.testing.assert_allclose(policy.gain, [[gain, 0]], atol=1e-9)
    np.testing.assert_allclose(policy([[2.0], [-1.0]]), [-2 * gain, gain], atol=1e-6)
    np.testing.assert_allclose(policy.value([[2.0]]), [-4 * p], rtol=1e-9)


@pytest.mark.parametrize("at", [([0.7], -3.0), ([-2.0], 11.0)])
@pytest.mark.parametrize("target", [0.0, 1.5])
def test_where_a_linear_quadratic_problem_is_expanded_does_not_matter(at, target):
    """No equilibrium, no level reward: the constant coordinate carries both."""
    problem, states = scalar(target=target), np.linspace(-2, 4, 7)[:, None]
    first, second = lqr_policy(problem), lqr_policy(problem, at=at)
    assert np.ptp(first(states)) > 1
    np.testing.assert_allclose(first(states), second(states), atol=1e-6)
    np.testing.assert_allclose(first.value(states), second.value(states), rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("problem", [spring_chain(3, 2), spring_chain(2)], ids=["two actuators", "one"])
def test_bellmans_equation(problem):
    """V(s) = max_a r(s, a) + γ V(mean), attained by the policy where no end is reached, and by nothing near it."""
    policy, generator = lqr_policy(problem), np.random.default_rng(0)
    states = generator.uniform(-0.5, 0.5, (20, problem.grid.dimension))
    actions = policy(states)
    assert np.abs(actions).max() < 2

    def q(actions):
        with jax.enable_x64(True):
            given = jnp.asarray(states), jnp.asarray(actions)
            moved = np.asarray(jax.vmap(problem.kernel.mean)(*given))
            return np.asarray(jax.vmap(problem.reward)(*given)) + problem.discount * policy.value(moved)

    np.testing.assert_allclose(q(actions), policy.value(states), rtol=1e-9)
    for _ in range(5):
        assert np.all(q(actions + generator.normal(size=actions.shape)) < q(actions))


def test_against_scipy():
    problem = spring_chain(3, 2)
    policy = lqr_policy(problem)
    model = linearise(problem, np.zeros(6), np.zeros(2))
    root = math.sqrt(problem.discount)
    solved = solve_discrete_are(root * model.a[:6, :6], root * model.b[:6], -model.q[:6, :6], -model.r)
    np.testing.assert_allclose(policy.matrix[:6, :6], -solved, rtol=1e-8, atol=1e-10)


def test_linear_model_of_the_pendulums():
    problem = pendulum_chain(3)
    state, action = best_rest(problem)
    np.testing.assert_allclose(state, 0, atol=1e-6)
    model = linearise(problem, state, action)
    a, b = linear_model(3, 2)
    np.testing.assert_allclose(model.a[:6, :6], a, atol=1e-9)
    np.testing.assert_allclose(model.b[:6], b, atol=1e-12)


def test_actions_are_clipped_and_rounded():
    problem = spring_chain(2, 2)
    states = np.random.default_rng(1).uniform(-2, 2, (40, 4))
    wanted, rounded = lqr_policy(problem)(states), lqr_policy(problem, rounded=True)(states)
    assert wanted.shape == (40, 2) and np.abs(wanted).max() == 2
    levels = np.linspace(-2, 2, 9)
    assert np.all(np.isin(rounded, levels)) and np.all(np.abs(rounded - wanted) <= 0.25 + 1e-12)


def test_nearest_of_a_list_and_of_a_product():
    listed = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    product = ProductActions([[-1.0, 0.0, 1.0], [0.0, 5.0]])
    base = spring_chain(2, 2)

    def with_actions(actions):
        return Problem(base.grid, actions, base.kernel, base.reward, 0.9, law="linear", expected=("outside",))

    wanted = np.array([[0.6, 0.1], [0.4, 2.0], [-7.0, 2.6]])
    np.testing.assert_array_equal(nearest_actions(with_actions(listed), wanted), [[1, 0], [0, 3], [0, 3]])
    np.testing.assert_array_equal(nearest_actions(with_actions(product), wanted), [[1, 0], [0, 0], [-1, 5]])
    for actions, ends in ((listed, ([0, 0], [1, 3])), (product, ([-1, 0], [1, 5]))):
        np.testing.assert_array_equal(action_range(with_actions(actions)), ends)


def test_the_short_way_round_a_circle():
    policy = lqr_policy(scalar(periodic=True), at=([-2.5], 0.0))
    np.testing.assert_allclose(policy([[4.5]]), policy([[-3.5]]), atol=1e-9)


def test_refusals(as_user):
    with pytest.raises(ValueError, match="and repelling_agents has none"):
        lqr_policy(repelling_agents(2, law="linear"))
    with pytest.raises(ValueError, match=r"does not curve down in the action \(second derivatives up to 0\)"):
        lqr_policy(scalar(cost=0.0))
    with pytest.raises(ValueError, match="Riccati's equation of problem has no solution"):
        lqr_policy(scalar(a=2.0, b=0.0))
    with pytest.raises(ValueError, match=r"at must be \(state \[1\], action \[\]\), got shapes \[2\] and \[\]"):
        lqr_policy(scalar(), at=([0.0, 0.0], 1.0))
