"""Independent proposals from the Laplace mixture of the modes, widened, with a part spread evenly over the box.

As a Metropolis move it lets a chain jump between modes that no trajectory crosses; with weights it is importance sampling.
The even part bounds the weights wherever the Laplace approximation is too thin. Beyond three dimensions a proposal of the
whole vector is hardly ever accepted: there a jump moves one coordinate at a time, drawn from the modes' marginals.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.sampling.leapfrog import apply
from hamq.sampling.modes import Modes, difference, wrapped
from hamq.sampling.walls import AbstractPotential, LogitPotential
from hamq.types import Key

WIDENING = 1.3
EVEN_SHARE = 0.1
MARGINAL_WIDENING = 1.5
MARGINAL_EVEN_SHARE = 0.2
MAX_WHOLE = 3
"""Dimensions up to which a jump moves the whole vector."""
NUM_COORDINATES = 4
"""Coordinates that one jump tries to move, one after the other, in more dimensions; each costs one density."""


class JumpNoise(NamedTuple):
    """The random numbers of n proposals: the same for all actions of a state."""

    choice: Float[Array, "n 2"]
    normal: Float[Array, "n d"]
    even: Float[Array, "n d"]


def jump_noise(num: int, d: int, *, key: Key) -> JumpNoise:
    choice_key, normal_key, even_key = jr.split(key, 3)
    return JumpNoise(jr.uniform(choice_key, (num, 2)), jr.normal(normal_key, (num, d)), jr.uniform(even_key, (num, d)))


def propose(potential: AbstractPotential, modes: Modes, noise: JumpNoise) -> Float[Array, " d"]:
    """One proposal, from the noise of one proposal."""
    even = _even(potential, noise.even)
    k = jnp.searchsorted(jnp.cumsum(jnp.exp(modes.log_weights)), noise.choice[1]).clip(0, len(modes.log_weights) - 1)
    near_mode = modes.positions[k] + WIDENING * apply(modes.factors[k], noise.normal)
    y = jnp.where(noise.choice[0] < EVEN_SHARE, even, near_mode)
    return wrapped(potential, y)


def log_proposal(potential: AbstractPotential, modes: Modes, y: Float[Array, " d"]) -> Float[Array, ""]:
    """log density of `propose` over y."""
    shifts = jnp.asarray(_shifts(potential), y.dtype)
    d = y.shape[0]

    def log_component(position, inverse, log_height):
        offset = difference(potential, y, position)
        squares = jax.vmap(lambda shift: jnp.sum(apply(inverse, offset + shift) ** 2))(shifts)
        return log_height - 0.5 * squares / WIDENING**2

    logs = jax.vmap(log_component)(modes.positions, modes.inverse_factors, modes.log_weights - modes.log_volumes)
    constant = -d * np.log(WIDENING) - 0.5 * d * np.log(2 * np.pi) + np.log(1 - EVEN_SHARE)
    even = jnp.sum(_log_even(potential, y)) + np.log(EVEN_SHARE)
    return jnp.logaddexp(jax.nn.logsumexp(logs) + constant, even)


class CoordinateNoise(NamedTuple):
    """The random numbers of n proposals that move one coordinate each."""

    axis: Int[Array, "*n"]
    choice: Float[Array, "*n 2"]
    normal: Float[Array, "*n"]
    even: Float[Array, "*n"]


def coordinate_noise(shape: tuple[int, ...], d: int, *, key: Key) -> CoordinateNoise:
    axis_key, choice_key, normal_key, even_key = jr.split(key, 4)
    return CoordinateNoise(
        jr.randint(axis_key, shape, 0, d),
        jr.uniform(choice_key, (*shape, 2)),
        jr.normal(normal_key, shape),
        jr.uniform(even_key, shape),
    )


def propose_coordinate(
    potential: AbstractPotential, modes: Modes, y: Float[Array, " d"], noise: CoordinateNoise
) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """y with one coordinate drawn anew from the modes' marginals, and log q(old) − log q(new) of that coordinate.

    Every mode counts the same, whatever its weight: one that is light as a whole may hold the place for this coordinate.
    """
    i = noise.axis
    is_mode = jnp.isfinite(modes.log_weights)
    log_weights = jnp.log(is_mode.astype(y.dtype) / jnp.sum(is_mode, dtype=y.dtype))
    positions = modes.positions[:, i]
    stds = MARGINAL_WIDENING * jnp.sqrt(jnp.sum(modes.factors[:, i] ** 2, axis=-1))
    k = jnp.searchsorted(jnp.cumsum(jnp.exp(log_weights)), noise.choice[1]).clip(0, len(log_weights) - 1)
    even = _even(potential, jnp.full_like(y, noise.even))[i]
    new = jnp.where(noise.choice[0] < MARGINAL_EVEN_SHARE, even, positions[k] + stds[k] * noise.normal)
    moved = wrapped(potential, y.at[i].set(new))
    images = jnp.asarray((-1, 0, 1) if potential.wraps.any() else (0,), y.dtype)

    def log_density(point):
        offsets = jax.vmap(lambda position: difference(potential, point, point.at[i].set(position))[i])(positions)
        shifts = images * jnp.where(jnp.asarray(potential.wraps)[i], (potential.upper - potential.lower)[i], 0)
        squares = ((offsets[:, None] + shifts[None, :]) / stds[:, None]) ** 2
        # Off the circles all images are the same one: the mean over them counts it once.
        count = jnp.where(jnp.asarray(potential.wraps)[i], 1, len(images))
        near = jax.nn.logsumexp((log_weights - jnp.log(stds))[:, None] - 0.5 * squares) - jnp.log(count)
        near = near - 0.5 * np.log(2 * np.pi) + np.log(1 - MARGINAL_EVEN_SHARE)
        return jnp.logaddexp(near, _log_even(potential, point)[i] + np.log(MARGINAL_EVEN_SHARE))

    return moved, log_density(y) - log_density(moved)


def _even(potential: AbstractPotential, share: Float[Array, " d"]) -> Float[Array, " d"]:
    """The point at this share of each axis, in chain coordinates."""
    share = jnp.clip(share, 1e-6, 1 - 1e-6)
    point = potential.lower + (potential.upper - potential.lower) * share
    is_logit = isinstance(potential, LogitPotential)
    return potential.where_circle(point, jnp.log(share) - jnp.log1p(-share)) if is_logit else point


def _log_even(potential: AbstractPotential, y: Float[Array, " d"]) -> Float[Array, " d"]:
    """log density over y, axis by axis, of a point that is spread evenly over the box; −inf outside."""
    log_width = jnp.log(potential.upper - potential.lower)
    is_inside = jnp.asarray(potential.wraps) | ((y >= potential.lower) & (y <= potential.upper))
    on_line = jnp.where(is_inside, -log_width, -jnp.inf)
    if not isinstance(potential, LogitPotential):
        return on_line
    away = jnp.abs(y)
    return potential.where_circle(on_line, -away - 2 * jnp.log1p(jnp.exp(-away)))


def _shifts(potential: AbstractPotential) -> np.ndarray:
    """Images round the circles: a widened mode has σ below a quarter of a circle, so one on each side is enough."""
    ranges = [(-1, 0, 1) if circle else (0,) for circle in potential.wraps]
    return np.asarray(list(itertools.product(*ranges))) * np.asarray(potential.grid.widths)
