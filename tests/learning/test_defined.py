"""Log-densities that are NaN or +inf somewhere are refused by those who draw, with the state, the action and the place."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.learning.defined import looked_at
from hamq.learning.draws import draw_each, prepare
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.sampling.importance import Importance

SAMPLERS = [HMC(8, num_leapfrog=2, step_size=0.3), Importance(20)]


def bell(next_state, state):
    return -2 * jnp.sum((next_state - state / 2) ** 2)


def corner(next_state, state, action):
    return jnp.where(jnp.all(next_state > 0.9), jnp.nan, bell(next_state, state))


KINDS = {"fine": 0, "half": 1, "corner": 2, "wall": 3, "of_few_pairs": 4}


def of_kind(next_state, state, action):
    """Actions are kinds: one function, so that all of them share the compiled programs."""
    fine = bell(next_state, state)
    logs = [
        fine,
        jnp.log(next_state[0] + 0.01) + fine,
        corner(next_state, state, action),
        jnp.where(next_state[1] < -0.99, jnp.inf, fine),
        jnp.where((state[0] > 0.9) & (next_state[0] > 0.5), jnp.nan, fine),
    ]
    return jnp.select([action == kind for kind in KINDS.values()], logs, 0.0)


def problem_of(logdensity, dimension=2, actions=(0.0, 1.0)):
    grid = Grid([-1.0] * dimension, [1.0] * dimension, 3)
    return Problem(grid, jnp.asarray(actions), UnnormalizedKernel(logdensity), first, 0.9, name="mine")


def first(state, action):
    return state[0]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=["hmc", "importance"])
@pytest.mark.parametrize("kind", list(KINDS)[1:])
def test_what_is_no_density_is_refused_with_its_place(kind, sampler):
    value, number = "inf" if kind == "wall" else "nan", KINDS[kind]
    place = (
        rf"is {value} at the next state \(.*\), from state \(.*\) with action {number}; it must be a finite number, or -inf"
    )
    with pytest.raises(ValueError, match=f"the log-density of mine {place}"):
        draw_each(problem_of(of_kind, actions=(0.0, float(number))), sampler, key=0)


def test_a_corner_of_three_dimensions():
    with pytest.raises(ValueError, match="is nan at the next state"):
        prepare(problem_of(corner, 3), HMC(8), key=jr.key(0))


def test_zeros_and_poles_on_the_wall_are_no_reason_to_refuse():
    """1/√x and −inf: the first is +inf on the wall itself, and has a mass all the same."""

    def pole(next_state, state, action):
        return -0.5 * jnp.log(next_state[0] + 1) + jnp.where(next_state[1] > 0.5, -jnp.inf, bell(next_state, state))

    prepare(problem_of(pole), Importance(20), key=jr.key(0))


def test_what_float32_alone_cannot_say_is_no_reason_to_refuse():
    """inf − inf in float32 far from the density, and a very negative number in float64."""

    def rounded(next_state, state, action):
        large = jnp.exp(100 * jnp.maximum(next_state[0], 0.0) ** 2)
        return bell(next_state, state) + (large - large * large)

    prepare(problem_of(rounded), Importance(20), key=jr.key(0))


@pytest.mark.parametrize("dimension", [1, 3, 7])
def test_places_reach_every_wall_and_the_inside(dimension):
    grid = Grid([-1.0] * dimension, [1.0] * dimension, 3)
    places = looked_at(grid, key=jr.key(0))
    assert places.shape == (128, dimension) and np.abs(places).max() < 1
    assert (places.min(axis=0) < -0.99).all() and (places.max(axis=0) > 0.99).all()
    assert np.mean(np.abs(places).max(axis=1) < 0.99) > 0.5
