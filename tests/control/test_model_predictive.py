"""Model predictive control: the regulator of a finite horizon where that is the answer, and never worse than guessing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.control.linear_quadratic import linearise
from hamq.control.model_predictive import mpc_policy, plan_each, sequence_return
from hamq.problem.zoo import pendulum_chain, repelling_agents, spring_chain


def finite_horizon_action(problem, states, horizon):
    """−K s of Riccati's equation after `horizon` steps from V = 0, in NumPy."""
    d = problem.grid.dimension
    a, b, q, _, r = linearise(problem, np.zeros(d), np.zeros(1))
    a, b, q, discount, matrix = a[:d, :d], b[:d], q[:d, :d], problem.discount, np.zeros((d, d))
    for _ in range(horizon):
        gain = np.linalg.solve(r + discount * b.T @ matrix @ b, discount * b.T @ matrix @ a)
        matrix = q + discount * a.T @ matrix @ (a - b @ gain)
    return -(states @ gain.T)[:, 0]


def test_regulator_of_a_finite_horizon():
    problem, horizon = spring_chain(2), 8
    states = np.random.default_rng(0).uniform(-0.4, 0.4, (16, 4)).astype(np.float32)
    expected = finite_horizon_action(problem, states, horizon)
    assert np.std(expected) > 0.1
    policy = mpc_policy(problem, horizon=horizon, num_steps=300)
    np.testing.assert_allclose(policy(states), expected, atol=0.01)


def test_better_than_any_of_many_guesses():
    problem, generator = pendulum_chain(3), np.random.default_rng(0)
    states = jnp.asarray(generator.uniform(-1, 1, (6, 6)), jnp.float32)
    ends = jnp.full((1, 2), 3.0)
    planned, found = plan_each(problem, -ends, ends, 12, 60, states)
    assert planned.shape == (6, 12, 2) and float(jnp.abs(planned).max()) <= 3
    value = jax.vmap(lambda state, actions: sequence_return(problem, state, actions))
    np.testing.assert_allclose(value(states, planned), found, rtol=1e-4)
    near = jnp.clip(planned[None] + jnp.asarray(generator.normal(size=(200, *planned.shape)), jnp.float32), -3, 3)
    others = jax.jit(jax.vmap(value, (None, 0)))(states, near)
    assert np.all(np.asarray(others) < np.asarray(found)[None, :])


def test_return_of_a_sequence():
    """Σ γᵗ r on the mean, clipped to the box, in a loop."""
    problem, generator = spring_chain(2), np.random.default_rng(1)
    state = np.asarray([1.8, 1.9, -1.9, -1.5], np.float32)
    actions = generator.uniform(-2, 2, (10, 1)).astype(np.float32)
    total, now, has_hit = 0.0, jnp.asarray(state), False
    for t, action in enumerate(actions):
        total += problem.discount**t * float(problem.reward(now, jnp.asarray(action[0])))
        mean = problem.kernel.mean(now, jnp.asarray(action[0]))
        has_hit |= bool(jnp.any(jnp.abs(mean) > 2))
        now = jnp.clip(mean, -2, 2)
    assert has_hit
    assert float(sequence_return(problem, jnp.asarray(state), jnp.asarray(actions))) == pytest.approx(total, rel=1e-5)


def test_horizon_and_levels():
    assert mpc_policy(spring_chain(2)).horizon == 22  # 0.9²² < 0.1 < 0.9²¹
    assert mpc_policy(pendulum_chain(2, discount=0.99)).horizon == 40
    policy = mpc_policy(spring_chain(2), horizon=5, num_steps=10, rounded=True)
    assert np.all(np.isin(policy(np.ones((3, 4))), np.linspace(-2, 2, 9)))


def test_refusals(as_user):
    with pytest.raises(ValueError, match="mpc_policy needs the mean of the next state"):
        mpc_policy(repelling_agents(2, law="linear"))
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1"):
        mpc_policy(spring_chain(2), horizon=0)
