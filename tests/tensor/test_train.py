"""The algebra of trains against dense tensors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.tensor import train
from tests.stats import assert_distribution
from tests.tensor.posed import bond_spectra, random_train, shapes


def sum_of_products(given):
    """The dense tensor, written out: Σ over all bonds of products of entries."""
    letters = "abcdefghij"
    bonds, axes = letters[: len(given) + 1], letters.upper()[: len(given)]
    terms = ",".join(f"{bonds[k]}{axes[k]}{bonds[k + 1]}" for k in range(len(given)))
    return np.einsum(f"{terms}->{axes}", *given)


@settings(max_examples=60)
@given(shapes())
def test_entries_are_products_of_matrices(shape):
    points, ranks, seed = shape
    given = random_train(points, ranks, seed)
    whole = sum_of_products(given)
    np.testing.assert_allclose(train.dense(given), whole, rtol=1e-10, atol=1e-10)
    every = np.stack(np.unravel_index(np.arange(math.prod(points)), points), axis=1)
    np.testing.assert_allclose(train.entries(given, every), whole.ravel(), rtol=1e-10, atol=1e-10)
    assert train.ranks(given) == ranks


@settings(max_examples=60)
@given(shapes(), st.floats(-3, 3))
def test_sums_and_products(shape, factor):
    points, ranks, seed = shape
    first, second = random_train(points, ranks, seed), random_train(points, ranks[::-1], seed + 1)
    a, b = train.dense(first), train.dense(second)
    total = train.add(first, second)
    np.testing.assert_allclose(train.dense(total), a + b, rtol=1e-10, atol=1e-10)
    assert train.ranks(total) == tuple(p + q for p, q in zip(ranks, ranks[::-1], strict=True))
    np.testing.assert_allclose(train.dense(train.scale(first, factor)), factor * a, rtol=1e-10, atol=1e-10)
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    assert train.dot(first, second) == pytest.approx(np.sum(a * b), abs=1e-10 * scale)
    assert train.norm(first) == pytest.approx(np.linalg.norm(a), rel=1e-10)


def test_norm_of_a_small_difference():
    """√⟨T, T⟩ of a difference would be right to 1e-8 of the terms only."""
    first = random_train((3, 4, 3), (2, 3), 0)
    second = (first[0] * (1 + 1e-11), *first[1:])
    difference = train.add(first, train.scale(second, -1.0))
    size = train.norm(first)
    assert train.norm(difference) == pytest.approx(1e-11 * size, rel=1e-3)


@settings(max_examples=60)
@given(shapes())
def test_right_orthogonal(shape):
    points, ranks, seed = shape
    given = random_train(points, ranks, seed)
    turned = train.right_orthogonal(given)
    whole = train.dense(given)
    np.testing.assert_allclose(train.dense(turned), whole, atol=1e-11 * max(np.linalg.norm(whole), 1))
    for core in turned[1:]:
        rows = core.reshape(core.shape[0], -1)
        np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)


@settings(max_examples=60)
@given(shapes(), st.floats(1e-3, 0.7))
def test_rounding_keeps_its_promise(shape, tolerance):
    points, ranks, seed = shape
    given = random_train(points, ranks, seed)
    whole = train.dense(given)
    cut = train.rounded(given, tolerance)
    assert np.linalg.norm(train.dense(cut) - whole) <= tolerance * np.linalg.norm(whole) * (1 + 1e-9)
    assert all(small <= big for small, big in zip(train.ranks(cut), ranks, strict=True))


@settings(max_examples=60)
@given(shapes())
def test_rounding_finds_the_ranks(shape):
    """T + T has twice the ranks of T, and rounding takes them back to those of the unfoldings."""
    points, ranks, seed = shape
    given = random_train(points, ranks, seed)
    whole = train.dense(given)
    cut = train.rounded(train.add(given, given), 1e-10)
    np.testing.assert_allclose(train.dense(cut), 2 * whole, atol=1e-8 * max(np.linalg.norm(whole), 1e-3))
    assert train.ranks(cut) == tuple(max(1, int(np.sum(s > 1e-9 * s[0]))) for s in bond_spectra(whole))


@settings(max_examples=40)
@given(shapes(min_axes=2), st.integers(1, 3))
def test_rounding_is_quasi_optimal(shape, rank):
    """With ranks cut to m: within √(d − 1) of the best, ‖error‖² ≤ Σ over bonds of what each must leave out."""
    points, ranks, seed = shape
    given = random_train(points, ranks, seed)
    whole = train.dense(given)
    cut = train.rounded(given, 0.0, rank)
    assert max(train.ranks(cut)) <= rank
    left_out = [float(np.linalg.norm(s[rank:])) for s in bond_spectra(whole)]
    error = np.linalg.norm(train.dense(cut) - whole)
    small = 1e-10 * np.linalg.norm(whole)
    assert error <= math.sqrt(sum(v**2 for v in left_out)) + small
    assert error <= math.sqrt(len(points) - 1) * max(left_out) + small
    assert error >= max(left_out) - small


def test_a_hundred_axes_fit_into_float32():
    """Orthogonal cores put 9⁵⁰ into the first one; balanced ones are of like size, and the same tensor."""
    orthogonal = train.right_orthogonal(random_train((9,) * 100, (3,) * 99, 5))
    assert np.abs(orthogonal[0]).max() > np.finfo(np.float32).max
    balanced = train.balanced(orthogonal)
    assert max(np.abs(core).max() for core in balanced) < 100
    indices = np.random.default_rng(0).integers(0, 9, (20, 100))
    np.testing.assert_allclose(train.entries(balanced, indices), train.entries(orthogonal, indices), rtol=1e-9)


def test_zero_stays_zero():
    nothing = train.constant((3, 4, 2), 0.0)
    assert train.norm(nothing) == 0
    cut = train.rounded(train.add(nothing, nothing))
    assert np.all(train.dense(cut) == 0) and train.ranks(cut) == (1, 1)


@settings(max_examples=20)
@given(shapes(), st.floats(-3, 3))
def test_rank_one(shape, value):
    points, _, seed = shape
    np.testing.assert_allclose(train.dense(train.constant(points, value)), np.full(points, value))
    generator = np.random.default_rng(seed)
    vectors = [generator.standard_normal(n) for n in points]
    outer = vectors[0]
    for v in vectors[1:]:
        outer = np.multiply.outer(outer, v)
    built = train.from_vectors(vectors)
    np.testing.assert_allclose(train.dense(built), outer, rtol=1e-12)
    assert set(train.ranks(built)) <= {1}


@pytest.mark.parametrize(("points", "ranks"), [((4,), ()), ((3, 4), (2,)), ((2, 3, 2, 2), (2, 3, 2))])
def test_samples_follow_the_squares(points, ranks):
    """χ² of 40 000 draws against T²/Σ T²; false alarm 1e-6, a shift of 3 % in total variation is seen."""
    given = random_train(points, ranks, 3)
    probabilities = train.dense(given) ** 2
    found = train.sample(given, 40_000, np.random.default_rng(0))
    counts = np.bincount(np.ravel_multi_index(tuple(found.T), points), minlength=math.prod(points))
    assert_distribution(counts, probabilities.ravel() / probabilities.sum(), resolution=0.03)


def test_samples_never_hit_zeros():
    """Slabs that are zero at the ends of an axis: neither is drawn, whatever the uniform numbers are."""
    core = np.zeros((1, 5, 1))
    core[0, 2] = 1.0
    found = train.sample((core, core), 1000, np.random.default_rng(0))
    assert np.all(found == 2)
