"""Leapfrog: reversible, of order two, volume-preserving, and the same however it is batched. All in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.sampling.leapfrog import leapfrog
from hamq.sampling.walls import make_potential
from tests.sampling.posed import LOWER, MEANS, STD, UPPER, WALLS, box, gaussian, two_modes, user_density

NUM_STARTS = 64
NUM_STEPS = 5
SHARPNESS = 10.0


def potential_of(walls, kind):
    density = user_density(two_modes, box()) if kind == "user" else gaussian(kind, MEANS["inside"])
    return make_potential(walls, density, box(), SHARPNESS)


def inverse_mass(walls, kind):
    if kind == "correlated" and walls != "reflect":
        return jnp.asarray([[0.25, 0.2], [0.2, 0.49]])
    return jnp.asarray(np.square(STD) * (0.05 if kind == "user" else 1.0))


def starts(walls):
    """Positions all over the box (chain coordinates) and standard normal momenta in units of the mass."""
    rng = np.random.default_rng(0)
    share = rng.uniform(0.03, 0.97, (NUM_STARTS, 2))
    points = np.log(share / (1 - share)) if walls == "logit" else LOWER + (np.asarray(UPPER) - LOWER) * share
    return points, rng.normal(size=(NUM_STARTS, 2))


def factor_of(covariance):
    return jnp.sqrt(covariance) if covariance.ndim == 1 else jnp.linalg.cholesky(covariance)


def times(matrix, vector):
    return matrix * vector if matrix.ndim == 1 else matrix @ vector


def run(potential, covariance, y, p, step, num_steps):
    """(position, momentum) after the trajectory; p ~ N(0, 1) in units of the mass."""
    factor = factor_of(covariance)
    y, w, _ = leapfrog(potential, y, step * times(factor, p), potential.gradient(y), step**2 * covariance, num_steps)
    inverse = 1 / factor if factor.ndim == 1 else jnp.linalg.inv(factor)
    return y, times(inverse, w) / step


@functools.cache
def flow(walls, kind):
    """(position, momentum, energy before, energy) after NUM_STEPS steps of a size that is given, from 64 starts.

    One program for all tests. The steps are a loop, not written out: they are the same, and compiled in less time.
    """
    potential, covariance = potential_of(walls, kind), inverse_mass(walls, kind)

    def energy(y, p):
        return potential.energy(y) + 0.5 * jnp.sum(p**2)

    def one(step, y, p):
        end = run(potential, covariance, y, p, step, NUM_STEPS)
        return *end, energy(y, p), energy(*end)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hamq.sampling.leapfrog.UNROLLED", 1)
        return jax.jit(jax.vmap(one, in_axes=(None, 0, 0))).lower(0.1, *starts(walls)).compile()


@pytest.mark.parametrize("kind", ["product", "correlated", "user"])
@pytest.mark.parametrize("walls", WALLS)
def test_reversible(x64, walls, kind):
    forth, (y, p) = flow(walls, kind), starts(walls)
    there = forth(0.3, y, p)
    assert np.max(np.abs(there[0] - y)) > 0.5, "the trajectories must go somewhere"
    back, momentum, *_ = forth(0.3, there[0], -np.asarray(there[1]))
    np.testing.assert_allclose(back, y, atol=1e-8)
    np.testing.assert_allclose(-np.asarray(momentum), p, atol=1e-8)


@pytest.mark.parametrize("kind", ["correlated", "user"])
@pytest.mark.parametrize("walls", WALLS)
def test_energy_error_is_of_order_two(x64, walls, kind):
    """Half the step, twice as many: a quarter of the error (on the average of 64 trajectories of the same time)."""
    forth = flow(walls, kind)

    def error(step, num_steps):
        y, p = starts(walls)
        energies = []
        for _ in range(num_steps // NUM_STEPS):
            y, p, *now = forth(step, y, p)
            energies += now
        return np.mean(np.abs(np.asarray(energies[-1]) - energies[0]))

    coarse, fine = error(0.04, 20), error(0.02, 40)
    assert 1e-9 < fine < 0.05
    # Bounces fall anywhere within a step, so their part of the error is a quarter on average only.
    assert (2.5 if walls == "reflect" else 3.7) < coarse / fine < (6.0 if walls == "reflect" else 4.3)


@pytest.mark.parametrize("walls", WALLS)
def test_volume_is_preserved(x64, walls):
    for kind in ("product", "user"):
        forth, centres = flow(walls, kind), np.concatenate(starts(walls), axis=1)

        def ends(shift, forth=forth, centres=centres):
            y, p = np.split(centres + shift, 2, axis=1)
            return np.concatenate(forth(0.3, y, p)[:2], axis=1)

        # Finite differences: a batched leapfrog is not differentiable, and nothing needs it to be.
        columns = [(ends(shift) - ends(-shift)) / 2e-7 for shift in 1e-7 * np.eye(4)]
        jacobians = np.stack(columns, axis=1)
        np.testing.assert_allclose(np.abs(np.linalg.det(jacobians)), 1, atol=1e-6)
        assert np.max(np.abs(jacobians - np.eye(4))) > 0.1


@pytest.mark.bits
@pytest.mark.parametrize(
    ("walls", "kind"), [*((walls, "product") for walls in WALLS), ("logit", "correlated"), ("reflect", "user")]
)
def test_is_the_same_in_any_batch(x64, walls, kind):
    """Nested vmaps, over densities, masses and starts, some of them shared, against one trajectory at a time."""
    y, p = (a[:5] for a in starts(walls))
    means = np.asarray([MEANS["inside"], MEANS["face"], MEANS["outside"]])
    scales = np.asarray([1.0, 0.5])

    def one(mean, scale, y, p):
        density = user_density(two_modes, box(), 0.1 * mean) if kind == "user" else gaussian(kind, mean)
        potential = make_potential(walls, density, box(), SHARPNESS)
        return run(potential, scale * inverse_mass(walls, kind), y, p, 0.2, 2)

    over_starts = jax.vmap(one, in_axes=(None, None, 0, 0))
    over_masses = jax.vmap(over_starts, in_axes=(None, 0, None, None))

    @jax.jit
    def all_ways(means, scales, y, p):
        batch = jax.vmap(over_masses, in_axes=(0, None, None, None))(means, scales, y, p)
        other = jax.vmap(over_masses, in_axes=(None, None, 0, 0))(means[1], scales, y[:, None], p[:, None])
        i, j, k = (index.ravel() for index in np.indices((3, 2, 5)))
        alone = jax.lax.map(lambda given: one(*given), (means[i], scales[j], y[k], p[k]))
        return batch, other, alone

    for batch, other, alone in zip(*all_ways(means, scales, y, p), strict=True):
        np.testing.assert_allclose(batch, np.reshape(alone, (3, 2, 5, 2)), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(other[:, :, 0], np.swapaxes(batch[1], 0, 1), rtol=1e-12, atol=1e-12)
