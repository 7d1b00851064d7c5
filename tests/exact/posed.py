"""Small problems and random decision processes for the tests of `exact`."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from hamq.problem import cells, tables
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem


def ends(state):
    return state[0] > 2.5


def swung(state, action):
    return jnp.stack([state[0] + 0.4 * state[1], state[1] + 0.4 * (jnp.sin(state[0]) + action)])


def upright(state, action):
    return jnp.cos(state[0]) - 0.05 * action**2


def swing(law="cell", periodic=False, discount=0.9, terminal=None, covariance=(0.3, 0.5), name="swing") -> Problem:
    """A pendulum with 7 × 5 states and 3 actions."""
    return _swing(law, periodic, discount, terminal, covariance, name)


@functools.cache
def _swing(law, periodic, discount, terminal, covariance, name) -> Problem:
    return Problem(
        grid=Grid([-np.pi, -2.0], [np.pi, 2.0], [7, 5], [periodic, False]),
        actions=np.asarray([-1.0, 0.0, 1.5]),
        kernel=GaussianKernel(swung, covariance),  # functions of the module: its problems share their programs
        reward=upright,
        discount=discount,
        terminal=terminal,
        name=name,
        law=law,
    )


def turned(state, action):
    x, y, z = state
    return jnp.stack([x + 0.3 * y, y * z + 0.2 * action[0] - action[1], 0.5 * z])


def spread(state, action):
    del action
    return jnp.stack([0.2 + 0.1 * state[2] ** 2, jnp.full_like(state[0], 0.3), jnp.full_like(state[0], 0.4)])


def corner(state, action):
    return state[0] * state[1] - 0.1 * jnp.sum(action**2)


@functools.cache
def maze(law="cell") -> Problem:
    """Three axes with different dependencies: axis 0 on (0, 1), axis 1 on (1, 2, action), axis 2 on 2; std 0 on 2."""
    return Problem(
        grid=Grid([-1.0, -2.0, 0.0], [1.0, 2.0, 3.0], [4, 5, 3], [False, True, False]),
        actions=np.asarray([[-1.0, 0.2], [0.5, 0.0], [1.0, -0.3], [0.0, 0.0]]),
        kernel=GaussianKernel(turned, spread),
        reward=corner,
        discount=0.95,
        name="maze",
        law=law,
    )


@functools.cache
def spiky(width=0.3) -> Problem:
    """One axis, a narrow density with a ripple: a rule with few nodes is visibly wrong."""

    def logdensity(next_state, state, action):
        gap = next_state[0] - 0.8 * state[0] - action
        return -0.5 * (gap / width) ** 2 + jnp.cos(9 * next_state[0])

    return Problem(
        grid=Grid([-2.0], [2.0], [5]),
        actions=np.asarray([-0.5, 0.3]),
        kernel=UnnormalizedKernel(logdensity),
        reward=lambda state, action: state[0] ** 2 - action,
        discount=0.9,
        name="spiky",
    )


class Model(NamedTuple):
    """r `[S, A]`, P `[S, A, S]` (zero rows in terminal states) and γ of a problem, dense."""

    rewards: np.ndarray
    masses: np.ndarray
    discount: float

    def backup(self, value):
        return self.rewards + self.discount * self.masses @ value

    def policy_value(self, policy):
        """V of a policy `[S]` or `[S, A]` by a linear solve."""
        num_states, num_actions = self.rewards.shape
        probabilities = np.eye(num_actions)[policy] if policy.ndim == 1 else policy
        rewards = np.sum(probabilities * self.rewards, axis=1)
        masses = np.einsum("sa,sat->st", probabilities, self.masses)
        return np.linalg.solve(np.eye(num_states) - self.discount * masses, rewards)

    def optimal_q(self):
        """Q* to rounding, by policy iteration."""
        policy = np.argmax(self.rewards, axis=1)
        while True:
            q = self.backup(self.policy_value(policy))
            current = np.take_along_axis(q, policy[:, None], axis=1)[:, 0]
            better = np.where(q.max(axis=1) > current + 1e-12, q.argmax(axis=1), policy)
            if np.array_equal(better, policy):
                return q
            policy = better


def model(problem: Problem) -> Model:
    key = id(problem)
    if key not in _MODELS:
        _MODELS[key] = (problem, _model(problem))  # the problem too, so that its id stays its own
    return _MODELS[key][1]


_MODELS: dict[int, tuple[Problem, Model]] = {}


def _model(problem: Problem) -> Model:
    masses = cells.all_rows(problem, 1e-13).masses
    ended = tables.terminal_table(problem)
    if ended is not None:
        masses[ended] = 0
    return Model(tables.reward_table(problem), masses, problem.discount)


def random_model(seed: int, num_states: int, num_actions: int, discount: float, num_terminal: int = 0) -> Model:
    rng = np.random.default_rng(seed)
    # Powers make some rows nearly deterministic: then the chain mixes slowly and bounds are put to the test.
    masses = rng.random((num_states, num_actions, num_states)) ** rng.integers(1, 12)
    masses /= masses.sum(axis=-1, keepdims=True)
    rewards = rng.normal(size=(num_states, num_actions)) * 10.0 ** rng.integers(-2, 3)
    rewards[:num_terminal] = 0
    masses[:num_terminal] = 0
    return Model(rewards, masses, discount)
