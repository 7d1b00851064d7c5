"""The density of one pair on a coarse table of cells: independent proposals that reach wherever the density does.

A chain that follows gradients does not get from one arm of a curved ridge to the other, nor across a jump of the density,
and a Laplace approximation knows neither. In up to three dimensions the box is small enough to look at: the density at the
centre of every cell, times the cell's volume, is a law from which one can draw, and whose own density is known, so that
a Metropolis step makes it exact (`jump_chain.py`).

The cells are made in two rounds of Kᵈ evaluations. The first has cells of equal size; the second has cells that are narrow
where an axis has much mass, as in VEGAS (Lepage 1978). Half of each mass is shared with the neighbours, because a thin
density may pass through a cell and miss its centre, and a part is spread evenly over the box: no place of positive
density is left out.

Tables are made for any number of pairs at once, in NumPy or in JAX: `xp` is the one or the other. On a CPU only the density
is compiled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.sampling.walls import AbstractPotential

CELLS = {1: 128, 2: 32, 3: 12}
"""Cells per axis, by the dimension; in more dimensions there is no table."""
NUM_ROUNDS = 2
EVEN_SHARE = 0.1
"""Of the mass that is spread evenly over the box."""
BLURRED_SHARE = 0.5
"""Of the rest that is shared with neighbours."""
EVEN_WIDTH = 0.3
"""Of the cells of the second round that are laid out evenly, whatever the mass."""


class CellTable(NamedTuple):
    """Edges of the cells, as shares of the box; the density in each cell, relative to that of the even law; and the sums of
    their masses."""

    edges: Float[Array, "d K+1"]
    log_heights: Float[Array, " cells"]
    cumulative: Float[Array, " cells"]


def num_evaluations(dimension: int) -> int:
    """Densities that a table takes; 0 where there is none."""
    return NUM_ROUNDS * CELLS[dimension] ** dimension if dimension in CELLS else 0


def table_shapes(num_pairs: int, d: int) -> Any:
    """Those of the tables of so many pairs; None in dimensions without."""
    if d not in CELLS:
        return None
    shapes = (num_pairs, d, CELLS[d] + 1), (num_pairs, CELLS[d] ** d), (num_pairs, CELLS[d] ** d)
    return CellTable(*(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes))  # type: ignore[arg-type]


def make_table(potential: AbstractPotential) -> CellTable:
    """The table of one pair, in at most three dimensions."""
    lower, width = potential.lower, potential.upper - potential.lower

    def logs(shares):
        return jax.vmap(lambda share: potential.density.log(lower + width * share))(shares[0])[None]

    table = make_tables(logs, 1, potential.grid.dimension, jnp)
    return CellTable(*(a[0] for a in table))


def make_tables(logs: Callable[[Any], Any], num_pairs: int, d: int, xp: Any) -> CellTable:
    """Tables of so many pairs; `logs` are log-densities `[P, cells]` at shares of the box `[P, cells, d]`."""
    num = CELLS[d]
    edges = xp.broadcast_to(xp.linspace(0, 1, num + 1, dtype=np.float32), (num_pairs, d, num + 1))
    masses: Any = None
    volumes: Any = None
    for turn in range(NUM_ROUNDS):
        if turn > 0:
            edges = _narrowed(edges, masses, xp)
        centres, widths = (edges[..., 1:] + edges[..., :-1]) / 2, xp.diff(edges, axis=-1)
        volumes = _outer(widths, xp.multiply)
        shares = xp.stack([xp.broadcast_to(a, volumes.shape) for a in _along_axes(centres)], axis=-1)
        found = logs(shares.reshape(num_pairs, -1, d)).reshape(volumes.shape)
        masses = _masses(found, volumes, xp)
    assert volumes is not None and masses is not None
    blurred = masses / volumes
    for axis in range(1, d + 1):
        blurred = _smoothed(blurred, axis, xp)
    blurred = blurred * volumes
    mixed = (1 - BLURRED_SHARE) * masses + BLURRED_SHARE * blurred / _total(blurred)
    mixed = (1 - EVEN_SHARE) * mixed + EVEN_SHARE * volumes
    heights = xp.log(mixed / volumes).reshape(num_pairs, -1)
    return CellTable(edges, heights, xp.cumsum(mixed.reshape(num_pairs, -1), axis=-1))


def _masses(logs: Any, volumes: Any, xp: Any) -> Any:
    """Of the cells, which sum to one; those of the even law where no density was seen."""
    logs = xp.where(xp.isnan(logs) | (logs == np.inf), -np.inf, logs)
    top = logs.max(axis=tuple(range(1, logs.ndim)), keepdims=True)
    is_seen = xp.isfinite(top)
    masses = xp.where(is_seen, xp.exp(logs - xp.where(is_seen, top, 0)), 1) * volumes
    return (masses / _total(masses)).astype(np.float32)


def _narrowed(edges: Any, masses: Any, xp: Any) -> Any:
    """Edges that cut each axis into parts of equal mass, some of it spread evenly."""
    num, made = edges.shape[-1] - 1, []
    goal = xp.asarray(np.arange(1, num, dtype=np.float32) / num)[None, :, None]
    for i in range(edges.shape[1]):
        own = masses.sum(axis=tuple(j for j in range(1, masses.ndim) if j != i + 1))
        own = (1 - EVEN_WIDTH) * _smoothed(own, 1, xp) + EVEN_WIDTH * xp.diff(edges[:, i], axis=-1)
        sums = xp.cumsum(own, axis=-1)
        sums = sums / sums[:, -1:]
        part = xp.minimum((sums[:, None, :] < goal).sum(axis=-1), num - 1)  # where each goal is reached
        before = xp.concatenate([xp.zeros_like(sums[:, :1]), sums], axis=-1)
        low, high, start, end = (
            xp.take_along_axis(a, part, axis=1) for a in (before[:, :-1], before[:, 1:], edges[:, i, :-1], edges[:, i, 1:])
        )
        inner = start + (end - start) * (goal[..., 0] - low) / xp.maximum(high - low, np.float32(1e-12))
        made.append(xp.concatenate([edges[:, i, :1], inner.astype(np.float32), edges[:, i, -1:]], axis=-1))
    return xp.stack(made, axis=1)


def _along_axes(rows: Any) -> list[Any]:
    """Row i of each pair `[P, d, K]` laid along axis i of a table `[P, K, …, K]`."""
    num, d, size = rows.shape
    return [rows[:, i].reshape(num, *(size if j == i else 1 for j in range(d))) for i in range(d)]


def _outer(rows: Any, combine: Callable[[Any, Any], Any]) -> Any:
    first, *others = _along_axes(rows)
    for other in others:
        first = combine(first, other)
    return first


def _total(table: Any) -> Any:
    return table.sum(axis=tuple(range(1, table.ndim)), keepdims=True)


def _smoothed(table: Any, axis: int, xp: Any) -> Any:
    """(1, 2, 1)/4 along an axis, whose ends are their own neighbours."""
    table = xp.moveaxis(table, axis, 0)
    longer = xp.concatenate([table[:1], table, table[-1:]])
    return xp.moveaxis((longer[:-2] + 2 * longer[1:-1] + longer[2:]) / 4, 0, axis)


def shares_of(table: CellTable, choice: Float[Array, " n"], within: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Points drawn from the table, as shares of the box: `choice` takes the cell, `within` the place in it."""
    d, num = table.edges.shape[0], table.edges.shape[1] - 1
    cell = jnp.searchsorted(table.cumulative, choice * table.cumulative[-1], side="right")
    cell = jnp.minimum(cell, len(table.cumulative) - 1)
    places = []
    for i in range(d):
        index = (cell // num ** (d - 1 - i)) % num
        low, high = table.edges[i][index], table.edges[i][index + 1]
        places.append(low + (high - low) * within[:, i])
    return jnp.stack(places, axis=-1)


def log_height_at(table: CellTable, share: Float[Array, "d _"]) -> Float[Array, " _"]:
    """Of each lane, log of the table's density at a point of the box relative to the even law; lanes last."""
    d, num = table.edges.shape[0], table.edges.shape[1] - 1
    cell = jnp.zeros(share.shape[1:], jnp.int32)
    for i in range(d):
        index = jnp.sum(share[i][None] >= table.edges[i, 1:num], axis=0, dtype=jnp.int32)
        cell = cell * num + index
    return jnp.take_along_axis(table.log_heights, cell[None], axis=0)[0]
