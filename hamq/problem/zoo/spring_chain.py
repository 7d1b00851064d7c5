"""Masses in a row between two walls, joined by springs, shaken by noise that couples all of them.

State (x₁, v₁, …, x_N, v_N), positions from rest. With x₀ = x_{N+1} = 0, the walls,

    x'ᵢ = xᵢ + τ vᵢ,    v'ᵢ = vᵢ + τ (spring·(xᵢ₋₁ − 2xᵢ + xᵢ₊₁) − damping·vᵢ + pushᵢ),

spring 1, damping 0.3, unit masses, τ = 0.2, noise N(0, 0.15²(½I + ½RRᵀ/d)) with R standard normal. Rest is the only
equilibrium. The explicit step feeds the fast modes: they grow by up to √1.1 a step, which the discount outweighs.
But for the box and the levels of the actions, this is a linear-quadratic problem: Riccati's equation on `linear_model`
has its answer.
"""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.zoo.chain import axis_names, check_chain, make_actions, neighbours, push_on_each, pushed_links
from hamq.problem.zoo.scenes import springs_scene
from hamq.types import Law

SPRING = 1.0
DAMPING = 0.3
TIME_STEP = 0.2
NOISE = 0.15
REACH = 2.0
"""Of the box, on every axis."""
LARGEST_PUSH = 2.0
STATE_COST = 0.5
ACTION_COST = 0.05
NOISE_SEED = 0


def mean(state: Float[Array, " d"], action: Float[Array, "..."]) -> Float[Array, " d"]:
    """A s + B a of `linear_model`, neighbour by neighbour: a matrix product would keep 10 bits on a GPU."""
    positions, velocities = state.reshape(-1, 2).T
    left, right = neighbours(positions)
    forces = SPRING * (left - 2 * positions + right) - DAMPING * velocities + push_on_each(action, positions.shape[0])
    return jnp.stack([positions + TIME_STEP * velocities, velocities + TIME_STEP * forces], axis=1).reshape(-1)


def reward(state: Float[Array, " d"], action: Float[Array, "..."]) -> Float[Array, ""]:
    """−½‖s‖² − 0.05‖a‖²."""
    return -STATE_COST * jnp.sum(state**2) - ACTION_COST * jnp.sum(action**2)


def linear_model(num_masses: int, num_actuators: int) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "d k"]]:
    """(A, B) with mean(s, a) = A s + B a."""
    stiffness = SPRING * (np.eye(num_masses, k=-1) - 2 * np.eye(num_masses) + np.eye(num_masses, k=1))
    rates = np.kron(np.eye(num_masses), [[0, 1], [0, -DAMPING]]) + np.kron(stiffness, [[0, 0], [1, 0]])
    chosen = np.eye(num_masses)[:, list(pushed_links(num_masses, num_actuators))]
    return np.eye(2 * num_masses) + TIME_STEP * rates, TIME_STEP * np.kron(chosen, [[0], [1]])


@functools.cache
def covariance(dimension: int) -> tuple[tuple[float, ...], ...]:
    """0.15²(½I + ½RRᵀ/d): half of each variance is its own, the other half is shared with all the others."""
    mixing = np.random.default_rng(NOISE_SEED).standard_normal((dimension, dimension))
    shared = np.einsum("ik,jk->ij", mixing, mixing) / dimension
    matrix = NOISE**2 * (np.eye(dimension) + shared) / 2
    return tuple(map(tuple, matrix.tolist()))


def spring_chain(
    num_masses: int = 2,
    num_actuators: int = 1,
    points: Any = 9,
    num_actions: int = 9,
    discount: float = 0.9,
    law: Law = "linear",
    noise: float = 1.0,
) -> Problem:
    """Masses on springs, to be brought to rest: dimension 2·num_masses, reward −½‖s‖² − 0.05‖a‖² on [−2, 2]ᵈ.

    Actuators are spread evenly over the masses, the first at the first mass; each has `num_actions` levels in [−2, 2].
    The actions of one actuator are scalars, those of several a product. `noise` multiplies the standard deviations.
    Not in the paper: all constants are ours, and there are no presets. Where springs and velocities
    at the ends of the box pull together, means lie far outside of it; that is known and kept.
    """
    name = "spring_chain"
    check_chain(name, "num_masses", num_masses, num_actuators, num_actions, noise)
    d = 2 * num_masses
    return Problem(
        grid=Grid([-REACH] * d, [REACH] * d, points),
        actions=make_actions(LARGEST_PUSH, num_actions, num_actuators),
        kernel=GaussianKernel(mean, noise**2 * np.asarray(covariance(d))),
        reward=reward,
        discount=discount,
        name=name,
        law=law,
        expected=("outside",),
        axis_names=axis_names("mass", ("position", "velocity"), num_masses),
        scene=springs_scene(tuple(range(0, d, 2)), pushed_links(num_masses, num_actuators), REACH, LARGEST_PUSH),
    )
