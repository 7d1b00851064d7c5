"""Alternating least squares: recovers trains, averages noise away, and leaves alone what it has no points for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.tensor import least_squares, train
from hamq.tensor.cross import all_fibers, random_sets, sweep_left, sweep_right
from hamq.tensor.least_squares import fit, make_groups, stacked, unstacked
from tests.tensor.posed import random_train


def some_indices(points, count, seed):
    return np.random.default_rng(seed).integers(0, points, (count, len(points)))


@pytest.fixture(params=["host", "compiled"])
def way(request, monkeypatch):
    """Small fits are made by NumPy, and here by programs, too."""
    if request.param == "compiled":
        monkeypatch.setattr(least_squares, "ONE_THREAD", 0)
    return request.param


@pytest.mark.parametrize("points", [(4, 5, 3), (3, 4, 4, 3, 2)])
def test_both_ways_agree(monkeypatch, points):
    """With padded ranks and groups of unequal size; up to rounding of float32 times the largest condition of a system.

    That is the number of unknowns, the trace of a matrix over its mean curvature, over the ridge.
    """
    ranks = (2, 4, 3, 2)[: len(points) - 1]
    true, start = random_train(points, ranks, 0), random_train(points, ranks, 1)
    indices = np.minimum(some_indices(points, 300, 2), some_indices(points, 300, 3))
    given = (start, train.entries(true, indices), make_groups(indices, points), 5)
    on_host = fit(*given)
    monkeypatch.setattr(least_squares, "_orthogonal_on_host", None)  # is not asked
    monkeypatch.setattr(least_squares, "ONE_THREAD", 0)
    allowed = np.finfo(np.float32).eps * 5**2 / least_squares.RIDGE
    assert relative(on_host, train.dense(fit(*given))) < allowed < relative(start, train.dense(on_host)) / 1000


@pytest.mark.parametrize(("points", "ranks"), [((4, 5, 3), (2, 3)), ((5, 6), (3,)), ((3, 4, 4, 3, 2), (2, 4, 3, 2))])
@pytest.mark.usefixtures("way")
def test_recovers_a_train(points, ranks):
    """From a start that is 10 % off, with 6 entries per number of the cores."""
    true = random_train(points, ranks, 0)
    noise = random_train(points, ranks, 1)
    start = tuple(a + 0.1 * b for a, b in zip(true, noise, strict=True))
    indices = some_indices(points, 6 * sum(core.size for core in true), 2)
    groups, values = make_groups(indices, points), train.entries(true, indices)
    errors = [relative(fit(start, values, groups, 4, num_sweeps=n), train.dense(true)) for n in (1, 10)]
    assert errors[0] < relative(start, train.dense(true)) / 3
    assert errors[1] < 1e-5


def relative(given, whole):
    return np.linalg.norm(train.dense(given) - whole) / np.linalg.norm(whole)


def test_a_fit_stays_where_it_fits():
    points, ranks = (4, 5, 3), (2, 3)
    true = random_train(points, ranks, 0)
    indices = some_indices(points, 200, 2)
    found = fit(true, train.entries(true, indices), make_groups(indices, points), 5)
    assert relative(found, train.dense(true)) < 1e-7


@pytest.mark.parametrize("cores", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("way")
def test_the_parts_of_a_long_train_change_nothing(monkeypatch, cores):
    """However few cores are worked on at a time, with as many parts as five axes then have."""
    points, ranks = (3, 4, 4, 3, 2), (2, 4, 3, 2)
    true, start = random_train(points, ranks, 0), random_train(points, ranks, 1)
    indices = some_indices(points, 400, 2)
    given = (start, train.entries(true, indices), make_groups(indices, points), 4)
    whole = train.dense(fit(*given, num_sweeps=2))
    monkeypatch.setattr(least_squares, "CORES_PER_PART", cores)
    assert relative(fit(*given, num_sweeps=2), whole) < 1e-6  # float32 matrices, compiled for other shapes


def test_beats_the_cross_on_noisy_values():
    """exp(−|x − y| …) of 4 coordinates has full rank; trains of rank 4 through noisy entries, from the same fibers."""
    n = 7
    x = np.stack(np.meshgrid(*[np.linspace(0, 1, n)] * 4, indexing="ij"), axis=-1)
    whole = np.exp(-np.abs(np.diff(x, axis=-1)).sum(axis=-1))
    points = whole.shape
    noisy = whole + 0.02 * np.random.default_rng(0).standard_normal(points)

    def read(indices):
        return noisy[tuple(indices.T)]

    sets = random_sets(points, 4, np.random.default_rng(1))
    for _ in range(2):
        _, sets = sweep_right(read, points, sets)
        crossed, sets = sweep_left(read, points, sets)
    fibers = all_fibers(points, sets)
    indices = np.concatenate([fibers, some_indices(points, 2 * len(fibers), 2)])
    fitted = fit(crossed, read(indices), make_groups(indices, points), 4, num_sweeps=3)
    best = relative(train.rounded(full_train(whole), 0.0, 4), whole)
    ours, theirs = relative(fitted, whole), relative(crossed, whole)
    assert ours < theirs / 2 and ours < 2 * best


def full_train(whole):
    """A dense tensor as a train of full rank."""
    cores, rest = [], whole.reshape(1, -1)
    for n in whole.shape[:-1]:
        rows = rest.reshape(len(rest) * n, -1)
        q, rest = np.linalg.qr(rows)
        cores.append(q.reshape(-1, n, q.shape[1]))
    return (*cores, rest[:, :, None])


def test_padding_stays_zero():
    """A train of ranks below `rank`, axes of unequal size: its shapes come back, and its limit is the same."""
    points, ranks = (4, 2, 5), (2, 2)
    true, noise = random_train(points, ranks, 0), random_train(points, ranks, 1)
    start = tuple(a + 0.1 * b for a, b in zip(true, noise, strict=True))
    indices = some_indices(points, 300, 2)
    values, groups = train.entries(true, indices), make_groups(indices, points)
    for rank in (2, 6):
        found = fit(start, values, groups, rank, num_sweeps=20)
        assert [core.shape for core in found] == [core.shape for core in start]
        assert relative(found, train.dense(true)) < 1e-4


@pytest.mark.usefixtures("way")
def test_nodes_without_points_keep_their_slab():
    """No point at node 2 of axis 1: the tensor there is what the other cores make of the old slab."""
    points, ranks = (4, 5, 3), (2, 2)
    true = random_train(points, ranks, 0)
    start = (true[0], 1.3 * true[1], true[2])
    start[1][:, 2] = true[1][:, 2] * 7
    indices = some_indices(points, 400, 2)
    indices = indices[indices[:, 1] != 2]
    found = fit(start, train.entries(true, indices), make_groups(indices, points), 2, num_sweeps=20)
    whole, ours = train.dense(true), train.dense(found)
    seen = [0, 1, 3, 4]
    np.testing.assert_allclose(ours[:, seen], whole[:, seen], atol=1e-4 * np.abs(whole).max())
    assert np.all(np.isfinite(ours)) and np.abs(ours[:, 2]).max() > 3 * np.abs(whole[:, 2]).max()


def test_groups():
    indices = some_indices((4, 3), 20, 0)
    groups = make_groups(indices, (4, 3))
    assert groups.members.shape == groups.is_real.shape and groups.members.shape[:2] == (2, 4)
    for k, n in enumerate((4, 3)):
        for i in range(4):
            rows = np.asarray(groups.members[k, i])[np.asarray(groups.is_real[k, i])]
            expected = np.flatnonzero(indices[:, k] == i) if i < n else []
            np.testing.assert_array_equal(rows, expected)


def test_what_is_stacked_comes_back():
    given = random_train((4, 2, 5), (2, 3), 0)
    again = unstacked(stacked(given, 6), (4, 2, 5), (2, 3))
    for a, b in zip(given, again, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("way")
def test_precision_is_double_inside_and_nothing_is_left_behind():
    points = (3, 3, 3)
    true = random_train(points, (2, 2), 0)
    indices = np.stack(np.unravel_index(np.arange(27), points), axis=1)
    found = fit(true, train.entries(true, indices), make_groups(indices, points), 2, num_sweeps=3)
    assert all(core.dtype == np.float64 for core in found)
    # Normal equations in single precision would lose 1e-4 and more.
    assert relative(found, train.dense(true)) < 1e-7
    assert not jax.config.jax_enable_x64 and jnp.asarray(1.0).dtype == jnp.float32
