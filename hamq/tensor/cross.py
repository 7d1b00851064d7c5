"""Cross approximation: a tensor train from a few of a tensor's entries, chosen where they say most.

Bond k cuts the axes into those before and those after. It keeps m left multi-indices I_k and m right ones J_k, and the
tensor is read on all fibers I_{k−1} × (axis k) × J_k: n·m² entries per axis. With A_k that fiber as a matrix [(left, i),
right] and its rows I_k picked by maxvol, the core is A_k·(A_k[I_k])⁺, and the product of the cores meets the tensor on the
crosses. The left sets are nested (I_k extends I_{k−1} by one axis), the right ones as well.

A sweep to the right chooses the left sets, a sweep to the left the right sets. Cross approximation finds where a tensor
lives, among 10³⁸ entries; `least_squares.py` then makes more of its points.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hamq.completion.pivots import pivot_rows
from hamq.tensor.train import Train

Read = Callable[[Int[np.ndarray, "P d"]], Float[np.ndarray, " P"]]
CUTOFF = 1e-6
"""Singular values below this part of the largest are noise of float32 backups, and are not inverted."""
SWAPS, GAIN = 100, 1.02


class Sets(NamedTuple):
    """Multi-indices on either side of every bond k = 0 … d: `left[k]` has k columns, `right[k]` d − k."""

    left: tuple[Int[np.ndarray, "m k"], ...]
    right: tuple[Int[np.ndarray, "m k"], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(rows) for rows in self.left[1:-1])


def bond_sizes(points: tuple[int, ...], size: int) -> tuple[int, ...]:
    """How many multi-indices each bond 0 … d can keep: `size`, or all that there are."""
    before = np.cumprod([1, *(min(n, size) for n in points)], dtype=np.float64)
    after = np.cumprod([1, *(min(n, size) for n in points[::-1])], dtype=np.float64)[::-1]
    return tuple(int(min(size, a, b)) for a, b in zip(before, after, strict=True))


def num_fibers(points: tuple[int, ...], size: int) -> int:
    """Multi-indices on all fibers of sets of the given size."""
    sizes = bond_sizes(points, size)
    return sum(a * n * b for a, n, b in zip(sizes[:-1], points, sizes[1:], strict=True))


def random_sets(points: tuple[int, ...], size: int, generator: np.random.Generator, old: Sets | None = None) -> Sets:
    """Nested random sets of the given size; those of `old` are kept and added to."""
    d, sizes = len(points), bond_sizes(points, size)
    left, right = [np.zeros((1, 0), int)], [np.zeros((1, 0), int)]
    for k in range(1, d + 1):
        left.append(_extended(left[-1], points[k - 1], sizes[k], False, generator, old and old.left[k]))
    for k in range(d - 1, -1, -1):
        right.insert(0, _extended(right[0], points[k], sizes[k], True, generator, old and old.right[k]))
    return Sets(tuple(left), tuple(right))


def _extended(rows, n: int, size: int, in_front: bool, generator: np.random.Generator, old) -> np.ndarray:
    """`size` of the rows extended by one axis: the old ones that are still among them, the others at random."""
    every = _outer(np.arange(n)[:, None], rows) if in_front else _outer(rows, np.arange(n)[:, None])
    order = generator.permutation(len(every))
    if old is not None:
        known = {tuple(row) for row in old}
        order = np.asarray(sorted(order, key=lambda i: tuple(every[i]) not in known))
    return every[order[:size]]


def _outer(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """All rows (a, b); the second runs faster."""
    return np.concatenate([np.repeat(first, len(second), axis=0), np.tile(second, (len(first), 1))], axis=1)


def fiber(points: tuple[int, ...], sets: Sets, k: int) -> Int[np.ndarray, "P d"]:
    """The multi-indices I_k × axis k × J_{k+1}."""
    return _outer(_outer(sets.left[k], np.arange(points[k])[:, None]), sets.right[k + 1])


def all_fibers(points: tuple[int, ...], sets: Sets) -> Int[np.ndarray, "P d"]:
    return np.concatenate([fiber(points, sets, k) for k in range(len(points))])


def sweep_right(read: Read, points: tuple[int, ...], sets: Sets) -> tuple[Train, Sets]:
    """Reads fiber after fiber from the left, and chooses new left sets on the way."""
    left, cores = [sets.left[0]], []
    for k, n in enumerate(points):
        here = Sets((*left, *sets.left[k + 1 :]), sets.right)
        values = read(fiber(points, here, k)).reshape(len(left[k]) * n, -1)
        if k == len(points) - 1:
            cores.append(values.reshape(len(left[k]), n, 1))
            left.append(sets.left[-1])
            break
        rows = maxvol(_basis(values))
        left.append(_outer(left[k], np.arange(n)[:, None])[rows])
        cores.append(_interpolant(values, rows).reshape(-1, n, len(rows)))
    return tuple(cores), Sets(tuple(left), sets.right)


def sweep_left(read: Read, points: tuple[int, ...], sets: Sets) -> tuple[Train, Sets]:
    """The mirror image: chooses new right sets."""
    mirrored, sets = sweep_right(lambda rows: read(rows[:, ::-1]), points[::-1], _mirrored(sets))
    return tuple(core.transpose(2, 1, 0) for core in mirrored[::-1]), _mirrored(sets)


def _mirrored(sets: Sets) -> Sets:
    return Sets(tuple(rows[:, ::-1] for rows in sets.right[::-1]), tuple(rows[:, ::-1] for rows in sets.left[::-1]))


def _basis(values: np.ndarray) -> np.ndarray:
    return np.linalg.qr(values)[0]


def _interpolant(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """values·values[rows]⁺ through an orthonormal basis of its columns: entries stay near 1 where maxvol chose."""
    u, strengths, _ = np.linalg.svd(values, full_matrices=False)
    u = u[:, : max(1, int(np.sum(strengths > CUTOFF * strengths[0])))]
    return u @ np.linalg.pinv(u[rows])


def maxvol(basis: Float[np.ndarray, "rows m"]) -> Int[np.ndarray, " m"]:
    """Rows of a submatrix of (nearly) the largest volume: no swap of a row makes it more than 2 % larger.

    Goreinov et al., "How to find a good submatrix": start from pivots, swap while |basis·sub⁻¹| has an entry above 1.
    """
    m = basis.shape[1]
    rows = pivot_rows(basis)
    shares = np.linalg.solve(basis[rows].T, basis.T).T
    for _ in range(SWAPS):
        i, j = np.unravel_index(np.abs(shares).argmax(), shares.shape)
        if abs(shares[i, j]) <= GAIN:
            break
        shares -= np.outer(shares[:, j], shares[i] - np.eye(m)[j]) / shares[i, j]
        rows[j] = i
    return rows
