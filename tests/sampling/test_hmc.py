"""The chain against BlackJAX on the same target, and its efficiency against theory."""

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import ProductDensity
from hamq.sampling.chain import ChainState
from hamq.sampling.hmc import HMC
from hamq.sampling.modes import find_modes
from hamq.sampling.noise import make_noise
from hamq.sampling.walls import make_potential
from tests.sampling.posed import MEANS, STD, box, gaussian
from tests.stats import assert_mean_equals

NUM_CHAINS = 8000


@eqx.filter_jit
def positions(sampler, potential, starts, num, *, key):
    """Positions after each of `num` transitions `[chains, num, d]`, and acceptance probabilities."""
    modes = find_modes(potential, potential.lower)

    def chain(start, chain_key):
        _, noise = make_noise(num, potential.grid.dimension, False, key=chain_key)
        state = ChainState(start, *potential.energy_and_gradient(start))
        _, made = sampler.advance(potential, modes, jnp.asarray(sampler.step_size), state, noise)
        return made.positions, made.acceptance

    return jax.vmap(chain)(starts, jr.split(key, len(starts)))


def test_agrees_with_blackjax():
    """Same target (sigmoid walls), step, mass and start, 8000 chains each: mean and variance after 8 transitions."""
    step, num, leaps = 0.9, 8, 3
    potential = make_potential("sigmoid", gaussian("product", MEANS["face"]), box(), 8.0)
    sampler = HMC(1, num_leapfrog=leaps, step_size=jnp.asarray(step), walls="sigmoid", sharpness=8.0)
    starts = jnp.broadcast_to(jnp.asarray([0.5, -0.5]), (NUM_CHAINS, 2))
    ours, acceptance = positions(sampler, potential, starts, num, key=jr.key(0))

    theirs = blackjax.hmc(lambda y: -potential.energy(y), step, jnp.asarray(STD) ** 2, leaps)

    def chain(start, key):
        def body(state, key):
            state, info = theirs.step(key, state)
            return state, (state.position, info.acceptance_rate)

        return jax.lax.scan(body, theirs.init(start), jr.split(key, num))[1]

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        reference, reference_acceptance = jax.jit(jax.vmap(chain))(starts, jr.split(jr.key(1), NUM_CHAINS))
    ours, reference = np.asarray(ours[:, -1], np.float64), np.asarray(reference[:, -1], np.float64)
    assert_mean_equals(ours - reference, 0.0, resolution=0.06)
    centre = reference.mean(axis=0)
    assert_mean_equals((ours - centre) ** 2 - (reference - centre) ** 2, 0.0, resolution=0.06)
    rates = float(jnp.mean(acceptance)), float(jnp.mean(reference_acceptance))
    assert 0.3 < rates[0] < 0.9
    assert abs(rates[0] - rates[1]) < 0.02


@pytest.mark.parametrize("time", [0.5, 1.3, 2.5])
def test_correlation_along_a_trajectory_is_the_cosine_of_its_time(time):
    """A normal 50 σ from the walls: corr(x, x') = cos t and corr(x², x'²) = cos² t (small steps: bias below 0.01)."""
    leaps = 16
    grid = Grid([-50.0, -100.0], [50.0, 100.0], 3)
    potential = make_potential("reflect", ProductDensity(jnp.zeros(2), jnp.asarray([1.0, 2.0])), grid, 1.0)
    sampler = HMC(1, num_leapfrog=leaps, step_size=jnp.asarray(time / leaps), walls="reflect")
    scale = np.asarray([1.0, 2.0])
    starts = np.random.default_rng(0).normal(size=(60_000, 2)).astype(np.float32)
    ends, acceptance = positions(sampler, potential, jnp.asarray(starts * scale, jnp.float32), 1, key=jr.key(2))
    assert float(jnp.mean(acceptance)) > 0.99
    x, y = starts.astype(np.float64), np.asarray(ends[:, 0], np.float64) / scale
    assert_mean_equals(x * y, np.cos(time), resolution=0.05)
    assert_mean_equals((x**2 - 1) * (y**2 - 1) / 2, np.cos(time) ** 2, resolution=0.12)
