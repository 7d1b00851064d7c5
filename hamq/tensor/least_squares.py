"""A tensor train of given ranks fitted to more entries than it has numbers: alternating least squares.

Cross approximation meets its entries exactly, and what it cannot represent it amplifies (measured: 3 times the error of
the best train of that rank, and growing when the same points are used again and again). With a few times more
entries than unknowns each core in turn minimises Σ_p (T[i_p] − y_p)² + ridge·‖change‖², the others held fixed; T is linear
in a core, and one core falls apart into one small system for each node of its axis:

    G_k[:, i, :] ← argmin Σ_{p: i_pk = i} (l_pᵀ·G_k[:, i, :]·r_p − y_p)²,

with l_p and r_p the products of the cores before and after k. Cores left of k are kept orthonormal on the left, right of
k on the right, so that the systems are well conditioned. Everything in one shape: cores are padded to the rank, and what is
padding stays zero. Cores, values and what is missing are float64; the matrices of the systems, which are most of the work
and which the ridge keeps well conditioned, are float32.
"""

from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.tensor.train import Train

RIDGE = 1e-2
"""Part of the mean curvature: directions that the points hardly see stay as they were. Less lets them run away."""

CORES_PER_PART = 10
"""For so many cores at a time the rows of all points are held in memory."""


class Groups(NamedTuple):
    """The points of a fit, on every axis sorted by node into groups of equal size.

    `members` are the points of each group, padded where `is_real` is False; `places` says where each point went. NumPy
    arrays: a device is given the part of them that it works on.
    """

    members: Int[np.ndarray, "d n G"] | Int[Array, "d n G"]
    is_real: Bool[np.ndarray, "d n G"] | Bool[Array, "d n G"]
    places: Int[np.ndarray, "d P"] | Int[Array, "d P"]


def make_groups(indices: Int[np.ndarray, "P d"], points: tuple[int, ...]) -> Groups:
    d, most = indices.shape[1], max(points)
    counts = [np.bincount(indices[:, k], minlength=most) for k in range(d)]
    size = _rounded_up(int(np.max(counts)))
    members, places = np.zeros((d, most, size), np.int32), np.zeros((d, len(indices)), np.int32)
    is_real = np.zeros((d, most, size), bool)
    for k in range(d):
        order = np.argsort(indices[:, k], kind="stable")
        for i, rows in enumerate(np.split(order, np.cumsum(counts[k])[:-1])):
            members[k, i, : len(rows)], is_real[k, i, : len(rows)] = rows, True
            places[k, rows] = i * size + np.arange(len(rows))
    return Groups(members, is_real, places)


def _rounded_up(size: int) -> int:
    """To three binary digits: other random points of the same number then have the same shapes."""
    unit = 2 ** max(size.bit_length() - 3, 0)
    return -(-size // unit) * unit


def stacked(train: Train, rank: int) -> Float[np.ndarray, "d R n R"]:
    """Cores in one array, padded by zeros."""
    most = max(core.shape[1] for core in train)
    cores = np.zeros((len(train), rank, most, rank))
    for k, core in enumerate(train):
        cores[k, : core.shape[0], : core.shape[1], : core.shape[2]] = core
    return cores


def unstacked(cores: Float[np.ndarray, "d R n R"], points: tuple[int, ...], ranks: tuple[int, ...]) -> Train:
    bonds = (1, *ranks, 1)
    return tuple(np.asarray(core[:a, :n, :b]) for core, a, n, b in zip(cores, bonds[:-1], points, bonds[1:], strict=True))


def fit(train: Train, values: Float[np.ndarray, " P"], groups: Groups, rank: int, num_sweeps: int = 1) -> Train:
    """The train after `num_sweeps` sweeps from right to left and back, from `train`, which has ranks up to `rank`."""
    points, ranks = tuple(core.shape[1] for core in train), tuple(core.shape[2] for core in train[:-1])
    with jax.enable_x64(True):
        cores, masks = jnp.asarray(stacked(train, rank)), _masks(ranks, rank)
        for _ in range(num_sweeps):
            cores = _sweep(cores, jnp.asarray(values, jnp.float64), groups, masks)
        return unstacked(np.asarray(cores), points, ranks)


def _masks(ranks: tuple[int, ...], rank: int) -> Float[Array, "bonds R"]:
    """1 where a bond 0 … d has a number, 0 where it is padded."""
    return jnp.asarray(np.arange(rank)[None, :] < np.asarray((1, *ranks, 1))[:, None], jnp.float64)


def _sweep(cores: Float[Array, "d R n R"], values: Float[Array, " P"], groups: Groups, masks) -> Float[Array, "d R n R"]:
    """There to make the cores orthogonal, back to solve for each.

    The rows l_p before all cores would be most of the memory: they are kept at the starts of a few parts of the train,
    and made again for one part at a time.
    """
    num_parts = -(-len(cores) // CORES_PER_PART)
    cuts = [round(k * len(cores) / num_parts) for k in range(num_parts + 1)]
    parts, pushed = [cores[a:b] for a, b in pairwise(cuts)], jnp.eye(cores.shape[1], dtype=cores.dtype)
    group_parts = [jax.tree.map(lambda g, a=a, b=b: g[a:b], groups) for a, b in pairwise(cuts)]
    mask_parts = [masks[a : b + 1] for a, b in pairwise(cuts)]
    row = right = jnp.zeros((values.shape[0], cores.shape[1]), cores.dtype).at[:, 0].set(1)
    before = []
    for i, part in enumerate(parts):
        before.append(row)
        parts[i], row, pushed = _orthogonal_part(part, row, pushed, group_parts[i], mask_parts[i])
    parts[-1] = parts[-1].at[-1].set(jnp.einsum("rns,st->rnt", parts[-1][-1], pushed))
    pushed = jnp.eye(cores.shape[1], dtype=cores.dtype)
    for i in reversed(range(num_parts)):
        given = (parts[i], before.pop(), right, pushed, values, group_parts[i], mask_parts[i])
        parts[i], right, pushed = _solved_part(*given)
    cores = jnp.concatenate(parts)
    return cores.at[0].set(jnp.einsum("rs,snt->rnt", pushed.T, cores[0]))


@eqx.filter_jit
def _orthogonal_part(cores, row, pushed, groups: Groups, masks):
    """(left-orthogonal cores, the rows after them, what the next core is multiplied by)."""

    def to_right(carry, given):
        row, pushed = carry
        core, group, mask = given
        core, next_pushed = _left_orthogonal(jnp.einsum("rs,snt->rnt", pushed, core), mask)
        return (_moved(core, row, group), next_pushed), core

    (row, pushed), cores = jax.lax.scan(to_right, (row, pushed), (cores, groups, masks[1:]))
    return cores, row, pushed


@eqx.filter_jit
def _solved_part(cores, row, right, pushed, values, groups: Groups, masks):
    """(right-orthogonal cores, each solved for; the rows after the part before; what its last core is multiplied by)."""

    def to_right(row, given):
        core, group = given
        return _moved(core, row, group), row.astype(jnp.float32)

    def to_left(carry, given):
        right, pushed = carry
        core, left, group, mask = given
        core = _solved(jnp.einsum("rns,st->rnt", core, pushed), left, right, values, group)
        core, pushed = _right_orthogonal(core, mask)
        return (_moved(core.transpose(2, 1, 0), right, group), pushed), core

    _, lefts = jax.lax.scan(to_right, row, (cores, groups))
    (right, pushed), cores = jax.lax.scan(to_left, (right, pushed), (cores, lefts, groups, masks[:-1]), reverse=True)
    return cores, right, pushed


def _moved(core: Float[Array, "R n R"], rows: Float[Array, "P R"], group: Groups) -> Float[Array, "P R"]:
    """l_pᵀ·G[:, i_p, :] for all points, node by node."""
    together = jnp.matmul(rows[group.members], jnp.moveaxis(core, 1, 0))
    return together.reshape(-1, core.shape[2])[group.places]


def _left_orthogonal(core, mask):
    """(Q, R) of the core as a matrix [(r, i), s]; columns of padding, which QR fills with anything, are made zero.

    Q times √n: its products then stay near 1 over any number of axes.
    """
    r, n, s = core.shape
    q, triangle = jnp.linalg.qr(core.reshape(r * n, s))
    return (n**0.5 * q * mask[None, :]).reshape(r, n, s), mask[:, None] * triangle / n**0.5


def _right_orthogonal(core, mask):
    flipped, triangle = _left_orthogonal(core.transpose(2, 1, 0), mask)
    return flipped.transpose(2, 1, 0), triangle.T


def _solved(core, left, right, values, group: Groups):
    """The core that fits best; nodes without points keep theirs."""
    r, _, s = core.shape

    def node(given):
        slab, rows, real = given
        both = left[rows].astype(core.dtype)[:, :, None] * right[rows][:, None, :]
        design = both.reshape(-1, r * s) * real.astype(core.dtype)[:, None]
        missing = jnp.where(real, values[rows], 0) - design @ slab.reshape(-1)
        single = design.astype(jnp.float32)  # the ridge makes the matrix well conditioned; what is missing is exact
        normal = jnp.matmul(single.T, single, precision="highest")
        diagonal = jnp.diagonal(normal)
        ridge = RIDGE * jnp.sum(diagonal) / jnp.maximum(jnp.sum(diagonal > 0, dtype=normal.dtype), 1) + 1e-30  # no padding
        size = jnp.maximum(jnp.max(jnp.abs(missing)), 1e-300)
        wanted = (design.T @ (missing / size)).astype(normal.dtype)
        change = jax.scipy.linalg.solve(normal + ridge * jnp.eye(r * s, dtype=normal.dtype), wanted, assume_a="pos")
        return slab + size * change.reshape(r, s).astype(core.dtype)

    slabs = jax.lax.map(node, (jnp.moveaxis(core, 1, 0), group.members, group.is_real))
    return jnp.moveaxis(slabs, 0, 1)
