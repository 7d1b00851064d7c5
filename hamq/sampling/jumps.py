"""Independent proposals from the modes, with a part spread evenly over the box.

As a Metropolis move it lets a chain jump between modes that no trajectory crosses; with weights it is importance sampling.
Near mode k a proposal is y_k + 1.2·L_k·t with t₁ … t_d independent, each of Student's law with four degrees of freedom,

    f(t) = 3/8·(1 + t²/4)^(−5/2),

because in logit coordinates a density falls off like exp(−|y|) towards a wall: the Laplace approximation itself, a normal,
would be too thin there, and the weights of a few draws would outweigh all others. The even part takes what lies between
the modes. Beyond three dimensions a proposal of the whole vector is hardly ever accepted: there a jump moves one coordinate
at a time, drawn from the modes' marginals.

Everything is written for many lanes at once, the lanes as the last axis of every array (of 1 where all share it): in sums
over modes and axes the numbers of all lanes lie side by side, which is what vector units want.
"""

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.sampling.cell_table import CellTable, log_height_at, shares_of
from hamq.sampling.modes import Modes
from hamq.sampling.walls import AbstractPotential, LogitPotential

WIDENING = 1.2
EVEN_SHARE = 0.1
TABLE_SHARE = 0.8
"""Of proposals from a table of cells (`cell_table.py`), which has an even part of its own, where there is one."""
MARGINAL_WIDENING = 1.5
MARGINAL_EVEN_SHARE = 0.2
MAX_WHOLE = 3
"""Dimensions up to which a jump moves the whole vector."""
NUM_COORDINATES = 4
"""Coordinates that one jump tries to move, one after the other, in more dimensions; each costs one density."""


class JumpNoise(NamedTuple):
    """The random numbers of proposals for the whole vector: the same for all actions of a state."""

    choice: Float[Array, "..."]
    student: Float[Array, "..."]
    even: Float[Array, "..."]
    log_uniform: Float[Array, "..."]


class CoordinateNoise(NamedTuple):
    """The random numbers of proposals that move one coordinate each; `axis` is a share of the number of axes."""

    axis: Float[Array, "..."]
    choice: Float[Array, "..."]
    normal: Float[Array, "..."]
    even: Float[Array, "..."]
    log_uniform: Float[Array, "..."]


def student_quantile(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """t with F(t) = u for four degrees of freedom, where it is a closed form (Shaw 2006) in c = cos(arccos(r)/3).

    c is the largest root of 4c³ − 3c = r, found by Newton's method: a shorter program than the two functions.
    """
    root = jnp.sqrt(4 * u * (1 - u))
    c = 0.866 + 0.134 * root
    for _ in range(3):
        c = c - (c * (4 * c**2 - 3) - root) / (12 * c**2 - 3)
    return 2 * jnp.sign(u - 0.5) * jnp.sqrt(jnp.maximum(c / root - 1, 0))


def normal_quantile(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """z with Φ(z) = u; a shorter program than `ndtri`, which is exact in tails that uniforms in float32 do not have."""
    return math.sqrt(2) * jax.lax.erf_inv(2 * u - 1)


class Box(NamedTuple):
    """What proposals need to know of the box, axis by axis: is_logit where y is a logit, wraps where it is a circle."""

    lower: Float[np.ndarray, " d"]
    upper: Float[np.ndarray, " d"]
    is_logit: Bool[np.ndarray, " d"]
    wraps: Bool[np.ndarray, " d"]


def box_of(potential: AbstractPotential) -> Box:
    grid = potential.grid
    is_logit = ~potential.circle & isinstance(potential, LogitPotential)
    return Box(np.asarray(grid.lower), np.asarray(grid.upper), is_logit, potential.wraps)


Choice = list[Bool[Array, " _"]]
"""Of each lane: True for one of K, False for all others. A list, because XLA walks a stacked array number by number."""


def one_of(weights: Float[Array, "K _"], uniform: Float[Array, " _"]) -> Choice:
    """One that is chosen with the probability of its weight; weights sum to one."""
    is_beyond, found = jnp.ones_like(uniform, bool), []
    for end in itertools.accumulate(weights[:-1], jnp.add):
        found.append(is_beyond & (uniform <= end))
        is_beyond = uniform > end
    return [*found, is_beyond]


def picked(choice: Choice, table: Float[Array, "K *shape _"]) -> Float[Array, "*shape _"]:
    """The row of the table that is chosen: a sum, which is vectorised over the lanes where a look-up would not be."""
    shape = (*(1,) * (table.ndim - 2), -1)
    return _sum([jnp.where(is_it.reshape(shape), table[k], 0) for k, is_it in enumerate(choice)])


def times_lanes(matrix: Float[Array, "... d d _"], vector: Float[Array, "... d _"]) -> Float[Array, "... d _"]:
    return _sum([matrix[..., :, j, :] * vector[..., None, j, :] for j in range(vector.shape[-2])])


def propose(box: Box, modes: Modes, noise: JumpNoise, tabled: Float[Array, "d _"] | None = None) -> Float[Array, "d _"]:
    """One proposal for each lane; `tabled` are those of its table, as shares of the box, where it has one."""
    is_one = one_of(jnp.exp(modes.log_weights), noise.choice[1])
    near_mode = picked(is_one, modes.positions) + WIDENING * times_lanes(picked(is_one, modes.factors), noise.student)
    anywhere, part = (noise.even, EVEN_SHARE) if tabled is None else (tabled, TABLE_SHARE)
    return _wrapped(box, jnp.where(noise.choice[:1] < part, _even(box, anywhere), near_mode))


def log_proposal(box: Box, modes: Modes, y: Float[Array, "d _"]) -> Float[Array, " _"]:
    """log density of `propose` over y."""
    d = y.shape[0]
    offset = _difference(box, y[None], modes.positions)
    part = EVEN_SHARE if modes.table is None else TABLE_SHARE
    heights = (1 - part) * (3 / 8 / WIDENING) ** d * jnp.exp(modes.log_weights - modes.log_volumes)
    density = 0.0
    for shift in _shifts(box):
        t = times_lanes(modes.inverse_factors, offset + jnp.asarray(shift, y.dtype)[None, :, None]) / WIDENING
        spread = functools.reduce(jnp.multiply, [1 + t[:, i] ** 2 / 4 for i in range(d)])
        density = density + _sum([*(heights / (spread**2 * jnp.sqrt(spread)))])
    log_even = _sum([*_log_even(box, y)])
    if modes.table is not None:
        log_even = log_even + log_height_at(modes.table, _share(box, y))
    return jnp.log(density + part * jnp.exp(log_even))


def tabled_shares(table: CellTable, noise: JumpNoise) -> Float[Array, "n d"]:
    """What the table of one chain proposes for n jumps: it does not depend on where the chain is."""
    # Below TABLE_SHARE the first number decides that it is the table's turn: what is left of it chooses the cell.
    return shares_of(table, jnp.clip(noise.choice[:, 0] / TABLE_SHARE, 0, 1 - 1e-7), noise.even)


def _share(box: Box, y: Float[Array, "d _"]) -> Float[Array, "d _"]:
    """The place of y on each axis of the box."""
    lower, upper = (jnp.asarray(ends[:, None], y.dtype) for ends in (box.lower, box.upper))
    return jnp.where(jnp.asarray(box.is_logit)[:, None], jax.nn.sigmoid(y), (y - lower) / (upper - lower))


class Marginals(NamedTuple):
    """The laws that single coordinates are drawn from: normals about the modes' coordinates, and an even part.

    Every mode counts the same, whatever its weight: one that is light as a whole may hold the place for a coordinate.
    """

    centres: Float[Array, "d K _"]
    stds: Float[Array, "d K _"]
    heights: Float[Array, "d K _"]
    shares: Float[Array, "K _"]


def marginals_of(modes: Modes) -> Marginals:
    d = modes.positions.shape[1]
    centres = jnp.moveaxis(modes.positions, 1, 0)
    stds = MARGINAL_WIDENING * jnp.sqrt(jnp.stack([modes.covariances[:, i, i] for i in range(d)]))
    is_mode = jnp.isfinite(modes.log_weights).astype(centres.dtype)
    shares = is_mode / jnp.sum(is_mode, axis=0, keepdims=True)
    return Marginals(centres, stds, (1 - MARGINAL_EVEN_SHARE) / math.sqrt(2 * math.pi) * shares[None] / stds, shares)


class Coordinate(NamedTuple):
    """One coordinate of each lane, its marginal, and what there is to know of its axis."""

    index: Int[Array, " _"]
    centres: Float[Array, "K _"]
    stds: Float[Array, "K _"]
    heights: Float[Array, "K _"]
    lower: Float[Array, " _"]
    width: Float[Array, " _"]
    is_logit: Bool[Array, " _"]
    wraps: Bool[Array, " _"]


def choose_coordinate(box: Box, marginals: Marginals, axis: Float[Array, " _"]) -> Coordinate:
    """That at this share of the number of axes."""
    d = len(marginals.centres)
    index = jnp.minimum((axis * d).astype(jnp.int32), d - 1)
    choice = [index == i for i in range(d)]
    centres, stds, heights = (picked(choice, table) for table in marginals[:3])
    of_axes = (jnp.asarray(a[:, None], axis.dtype) for a in (box.lower, box.upper - box.lower, box.is_logit, box.wraps))
    lower, width, is_logit, wraps = (picked(choice, a) for a in of_axes)
    return Coordinate(index, centres, stds, heights, lower, width, is_logit > 0, wraps > 0)


def propose_coordinate(marginals: Marginals, coordinate: Coordinate, noise: CoordinateNoise) -> Float[Array, " _"]:
    """A new value, whatever the position of the chain."""
    is_one = one_of(marginals.shares, noise.choice[1])
    near_mode = picked(is_one, coordinate.centres) + picked(is_one, coordinate.stds) * noise.normal
    share = jnp.clip(noise.even, 1e-6, 1 - 1e-6)
    on_line = coordinate.lower + coordinate.width * share
    even = jnp.where(coordinate.is_logit, jnp.log(share / (1 - share)), on_line)
    value = jnp.where(noise.choice[0] < MARGINAL_EVEN_SHARE, even, near_mode)
    return jnp.where(coordinate.wraps, coordinate.lower + (value - coordinate.lower) % coordinate.width, value)


def log_marginal(box: Box, coordinate: Coordinate, x: Float[Array, " _"]) -> Float[Array, " _"]:
    """log density of `propose_coordinate` at x; the even part is there wherever the normals underflow."""
    lower, width = coordinate.lower, coordinate.width
    offsets = x[None] - coordinate.centres
    density = _sum([*(coordinate.heights * jnp.exp(-0.5 * (offsets / coordinate.stds) ** 2))])
    if box.wraps.any():
        # The nearest image and one on each side; off the circles the first alone.
        nearest = offsets - width[None] * jnp.round(offsets / width[None])
        images = [nearest + turn * width[None] for turn in (-1, 0, 1)]
        parts = [coordinate.heights * jnp.exp(-0.5 * (image / coordinate.stds) ** 2) for image in images]
        density = jnp.where(coordinate.wraps, _sum([*_sum(parts)]), density)
    is_inside = coordinate.wraps | ((x >= lower) & (x <= lower + width))
    away = jnp.exp(-jnp.abs(x))
    even = jnp.where(coordinate.is_logit, away / (1 + away) ** 2, jnp.where(is_inside, 1 / width, 0))
    return jnp.log(density + MARGINAL_EVEN_SHARE * even)


def _sum(parts: list[Array]) -> Array:
    """Written out, so that it is one loop over the lanes with what makes the parts."""
    return functools.reduce(jnp.add, parts)


def _even(box: Box, share: Float[Array, "d _"]) -> Float[Array, "d _"]:
    """The point at this share of each axis, in chain coordinates."""
    share = jnp.clip(share, 1e-6, 1 - 1e-6)
    lower, upper = (jnp.asarray(ends[:, None], share.dtype) for ends in (box.lower, box.upper))
    logit = jnp.log(share / (1 - share))
    if box.is_logit.all():
        return logit
    return jnp.where(jnp.asarray(box.is_logit)[:, None], logit, lower + (upper - lower) * share)


def _log_even(box: Box, y: Float[Array, "d _"]) -> Float[Array, "d _"]:
    """log density over y, axis by axis, of a point that is spread evenly over the box; −inf outside."""
    away = jnp.abs(y)
    logit = -away - 2 * jnp.log1p(jnp.exp(-away))
    if box.is_logit.all():
        return logit
    lower, upper = (jnp.asarray(ends[:, None], y.dtype) for ends in (box.lower, box.upper))
    is_inside = jnp.asarray(box.wraps)[:, None] | ((y >= lower) & (y <= upper))
    on_line = jnp.where(is_inside, -jnp.log(upper - lower), -jnp.inf)
    return jnp.where(jnp.asarray(box.is_logit)[:, None], logit, on_line)


def _wrapped(box: Box, y: Float[Array, "d _"]) -> Float[Array, "d _"]:
    if not box.wraps.any():
        return y
    lower, width = (jnp.asarray(a[:, None], y.dtype) for a in (box.lower, box.upper - box.lower))
    return jnp.where(jnp.asarray(box.wraps)[:, None], lower + (y - lower) % width, y)


def _difference(box: Box, a: Float[Array, "_ d _"], b: Float[Array, "_ d _"]) -> Float[Array, "_ d _"]:
    """a − b, the short way round on circles."""
    if not box.wraps.any():
        return a - b
    width = jnp.asarray((box.upper - box.lower)[None, :, None], a.dtype)
    return jnp.where(jnp.asarray(box.wraps)[None, :, None], (a - b + width / 2) % width - width / 2, a - b)


def _shifts(box: Box) -> np.ndarray:
    """Images round the circles: a widened mode has a scale below a quarter of a circle (`modes.py`), so that beyond two
    turns lie less than 3 in 10,000 of its proposals, and nearly always none."""
    ranges = [range(-2, 3) if circle else (0,) for circle in box.wraps]
    return np.asarray(list(itertools.product(*ranges))) * (box.upper - box.lower)
