"""Potentials: gradients against finite differences at every wall, and on which side the energy grows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.sampling.walls import make_potential
from tests.sampling.posed import (
    LOWER,
    MEANS,
    UPPER,
    WALLS,
    box,
    gaussian,
    gaussian_log,
    soft_walls_log,
    two_modes,
    two_modes_on_a_circle,
    user_density,
)

SHARPNESS = 15.0
CENTRE = (np.asarray(LOWER) + UPPER) / 2


def density_of(kind, grid):
    if kind == "user":
        return user_density(two_modes_on_a_circle if grid.periodic[0] else two_modes, grid)
    return gaussian(kind, MEANS["face"])


def shares():
    """Positions in units of the box: on every face and corner up to 1e-9, close to it, and in the middle."""
    at = np.asarray([1e-9, 1e-3, 0.37, 0.999, 1 - 1e-9])
    return np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)


def chain_points(walls, periodic):
    """Chain coordinates at, near and (soft walls, circles) beyond every wall."""
    share = shares()
    if walls == "sigmoid":
        share = np.concatenate([share, 1.2 * share - 0.1])
    points = LOWER + (np.asarray(UPPER) - LOWER) * share
    if walls == "logit":
        points = np.where(periodic, points, np.log(share) - np.log1p(-share))
    if periodic[0]:
        points = np.concatenate([points, points + np.asarray([2.0, 0.0])])
    return points


@pytest.mark.parametrize("periodic", [(False, False), (True, False)], ids=["box", "circle"])
@pytest.mark.parametrize("kind", ["product", "correlated", "user"])
@pytest.mark.parametrize("walls", WALLS)
def test_gradient_equals_finite_differences(x64, walls, kind, periodic):
    grid = box(periodic=periodic)
    potential = make_potential(walls, density_of(kind, grid), grid, SHARPNESS)
    points = chain_points(walls, periodic)
    inward = np.where(points > CENTRE, -1.0, 1.0)
    step = 1e-6

    def differences(y, towards):
        def partial(i):
            e = step * towards[i] * jnp.eye(2)[i]
            if walls == "reflect":  # no energy beyond the wall: differences to the inside
                near, middle, far = potential.energy(y), potential.energy(y + e), potential.energy(y + 2 * e)
                return (-3 * near + 4 * middle - far) / (2 * step * towards[i])
            return (potential.energy(y + e) - potential.energy(y - e)) / (2 * step * towards[i])

        return jnp.stack([partial(0), partial(1)])

    both = jax.jit(jax.vmap(lambda y, towards: (potential.gradient(y), differences(y, towards))))
    found, expected = both(points, inward)
    assert np.all(np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", ["product", "correlated"])
@pytest.mark.parametrize("walls", WALLS)
def test_energy_is_that_of_the_density_over_chain_coordinates(x64, walls, kind):
    """exp(−U(y)) ∝ p(place(y))·|∂place/∂y|, with the Jacobian by autodiff and the density by NumPy."""
    grid = box()
    potential = make_potential(walls, density_of(kind, grid), grid, SHARPNESS)
    of_each = jax.jit(jax.vmap(lambda y: (potential.place(y), jax.jacfwd(potential.place)(y), potential.energy(y))))
    points, jacobians, found = (np.asarray(a) for a in of_each(chain_points(walls, (False, False))))
    volumes = np.abs(np.linalg.det(jacobians))
    expected = -gaussian_log(kind, MEANS["face"], points) - np.log(volumes)
    if walls == "sigmoid":
        expected = expected - soft_walls_log(SHARPNESS, points)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-7, atol=1e-6)


def test_sharp_branch_equals_the_exact_push(x64):
    density, grid = gaussian("product", MEANS["inside"]), box()
    for sharpness in (20.5, 80.0):
        sharp = make_potential("sigmoid", density, grid, sharpness)
        exact = make_potential("sigmoid", density, grid, jnp.asarray(sharpness))
        assert sharp.is_sharp and not exact.is_sharp
        points = np.concatenate([chain_points("sigmoid", (False, False)), CENTRE[None], CENTRE[None] + 1e-12])
        found, expected = jax.jit(jax.vmap(lambda y, s=sharp, e=exact: (s.gradient(y), e.gradient(y))))(points)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=sharpness * np.exp(-20))


def test_blunt_walls_use_both_sides(x64):
    density, grid = gaussian("product", MEANS["inside"]), box()
    assert not make_potential("sigmoid", density, grid, 20.0).is_sharp


def test_cutoff_decays_outside(x64):
    """The paper's displayed U has the opposite sign on both softplus terms, which puts the mass outside the box."""
    grid = box()
    potential = make_potential("sigmoid", gaussian("product", CENTRE), grid, SHARPNESS)
    of_each = jax.jit(jax.vmap(lambda y: (potential.energy(y), potential.gradient(y))))
    for axis in (0, 1):
        for side, wall in ((-1, LOWER[axis]), (1, UPPER[axis])):
            line = np.tile(CENTRE, (6, 1))
            line[:, axis] = wall + side * np.linspace(0.05, 1, 6)
            energies, gradients = (np.asarray(a) for a in of_each(line))
            own = energies + gaussian_log("product", CENTRE, line)
            assert np.all(np.diff(own) > 0.8 * SHARPNESS * 0.19), "the wall must push back, more the further out"
            push = gradients[:, axis] * side
            assert np.all(push > 0.5 * SHARPNESS)


def test_reflecting_walls_have_no_energy_outside():
    potential = make_potential("reflect", gaussian("product", MEANS["inside"]), box(), SHARPNESS)
    assert potential.energy(jnp.asarray([1.01, 0.0])) == np.inf
    assert np.isfinite(potential.energy(jnp.asarray([1.0, -2.0])))


@pytest.mark.parametrize("walls", WALLS)
def test_circles_have_the_energy_of_the_wrapped_point(x64, walls):
    """Also for a formula that does not know about the circle."""
    grid = box(periodic=(True, False))
    density = user_density(lambda point, state, action: -(point[0] ** 2) + 0 * action * state[0] * point[1], grid)
    potential = make_potential(walls, density, grid, SHARPNESS)
    of_each = jax.jit(jax.vmap(lambda y: (potential.energy(y), potential.gradient(y))))
    for found in of_each(np.asarray([[0.3 + 2.0 * turns, 0.1] for turns in (0, -2, 1)])):
        np.testing.assert_allclose(found[1:], np.stack([found[0]] * 2), atol=1e-12)


@pytest.mark.parametrize("walls", WALLS)
def test_lift_stays_inside_and_near(walls):
    grid = box(periodic=(True, False))
    potential = make_potential(walls, gaussian("product", MEANS["inside"]), grid, SHARPNESS)
    points = np.asarray([[0.2, -2.0], [-1.0, 1.0], [0.5, 0.3]], np.float32)
    lifted, placed = jax.jit(jax.vmap(lambda point: (potential.lift(point), potential.place(potential.lift(point)))))(points)
    assert np.all(np.isfinite(lifted))
    assert np.all((placed[:, 1] > -2) & (placed[:, 1] < 1))
    np.testing.assert_allclose(placed, points, atol=4e-3)


@pytest.mark.parametrize(
    ("start", "step", "end", "turned"),
    [
        ([0.9, 0.0], [0.3, 0.1], [0.8, 0.1], [-0.3, 0.1]),
        ([-0.9, 0.9], [-0.3, 0.3], [-0.8, 0.8], [0.3, -0.3]),
        ([0.9, 0.0], [4.2, 0.0], [0.9, 0.0], [-4.2, 0.0]),  # there and back again, and turned
        ([0.0, 0.0], [0.4, -0.5], [0.4, -0.5], [0.4, -0.5]),
    ],
)
def test_reflection_turns_position_and_displacement(x64, start, step, end, turned):
    potential = make_potential("reflect", gaussian("product", MEANS["inside"]), box(), SHARPNESS)
    y, w = potential.fold(jnp.asarray(start) + jnp.asarray(step), jnp.asarray(step))
    np.testing.assert_allclose(y, end, atol=1e-12)
    np.testing.assert_allclose(w, turned, atol=1e-12)
