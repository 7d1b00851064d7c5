"""Tables of cells: laws whose density is the one that is said, in NumPy as in JAX."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.sampling.cell_table import CELLS, EVEN_SHARE, CellTable, log_height_at, make_tables, num_evaluations, shares_of


def ridge(shares, xp):
    """A thin curved law, and one that is zero but in a corner."""
    x = shares[0]
    thin = -0.5 * ((x[:, 0] - x[:, -1] ** 2) / 0.05) ** 2
    corner = xp.where((shares[1] < 0.2).all(axis=-1), 0.0, -xp.inf)
    return xp.stack([thin, corner])


def tables(d, xp=np):
    with np.errstate(divide="ignore", invalid="ignore"):
        return make_tables(lambda shares: ridge(shares, xp), 2, d, xp)


@pytest.mark.parametrize("d", sorted(CELLS))
def test_heights_are_a_density(d):
    table = tables(d)
    widths = np.diff(table.edges, axis=-1)
    assert np.all(widths > 0)
    volumes = np.stack([np.ravel(functools.reduce(np.multiply, np.ix_(*rows))) for rows in widths])
    masses = np.exp(table.log_heights) * volumes
    np.testing.assert_allclose(masses.sum(axis=1), 1, rtol=1e-4)
    np.testing.assert_allclose(np.cumsum(masses, axis=1), table.cumulative, atol=1e-4)
    assert np.exp(table.log_heights).min() >= EVEN_SHARE * 0.999, "no place is left out"
    assert num_evaluations(d) == 2 * len(volumes[0])


@pytest.mark.parametrize("d", sorted(CELLS))
def test_both_ways_to_make_them_agree(d):
    for ours, theirs in zip(tables(d), jax.jit(lambda: tables(d, jnp))(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5)


def test_cells_are_narrow_where_the_mass_is():
    edges = tables(3).edges[1]
    assert np.all(edges[:, 5] < 0.2), "most cells lie in the corner"


def test_no_density_at_all_is_the_even_law():
    with np.errstate(divide="ignore", invalid="ignore"):
        table = make_tables(lambda shares: np.full(shares.shape[:2], np.nan), 1, 2, np)
    np.testing.assert_allclose(table.log_heights, 0, atol=1e-5)


def test_draws_follow_the_heights():
    """E[1/height] over draws is the share of the box, 1: false alarm 1e-6 (the deviation is below 1.5)."""
    table = CellTable(*(jnp.asarray(a[0]) for a in tables(2)))
    choice, within = jr.uniform(jr.key(0), (40_000,)), jr.uniform(jr.key(1), (40_000, 2))
    shares = shares_of(table, choice, within)
    assert np.all((np.asarray(shares) >= 0) & (np.asarray(shares) <= 1))
    logs = log_height_at(jax.tree.map(lambda a: a[..., None], table), shares.T)
    np.testing.assert_allclose(np.exp(-np.asarray(logs)).mean(), 1, atol=0.05)
