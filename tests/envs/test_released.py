"""What rollouts, environments, policies and plans compile goes with the functions of their problem."""

import gc
import weakref

import jax.numpy as jnp
import numpy as np

import hamq
from hamq.control.decoders import make_policy
from hamq.control.model_predictive import mpc_policy
from hamq.control.rollouts import rollouts
from hamq.envs.environment import ProblemEnv


def use_all() -> list[weakref.ref]:
    def mean(state, action):
        return 0.9 * state + 0.1 * action

    def reward(state, action):
        return -jnp.sum(state**2) - 0.1 * action**2

    def terminal(state):
        return state[0] > 0.99

    kernel = hamq.GaussianKernel(mean, [0.01])
    grid = hamq.Grid([-1.0], [1.0], [5])
    problem = hamq.Problem(grid, [-1.0, 1.0], kernel, reward, 0.9, terminal=terminal, law="linear", name="brief")
    table = np.random.default_rng(0).normal(size=(5, 2))
    policies = {"table": make_policy(table, problem=problem), "plan": mpc_policy(problem, horizon=2, num_steps=2)}
    rollouts(problem, policies, starts=[[0.1], [0.2]], steps=1)
    env = ProblemEnv(problem)
    env.reset(seed=0)
    env.step(1)
    return [weakref.ref(function) for function in (mean, reward, terminal)]


def test_functions_that_are_gone_leave_nothing_behind():
    functions = use_all()
    gc.collect()
    assert [function() for function in functions] == [None, None, None]
