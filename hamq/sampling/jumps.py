"""Independent proposals from the modes, with a part spread evenly over the box.

As a Metropolis move it lets a chain jump between modes that no trajectory crosses; with weights it is importance sampling.
Near mode k a proposal is y_k + 1.2·L_k·t with t₁ … t_d independent, each of Student's law with four degrees of freedom,

    f(t) = 3/8·(1 + t²/4)^(−5/2),

because in logit coordinates a density falls off like exp(−|y|) towards a wall: the Laplace approximation itself, a normal,
would be too thin there, and the weights of a few draws would outweigh all others. The even part takes what lies between
the modes. Beyond three dimensions a proposal of the
whole vector is hardly ever accepted: there a jump moves one coordinate at a time, drawn from the modes' marginals.
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.sampling.leapfrog import apply
from hamq.sampling.modes import Modes, choose, difference, wrapped
from hamq.sampling.walls import AbstractPotential, LogitPotential
from hamq.types import Key

WIDENING = 1.2
EVEN_SHARE = 0.1
MARGINAL_WIDENING = 1.5
MARGINAL_EVEN_SHARE = 0.2
MAX_WHOLE = 3
"""Dimensions up to which a jump moves the whole vector."""
NUM_COORDINATES = 4
"""Coordinates that one jump tries to move, one after the other, in more dimensions; each costs one density."""


class Jump(NamedTuple):
    """A proposal for the whole vector: y, U(y), ∇U(y) and the log density of proposing it."""

    position: Float[Array, " d"]
    energy: Float[Array, ""]
    gradient: Float[Array, " d"]
    log_density: Float[Array, ""]


class JumpNoise(NamedTuple):
    """The random numbers of n proposals: the same for all actions of a state."""

    choice: Float[Array, "n 2"]
    student: Float[Array, "n d"]
    even: Float[Array, "n d"]


def jump_noise(num: int, d: int, *, key: Key) -> JumpNoise:
    choice_key, student_key, even_key = jr.split(key, 3)
    student = student_quantile(jr.uniform(student_key, (num, d), minval=1e-7, maxval=1 - 1e-7))
    return JumpNoise(jr.uniform(choice_key, (num, 2)), student, jr.uniform(even_key, (num, d)))


def student_quantile(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """t with F(t) = u for four degrees of freedom, where it is a closed form (Shaw 2006)."""
    root = jnp.sqrt(4 * u * (1 - u))
    ratio = jnp.cos(jnp.arccos(root) / 3) / root
    return 2 * jnp.sign(u - 0.5) * jnp.sqrt(jnp.maximum(ratio - 1, 0))


def propose(potential: AbstractPotential, modes: Modes, noise: JumpNoise) -> Float[Array, " d"]:
    """One proposal, from the noise of one proposal."""
    even = _even(_axes(potential), noise.even)
    k = choose(modes.log_weights, noise.choice[1])
    near_mode = modes.positions[k] + WIDENING * apply(modes.factors[k], noise.student)
    y = jnp.where(noise.choice[0] < EVEN_SHARE, even, near_mode)
    return wrapped(potential, y)


def propose_jump(potential: AbstractPotential, modes: Modes, noise: JumpNoise) -> Jump:
    y = propose(potential, modes, noise)
    return Jump(y, potential.energy(y), potential.gradient(y), log_proposal(potential, modes, y))


def log_proposal(potential: AbstractPotential, modes: Modes, y: Float[Array, " d"]) -> Float[Array, ""]:
    """log density of `propose` over y."""
    shifts = jnp.asarray(_shifts(potential), y.dtype)
    d = y.shape[0]

    def log_component(position, inverse, log_height):
        offset = difference(potential, y, position)
        t = jax.vmap(lambda shift: apply(inverse, offset + shift))(shifts) / WIDENING
        # One logarithm of a product costs less than d of its factors; where it overflows the component is nothing.
        return log_height - 2.5 * jnp.log(functools.reduce(jnp.multiply, [1 + t[:, i] ** 2 / 4 for i in range(d)]))

    logs = jax.vmap(log_component)(modes.positions, modes.inverse_factors, modes.log_weights - modes.log_volumes)
    constant = d * np.log(3 / 8 / WIDENING) + np.log(1 - EVEN_SHARE)
    even = jnp.sum(_log_even(_axes(potential), y)) + np.log(EVEN_SHARE)
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


class Marginal(NamedTuple):
    """The law of one coordinate that `propose_coordinate` draws from: normals of these heights, and an even part."""

    axis: "_Axes"
    centres: Float[Array, " K"]
    stds: Float[Array, " K"]
    heights: Float[Array, " K"]


class CoordinateProposal(NamedTuple):
    """A new value for coordinate `index`, the law it comes from, and its log density there."""

    index: Int[Array, ""]
    value: Float[Array, ""]
    log_density: Float[Array, ""]
    marginal: Marginal


def propose_coordinate(potential: AbstractPotential, modes: Modes, noise: CoordinateNoise) -> CoordinateProposal:
    """One coordinate drawn anew from the modes' marginals, whatever the position of the chain.

    Every mode counts the same, whatever its weight: one that is light as a whole may hold the place for this coordinate.
    """
    i = noise.axis
    axis = jax.tree.map(lambda values: values[i], _axes(potential))
    centres = modes.positions[:, i]
    stds = MARGINAL_WIDENING * jnp.sqrt(jax.vmap(jnp.diagonal)(modes.covariances)[:, i])
    is_mode = jnp.isfinite(modes.log_weights).astype(centres.dtype)
    shares = is_mode / jnp.sum(is_mode)
    k = choose(jnp.log(shares), noise.choice[1])
    near_mode = centres[k] + stds[k] * noise.normal
    value = jnp.where(noise.choice[0] < MARGINAL_EVEN_SHARE, _even(axis, noise.even), near_mode)
    value = wrapped(potential, jnp.full_like(potential.lower, value))[i]
    marginal = Marginal(axis, centres, stds, (1 - MARGINAL_EVEN_SHARE) * shares / (np.sqrt(2 * np.pi) * stds))
    return CoordinateProposal(i, value, log_marginal(potential, marginal, value), marginal)


def log_marginal(potential: AbstractPotential, marginal: Marginal, x: Float[Array, ""]) -> Float[Array, ""]:
    """log density of `propose_coordinate` at x; the even part is there wherever the normals underflow."""
    axis, offsets = marginal.axis, x - marginal.centres
    parts = marginal.heights * jnp.exp(-0.5 * (offsets / marginal.stds) ** 2)
    density = functools.reduce(jnp.add, [*parts])  # written out: within a loop that sums, exp would not be vectorised
    if potential.wraps.any():
        width = axis.upper - axis.lower
        # The nearest image and one on each side; off the circles the first alone.
        nearest = offsets - width * jnp.round(offsets / width)
        images = nearest[:, None] + width * jnp.asarray([-1, 0, 1], x.dtype)[None, :]
        round_circle = jnp.sum(marginal.heights[:, None] * jnp.exp(-0.5 * (images / marginal.stds[:, None]) ** 2))
        density = jnp.where(axis.wraps, round_circle, density)
    return jnp.log(density + MARGINAL_EVEN_SHARE * jnp.exp(_log_even(axis, x)))


class _Axes(NamedTuple):
    """What an evenly spread point needs to know of all axes (`[d]`) or of one: is_logit where y is a logit."""

    lower: Float[Array, "*d"]
    upper: Float[Array, "*d"]
    is_logit: Bool[Array, "*d"]
    wraps: Bool[Array, "*d"]


def _axes(potential: AbstractPotential) -> _Axes:
    is_logit = ~potential.circle & isinstance(potential, LogitPotential)
    return _Axes(potential.lower, potential.upper, jnp.asarray(is_logit), jnp.asarray(potential.wraps))


def _even(axes: _Axes, share: Float[Array, "*d"]) -> Float[Array, "*d"]:
    """The point at this share of each axis, in chain coordinates."""
    share = jnp.clip(share, 1e-6, 1 - 1e-6)
    point = axes.lower + (axes.upper - axes.lower) * share
    return jnp.where(axes.is_logit, jnp.log(share) - jnp.log1p(-share), point)


def _log_even(axes: _Axes, y: Float[Array, "*d"]) -> Float[Array, "*d"]:
    """log density over y, axis by axis, of a point that is spread evenly over the box; −inf outside."""
    is_inside = axes.wraps | ((y >= axes.lower) & (y <= axes.upper))
    on_line = jnp.where(is_inside, -jnp.log(axes.upper - axes.lower), -jnp.inf)
    away = jnp.abs(y)
    return jnp.where(axes.is_logit, -away - 2 * jnp.log1p(jnp.exp(-away)), on_line)


def _shifts(potential: AbstractPotential) -> np.ndarray:
    """Images round the circles: a widened mode has a scale below a quarter of a circle (`_reach`), so that beyond two turns
    lie less than 3 in 10,000 of its proposals, and nearly always none."""
    ranges = [range(-2, 3) if circle else (0,) for circle in potential.wraps]
    return np.asarray(list(itertools.product(*ranges))) * np.asarray(potential.grid.widths)
