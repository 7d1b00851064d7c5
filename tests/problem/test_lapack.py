"""LAPACK calls of user functions are found wherever they hide, and the library makes none."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import pytest

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.lapack import calls_lapack
from hamq.problem.problem import Problem
from hamq.sampling.draws import Target
from hamq.sampling.hmc import HMC
from hamq.sampling.importance import Importance


def pose(kernel):
    grid = Grid([-1.0, -1.0], [1.0, 1.0], 3)
    return Problem(grid=grid, actions=[-1.0, 1.0], kernel=kernel, reward=lambda s, a: s[0] + a, discount=0.9, name="posed")


def drift(state, action):
    return 0.9 * state + 0.1 * action


def matrix(state):
    return jnp.eye(2, dtype=state.dtype) * (1 + state[0] ** 2)


def in_a_loop(state, action):
    return jax.lax.fori_loop(0, 2, lambda _, s: jnp.linalg.solve(matrix(s), s), state) + action


def in_a_branch(state, action):
    return jax.lax.cond(state[0] > 0, lambda s: jnp.linalg.cholesky(matrix(s))[0], lambda s: s, state) + action


def smooth(point, state, action):
    return -jnp.sum((point - drift(state, action)) ** 2)


FREE = {
    "product": GaussianKernel(drift, [0.1, 0.2]),
    "correlated": GaussianKernel(drift, [[0.1, 0.05], [0.05, 0.2]]),
    "covariance-function": GaussianKernel(drift, lambda state, action: 0.1 * matrix(state)),
    "user": UnnormalizedKernel(smooth),
}
CALLING = {
    "mean": GaussianKernel(lambda s, a: jnp.linalg.eigh(matrix(s))[0] + a, [0.1, 0.2]),
    "loop": GaussianKernel(in_a_loop, [0.1, 0.2]),
    "branch": GaussianKernel(in_a_branch, [0.1, 0.2]),
    "covariance": GaussianKernel(drift, lambda s, a: 0.1 * jnp.linalg.inv(matrix(s))),
    "jitted": UnnormalizedKernel(jax.jit(lambda x, s, a: smooth(x, s, a) + jnp.sum(jnp.linalg.svd(matrix(x))[1]))),
}


@pytest.mark.parametrize("name", CALLING)
def test_calls_are_found(name):
    assert calls_lapack(pose(CALLING[name]))


@pytest.mark.parametrize("name", FREE)
def test_nothing_is_found_where_nothing_is(name):
    assert not calls_lapack(pose(FREE[name]))


@pytest.mark.parametrize("walls", ["logit", "reflect", "sigmoid"])
@pytest.mark.parametrize("name", FREE)
def test_samplers_make_no_call_of_their_own(name, walls):
    """The compiled draws hold no custom call at all."""
    problem = pose(FREE[name])
    samplers = [HMC(2, step_size=0.3, walls=walls)] + ([Importance(2)] if walls == "logit" else [])
    for sampler in samplers:

        def draw(state, key, problem=problem, sampler=sampler):
            return sampler.draw(Target(problem, state, jnp.asarray(1.0)), key=key)

        lowered = eqx.filter_jit(jax.vmap(draw)).lower(jnp.zeros((3, 2)), jr.split(jr.key(0), 3))
        assert "lapack" not in str(lowered.lowered.as_text()).lower()
