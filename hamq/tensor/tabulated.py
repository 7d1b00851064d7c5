"""Draws of any density in up to four dimensions, from a table: smooth in state and action, with nearly even weights.

The density of a pair is read at K nodes per axis of a window. q is its multilinear interpolant, plus a small uniform part.
A draw inverts the distribution function of q, axis by axis: the first from its marginal, each other given those before.
All these densities are piecewise linear, so that each inversion is the root of a quadratic. Each draw has the weight p/q:
what the table does not resolve makes the weights uneven, and nothing else. Nothing is assumed of the density: tails, skew,
several modes, jumps and forbidden regions are all seen where they are wider than the nodes lie apart.

The window of the first table is the box. Where the density is narrow, the table is made again on a smaller window, `levels`
times: mean ± 3.5 standard deviations of p^⅓, in which a small second mode and the tails count for more than in p, plus
1.5 distances of the nodes. All that is continuous in state and action.

The uniform numbers are scrambled Sobol' points: the error of a smooth V falls nearly like 1/n. The means and covariances of
q are known, and the draws are given weights with which theirs are the same.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.problem.grid import Grid
from hamq.problem.small_matrix import eliminated
from hamq.tensor.law import TiltedLaw
from hamq.tensor.sobol import sobol


class Table(NamedTuple):
    """Nodes per axis, and the next window: mean ± `reach` standard deviations of p^power + `margin` distances of nodes."""

    num_nodes: int
    power: float
    reach: float
    margin: float


TABLES = {
    1: Table(129, 1 / 3, 3.5, 1.5),
    2: Table(33, 1 / 3, 3.5, 1.5),
    3: Table(17, 1 / 3, 3.5, 1.5),
    4: Table(9, 0.5, 2.5, 1.0),
}
"""By dimension. Where nodes are few the window is smaller: more of them lie where the mass is, fewer in the tails."""
MAX_DIMENSION = max(TABLES)
UNIFORM = 0.01
"""Part of the draws that is spread over the window, so that no weight exceeds 100 times the mean of p over it."""
DRAWS_PER_MOMENT = 4
"""Draws for each moment of q that they are made to have."""
RIDGE = 1e-4


class TableLaw(TiltedLaw):
    """The shared numbers of the draws, uniform from 0 to 1, and how often the window is narrowed."""

    numbers: Float[Array, "d n"]
    levels: Int[Array, ""]

    def with_draws(self, num_samples):
        return make_table_law(self.numbers.shape[0], num_samples, int(self.levels), 0)

    @property
    def num_nodes(self) -> int:
        return TABLES[self.numbers.shape[0]].num_nodes

    @property
    def cost(self) -> tuple[int, int, int]:
        d, n = self.numbers.shape
        return n, n + self.num_nodes**d, 0

    @property
    def constants(self) -> tuple:
        return (self.num_nodes,)

    def draws(self, problem, state, action):
        grid, density = problem.grid, problem.density(state, action)
        log = jax.vmap(density.log)
        nodes, logs = _narrowed(log, grid, self.levels, self.num_nodes, self.numbers.dtype)
        values = jnp.exp(logs - jnp.max(logs))
        even = UNIFORM / (1 - UNIFORM) * jnp.mean(values)
        places, base = _invert_axes(values + even, self.numbers)
        spacing = (nodes[:, 1] - nodes[:, 0])[:, None]
        points = nodes[:, :1] + spacing * places
        log_weights = finite_logs(log(points.T)) - jnp.log(base) + _calibration(values, places, 1 - even / base)
        return jax.vmap(grid.wrap, 1, 1)(points), jax.nn.softmax(log_weights)


def make_table_law(dimension: int, num_samples: int, levels: int, seed: int) -> TableLaw:
    numbers = sobol(num_samples, dimension, seed).astype(np.float32)
    return TableLaw(jax.device_put(numbers), jax.device_put(np.asarray(levels, np.int32)))


def blank_table_law(dimension: int, num_samples: int) -> TableLaw:
    """Zeros in the shapes of what `make_table_law` returns."""
    return TableLaw(jax.device_put(np.zeros((dimension, num_samples), np.float32)), jax.device_put(np.asarray(0, np.int32)))


def finite_logs(logs: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.where(jnp.isnan(logs), -jnp.inf, logs)


def _narrowed(log, grid: Grid, levels: Array, num_nodes: int, dtype):
    """(nodes `[d, K]`, log p there `[K]` or `[K, K]`) of the last window."""
    lower, upper = jnp.asarray(grid.lower, dtype), jnp.asarray(grid.upper, dtype)
    steps = jnp.linspace(0, 1, num_nodes, dtype=dtype)
    shape = (num_nodes,) * grid.dimension

    def level(_, carry):
        (low, high), *_ = carry
        nodes = low[:, None] + (high - low)[:, None] * steps[None]
        mesh = jnp.stack(jnp.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, grid.dimension)
        logs = finite_logs(log(mesh)).reshape(shape)
        return _smaller_window(grid, nodes, logs), nodes, logs

    start = ((lower, upper), jnp.zeros((grid.dimension, num_nodes), dtype), jnp.zeros(shape, dtype))
    _, nodes, logs = jax.lax.fori_loop(0, levels + 1, level, start)
    return nodes, logs


def _smaller_window(grid: Grid, nodes: Float[Array, "d K"], logs: Array) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """(lower, upper) of the window about where a power of p has its mass; on a circle it may cross the end."""
    table, spacing = TABLES[grid.dimension], (nodes[:, -1] - nodes[:, 0]) / (nodes.shape[1] - 1)
    masses = _marginals(jnp.exp(table.power * (logs - jnp.max(logs))))
    mean, away = jnp.sum(masses * nodes, axis=1), None
    if any(grid.periodic):
        widths, circle = jnp.asarray(grid.widths, nodes.dtype), jnp.asarray(grid.periodic)
        angles = 2 * jnp.pi / widths[:, None] * nodes
        angle = jnp.arctan2(jnp.sum(masses * jnp.sin(angles), axis=1), jnp.sum(masses * jnp.cos(angles), axis=1))
        mean = jnp.where(circle, angle * widths / (2 * jnp.pi), mean)
        around = (nodes - mean[:, None] + widths[:, None] / 2) % widths[:, None] - widths[:, None] / 2
        away = jnp.where(circle[:, None], around, nodes - mean[:, None])
    away = nodes - mean[:, None] if away is None else away
    radius = table.reach * jnp.sqrt(jnp.sum(masses * away**2, axis=1)) + table.margin * spacing
    low, high = jnp.maximum(mean - radius, nodes[:, 0]), jnp.minimum(mean + radius, nodes[:, -1])
    if any(grid.periodic):
        radius = jnp.minimum(radius, widths / 2)
        low, high = jnp.where(circle, mean - radius, low), jnp.where(circle, mean + radius, high)
    return low, high


def _marginals(values: Array) -> Float[Array, "d K"]:
    """Masses that sum to one about the nodes of each axis, by the trapezoidal rule: the ends of a circle are one node."""
    d = values.ndim
    whole = jnp.asarray(hat_moments(values.shape[0])[0], values.dtype)
    for axis in range(d):
        values = values * jnp.expand_dims(whole, [k for k in range(d) if k != axis])
    sums = jnp.stack([jnp.sum(values, axis=tuple(k for k in range(d) if k != axis)) for axis in range(d)])
    return sums / jnp.sum(sums, axis=1, keepdims=True)


def _invert_axes(values: Array, shares: Float[Array, "d n"]) -> tuple[Float[Array, "d n"], Float[Array, " n"]]:
    """(places in distances of the nodes, q there, up to a constant) of the interpolant: one axis given those before."""
    marginals = [values]
    for _ in shares[1:]:
        marginals.insert(0, running_sums(marginals[0])[..., -1])
    num_nodes, n = values.shape[0], shares.shape[1]
    corners = [(jnp.zeros(n, jnp.int32), jnp.ones(n, values.dtype))]  # of the cell of the axes before, and their weights
    places, height = [], jnp.zeros(n, values.dtype)
    for marginal, share in zip(marginals, shares, strict=True):
        table = jnp.concatenate([running_sums(marginal), marginal], axis=-1).reshape(-1, 2 * num_nodes)
        both = _mixed(table, corners)
        left, part, height = invert(both[:, :num_nodes], both[:, num_nodes:], share)
        corners = [
            (index * num_nodes + left + up, weight * (part if up else 1 - part))
            for index, weight in corners
            for up in (0, 1)
        ]
        places.append(left.astype(part.dtype) + part)
    # The value of the last row is that of the interpolant at the point: marginals cancel.
    return jnp.stack(places), height


def _mixed(table: Float[Array, "rows m"], corners: list[tuple[Array, Array]]) -> Float[Array, "n m"]:
    if len(corners) == 1:
        return jnp.broadcast_to(table, (corners[0][0].shape[0], table.shape[1]))
    rows = [table.at[index].get(mode="promise_in_bounds") for index, _ in corners]
    return functools.reduce(jnp.add, [weight[:, None] * row for (_, weight), row in zip(corners, rows, strict=True)])


def running_sums(values: Float[Array, "... K"]) -> Float[Array, "... K"]:
    """The integral of the piecewise linear function from the first node to each, in distances of the nodes."""
    pieces = 0.5 * (values[..., 1:] + values[..., :-1])
    return jnp.concatenate([jnp.zeros_like(values[..., :1]), jnp.cumsum(pieces, axis=-1)], axis=-1)


def invert(sums: Float[Array, "n K"], values: Float[Array, "n K"], shares: Float[Array, " n"]):
    """(node to the left, part of the way to the next, value there) where the running sum has this share of its whole."""
    wanted = shares * sums[:, -1]
    left = jnp.sum(sums[:, 1:-1] <= wanted[:, None], axis=1, dtype=jnp.int32)

    def at(table, index):
        return jnp.take_along_axis(table, index[:, None], axis=1, mode="promise_in_bounds")[:, 0]

    low, high = at(values, left), at(values, left + 1)
    rest = jnp.maximum(wanted - at(sums, left), 0)
    root = jnp.sqrt(jnp.maximum(low**2 + 2 * (high - low) * rest, 0))
    part = jnp.clip(2 * rest / jnp.maximum(low + root, 1e-30), 0, 1)
    return left, part, low + (high - low) * part


def _calibration(values: Array, places: Float[Array, "d n"], parts: Float[Array, " n"]) -> Float[Array, " n"]:
    """Log-weights with which the draws have the mean and covariance of the table, to first order; 0 where draws are few.

    The moments of an interpolant are sums over its nodes. They are exact, whatever the density is: none is too rough.
    `parts` are what the table, without the uniform part, has of q at each draw: times these, functions that have the mean 0
    under the table have it under q, and draws of the uniform part do not count.
    """
    d, n = places.shape
    if n < DRAWS_PER_MOMENT * d * (d + 3) / 2:
        return jnp.zeros(n, places.dtype)
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    mean, second = _moments(values, pairs)
    scale = jnp.sqrt(jnp.stack([second[pairs.index((i, i))] for i in range(d)]))
    away = (places - 0.5 * (values.shape[0] - 1) - mean[:, None]) / scale[:, None]
    functions = [*away, *(away[i] * away[j] - second[k] / (scale[i] * scale[j]) for k, (i, j) in enumerate(pairs))]
    z = parts[None] * jnp.stack(functions)
    missing = jnp.mean(z, axis=1)
    centred = z - missing[:, None]
    covariance = jnp.mean(centred[:, None] * centred[None], axis=2) + RIDGE * jnp.eye(len(z), dtype=z.dtype)
    return -jnp.sum(eliminated(covariance, missing)[:, None] * centred, axis=0)


def _moments(values: Array, pairs: list[tuple[int, int]]) -> tuple[Float[Array, " d"], Float[Array, " pairs"]]:
    """(means, covariances of the pairs of axes) of the interpolant, from the middle of the window, in distances of nodes."""
    d, powers = values.ndim, jnp.asarray(hat_moments(values.shape[0]), values.dtype)
    moments = values
    for _ in range(d):  # the last axis first, the order of memory; its powers come first
        moments = jnp.sum(moments[None] * jnp.expand_dims(powers, range(1, d)), axis=-1)

    def moment(*axes):
        return moments[tuple(axes.count(axis) for axis in range(d))]

    total = moment()
    mean = jnp.stack([moment(axis) for axis in range(d)]) / total
    return mean, jnp.stack([moment(i, j) / total - mean[i] * mean[j] for i, j in pairs])


@functools.cache
def hat_moments(num_nodes: int) -> Float[np.ndarray, "3 K"]:
    """∫ hat_j(x)·x^k dx for k = 0, 1, 2, x from the middle; half hats at the ends."""
    x, whole = np.arange(num_nodes) - (num_nodes - 1) / 2, np.ones(num_nodes)
    whole[[0, -1]] = 0.5
    inward = np.zeros(num_nodes)
    inward[0], inward[-1] = 1 / 6, -1 / 6
    return np.stack([whole, whole * x + inward, whole * x**2 + 2 * x * inward + whole / 6])
