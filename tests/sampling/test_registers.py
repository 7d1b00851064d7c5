"""Chains in registers: the kernel for GPUs, interpreted on the CPU, makes the same chains as XLA."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import ProductDensity
from hamq.sampling.chain import ChainState, make_scales, run_batch
from hamq.sampling.registers import CHAINS_PER_BLOCK, fits_registers, run_in_registers
from hamq.sampling.walls import make_potential

GRID = Grid([-1.0, -2.0], [1.0, 3.0], [5, 5])
NUM, CHAINS = 6, CHAINS_PER_BLOCK + 5  # more than a block, and not a multiple of it


def batch(walls: str):
    """Chains that differ in their means, and share everything else, as a batch with the chains last."""
    mean = jnp.asarray(normal(0, 2, CHAINS))
    std = jnp.asarray([0.4, 0.7])
    potential = make_potential(walls, ProductDensity(jnp.zeros(2), std), GRID, 20.0)
    arrays, rest = eqx.partition((potential, jax.jit(make_scales)(std, 1 / std, std**2, 0.3)), eqx.is_array)
    arrays = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)[..., None]), arrays)
    arrays = eqx.tree_at(lambda tree: tree[0].density.mean, arrays, mean)
    y = jnp.asarray(0.1 * normal(1, 2, CHAINS))

    def begin(y, mean):
        own = eqx.tree_at(lambda p: p.density.mean, potential, mean)
        return own.energy(y), own.gradient(y)

    energy, gradient = jax.jit(jax.vmap(begin, in_axes=1, out_axes=-1))(y, mean)
    return arrays, rest, ChainState(y, energy, gradient)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def log_uniforms(*shape):
    return np.log(np.random.default_rng(3).uniform(size=shape)).astype(np.float32)


def both(arrays, rest, start, momentum, log_uniform, num_leapfrog):
    """By the kernel and by XLA, in one program."""

    def run(arrays, start, momentum, log_uniform):
        given = (arrays, rest, start, momentum, log_uniform, num_leapfrog)
        return run_in_registers(*given, interpret=True), run_batch(*given, NUM)

    return jax.jit(run)(arrays, start, momentum, log_uniform)


@pytest.mark.parametrize(("walls", "num_leapfrog"), [("logit", 4), ("sigmoid", 5)])
def test_the_kernel_makes_the_same_chains(walls, num_leapfrog):
    momentum, log_uniform = normal(2, NUM, 2, CHAINS), log_uniforms(NUM, CHAINS)
    ours, theirs = both(*batch(walls), momentum, log_uniform, num_leapfrog)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for own, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(own, other, atol=2e-4, rtol=2e-4)
    gains = np.asarray(theirs[-1])
    assert 0.3 < np.mean(log_uniform < gains) < 1, "both accepted and rejected trajectories must occur"


def test_shared_random_numbers():
    """Noise that all chains share has a last axis of 1, and so it stays in memory."""
    ours, theirs = both(*batch("logit"), normal(2, NUM, 2, 1), log_uniforms(NUM, 1), 4)
    np.testing.assert_allclose(ours[1], theirs[1], atol=2e-4)


def test_a_cpu_does_without():
    potential = make_potential("logit", ProductDensity(jnp.zeros(2), jnp.ones(2)), GRID, 1.0)
    assert not fits_registers(potential)


def test_what_fits(monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    density = ProductDensity(jnp.zeros(2), jnp.ones(2))
    assert fits_registers(make_potential("logit", density, GRID, 1.0))
    assert fits_registers(make_potential("sigmoid", density, GRID, 1.0))
    assert not fits_registers(make_potential("reflect", density, GRID, 1.0))
    circle = Grid([-1.0] * 2, [1.0] * 2, [5] * 2, [True, False])
    assert not fits_registers(make_potential("logit", density, circle, 1.0))
