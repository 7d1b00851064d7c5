"""Transitions leave their target as it is: exact draws, a few transitions, χ² on 36 cells.

Each of 40,000 chains starts from its own exact draw, so the ends are independent. Total variations of 0.03 are seen.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UserDensity
from hamq.sampling.chain import ChainState
from hamq.sampling.hmc import HMC
from hamq.sampling.modes import find_modes
from hamq.sampling.noise import make_noise
from hamq.sampling.walls import make_potential
from tests.sampling.posed import (
    LOWER,
    MEANS,
    UPPER,
    WALLS,
    ExactLaw,
    box,
    gaussian,
    gaussian_log,
    soft_walls_log,
    two_modes,
    two_modes_on_a_circle,
    user_density,
    user_log,
)
from tests.stats import assert_distribution

NUM_CHAINS = 40_000
NUM_TRANSITIONS = 3
SHARPNESS = 12.0
HIGH, LOW = (0.93, 0.99), (0.2, 0.65)
STEPS = {  # (high, low acceptance)
    ("logit", "inside"): (0.5, 1.8),
    ("logit", "face"): (0.5, 1.8),
    ("logit", "outside"): (0.4, 1.5),
    ("reflect", "inside"): (0.3, 1.5),
    ("reflect", "face"): (0.3, 1.5),
    ("reflect", "outside"): (0.07, 0.4),
    ("sigmoid", "inside"): (0.3, 1.2),
    ("sigmoid", "face"): (0.3, 0.9),
    ("sigmoid", "outside"): (0.2, 0.6),
}


@pytest.fixture(autouse=True)
def short_programs(monkeypatch):
    """Leapfrog steps in a loop, not written out: the same chains, compiled in less time."""
    monkeypatch.setattr("hamq.sampling.leapfrog.UNROLLED", 1)


@eqx.filter_jit
def walk(sampler, density, grid, starts, *, key):
    """Ends of the chains in chain coordinates, placed in the box, with mean acceptance and number of modes."""
    potential = make_potential(sampler.walls, density, grid, sampler.sharpness)
    d = grid.dimension
    modes = find_modes(potential, jnp.tile(jnp.asarray([0.2, -0.4]), d // 2))

    def chain(start, chain_key):
        _, noise = make_noise(NUM_TRANSITIONS, d, isinstance(density, UserDensity), key=chain_key)
        state = ChainState(start, *potential.energy_and_gradient(start))
        end, made = sampler.advance(potential, modes, jnp.asarray(sampler.step_size), state, noise)
        return potential.place(end.position), made

    ends, infos = jax.vmap(chain)(starts, jr.split(key, len(starts)))
    return ends, jnp.mean(infos.acceptance), jnp.mean(infos.has_jumped, dtype=jnp.float32), modes.count


def lifted(walls, points, periodic=(False, False)):
    """Chain coordinates of exact draws; `lift` would move those near a wall."""
    share = (points - LOWER) / (np.asarray(UPPER) - LOWER)
    if walls == "logit":
        with np.errstate(divide="ignore", invalid="ignore"):
            points = np.where(periodic, points, np.log(share) - np.log1p(-share))
    return jnp.asarray(points, jnp.float32)


@functools.cache
def exact_law(is_soft, kind, mean) -> tuple[ExactLaw, np.ndarray]:
    """The law and a draw from it for each chain."""
    law = _exact_law(is_soft, kind, mean)
    return law, law.draw(NUM_CHAINS, seed=1)


def _exact_law(is_soft, kind, mean) -> ExactLaw:
    if not is_soft:
        return ExactLaw(lambda x: gaussian_log(kind, mean, x))
    margin = 12 / SHARPNESS  # exp(−12) of the density beyond
    return ExactLaw(
        lambda x: gaussian_log(kind, mean, x) + soft_walls_log(SHARPNESS, x),
        np.asarray(LOWER) - margin,
        np.asarray(UPPER) + margin,
    )


@pytest.mark.parametrize("where", MEANS)
@pytest.mark.parametrize("kind", ["product", "correlated"])
@pytest.mark.parametrize("walls", WALLS)
def test_gaussian_is_invariant(walls, kind, where):
    law, draws = exact_law(walls == "sigmoid", kind, MEANS[where])
    starts = lifted(walls, draws)
    for step, (least, most) in zip(STEPS[walls, where], (HIGH, LOW), strict=True):
        sampler = HMC(1, num_leapfrog=3, step_size=jnp.asarray(step), walls=walls, sharpness=SHARPNESS)
        ends, acceptance, *_ = walk(sampler, gaussian(kind, MEANS[where]), box(), starts, key=jr.key(2))
        assert least <= acceptance <= most, f"step {step}: acceptance {acceptance}"
        assert_distribution(law.counts(ends), law.probabilities, resolution=0.03)


def test_gaussian_on_a_circle_is_invariant():
    """Lifted to the line: no wall on the first axis, and more than one turn is visited."""
    law = ExactLaw(lambda x: gaussian_log("product", MEANS["face"], x), (-2.5, LOWER[1]), (4.5, UPPER[1]))
    starts = lifted("logit", law.draw(NUM_CHAINS, seed=3), (True, False))
    sampler = HMC(1, num_leapfrog=3, step_size=jnp.asarray(1.5))
    ends, acceptance, *_ = walk(
        sampler, gaussian("product", MEANS["face"]), box(periodic=(True, False)), starts, key=jr.key(4)
    )
    assert LOW[0] <= acceptance <= 0.9
    assert_distribution(law.counts(ends), law.probabilities, resolution=0.03)


@functools.cache
def user_law(logdensity) -> tuple[ExactLaw, np.ndarray]:
    law = ExactLaw(lambda x: user_log(logdensity, x))
    return law, law.draw(NUM_CHAINS, seed=5)


@pytest.mark.parametrize("step", [0.3, 1.5])
@pytest.mark.parametrize(
    ("walls", "logdensity", "periodic"),
    [
        ("logit", two_modes, (False, False)),
        pytest.param("logit", two_modes_on_a_circle, (True, False), marks=pytest.mark.slow),
        ("reflect", two_modes, (False, False)),
    ],
    ids=["logit", "circle", "reflect"],
)
def test_two_modes_are_invariant_under_jumps(walls, logdensity, periodic, step):
    law, draws = user_law(logdensity)
    starts = lifted(walls, draws, periodic)
    sampler = HMC(1, num_leapfrog=3, step_size=jnp.asarray(step), walls=walls)
    grid = box(periodic=periodic)
    ends, acceptance, jumps, num_modes = walk(sampler, user_density(logdensity, grid), grid, starts, key=jr.key(6))
    assert num_modes >= 2
    assert jumps > 0.2
    assert (acceptance > 0.7) if step < 1 else (acceptance < 0.7)
    wrapped = jax.vmap(grid.wrap)(ends)
    assert_distribution(law.counts(wrapped), law.probabilities, resolution=0.03)


def twice_two_modes(next_state, state, action):
    """Two independent copies: each pair of coordinates has the law of `two_modes`."""
    return two_modes(next_state[:2], state[:2], action) + two_modes(next_state[2:], state[2:], action)


@pytest.mark.slow
def test_many_modes_in_four_dimensions_are_invariant():
    law = ExactLaw(lambda x: user_log(two_modes, x))
    points = law.draw(2 * NUM_CHAINS, seed=7)
    starts = jnp.concatenate([lifted("logit", points[:NUM_CHAINS]), lifted("logit", points[NUM_CHAINS:])], axis=1)
    sampler = HMC(1, num_leapfrog=3, step_size=jnp.asarray(0.5))
    grid = Grid(2 * LOWER, 2 * UPPER, 3)
    density = user_density(twice_two_modes, grid, (0.2, -0.4, 0.2, -0.4))
    ends, acceptance, jumps, num_modes = walk(sampler, density, grid, starts, key=jr.key(8))
    assert num_modes >= 2
    assert jumps > 0.05
    assert acceptance > 0.4
    for pair in (ends[:, :2], ends[:, 2:]):
        assert_distribution(law.counts(pair), law.probabilities, resolution=0.03, false_alarm=5e-7)
