"""Masses of one normal on one axis: against SciPy, against brute quadrature, and where everything underflows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.problem.grid import Grid
from hamq.problem.normal import _erfcx, axis_log_masses

COMPILED = eqx.filter_jit(axis_log_masses)
LAWS = ["cell", "linear", "point"]
LINE, CIRCLE = Grid([-1.0], [1.0], 9), Grid([-1.0], [1.0], 5, periodic=True)


def log_masses(grid, law, mean, std, dtype=np.float64):
    with jax.enable_x64(dtype == np.float64):
        mean, std = jnp.asarray(mean, dtype), jnp.asarray(std, dtype)
        found = COMPILED(grid, 0, law, mean, std)
        assert found.dtype == dtype
        return np.asarray(found, np.float64)


def by_quadrature(grid, law, mean, std, num_images=40):
    """The same by 800 Gauss–Legendre nodes in every piece, all in float64 and in logs."""
    nodes, width, circle = grid.axis_nodes(0), grid.widths[0], grid.periodic[0]
    between = np.append(nodes, nodes[0] + width) if circle else nodes
    ends = grid.axis_edges(0) if law == "cell" else between
    images = mean + width * np.arange(-num_images, num_images + 1) if circle else np.asarray([mean])
    if law == "point":
        logs = scipy.special.logsumexp(-0.5 * ((nodes[:, None] - images) / std) ** 2, axis=1)
        return logs - scipy.special.logsumexp(logs)
    t, w = np.polynomial.legendre.leggauss(40)
    t, w = ((np.arange(20)[:, None] + (t + 1) / 2) / 20).ravel(), np.tile(w / 40, 20)
    lengths = np.diff(ends)
    x = ends[:-1, None] + lengths[:, None] * t
    log_density = scipy.special.logsumexp(-0.5 * ((x[..., None] - images) / std) ** 2, axis=-1)

    def integral(share):
        with np.errstate(divide="ignore"):
            return scipy.special.logsumexp(log_density + np.log(lengths[:, None] * w * share), axis=1)

    if law == "cell":
        logs = integral(1.0)
    else:
        left, right = integral(1 - t), integral(t)
        logs = np.full(len(nodes), -np.inf)
        for p in range(len(lengths)):
            logs[p] = np.logaddexp(logs[p], left[p])
            q = (p + 1) % len(nodes)
            logs[q] = np.logaddexp(logs[q], right[p])
    return logs - scipy.special.logsumexp(logs)


def total_variation(a, b):
    return 0.5 * np.abs(np.exp(a) - np.exp(b)).sum()


@pytest.mark.parametrize("mean", [-2.5, -1.0, 0.1, 0.97, 3.0])
@pytest.mark.parametrize("std", [0.05, 0.4, 3.0])
def test_cell_masses_against_scipy(mean, std):
    truncated = scipy.stats.truncnorm((-1 - mean) / std, (1 - mean) / std, mean, std)
    wanted = np.diff(truncated.cdf(LINE.axis_edges(0)))
    np.testing.assert_allclose(np.exp(log_masses(LINE, "cell", mean, std)), wanted, rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [-7.0, -1.2, 0.13, 1.0])
@pytest.mark.parametrize("std", [0.1, 0.6, 5.0])
def test_masses_against_quadrature(law, mean, std):
    found, wanted = log_masses(LINE, law, mean, std), by_quadrature(LINE, law, mean, std)
    seen = wanted > -600  # the quadrature's own exp underflows below
    np.testing.assert_allclose(found[seen], wanted[seen], rtol=1e-9, atol=2e-9)
    assert total_variation(log_masses(LINE, law, mean, std, np.float32), wanted) < 2e-3


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [-1.0, 0.3, 1.0, 12.6])
@pytest.mark.parametrize("std", [0.1, 0.7, 2.0, 6.0])
def test_wrapped_masses_against_quadrature(law, mean, std):
    found, wanted = log_masses(CIRCLE, law, mean, std), by_quadrature(CIRCLE, law, mean, std)
    assert total_variation(found, wanted) < 1e-10
    assert total_variation(log_masses(CIRCLE, law, mean, std, np.float32), wanted) < 1e-5


@pytest.mark.parametrize("law", LAWS)
def test_a_wide_normal_on_a_circle_is_uniform(law):
    for std in (3.0, 10.0, 1e6):
        np.testing.assert_allclose(log_masses(CIRCLE, law, 0.3, std), -np.log(5), atol=1e-9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigmas", [8, -26.5, 80, -160])
@pytest.mark.parametrize("std", [0.05, 1.2, 5.0])
def test_far_outside_the_box(law, dtype, sigmas, std):
    mean = np.copysign(1, sigmas) + sigmas * std
    found = log_masses(LINE, law, mean, std, dtype)
    assert not np.any(np.isnan(found)) and np.all(found <= 1e-3)
    single = dtype == np.float32
    np.testing.assert_allclose(np.exp(found).sum(), 1, rtol=1e-3 if single else 1e-10)
    bound = {"cell": 1e-3, "linear": FLOAT32_HATS, "point": 1e-3}[law] if single else 1e-8
    assert total_variation(found, by_quadrature(LINE, law, mean, std)) < bound


# In float32 the share of a hat's far end is a difference of nearly equal numbers; z²·1e-7 of it is lost.
FLOAT32_HATS = 1e-3


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mirror_symmetry(law, dtype):
    for mean in (0.2, 1.0, 9.0):
        left, right = (log_masses(LINE, law, m, 0.3, dtype) for m in (-mean, mean))
        assert total_variation(left, right[::-1]) < (1e-5 if dtype == np.float32 else 1e-12)


@given(st.floats(-1e3, 1e3), st.floats(-3, 2), st.booleans(), st.sampled_from(LAWS), st.booleans())
@settings(max_examples=50)
def test_always_a_distribution(sigmas, log_std, circle, law, is_single):
    std = 10.0**log_std
    grid = CIRCLE if circle else LINE
    found = log_masses(grid, law, sigmas * std, std, np.float32 if is_single else np.float64)
    assert not np.any(np.isnan(found)) and not np.any(found == np.inf)
    # log of a density 1,000 σ away has 6 digits before the point: float32 keeps one behind it.
    np.testing.assert_allclose(np.exp(found).sum(), 1, rtol=0.1 if is_single else 1e-8)


def test_uniform_limit_of_cells_and_hats():
    for law in ("cell", "linear"):
        masses = np.exp(log_masses(LINE, law, 0.0, 1e4))
        np.testing.assert_allclose(masses, [1 / 16, *[1 / 8] * 7, 1 / 16], rtol=1e-6)


def test_hats_keep_the_mean():
    """Σ node·mass is the truncated mean: hats interpolate linear functions exactly."""
    for mean, std in ((0.2, 0.3), (1.4, 0.5), (-3.0, 0.2)):
        masses = np.exp(log_masses(LINE, "linear", mean, std))
        wanted = scipy.stats.truncnorm((-1 - mean) / std, (1 - mean) / std, mean, std).mean()
        np.testing.assert_allclose(masses @ LINE.axis_nodes(0), wanted, rtol=1e-8)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "rtol"),
    [
        (np.float64, 0, 60, 1e-13),
        (np.float64, 9.9, 10.1, 1e-13),
        (np.float64, 26.5, 26.7, 1e-13),
        (np.float32, 0, 60, 2e-6),
        (np.float32, 5.9, 6.1, 2e-6),
        (np.float32, 9, 9.5, 2e-6),
    ],
)
def test_erfcx_has_no_hole(dtype, low, high, rtol):
    """jax.scipy.special.erfcx (0.10.2) is 0 where erfc is subnormal."""
    x = np.linspace(low, high, 2001).astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        found = np.asarray(_erfcx(jnp.asarray(x)), np.float64)
    np.testing.assert_allclose(found, scipy.special.erfcx(x.astype(np.float64)), rtol=rtol)
