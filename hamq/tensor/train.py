"""Tensor trains: T[i₁, …, i_d] = G₁[:, i₁, :] · G₂[:, i₂, :] ⋯ G_d[:, i_d, :], a product of small matrices.

Core k has the shape [r_{k−1}, n_k, r_k] with r₀ = r_d = 1; the ranks r_k are what the tensor costs. Everything here is
plain algebra of float64 cores, exact up to rounding, with no knowledge of control problems. What runs in JAX, batched and
padded, is in `contraction.py`.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

Train = tuple[np.ndarray, ...]


def ranks(train: Train) -> tuple[int, ...]:
    """(r₁, …, r_{d−1}): the sizes of the bonds between neighbours."""
    return tuple(core.shape[2] for core in train[:-1])


def constant(points: Sequence[int], value: float = 1.0) -> Train:
    """The tensor that is `value` everywhere; rank 1."""
    ones = [np.ones((1, n, 1)) for n in points]
    return (value * ones[0], *ones[1:])


def from_vectors(vectors: Sequence[Float[np.ndarray, "_"]]) -> Train:
    """v₁ ⊗ v₂ ⊗ ⋯ ⊗ v_d; rank 1."""
    return tuple(np.asarray(v, np.float64)[None, :, None] for v in vectors)


def dense(train: Train) -> np.ndarray:
    """All entries: for tests and small tensors."""
    whole = train[0]
    for core in train[1:]:
        whole = np.tensordot(whole, core, 1)
    return whole[0, ..., 0]


def entries(train: Train, indices: Int[np.ndarray, "B d"]) -> Float[np.ndarray, " B"]:
    """The entries at these multi-indices."""
    row = np.ones((len(indices), 1))
    for k, core in enumerate(train):
        new = np.empty((len(indices), core.shape[2]))
        for i in range(core.shape[1]):  # a product of matrices for each node
            here = indices[:, k] == i
            new[here] = row[here] @ core[:, i]
        row = new
    return row[:, 0]


def add(first: Train, second: Train) -> Train:
    """first + second; ranks add up."""
    cores = []
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        if len(first) == 1:
            cores.append(a + b)
        elif k == 0:
            cores.append(np.concatenate([a, b], axis=2))
        elif k == len(first) - 1:
            cores.append(np.concatenate([a, b], axis=0))
        else:
            core = np.zeros((a.shape[0] + b.shape[0], a.shape[1], a.shape[2] + b.shape[2]))
            core[: a.shape[0], :, : a.shape[2]] = a
            core[a.shape[0] :, :, a.shape[2] :] = b
            cores.append(core)
    return tuple(cores)


def scale(train: Train, factor: float) -> Train:
    return (factor * train[0], *train[1:])


def dot(first: Train, second: Train) -> float:
    """Σ over all entries of first · second."""
    left = np.ones((1, 1))
    for a, b in zip(first, second, strict=True):
        left = np.einsum("pq,pis,qit->st", left, a, b, optimize=True)
    return float(left[0, 0])


def norm(train: Train) -> float:
    """√Σ T²; from orthogonal cores, because √⟨T, T⟩ loses half of the digits."""
    return float(np.linalg.norm(right_orthogonal(train)[0]))


def right_orthogonal(train: Train) -> Train:
    """The same tensor; in every core but the first the rows of G[r, (i, s)] are orthonormal."""
    cores = list(train)
    for k in range(len(cores) - 1, 0, -1):
        r, n, s = cores[k].shape
        q, triangle = np.linalg.qr(cores[k].reshape(r, n * s).T)
        cores[k] = q.T.reshape(-1, n, s)
        cores[k - 1] = np.tensordot(cores[k - 1], triangle.T, 1)
    return tuple(cores)


def rounded(train: Train, tolerance: float = 1e-12, max_rank: int | None = None) -> Train:
    """The tensor with smaller ranks, ‖T − rounded‖ ≤ tolerance·‖T‖ unless `max_rank` cuts deeper.

    Oseledets' rounding: orthogonalise from the right, then cut singular values from the left; each of the d − 1 bonds
    may leave out tolerance·‖T‖/√(d − 1).
    """
    cores = list(right_orthogonal(train))
    allowed = tolerance * np.linalg.norm(cores[0]) / max(len(cores) - 1, 1) ** 0.5
    for k in range(len(cores) - 1):
        r, n, s = cores[k].shape
        u, values, v = np.linalg.svd(cores[k].reshape(r * n, s), full_matrices=False)
        left_out = np.sqrt(np.cumsum(values[::-1] ** 2))[::-1]  # what is lost by keeping fewer than 0, 1, 2, …
        kept = max(1, int(np.sum(left_out > allowed)))
        kept = kept if max_rank is None else min(kept, max_rank)
        cores[k] = u[:, :kept].reshape(r, n, kept)
        cores[k + 1] = np.tensordot(values[:kept, None] * v[:kept], cores[k + 1], 1)
    return tuple(cores)


def balanced(train: Train) -> Train:
    """The same tensor with cores of like size: orthogonal ones would put 9⁵⁰ into the first of 100, beyond float32."""
    sizes = [
        max(np.linalg.norm(core), 1e-300) / (core.shape[1] * min(core.shape[0], core.shape[2])) ** 0.5 for core in train
    ]
    common = np.exp(np.mean(np.log(sizes)))
    return tuple(core * (common / size) for core, size in zip(train, sizes, strict=True))


def sample(train: Train, count: int, generator: np.random.Generator) -> Int[np.ndarray, "count d"]:
    """Multi-indices drawn with probability T²/Σ T²: one axis after the other, each given those before it.

    With right-orthogonal cores Σ over all later axes of T² is the squared length of the row that has been built up.
    """
    train = right_orthogonal(train)
    row, found = np.ones((count, 1)), []
    for core in train:
        rows = np.einsum("br,ris->bis", row, core)
        cumulated = np.cumsum(np.sum(rows**2, axis=2), axis=1)
        level = generator.uniform(size=(count, 1)) * cumulated[:, -1:]
        index = np.minimum(np.sum(cumulated <= level, axis=1), core.shape[1] - 1)
        row = rows[np.arange(count), index]
        row = row / np.linalg.norm(row, axis=1, keepdims=True)
        found.append(index)
    return np.stack(found, axis=1)
