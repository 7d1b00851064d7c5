"""Leapfrog: reversible, of order two, volume-preserving, and the same however it is batched. All in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.sampling.leapfrog import leapfrog
from hamq.sampling.walls import make_potential
from tests.sampling.posed import LOWER, MEANS, STD, UPPER, WALLS, box, gaussian, two_modes, user_density

NUM_STARTS = 64
SHARPNESS = 10.0


def potential_of(walls, kind):
    density = user_density(two_modes, box()) if kind == "user" else gaussian(kind, MEANS["inside"])
    return make_potential(walls, density, box(), SHARPNESS)


def inverse_mass(walls, kind):
    if kind == "correlated" and walls != "reflect":
        return jnp.asarray([[0.25, 0.2], [0.2, 0.49]])
    return jnp.asarray(STD) ** 2 * (0.05 if kind == "user" else 1.0)


def starts(walls):
    """Positions all over the box (chain coordinates) and standard normal momenta in units of the mass."""
    rng = np.random.default_rng(0)
    share = rng.uniform(0.03, 0.97, (NUM_STARTS, 2))
    points = np.log(share / (1 - share)) if walls == "logit" else LOWER + (np.asarray(UPPER) - LOWER) * share
    return jnp.asarray(points), jnp.asarray(rng.normal(size=(NUM_STARTS, 2)))


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


@pytest.mark.parametrize("kind", ["product", "correlated", "user"])
@pytest.mark.parametrize("walls", WALLS)
def test_reversible(x64, walls, kind):
    potential, covariance = potential_of(walls, kind), inverse_mass(walls, kind)
    y, p = starts(walls)
    forth = jax.jit(jax.vmap(lambda y, p: run(potential, covariance, y, p, 0.2, 7)))
    there = forth(y, p)
    assert np.max(np.abs(there[0] - y)) > 0.5, "the trajectories must go somewhere"
    back, momentum = forth(there[0], -there[1])
    np.testing.assert_allclose(back, y, atol=1e-8)
    np.testing.assert_allclose(-momentum, p, atol=1e-8)


@pytest.mark.parametrize("kind", ["correlated", "user"])
@pytest.mark.parametrize("walls", WALLS)
def test_energy_error_is_of_order_two(x64, walls, kind):
    """Half the step, twice as many: a quarter of the error (on the average of 64 trajectories of the same time)."""
    potential, covariance = potential_of(walls, kind), inverse_mass(walls, kind)
    y, p = starts(walls)

    def error(step, num_steps):
        def one(y, p):
            end, momentum = run(potential, covariance, y, p, step, num_steps)
            before = potential.energy(y) + 0.5 * jnp.sum(p**2)
            return jnp.abs(potential.energy(end) + 0.5 * jnp.sum(momentum**2) - before)

        return float(jnp.mean(jax.jit(jax.vmap(one))(y, p)))

    coarse, fine = error(0.04, 20), error(0.02, 40)
    assert 1e-9 < fine < 0.05
    # Bounces fall anywhere within a step, so their part of the error is a quarter on average only.
    assert (2.5 if walls == "reflect" else 3.7) < coarse / fine < (6.0 if walls == "reflect" else 4.3)


@pytest.mark.parametrize("walls", WALLS)
def test_volume_is_preserved(x64, walls):
    for kind in ("product", "user"):
        potential, covariance = potential_of(walls, kind), inverse_mass(walls, kind)
        y, p = starts(walls)

        def flow(z, potential=potential, covariance=covariance):
            return jnp.concatenate(run(potential, covariance, z[:2], z[2:], 0.3, 4))

        centres = jnp.concatenate([y, p], axis=1)
        shifts = 1e-7 * jnp.eye(4)
        ends = jax.jit(jax.vmap(jax.vmap(flow)))
        # Finite differences: a batched leapfrog is not differentiable, and nothing needs it to be.
        forth, back = ends(centres[:, None] + shifts[None]), ends(centres[:, None] - shifts[None])
        jacobians = (forth - back) / 2e-7
        np.testing.assert_allclose(np.abs(np.linalg.det(np.asarray(jacobians))), 1, atol=1e-6)
        assert np.max(np.abs(np.asarray(jacobians) - np.eye(4))) > 0.1


@pytest.mark.parametrize("kind", ["product", "correlated", "user"])
@pytest.mark.parametrize("walls", WALLS)
def test_is_the_same_in_any_batch(x64, walls, kind):
    """Nested vmaps, over densities, masses and starts, some of them shared, against one trajectory at a time."""
    y, p = starts(walls)
    y, p = y[:5], p[:5]
    means = jnp.asarray([MEANS["inside"], MEANS["face"], MEANS["outside"]])
    scales = jnp.asarray([1.0, 0.5])

    def one(mean, scale, y, p):
        density = user_density(two_modes, box(), 0.1 * mean) if kind == "user" else gaussian(kind, mean)
        potential = make_potential(walls, density, box(), SHARPNESS)
        return run(potential, scale * inverse_mass(walls, kind), y, p, 0.2, 5)

    over_starts = jax.vmap(one, in_axes=(None, None, 0, 0))
    over_masses = jax.vmap(over_starts, in_axes=(None, 0, None, None))
    batch = jax.jit(jax.vmap(over_masses, in_axes=(0, None, None, None)))(means, scales, y, p)
    other = jax.jit(jax.vmap(over_masses, in_axes=(None, None, 0, 0)))(means[1], scales, y[:, None], p[:, None])
    alone = jax.jit(one)
    for i, j, k in np.ndindex(3, 2, 5):
        for found, expected in zip(batch, alone(means[i], scales[j], y[k], p[k]), strict=True):
            np.testing.assert_allclose(found[i, j, k], expected, rtol=1e-12, atol=1e-12)
    for found, expected in zip(other, batch, strict=True):
        np.testing.assert_allclose(found[:, :, 0], np.swapaxes(expected[1], 0, 1), rtol=1e-12, atol=1e-12)
