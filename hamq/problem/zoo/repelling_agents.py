"""Agents on a line that keep apart: a next-state density that truly has no closed normaliser.

    log p(x | s, a) = −½ Σᵢ ((xᵢ − sᵢ − 0.1 aᵢ)/0.2)² − strength · Σ_{i<j} exp(−½ ((xᵢ − xⱼ)/0.15)²) + unknown

on the box [−1, 1]ⁿ. Agents that start close have one mode for each order in which they may separate.
"""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.problem.zoo.preset import is_number
from hamq.problem.zoo.scenes import agents_scene
from hamq.types import HamqError, Law, UserFunction, require_count

DRIFT = 0.1
NOISE = 0.2
RANGE = 0.15
ACTION_COST = 0.01
NUM_COMMON_DRIFTS = 9
PUSHES = (-1.0, 0.0, 1.0)


def targets_of(num_agents: int) -> tuple[float, ...]:
    return tuple((-1 + (2 * np.arange(num_agents) + 1) / num_agents).tolist())


def reward(state: Float[Array, " n"], action: Float[Array, "..."]) -> Float[Array, ""]:
    """−mean (xᵢ − tᵢ)² − 0.01 mean a² with the targets tᵢ = −1 + (2i + 1)/n, i from 0."""
    n = state.shape[0]
    targets = jnp.asarray(targets_of(n), state.dtype)
    return -jnp.mean((state - targets) ** 2) - ACTION_COST * jnp.mean(action**2)


@functools.cache
def make_logdensity(strength: float) -> UserFunction:
    """One function per strength, so that jit knows a problem that is built twice."""

    def logdensity(next_state: Float[Array, " n"], state: Float[Array, " n"], action: Array) -> Float[Array, ""]:
        # ±1 rows times the positions give all differences exactly; the gradient is a product too, where
        # indexing would scatter (slower, and on a GPU in random order). By default a GPU keeps 10 bits.
        pairs = jnp.asarray(_pairs(state.shape[0]), state.dtype)
        gaps = jnp.matmul(pairs, next_state, precision="highest")
        noise = next_state - state - DRIFT * action
        return -0.5 / NOISE**2 * jnp.sum(noise**2) - strength * jnp.sum(jnp.exp(-0.5 / RANGE**2 * gaps**2))

    return logdensity


def _pairs(n: int) -> Float[np.ndarray, "pairs n"]:
    first, second = np.triu_indices(n, 1)
    identity = np.eye(n)
    return identity[first] - identity[second]


def repelling_agents(
    num_agents: int = 2,
    strength: float = 3.0,
    points: Any = 9,
    per_agent: bool | None = None,
    discount: float = 0.95,
    law: Law = "cell",
) -> Problem:
    """Agents in [−1, 1], one coordinate each, paid for holding evenly spaced targets, repelling each other.

    Actions: −1, 0 or 1 for each agent (vectors) up to 3 agents or with `per_agent=True`, a product that is not
    listed beyond 12 agents; otherwise 9 common drifts in [−1, 1] (scalars). The next position is Gaussian
    (σ 0.2) about position + 0.1 × action, times the repulsion; strength 0 leaves independent Gaussians, as a
    density that the library knows nothing about. Not in the paper: all constants are ours, and there are no
    presets.
    """
    name = "repelling_agents"
    require_count(f"{name}: num_agents", num_agents, 1, "it is the dimension of the state")
    if not is_number(strength) or strength < 0:
        raise HamqError(f"{name}: strength must be a finite number of at least 0, got {strength!r}; 0 means no repulsion.")
    return Problem(
        grid=Grid([-1.0] * num_agents, [1.0] * num_agents, points),
        actions=_actions(num_agents, per_agent),
        kernel=UnnormalizedKernel(make_logdensity(float(strength))),
        reward=reward,
        discount=discount,
        name=name,
        law=law,
        axis_names=[f"agent {i + 1} position" for i in range(num_agents)],
        scene=agents_scene(tuple(range(num_agents)), targets_of(num_agents)),
    )


def _actions(num_agents: int, per_agent: bool | None) -> np.ndarray | ProductActions:
    if num_agents <= 3 if per_agent is None else per_agent:
        return ProductActions([PUSHES] * num_agents)
    return np.linspace(-1.0, 1.0, NUM_COMMON_DRIFTS)
