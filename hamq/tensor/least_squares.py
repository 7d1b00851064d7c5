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

Small fits on a CPU are made by NumPy, in less time than it takes to compile a program; all others by programs.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.problem.programs import compile_beside, program
from hamq.tensor.train import Train
from hamq.types import is_cpu

RIDGE = 1e-2
"""Part of the mean curvature: directions that the points hardly see stay as they were. Less lets them run away."""

ONE_THREAD, FEWEST_ROWS = 2**18, 16
"""Multiplications of a product of matrices up to which OpenBLAS uses one thread, and rows that are worth a product. Several
threads wait for each other, which on a machine that has other work to do takes ten times as long."""
CORES_PER_PART = 10
"""For so many cores at a time the rows of all points are held in memory."""
CROWDED = 2.0
"""Groups have room for so many times the points that a node has on average, and for more where there are more: cross
approximation likes the ends of the axes. Shapes are then known, and compiled for, before the points are."""


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
    size = max(_rounded_up(int(np.max(counts))), group_size(len(indices), points))
    members, places = np.zeros((d, most, size), np.int32), np.zeros((d, len(indices)), np.int32)
    is_real = np.zeros((d, most, size), bool)
    for k in range(d):
        order = np.argsort(indices[:, k], kind="stable")
        for i, rows in enumerate(np.split(order, np.cumsum(counts[k])[:-1])):
            members[k, i, : len(rows)], is_real[k, i, : len(rows)] = rows, True
            places[k, rows] = i * size + np.arange(len(rows))
    return Groups(members, is_real, places)


def group_size(num_points: int, points: tuple[int, ...]) -> int:
    """Of the largest groups that are to be expected."""
    return _rounded_up(math.ceil(CROWDED * num_points / min(points)))


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
    cores, masks = stacked(train, rank), _masks(ranks, rank)
    with jax.enable_x64(True):
        for _ in range(num_sweeps):
            cores = _sweep(cores, np.asarray(values, np.float64), groups, masks)
    return unstacked(cores, points, ranks)


def compile_fit(num_points: int, points: tuple[int, ...], rank: int) -> None:
    """Starts to compile what a fit to so many points needs, if they are spread as expected."""
    num_nodes, size, of = max(points), group_size(num_points, points), jax.ShapeDtypeStruct
    if _is_for_host(rank, size):
        return
    rows, square = of((num_points, rank), np.float64), of((rank, rank), np.float64)
    with jax.enable_x64(True):
        for num in sorted({b - a for a, b in pairwise(_cuts(len(points)))}):
            cores, masks = of((num, rank, num_nodes, rank), np.float64), of((num + 1, rank), np.float64)
            members, places = (num, num_nodes, size), (num, num_points)
            part: Any = (of(members, np.int32), of(members, bool), of(places, np.int32))
            part = Groups(*part)
            given = (cores, rows, rows, square, of((num_points,), np.float64), part, masks)
            compile_beside("solved", (_solved_part,), _solved_part, *given)
            compile_beside("orthogonal", (_orthogonal_part,), _orthogonal_part, cores, rows, square, part, masks)


def _cuts(num_cores: int) -> list[int]:
    """Where the parts of a train begin, and where the last one ends."""
    num_parts = -(-num_cores // CORES_PER_PART)
    return [round(k * num_cores / num_parts) for k in range(num_parts + 1)]


def _masks(ranks: tuple[int, ...], rank: int) -> Float[np.ndarray, "bonds R"]:
    """1 where a bond 0 … d has a number, 0 where it is padded."""
    return (np.arange(rank)[None, :] < np.asarray((1, *ranks, 1))[:, None]).astype(np.float64)


def _sweep(cores: Float[np.ndarray, "d R n R"], values: Float[np.ndarray, " P"], groups: Groups, masks) -> np.ndarray:
    """There to make the cores orthogonal, back to solve for each.

    The rows l_p before all cores would be most of the memory: they are kept at the starts of a few parts of the train,
    and made again for one part at a time.
    """
    orthogonal, solved = _orthogonal_on_host, _solved_on_host
    if not _is_for_host(cores.shape[1], groups.members.shape[-1]):
        orthogonal, solved = _compiled("orthogonal", _orthogonal_part), _compiled("solved", _solved_part)
    bounds, identity = list(pairwise(_cuts(len(cores)))), np.eye(cores.shape[1])
    parts: list[Any] = [cores[a:b] for a, b in bounds]
    group_parts = [Groups(*(array[a:b] for array in groups)) for a, b in bounds]
    mask_parts = [masks[a : b + 1] for a, b in bounds]
    row: Any = np.zeros((len(values), cores.shape[1]))
    row[:, 0] = 1
    right, pushed, before = row, identity, []
    for i, part in enumerate(parts):
        before.append(row)
        given = (part, row, pushed, group_parts[i], mask_parts[i])
        parts[i], row, pushed = orthogonal(*given)
    parts[-1] = np.array(parts[-1])
    parts[-1][-1] = np.einsum("rns,st->rnt", parts[-1][-1], pushed)
    pushed = identity
    for i in reversed(range(len(parts))):
        given = (parts[i], before.pop(), right, pushed, values, group_parts[i], mask_parts[i])
        parts[i], right, pushed = solved(*given)
    cores = np.concatenate(parts)
    cores[0] = np.einsum("sr,snt->rnt", pushed, cores[0])
    return cores


def _compiled(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: program(name, (function,), function, *given)(*given)


def _is_for_host(rank: int, group_size: int) -> bool:
    """Whether BLAS makes every product of a fit with one thread."""
    return is_cpu() and max(FEWEST_ROWS * rank**4, group_size * rank**2) <= ONE_THREAD


def _orthogonal_on_host(cores, row, pushed, groups: Groups, masks):
    """`_orthogonal_part` in NumPy."""
    made = np.empty_like(cores)
    for k, core in enumerate(cores):
        made[k], pushed = _left_orthogonal(np.einsum("rs,snt->rnt", pushed, core), masks[k + 1], np)
        row = _moved_on_host(made[k], row, Groups(*(array[k] for array in groups)))
    return made, row, pushed


def _solved_on_host(cores, row, right, pushed, values, groups: Groups, masks):
    """`_solved_part` in NumPy."""
    own = [Groups(*(array[k] for array in groups)) for k in range(len(cores))]
    lefts, made = [], np.empty_like(cores)
    for core, group in zip(cores, own, strict=True):
        lefts.append(row.astype(np.float32))
        row = _moved_on_host(core, row, group)
    for k in reversed(range(len(cores))):
        core, left = cores[k] @ pushed, lefts.pop()
        for i, rows in enumerate(_points_of(own[k])):
            if len(rows):
                core[:, i] = _slab(core[:, i], left[rows].astype(core.dtype), right[rows], values[rows])
        made[k], pushed = _right_orthogonal(core, masks[k], np)
        right = _moved_on_host(made[k].transpose(2, 1, 0), right, own[k])
    return made, right, pushed


def _points_of(group: Groups) -> list[np.ndarray]:
    """Of each node."""
    return [members[real] for members, real in zip(group.members, group.is_real, strict=True)]


def _moved_on_host(core: Float[np.ndarray, "R n R"], rows: Float[np.ndarray, "P R"], group: Groups) -> np.ndarray:
    made = np.empty((len(rows), core.shape[2]))
    for i, here in enumerate(_points_of(group)):
        made[here] = rows[here] @ core[:, i]
    return made


def _slab(slab: np.ndarray, left: np.ndarray, right: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What fits best at one node, as in `_solved`."""
    missing = values - np.sum((left @ slab) * right, axis=1)
    normal = _normal_matrix((left[:, :, None] * right[:, None, :]).reshape(len(left), -1).astype(np.float32))
    diagonal = np.diagonal(normal)
    ridge = RIDGE * np.sum(diagonal) / max(np.count_nonzero(diagonal), 1) + 1e-30
    size = max(np.max(np.abs(missing)), 1e-300)
    wanted = (left.T @ (right * (missing / size)[:, None])).astype(normal.dtype).reshape(-1)
    normal[np.diag_indices(len(normal))] += normal.dtype.type(ridge)
    return slab + size * np.linalg.solve(normal, wanted).reshape(slab.shape)


def _normal_matrix(design: Float[np.ndarray, "p q"]) -> Float[np.ndarray, "q q"]:
    """designᵀ·design, in products of few rows."""
    size = ONE_THREAD // design.shape[1] ** 2
    blocks = np.pad(design, ((0, -len(design) % size), (0, 0))).reshape(-1, size, design.shape[1])
    return np.sum(blocks.transpose(0, 2, 1) @ blocks, axis=0)


def _orthogonal_part(cores, row, pushed, groups: Groups, masks):
    """(left-orthogonal cores, the rows after them, what the next core is multiplied by)."""

    def to_right(carry, given):
        row, pushed = carry
        core, group, mask = given
        core, next_pushed = _left_orthogonal(jnp.einsum("rs,snt->rnt", pushed, core), mask, jnp)
        return (_moved(core, row, group), next_pushed), core

    (row, pushed), cores = jax.lax.scan(to_right, (row, pushed), (cores, groups, masks[1:]))
    return cores, row, pushed


def _solved_part(cores, row, right, pushed, values, groups: Groups, masks):
    """(right-orthogonal cores, each solved for; the rows after the part before; what its last core is multiplied by)."""

    def to_right(row, given):
        core, group = given
        return _moved(core, row, group), row.astype(jnp.float32)

    def to_left(carry, given):
        right, pushed = carry
        core, left, group, mask = given
        core = _solved(jnp.einsum("rns,st->rnt", core, pushed), left, right, values, group)
        core, pushed = _right_orthogonal(core, mask, jnp)
        return (_moved(core.transpose(2, 1, 0), right, group), pushed), core

    _, lefts = jax.lax.scan(to_right, row, (cores, groups))
    (right, pushed), cores = jax.lax.scan(to_left, (right, pushed), (cores, lefts, groups, masks[:-1]), reverse=True)
    return cores, right, pushed


def _moved(core: Float[Array, "R n R"], rows: Float[Array, "P R"], group: Groups) -> Float[Array, "P R"]:
    """l_pᵀ·G[:, i_p, :] for all points, node by node."""
    together = jnp.matmul(rows[group.members], jnp.moveaxis(core, 1, 0))
    return together.reshape(-1, core.shape[2])[group.places]


def _left_orthogonal(core, mask, xp: Any):
    """(Q, R) of the core as a matrix [(r, i), s]; columns of padding, which QR fills with anything, are made zero.

    Q times √n: its products then stay near 1 over any number of axes.
    """
    r, n, s = core.shape
    q, triangle = xp.linalg.qr(core.reshape(r * n, s))
    return (n**0.5 * q * mask[None, :]).reshape(r, n, s), mask[:, None] * triangle / n**0.5


def _right_orthogonal(core, mask, xp: Any):
    flipped, triangle = _left_orthogonal(core.transpose(2, 1, 0), mask, xp)
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
