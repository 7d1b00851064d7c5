"""Draws of a density in five dimensions and more, where no table holds it: from one slice along each axis.

Through one point m of a pair go d slices, log p(m + t·D[:, k]). D is lower triangular with ones on its diagonal: slice k is
along axis k where D = I, which is right for noise that is independent from axis to axis, whatever its law is. Tails, skew,
several modes and jumps on an axis are all in its slice. Other D follow correlations. q is the product of the slices, each
interpolated linearly between K nodes, plus a small uniform part. A draw inverts the distribution functions one after the
other, each cut to where the coordinate stays in the box, and has the weight p/q: what no product of slices can follow makes
the weights uneven, and nothing else.

m begins at the weighted mean of points all over the box, and of one that is linear in state and action. Each visit of an
axis moves it to the mean of the slice there and narrows the window of that slice, as tables do (`tabulated.py`). Where p is
a product the slices do not depend on m. The draws are given weights with which they have the means and variances of the
slices, as long as nothing is cut.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.problem.grid import Grid
from hamq.problem.small_matrix import eliminated
from hamq.tensor.law import TiltedLaw, features_of
from hamq.tensor.sobol import spread_points
from hamq.tensor.tabulated import (
    DRAWS_PER_MOMENT,
    RIDGE,
    TABLES,
    UNIFORM,
    finite_logs,
    hat_moments,
    invert,
    running_sums,
)

NUM_NODES = 65
"""Of a slice."""
NUM_PROBES = 256
"""Points all over the box of which the first m is the mean."""
MAX_VISITS = 4
"""Of an axis."""
PER_AXIS = 2
"""Moments of each slice that the draws are made to have."""


class SliceLaw(TiltedLaw):
    """The shared numbers of the draws, uniform from 0 to 1, the directions of the slices, and how often each is made."""

    numbers: Float[Array, "d n"]
    probes: Float[Array, "d m"]
    directions: Float[Array, "d d"]
    regression: Float[Array, "d features"]
    visits: Int[Array, ""]

    def with_draws(self, num_samples):
        numbers = spread_points(num_samples, self.numbers.shape[0], 0).astype(np.float32)
        return dataclasses.replace(self, numbers=jax.device_put(numbers))

    @property
    def cost(self) -> tuple[int, int, int]:
        d, n = self.numbers.shape
        return n, n + NUM_PROBES + 1 + int(self.visits) * d * NUM_NODES, 0

    @property
    def constants(self) -> tuple:
        return (NUM_NODES,)

    def draws(self, problem, state, action):
        grid, log = problem.grid, jax.vmap(problem.density(state, action).log)
        guess = jnp.matmul(self.regression, features_of(state, action), precision="highest")
        middle, nodes, logs = _sliced(log, grid, self, guess)
        top = jnp.max(logs, axis=1, keepdims=True)
        values = jnp.where(jnp.isfinite(top), jnp.exp(logs - jnp.where(jnp.isfinite(top), top, 0)), 1)
        even = UNIFORM / (1 - UNIFORM) * jnp.mean(values, axis=1)
        points, places, log_base, parts = _inverted(grid, self, middle, nodes, values + even[:, None], even)
        log_weights = finite_logs(log(points.T)) - log_base + _calibration(self, values, places, parts)
        return jax.vmap(grid.wrap, 1, 1)(points), jax.nn.softmax(log_weights)


def make_slice_law(
    grid: Grid,
    num_samples: int,
    visits: int,
    seed: int,
    regression: Float[np.ndarray, "d features"],
    directions: Float[np.ndarray, "d d"] | None = None,
) -> SliceLaw:
    """Directions along the axes by default; those of a matrix else, which leave circles alone."""
    d = grid.dimension
    chosen = np.eye(d) if directions is None else np.where(_is_plain(grid), np.eye(d), directions)
    lower, widths = (np.asarray(each)[:, None] for each in (grid.lower, grid.widths))
    probes = lower + widths * spread_points(NUM_PROBES, d, 1)
    arrays = (spread_points(num_samples, d, seed), probes, chosen, regression)
    numbers, around, along, linear = (jax.device_put(np.asarray(array, np.float32)) for array in arrays)
    return SliceLaw(numbers, around, along, linear, jax.device_put(np.asarray(visits, np.int32)))


def regression_of(
    grid: Grid, states: np.ndarray, actions: np.ndarray, means: np.ndarray, shares: np.ndarray
) -> Float[np.ndarray, "d features"]:
    """Of the means of pairs on states and actions, by the pairs whose draws have weight; the middle of the box where few."""
    features = np.concatenate([np.ones((len(states), 1)), states, actions.reshape(len(states), -1)], axis=1)
    found = np.zeros((grid.dimension, features.shape[1]))
    found[:, 0] = np.asarray(grid.lower) + np.asarray(grid.widths) / 2
    good = (shares > 0) & np.isfinite(means).all(axis=1)
    straight = ~np.asarray(grid.periodic)
    if np.count_nonzero(good) >= 2 * features.shape[1]:
        found[straight] = np.linalg.lstsq(features[good], means[good], rcond=None)[0].T[straight]
    return found


def directions_of(root: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """The columns of a Cholesky factor, each in units of its own axis."""
    return np.tril(root) / np.diag(root)[None, :]


def _is_plain(grid: Grid) -> np.ndarray:
    """Entries of the directions that must be those of the identity."""
    circle = np.asarray(grid.periodic)
    return circle[:, None] | circle[None, :]


def _sliced(log, grid: Grid, law: SliceLaw, guess: Float[Array, " d"]):
    """(m, nodes `[d, K]`, log p there `[d, K]`) of the last visits."""
    d, dtype = grid.dimension, law.numbers.dtype
    lower, widths = jnp.asarray(grid.lower, dtype), jnp.asarray(grid.widths, dtype)
    steps = jnp.linspace(0, 1, NUM_NODES, dtype=dtype)
    circle = jnp.asarray(grid.periodic)

    def visit(number, carry):
        middle, low, high, nodes, logs = carry
        k = number % d
        own = low[k] + (high[k] - low[k]) * steps
        column = law.directions[:, k]
        found = finite_logs(log(middle[None, :] + (own - middle[k])[:, None] * column[None, :]))
        mean, ends = _narrowed(own, found, lower[k], widths[k], circle[k])
        middle = middle + column * (mean - middle[k])
        return middle, low.at[k].set(ends[0]), high.at[k].set(ends[1]), nodes.at[k].set(own), logs.at[k].set(found)

    blank, guess = jnp.zeros((d, NUM_NODES), dtype), jnp.clip(guess, lower, lower + widths)
    # A coordinate that slices before it have moved may need more of its own slice than lies in the box from m.
    is_moved = jnp.any(law.directions != jnp.eye(d, dtype=dtype), axis=1)
    more = jnp.where(is_moved, widths, 0)
    start = (
        _start(log, grid, jnp.concatenate([law.probes, guess[:, None]], axis=1)),
        lower - more,
        lower + widths + more,
        blank,
        blank,
    )
    middle, _, _, nodes, logs = jax.lax.fori_loop(0, law.visits * d, visit, start)
    return middle, nodes, logs


def _start(log, grid: Grid, probes: Float[Array, "d m"]) -> Float[Array, " d"]:
    """The weighted mean of the points."""
    weights = jax.nn.softmax(jnp.maximum(finite_logs(log(probes.T)), -1e30))
    mean = jnp.sum(weights[None] * probes, axis=1)
    if not any(grid.periodic):
        return mean
    lower, widths = jnp.asarray(grid.lower, probes.dtype), jnp.asarray(grid.widths, probes.dtype)
    turned = 2 * jnp.pi * (probes - lower[:, None]) / widths[:, None]
    angle = jnp.arctan2(jnp.sum(weights[None] * jnp.sin(turned), axis=1), jnp.sum(weights[None] * jnp.cos(turned), axis=1))
    return jnp.where(jnp.asarray(grid.periodic), lower + angle % (2 * jnp.pi) * widths / (2 * jnp.pi), mean)


def _narrowed(nodes: Float[Array, " K"], logs: Float[Array, " K"], lower, width, is_circle):
    """(mean of the slice, (low, high) of its next window), which holds mean ± 3.5 standard deviations of p^⅓."""
    table, spacing = TABLES[1], nodes[1] - nodes[0]
    top = jnp.maximum(jnp.max(logs), -1e30)  # where all is 0, all is 1
    whole = jnp.asarray(hat_moments(NUM_NODES)[0], nodes.dtype)

    def moments(power):
        masses = whole * jnp.exp(power * jnp.maximum(logs - top, -1e30))
        masses = masses / jnp.sum(masses)
        mean = jnp.sum(masses * nodes)
        angles = 2 * jnp.pi * (nodes - lower) / width
        angle = jnp.arctan2(jnp.sum(masses * jnp.sin(angles)), jnp.sum(masses * jnp.cos(angles)))
        around = lower + angle * width / (2 * jnp.pi)
        around = around + jnp.round((mean - around) / width) * width  # the turn that the window is on
        mean = jnp.where(is_circle, around, mean)
        away = nodes - mean
        away = jnp.where(is_circle, away - jnp.round(away / width) * width, away)
        return mean, jnp.sqrt(jnp.sum(masses * away**2))

    mean, _ = moments(1.0)
    centre, std = moments(table.power)
    radius = table.reach * std + table.margin * spacing
    low, high = jnp.maximum(centre - radius, nodes[0]), jnp.minimum(centre + radius, nodes[-1])
    radius = jnp.minimum(radius, width / 2)
    return mean, (jnp.where(is_circle, centre - radius, low), jnp.where(is_circle, centre + radius, high))


def _inverted(grid: Grid, law: SliceLaw, middle, nodes: Float[Array, "d K"], values: Float[Array, "d K"], even):
    """(points `[d, n]`, places in distances of nodes, log q, the part of each slice in q without its uniform part)."""
    dtype, n = nodes.dtype, law.numbers.shape[1]
    lower, upper, circle = jnp.asarray(grid.lower, dtype), jnp.asarray(grid.upper, dtype), jnp.asarray(grid.periodic)

    def coordinate(so_far, given):
        """Adds slice k to all coordinates; so_far[k] is then final."""
        k, share, own, row, own_even, column = given
        first, spacing, sums = own[0], own[1] - own[0], running_sums(row)
        whole = sums[-1]
        shift = so_far[k] - middle[k]
        ends = [jnp.where(circle[k], end, (end - shift - first) / spacing) for end in (lower[k], upper[k])]
        before = jnp.where(circle[k], 0, _reached(sums, row, ends[0]))
        after = jnp.where(circle[k], whole, _reached(sums, row, ends[1]))
        mass = jnp.maximum(after - before, 0)
        left, part, height = invert(
            jnp.broadcast_to(sums, (n, NUM_NODES)), jnp.broadcast_to(row, (n, NUM_NODES)), (before + share * mass) / whole
        )
        place = left.astype(part.dtype) + part
        moved = so_far + column[:, None] * (first + spacing * place - middle[k])[None, :]
        inside = jnp.where(circle[k], moved[k], jnp.clip(moved[k], lower[k], upper[k]))  # rounding
        log_q = jnp.log(height) - jnp.log(jnp.maximum(mass, 1e-37) / whole)
        log_q = jnp.where(mass > 1e-6 * whole, log_q, jnp.inf)
        return moved.at[k].set(inside), (place, log_q, 1 - own_even / height)

    start = jnp.broadcast_to(middle[:, None], (len(middle), n))
    steps = (jnp.arange(len(middle)), law.numbers, nodes, values, even, law.directions.T)
    points, (places, logs, parts) = jax.lax.scan(coordinate, start, steps)
    return points, places, jnp.sum(logs, axis=0), parts


def _reached(sums: Float[Array, " K"], values: Float[Array, " K"], place: Float[Array, " n"]) -> Float[Array, " n"]:
    """The running sum at places between the nodes."""
    place = jnp.clip(place, 0, len(sums) - 1)
    left = jnp.minimum(place.astype(jnp.int32), len(sums) - 2)
    part = place - left.astype(place.dtype)
    low, high = values[left], values[left + 1]
    return sums[left] + part * (low + 0.5 * (high - low) * part)


def _calibration(law: SliceLaw, values: Float[Array, "d K"], places: Float[Array, "d n"], parts) -> Float[Array, " n"]:
    """Log-weights with which the draws have the mean and variance of every slice, to first order; 0 where draws are few.

    Nothing where directions are not the axes: the slices are cut then, and their moments are not known.
    """
    d, n = places.shape
    if n < DRAWS_PER_MOMENT * PER_AXIS * d:
        return jnp.zeros(n, places.dtype)
    powers = jnp.asarray(hat_moments(NUM_NODES), values.dtype)
    whole, first, second = jnp.sum(powers[:, None, :] * values[None], axis=2)
    mean = first / whole
    variance = second / whole - mean**2
    away = (places - 0.5 * (NUM_NODES - 1) - mean[:, None]) / jnp.sqrt(variance)[:, None]
    z = jnp.concatenate([parts * away, parts * (away**2 - 1)])
    missing = jnp.mean(z, axis=1)
    centred = z - missing[:, None]
    covariance = jnp.mean(centred[:, None] * centred[None], axis=2) + RIDGE * jnp.eye(len(z), dtype=z.dtype)
    found = -jnp.sum(eliminated(covariance, missing)[:, None] * centred, axis=0)
    is_uncut = jnp.all(law.directions == jnp.eye(d, dtype=law.directions.dtype))
    return jnp.where(is_uncut, found, 0)
