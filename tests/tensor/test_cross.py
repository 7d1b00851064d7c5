"""Cross approximation: exact where the rank suffices, nested sets, as many reads as promised, large volumes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.tensor import cross, train
from hamq.tensor.cross import all_fibers, bond_sizes, fiber, maxvol, random_sets, sweep_left, sweep_right
from tests.tensor.posed import random_train, shapes


class Counted:
    """Reads entries of a train, and counts."""

    def __init__(self, given):
        self.given, self.count = given, 0

    def __call__(self, indices):
        self.count += len(indices)
        return train.entries(self.given, indices)


def assert_nested(sets, points):
    """left[k + 1] extends rows of left[k] by one axis, right[k] those of right[k + 1]; no row occurs twice.

    left[d] and right[0] belong to no bond, and are never read.
    """
    d = len(points)
    for k in range(d + 1):
        left, right = sets.left[k], sets.right[k]
        assert left.shape[1] == k and right.shape[1] == d - k
        assert len({tuple(row) for row in left}) == len(left) and len({tuple(row) for row in right}) == len(right)
        assert np.all(left < np.asarray(points[:k])) and np.all(right < np.asarray(points[k:]))
        if 0 < k < d:
            assert {tuple(row[:-1]) for row in left} <= {tuple(row) for row in sets.left[k - 1]}
        if 0 < k < d:
            assert {tuple(row[1:]) for row in right} <= {tuple(row) for row in sets.right[k + 1]}


@settings(max_examples=40)
@given(shapes(min_axes=2))
def test_recovers_a_train(shape):
    """There and back with as many indices as the largest rank has: the train itself."""
    points, ranks, seed = shape
    given = random_train(points, ranks, seed)
    sets = random_sets(points, max(ranks), np.random.default_rng(seed))
    read = Counted(given)
    _, sets = sweep_right(read, points, sets)
    assert_nested(sets, points)
    found, sets = sweep_left(read, points, sets)
    assert_nested(sets, points)
    whole = train.dense(given)
    # Entries meet to rounding times the Lebesgue constants of d maxvol choices.
    np.testing.assert_allclose(train.dense(found), whole, atol=1e-5 * np.abs(whole).max())


@settings(max_examples=30)
@given(shapes(min_axes=2), st.integers(1, 5))
def test_number_of_reads(shape, size):
    """Σ n·m·m' over the axes, m and m' the sizes of the bonds on either side."""
    points, ranks, seed = shape
    sizes = bond_sizes(points, size)
    promised = sum(a * n * b for a, n, b in zip(sizes[:-1], points, sizes[1:], strict=True))
    sets = random_sets(points, size, np.random.default_rng(seed))
    read = Counted(random_train(points, ranks, seed))
    _, after = sweep_right(read, points, sets)
    assert read.count == promised
    assert len(all_fibers(points, after)) == promised
    sweep_left(read, points, after)
    assert read.count == 2 * promised


def test_meets_its_crosses():
    """Of a tensor that is not of that rank, the entries on the last fibers of every bond are met exactly."""
    points = (5, 6, 5)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, n) for n in points], indexing="ij"), axis=-1)
    whole = 1 / (1 + grid.sum(axis=-1) ** 2)
    sets = random_sets(points, 2, np.random.default_rng(0))

    def read(indices):
        return whole[tuple(indices.T)]

    for _ in range(2):
        _, sets = sweep_left(read, points, sweep_right(read, points, sets)[1])
    found, sets = sweep_right(read, points, sets)
    last = fiber(points, sets, 2)  # left sets from this sweep, right sets as they were: read last, and met
    np.testing.assert_allclose(train.entries(found, last), read(last), atol=1e-10)
    error = np.abs(train.dense(found) - whole).max()
    assert 1e-6 < error < 0.1


@settings(max_examples=30)
@given(shapes(min_axes=1), st.integers(1, 4), st.integers(0, 3))
def test_random_sets_grow(shape, size, more):
    points, _, seed = shape
    old = random_sets(points, size, np.random.default_rng(seed))
    assert_nested(old, points)
    new = random_sets(points, size + more, np.random.default_rng(seed + 1), old)
    assert_nested(new, points)
    for k in range(len(points) + 1):
        assert {tuple(row) for row in old.left[k]} <= {tuple(row) for row in new.left[k]}
        assert {tuple(row) for row in old.right[k]} <= {tuple(row) for row in new.right[k]}
    assert tuple(len(rows) for rows in new.left) == bond_sizes(points, size + more)
    assert tuple(len(rows) for rows in new.right) == bond_sizes(points, size + more)


@settings(max_examples=40)
@given(shapes(), st.integers(1, 50))
def test_bond_sizes(shape, size):
    points, _, _ = shape
    sizes = bond_sizes(points, size)
    assert sizes[0] == sizes[-1] == 1
    for k, found in enumerate(sizes):
        assert found <= min(size, math.prod(points[:k]), math.prod(points[k:]))
        if k > 0:  # nested sets of that size exist
            assert found <= sizes[k - 1] * points[k - 1]
    if size >= math.prod(points):
        assert sizes == tuple(min(math.prod(points[:k]), math.prod(points[k:])) for k in range(len(points) + 1))


def test_bond_sizes_of_many_axes():
    assert bond_sizes((9,) * 60, 20) == (1, 9, *[20] * 57, 9, 1)


def volume(matrix, rows):
    return abs(np.linalg.det(matrix[list(rows)]))


@pytest.mark.parametrize("seed", range(6))
def test_no_swap_makes_the_volume_larger(seed):
    matrix = np.random.default_rng(seed).standard_normal((40, 5))
    rows = maxvol(np.linalg.qr(matrix)[0])
    assert len(set(rows.tolist())) == 5
    largest = volume(matrix, rows)
    for j, i in itertools.product(range(5), range(40)):
        swapped = rows.copy()
        swapped[j] = i
        assert volume(matrix, swapped) <= 1.021 * largest


@pytest.mark.parametrize("seed", range(6))
def test_volume_is_near_the_largest(seed):
    """A matrix that no swap improves can be m^(m/2) below the best in theory; here it is within 20 %."""
    matrix = np.random.default_rng(seed).standard_normal((9, 3))
    best = max(volume(matrix, rows) for rows in itertools.combinations(range(9), 3))
    assert volume(matrix, maxvol(np.linalg.qr(matrix)[0])) >= 0.8 * best


def test_swaps_are_needed():
    """Pivoting takes the longest row first; here that is not in the largest submatrix."""
    for seed in range(20):
        matrix = np.linalg.qr(np.random.default_rng(seed).standard_normal((30, 4)))[0]
        if volume(matrix, maxvol(matrix)) > 1.02 * volume(matrix, without_swaps(matrix)):
            return
    raise AssertionError("no example in which a swap helps")


def without_swaps(matrix):
    swaps, cross.SWAPS = cross.SWAPS, 0
    try:
        return maxvol(matrix)
    finally:
        cross.SWAPS = swaps
