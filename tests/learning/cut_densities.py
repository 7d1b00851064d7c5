"""Laws of one-dimensional noise, one for each action: every problem here shares the compiled programs of one log-density."""

import jax.numpy as jnp
import numpy as np

from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem

CUT = ["gap", "exponential", "uniform", "half-normal", "step"]
SMOOTH = ["normal", "laplace", "student", "gamma", "bimodal"]
KINDS = CUT + SMOOTH


def log_noise(u, kind, xp=jnp):
    """log p of the noise; kinds are numbers."""
    positive = xp.where(u > -0.2, u + 0.2, 1.0)
    logs = [
        xp.where((u > -0.1) & (u < 0.5), -xp.inf, -0.5 * (u / 0.4) ** 2),
        xp.where(u > 0, -u / 0.3, -xp.inf),
        xp.where(xp.abs(u) < 0.3, 0.0, -xp.inf),
        xp.where(u > 0, -0.5 * (u / 0.3) ** 2, -xp.inf),
        xp.where(u > 0, 0.0, -1.0) - 0.5 * (u / 0.4) ** 2,
        -0.5 * (u / 0.2) ** 2,
        -xp.abs(u) / 0.2,
        -2.5 * xp.log1p((u / 0.2) ** 2 / 4),
        xp.where(u > -0.2, 2 * xp.log(positive) - positive / 0.1, -xp.inf),
        xp.logaddexp(-0.5 * ((u + 0.4) / 0.1) ** 2, -0.5 * ((u - 0.4) / 0.15) ** 2),
    ]
    return xp.select([kind == i for i in range(len(logs))], logs, -xp.inf)


def logdensity(next_state, state, action):
    return log_noise(next_state[0] - 0.6 * state[0], action)


def reward(state, action):
    return jnp.cos(3 * state[0]) - 0.02 * action


def problem_of(kinds, points=21):
    """One action for each of the kinds."""
    actions = jnp.asarray([float(KINDS.index(kind)) for kind in kinds])
    return Problem(Grid([-1.0], [1.0], points), actions, UnnormalizedKernel(logdensity), reward, 0.9, name="noisy")


def masses_of(problem, fine=400):
    """The law of the next cell `[S, A, S]`, by the midpoint rule in NumPy with `fine` nodes per cell."""
    nodes = problem.grid.states()[:, 0]
    num = (len(nodes) - 1) * fine
    x = -1 + 2 * (np.arange(num) + 0.5) / num
    cell = np.rint((x + 1) / (nodes[1] - nodes[0])).astype(int)
    masses = np.empty((len(nodes), problem.num_actions, len(nodes)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for i, state in enumerate(nodes):
            for j, kind in enumerate(np.asarray(problem.actions)):
                weights = np.exp(log_noise(x - 0.6 * state, kind, np))
                masses[i, j] = np.bincount(cell, weights, len(nodes)) / weights.sum()
    return masses


def solved(problem, masses):
    """Q* of these masses, by value iteration in NumPy."""
    nodes, kinds = problem.grid.states()[:, 0], np.asarray(problem.actions)
    rewards = np.cos(3 * nodes)[:, None] - 0.02 * kinds[None, :]
    q = np.zeros_like(rewards)
    for _ in range(300):
        q = rewards + 0.9 * masses @ q.max(axis=1)
    return q
