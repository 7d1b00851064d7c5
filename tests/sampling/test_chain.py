"""Chains: the same as one written out in NumPy, however they are batched; what goes wrong is counted. In float64."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.sampling.chain import ChainState, make_scales, run_chain, scan_some
from hamq.sampling.walls import make_potential
from tests.sampling.posed import MATRIX, MEANS, STD, WALLS, box, gaussian

NUM, NUM_LEAPFROG, STEP, SHARPNESS = 40, 3, 1.1, 10.0


@eqx.filter_jit
def at(potential, y):
    """(U, ∇U) at `[d]` or at each of `[n, d]`: one program for all potentials of a kind."""
    return (jax.vmap(potential.energy_and_gradient) if y.ndim == 2 else potential.energy_and_gradient)(y)


def posed(walls, kind, mean=MEANS["inside"], step=STEP):
    """(potential, scales, start): mass of the untruncated normal, diagonal where walls reflect."""
    potential = make_potential(walls, gaussian(kind, mean), box(), SHARPNESS)
    factor = np.diag(STD) if kind == "product" or walls == "reflect" else np.linalg.cholesky(np.asarray(MATRIX))
    matrices = factor, np.linalg.inv(factor), factor @ factor.T
    is_diagonal = kind == "product" or walls == "reflect"
    given = (jnp.asarray(np.diag(m) if is_diagonal else m) for m in matrices)
    start = jnp.asarray([0.1, -0.4])
    return potential, make_scales(*given, step), ChainState(start, *at(potential, start))


def noise(num=NUM, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(num, 2))), jnp.asarray(np.log(rng.random(num)))


def written_out(potential, scales, start, momentum, log_uniform):
    """The textbook's chain in p and M⁻¹: half kick, drift, half kick; accept by H."""
    fold = eqx.filter_jit(lambda potential, y, w: potential.fold(y, w))
    stride, kick = (np.diag(a) if a.ndim == 1 else np.asarray(a) for a in (scales.stride, scales.kick))
    y, states, gains = np.asarray(start.position), [], []
    for p, log_u in zip(np.asarray(momentum), np.asarray(log_uniform), strict=True):
        end, w = y, stride @ p
        for _ in range(NUM_LEAPFROG):
            w = w - kick @ np.asarray(at(potential, end)[1]) / 2
            end, w = (np.asarray(v) for v in fold(potential, end + w, w))
            w = w - kick @ np.asarray(at(potential, end)[1]) / 2
        before = float(at(potential, y)[0]) + p @ p / 2
        end_p = np.linalg.solve(stride, w)
        gains.append(before - float(at(potential, end)[0]) - end_p @ end_p / 2)
        y = end if log_u < gains[-1] else y
        states.append(y)
    return np.stack(states), np.asarray(gains)


@pytest.mark.parametrize("kind", ["product", "correlated"])
@pytest.mark.parametrize("walls", WALLS)
def test_equals_a_chain_written_out(x64, walls, kind):
    potential, scales, start = posed(walls, kind)
    momentum, log_uniform = noise()
    end, chain = jax.jit(lambda p, u: run_chain(potential, scales, start, p, u, NUM_LEAPFROG))(momentum, log_uniform)
    positions, gains = written_out(potential, scales, start, momentum, log_uniform)
    np.testing.assert_allclose(chain.positions, positions, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(chain.acceptance, np.exp(np.minimum(gains, 0)), atol=1e-8)
    np.testing.assert_array_equal(chain.has_moved, np.asarray(log_uniform) < gains)
    assert 3 < np.sum(chain.has_moved) < NUM - 3, "some must be accepted and some rejected"
    energies, gradients = at(potential, chain.positions)
    np.testing.assert_allclose(chain.gradients, gradients, rtol=1e-8, atol=1e-9)
    last = chain.positions[-1], energies[-1], chain.gradients[-1]
    for found, expected in zip(end, last, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.bits
@pytest.mark.parametrize("kind", ["product", "correlated"])
def test_is_the_same_in_any_batch(x64, kind):
    """Two vmaps, of states that have their own random numbers and of actions that share them, against chains alone."""
    means = np.asarray([MEANS["inside"], MEANS["face"], MEANS["outside"]])
    noises = [noise(12, seed) for seed in range(4)]
    momenta, log_uniforms = (np.stack(a) for a in zip(*noises, strict=True))

    def one(mean, momentum, log_uniform):
        return run_chain(*posed("logit", kind, mean), momentum, log_uniform, NUM_LEAPFROG)

    over_actions = jax.vmap(one, in_axes=(0, None, None))
    _, batch = jax.jit(jax.vmap(over_actions, in_axes=(None, 0, 0)))(means, momenta, log_uniforms)
    alone = jax.jit(one)
    for s, a in np.ndindex(4, 3):
        _, expected = alone(means[a], momenta[s], log_uniforms[s])
        for found, wanted in zip(batch, expected, strict=True):
            np.testing.assert_allclose(found[s, a], wanted, rtol=1e-9, atol=1e-9)


def test_trajectories_that_fly_off_are_rejected_and_counted(x64):
    """A step of 10¹⁰⁰ overflows to NaN: the chain stays where it is, and says so."""
    potential, scales, start = posed("sigmoid", "product", step=1e100)
    _, chain = jax.jit(lambda p, u: run_chain(potential, scales, start, p, u, NUM_LEAPFROG))(*noise(5))
    np.testing.assert_array_equal(chain.positions, np.broadcast_to(start.position, (5, 2)))
    assert np.all(chain.is_nonfinite) and not np.any(chain.has_moved) and np.all(chain.acceptance == 0)


@pytest.mark.parametrize("count", [0, 3, 5])
def test_some_of_a_scan_equals_that_of_jax(x64, count):
    """What is not reached stays 0, and the carry is that of the last turn."""

    def body(carry, x):
        return carry + x, carry * x

    xs = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
    end, made = jax.jit(lambda count: scan_some(body, jnp.ones(2), xs, count))(count)
    wanted_end, wanted = jax.lax.scan(body, jnp.ones(2), xs[:count])
    np.testing.assert_allclose(end, wanted_end, rtol=1e-12)
    np.testing.assert_allclose(made[:count], wanted, rtol=1e-12)
    assert not np.any(made[count:])


def test_a_chain_in_parts_is_the_chain(x64):
    """Any number of transitions at a time, from one program: the same states, and nothing is counted that was not made."""
    potential, scales, start = posed("logit", "correlated")
    momentum, log_uniform = noise()
    run = jax.jit(lambda state, p, u, count: run_chain(potential, scales, state, p, u, NUM_LEAPFROG, count))
    _, whole = run(start, momentum, log_uniform, NUM)
    state, first = run(start, momentum, log_uniform, 15)
    moved = [jnp.roll(a, -15, axis=0) for a in (momentum, log_uniform)]
    _, second = run(state, *moved, NUM - 15)
    for of_whole, of_first, of_second in zip(whole, first, second, strict=True):
        np.testing.assert_allclose(np.concatenate([of_first[:15], of_second[: NUM - 15]]), of_whole, rtol=1e-12)
    assert not np.any(first.has_moved[15:]) and not np.any(first.acceptance[15:])
