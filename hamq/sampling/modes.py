"""Where the energy of one pair has its minima, and how wide they are: starts, mass and jumps of a chain.

Gaussian densities have one mode in every kind of box: ½(s'−μ)ᵀΣ⁻¹(s'−μ) plus the walls is convex. It is found by
Newton steps from a start that solves the nearest wall exactly. Other densities are searched: low-discrepancy points are
evaluated, those that no near neighbour beats (and the current state) are descended from by BFGS, and what ends in the
same place is one mode. A mode k carries the Laplace approximation N(y_k, C_k = L_k·L_kᵀ) with C_k the inverse Hessian of
U, and the weight exp(−U(y_k))·|L_k|.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.problem.kernels.gaussian import times
from hamq.problem.kernels.kernel import Normal
from hamq.problem.small_matrix import cholesky, inverse_lower, raised_cholesky, solve_positive
from hamq.sampling.cell_table import CellTable, make_table, num_evaluations
from hamq.sampling.leapfrog import apply
from hamq.sampling.walls import AbstractPotential, LogitPotential, ReflectPotential

NUM_PROBES = 128
NUM_STARTS = 8
NUM_DESCENT = 20
NUM_NEWTON = 4
NUM_CORRELATED_NEWTON = 8
LEAST_CURVATURE = 0.5
"""Of a mode in units of `_reach`: standard deviations of 1.4 reaches at most."""
SHARPEST_FALL = -100.0
"""Curvature in the same units below which the end of a search is the tip of a cusp, whose parabola says nothing."""


class Modes(NamedTuple):
    """Laplace approximations N(y_k, C_k = L_k·L_kᵀ) at K modes in chain coordinates; duplicates have weight −inf.

    L, L⁻¹ and C are given by their diagonals where they are diagonal. `energies` and `gradients` are U and ∇U at the modes:
    chains that start there need no evaluation of their own.
    """

    positions: Float[Array, "K d"]
    log_weights: Float[Array, " K"]
    factors: Float[Array, "K *square"]
    inverse_factors: Float[Array, "K *square"]
    covariances: Float[Array, "K *square"]
    log_volumes: Float[Array, " K"]
    energies: Float[Array, " K"]
    gradients: Float[Array, "K d"]
    count: Int[Array, ""]
    density_evaluations: Int[Array, ""]
    gradient_evaluations: Int[Array, ""]
    table: CellTable | None = None
    """The density on cells, where jumps are proposed from one."""


def find_modes(potential: AbstractPotential, state: Float[Array, " d"]) -> Modes:
    """The modes of one pair; `state` (where the pair comes from) is one of the starts of a search."""
    normal = potential.density.normal
    if normal is None:
        return _search(potential, state)
    return _product_mode(potential, normal) if normal.precision is None else _correlated_mode(potential, normal)


def search_gradients(dimension: int) -> int:
    """Gradients of the search for the modes of one pair whose density may have several."""
    return NUM_STARTS * (NUM_DESCENT + 1 + dimension)


def with_table(potential: AbstractPotential, modes: Modes) -> Modes:
    """The modes with a table of cells, in dimensions that have one."""
    num = num_evaluations(potential.grid.dimension)
    if not num:
        return modes
    densities = modes.density_evaluations + jnp.asarray(num, jnp.int32)
    return modes._replace(table=make_table(potential), density_evaluations=densities)


def _product_mode(potential: AbstractPotential, normal: Normal) -> Modes:
    if not isinstance(potential, LogitPotential):
        return _single(potential, potential.lift(normal.mean), normal.factor, 1 / normal.factor, 0)
    lower, width = potential.lower, potential.upper - potential.lower
    m, v = (normal.mean - lower) / width, (normal.factor / width) ** 2

    def newton(_, t):
        slope = (t - m) / v - 1 / t + 1 / (1 - t)
        bend = 1 / v + 1 / t**2 + 1 / (1 - t) ** 2
        return t - slope / (bend + jnp.abs(slope) * jnp.sqrt(bend))

    t = jax.lax.fori_loop(0, NUM_NEWTON, newton, _wall_start(m, v))
    curvature = (t * (1 - t)) ** 2 / v + (1 - 2 * t) ** 2 + 2 * t * (1 - t)
    y = jnp.where(potential.circle, normal.mean, jnp.log(t) - jnp.log1p(-t))
    std = jnp.where(potential.circle, normal.factor, 1 / jnp.sqrt(curvature))
    return _single(potential, y, std, 1 / std, NUM_NEWTON)


def _wall_start(m: Array, v: Array) -> Array:
    """Zero of the slope with the nearer wall alone: t² − m·t − v = 0, in units of the box."""
    distance = jnp.where(m < 0.5, m, 1 - m)
    root = jnp.sqrt(distance**2 + 4 * v)
    # The two forms of the root of a quadratic: each cancels where the other does not.
    near = jnp.where(distance > 0, (distance + root) / 2, 2 * v / (root - jnp.minimum(distance, 0)))
    near = jnp.clip(near, 1e-6, 0.5)
    return jnp.where(m < 0.5, near, 1 - near)


def _correlated_mode(potential: AbstractPotential, normal: Normal) -> Modes:
    precision, circle = normal.precision, potential.circle
    assert precision is not None
    if not isinstance(potential, LogitPotential):
        start = potential.lift(normal.mean)
        if isinstance(potential, ReflectPotential):
            std = 1 / jnp.sqrt(jnp.diagonal(precision))
            return _single(potential, start, std, 1 / std, 0)
        return _single(potential, start, normal.factor, inverse_lower(normal.factor), 0)
    lower, width = potential.lower, potential.upper - potential.lower
    variance = jnp.sum(normal.factor**2, axis=1)
    m = (normal.mean - lower) / width
    scaled = precision * width[:, None] * width[None, :]
    t = jnp.where(circle, m, _wall_start(m, variance / width**2))

    def newton(_, t):
        slope = times(scaled, t - m) + jnp.where(circle, 0, 1 / (1 - t) - 1 / t)
        bend = scaled + jnp.diag(jnp.where(circle, 0, 1 / t**2 + 1 / (1 - t) ** 2))
        step = solve_positive(bend, slope[:, None])[:, 0]
        # Damped by the Newton decrement: the barrier is self-concordant, so the step stays inside the box.
        return t - step / (1 + jnp.sqrt(jnp.maximum(jnp.sum(slope * step), 0)))

    t = jax.lax.fori_loop(0, NUM_CORRELATED_NEWTON, newton, t)
    slope = jnp.where(circle, 1, t * (1 - t))
    hessian = scaled * slope[:, None] * slope[None, :]
    hessian = hessian + jnp.diag(jnp.where(circle, 0, (1 - 2 * t) ** 2 + 2 * t * (1 - t)))
    hessian = hessian / jnp.where(circle, width, 1)[:, None] / jnp.where(circle, width, 1)[None, :]
    y = jnp.where(circle, lower + width * t, jnp.log(t) - jnp.log1p(-t))
    root = cholesky(hessian)
    return _single(potential, y, inverse_lower(root).T, root.T, NUM_CORRELATED_NEWTON)


def _single(potential: AbstractPotential, y: Array, factor: Array, inverse: Array, gradients: int) -> Modes:
    diagonal = factor if factor.ndim == 1 else jnp.diagonal(factor)  # a matrix here is triangular
    energy, gradient = potential.energy_and_gradient(y)
    return Modes(
        positions=y[None],
        log_weights=jnp.zeros((1,), y.dtype),
        factors=factor[None],
        inverse_factors=inverse[None],
        covariances=covariance_of(factor)[None],
        log_volumes=jnp.sum(jnp.log(diagonal))[None],
        energies=energy[None],
        gradients=gradient[None],
        count=jnp.asarray(1, jnp.int32),
        density_evaluations=jnp.asarray(1, jnp.int32),
        gradient_evaluations=jnp.asarray(gradients + 1, jnp.int32),
    )


def covariance_of(factor: Float[Array, "..."]) -> Float[Array, "..."]:
    """L·Lᵀ."""
    return factor**2 if factor.ndim == 1 else jax.vmap(lambda row: times(factor, row))(factor)


def choose(log_weights: Float[Array, " K"], uniform: Float[Array, ""]) -> Int[Array, ""]:
    """k with probability exp(log_weights[k]); a count, where `searchsorted` would be a loop within the loop of the chain."""
    if len(log_weights) == 1:
        return jnp.zeros((), jnp.int32)  # the same for a whole batch: nothing to gather
    below = jnp.cumsum(jnp.exp(log_weights))[:-1] < uniform
    return jnp.sum(below, dtype=jnp.int32)


def _search(potential: AbstractPotential, state: Float[Array, " d"]) -> Modes:
    d = potential.grid.dimension
    probes, neighbours = _probes(potential.grid.lower, potential.grid.upper)
    points = jnp.asarray(probes, state.dtype)
    lifted = jax.vmap(potential.lift)(points)
    energies = jnp.nan_to_num(jax.vmap(potential.energy)(lifted), nan=jnp.inf)
    is_lowest = energies <= jnp.min(energies[neighbours], axis=1)
    order = jnp.argsort(jnp.where(is_lowest, energies, energies + 1e6))[: NUM_STARTS - 1]
    starts = jnp.concatenate([potential.lift(state)[None], lifted[order]])
    ends, end_energies, end_gradients = jax.vmap(lambda y: _descend(potential, y))(starts)
    ends = jax.vmap(lambda y: wrapped(potential, y))(ends)
    hessians = jax.vmap(jax.jacfwd(potential.gradient))(ends)
    factors, inverses, log_volumes = jax.vmap(lambda h: _square_roots(potential, h))(hessians)
    log_weights = log_volumes - end_energies
    log_weights = jnp.where(_is_duplicate(potential, ends, end_energies, inverses), -jnp.inf, log_weights)
    log_weights = log_weights - jax.nn.logsumexp(log_weights)
    count = jnp.sum(log_weights > np.log(1e-6), dtype=jnp.int32)
    densities = jnp.asarray(NUM_PROBES + NUM_STARTS * (NUM_DESCENT + 1), jnp.int32)
    gradients = jnp.asarray(search_gradients(d), jnp.int32)
    covariances = jax.vmap(covariance_of)(factors)
    return Modes(
        ends,
        log_weights,
        factors,
        inverses,
        covariances,
        log_volumes,
        end_energies,
        end_gradients,
        count,
        densities,
        gradients,
    )


@functools.cache
def _probes(lower: tuple[float, ...], upper: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Low-discrepancy points of the box, and the 2d + 2 nearest neighbours of each (itself included)."""
    d = len(lower)
    cube = low_discrepancy(NUM_PROBES, d)
    distances = np.sum((cube[:, None] - cube[None, :]) ** 2, axis=-1)
    neighbours = np.argsort(distances, axis=1, kind="stable")[:, : 2 * d + 2]
    return np.asarray(lower) + (np.asarray(upper) - np.asarray(lower)) * cube, neighbours


def low_discrepancy(num: int, d: int) -> Float[np.ndarray, "num d"]:
    """Points of the unit cube: multiples of (1/φ, 1/φ², …, 1/φᵈ) modulo 1, with φ^(d+1) = φ + 1 (Roberts 2018)."""
    phi = 2.0
    for _ in range(60):
        phi = (1 + phi) ** (1 / (d + 1))
    return (0.5 + np.arange(1, num + 1)[:, None] / phi ** np.arange(1, d + 1)) % 1


def _descend(
    potential: AbstractPotential, start: Float[Array, " d"]
) -> tuple[Float[Array, " d"], Float[Array, ""], Float[Array, " d"]]:
    """(y, U, ∇U) after BFGS with one evaluation per turn: a step that does not descend is cut to a quarter.

    Turn 0 evaluates the start itself: it descends from an energy of infinity by a step of 0, which teaches no curvature.
    """
    identity = jnp.eye(len(start), dtype=start.dtype)
    reach = jnp.asarray(_reach(potential), start.dtype)

    def turn(i, carry):
        y, energy, gradient, inverse, share = carry
        step = -apply(inverse, gradient)
        step = share * step / jnp.maximum(1, jnp.max(jnp.abs(step) / reach))
        new_energy, new_gradient = potential.energy_and_gradient(y + step)
        is_finite = jnp.all(jnp.isfinite(new_gradient))
        has_descended = (i == 0) | ((new_energy <= energy) & is_finite)
        change = new_gradient - gradient
        product = jnp.sum(step * change)
        is_convex = has_descended & (product > 1e-12)
        safe = jnp.where(is_convex, product, 1)
        bent = apply(inverse, change)
        cross = step[:, None] * bent[None, :]
        stretch = (1 + jnp.sum(change * bent) / safe) * step[:, None] * step[None, :]
        update = inverse + (stretch - cross - cross.T) / safe
        first = identity / jnp.maximum(1, jnp.sqrt(jnp.sum(new_gradient**2)))
        return (
            jnp.where(has_descended, y + step, y),
            jnp.where(has_descended, new_energy, energy),
            jnp.where(has_descended, new_gradient, gradient),
            jnp.where(i == 0, first, jnp.where(is_convex, update, inverse)),
            jnp.where(has_descended, jnp.minimum(1, 2 * share), share / 4),
        )

    nowhere = jnp.asarray(jnp.inf, start.dtype)
    carry = (start, nowhere, jnp.zeros_like(start), identity, jnp.ones((), start.dtype))
    y, energy, gradient, *_ = jax.lax.fori_loop(0, NUM_DESCENT + 1, turn, carry)
    return y, jnp.where(jnp.isfinite(energy), energy, jnp.inf), gradient


def _reach(potential: AbstractPotential) -> np.ndarray:
    """The longest sensible step and the widest sensible standard deviation on each axis of y."""
    widths = np.asarray(potential.grid.widths)
    # On a circle no wider than this, so that a Laplace approximation does not meet itself on the other side.
    return np.where(potential.circle, widths / 8, 2.0 if isinstance(potential, LogitPotential) else widths / 4)


def _square_roots(potential: AbstractPotential, hessian: Float[Array, "d d"]) -> tuple[Array, Array, Array]:
    """L, L⁻¹ and log|L| with L·Lᵀ the inverse Hessian, raised until it is positive and L no wider than the box."""
    reach = jnp.asarray(_reach(potential), hessian.dtype)
    hessian = jnp.where(jnp.isfinite(hessian), hessian, 0)
    scaled = hessian * reach[:, None] * reach[None, :]
    # U = |u|^0.3 bends downwards on both sides of its minimum, the more the nearer: such axes count as flat.
    is_tip = jnp.diagonal(scaled) < SHARPEST_FALL
    scaled = jnp.where(is_tip[:, None] | is_tip[None, :], 0, scaled)
    if isinstance(potential, ReflectPotential):
        root = jnp.diag(jnp.sqrt(jnp.maximum(jnp.abs(jnp.diagonal(scaled)), LEAST_CURVATURE)))
    else:
        root = raised_cholesky((scaled + scaled.T) / 2, LEAST_CURVATURE)
    log_volume = jnp.sum(jnp.log(reach)) - jnp.sum(jnp.log(jnp.diagonal(root)))
    return reach[:, None] * inverse_lower(root).T, root.T / reach[None, :], log_volume


def wrapped(potential: AbstractPotential, y: Float[Array, " d"]) -> Float[Array, " d"]:
    return jnp.where(potential.wraps, potential.grid.wrap(y), y) if potential.wraps.any() else y


def difference(potential: AbstractPotential, a: Float[Array, " d"], b: Float[Array, " d"]) -> Float[Array, " d"]:
    """a − b, the short way round on circles."""
    if not potential.wraps.any():
        return a - b
    width = potential.upper - potential.lower
    return jnp.where(potential.wraps, (a - b + width / 2) % width - width / 2, a - b)


def _is_duplicate(potential: AbstractPotential, ends: Array, energies: Array, inverses: Array) -> Array:
    """True for an end that lies within one standard deviation of a lower one (or of an equal one before it)."""
    k = len(energies)

    def is_near(i, j):
        return jnp.sum(apply(inverses[j], difference(potential, ends[i], ends[j])) ** 2) < 1

    index = jnp.arange(k)
    near = jax.vmap(lambda i: jax.vmap(lambda j: is_near(i, j))(index))(index)
    is_before = index[None, :] < index[:, None]
    is_lower = (energies[None, :] < energies[:, None]) | ((energies[None, :] == energies[:, None]) & is_before)
    return jnp.any(near & is_lower, axis=1) | ~jnp.isfinite(energies)
