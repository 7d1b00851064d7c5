"""Brackets of densities with jumps hold Q* (benchmarks/jumps.py); the whole count is in the record."""

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.jumps import ACTIONS, CUTS, DISCOUNT, _masses, brackets, counted, optimal_q

NUM_SEEDS, FEW = 20, 5


@pytest.mark.parametrize("name", ["normal with a gap", "exponential", "uniform", "half-normal"])
def test_the_reference_has_closed_forms(name):
    """Masses of cells from distribution functions."""
    axis = np.linspace(-1, 1, 15)
    edges = np.asarray([-1, *((axis[1:] + axis[:-1]) / 2), 1])
    forms = {
        "normal with a gap": lambda u: ndtr(np.minimum(u, -0.1) / 0.4) + ndtr(np.maximum(u, 0.5) / 0.4),
        "exponential": lambda u: -np.exp(-np.maximum(u, 0) / 0.3),
        "uniform": lambda u: np.clip(u, -0.3, 0.3),
        "half-normal": lambda u: ndtr(np.maximum(u, 0) / 0.3),
    }
    for state, action in ((-1.0, 1.0), (0.31, -1.0), (0.9, 1.0)):
        masses = np.diff(forms[name](edges - 0.6 * state - 0.2 * action))
        found = _masses(name, [axis], np.asarray([state]), action, "cell")
        np.testing.assert_allclose(found, masses / masses.sum(), atol=1e-12)


def test_the_reference_in_two_dimensions():
    """A normal law without a rectangle: products of distribution functions, less what lies in the rectangle."""
    axis, state, action = np.linspace(-1, 1, 4), np.asarray([0.3, -0.6]), 1.0
    edges = np.asarray([-1, *((axis[1:] + axis[:-1]) / 2), 1])
    mean, stds, forbidden = 0.6 * state + 0.2 * action, (0.35, 0.45), CUTS["forbidden rectangle"].forbidden
    whole = [np.diff(ndtr((edges - m) / std)) for m, std in zip(mean, stds, strict=True)]
    inside = [np.diff(ndtr((np.clip(edges, *ends) - m) / s)) for m, s, ends in zip(mean, stds, forbidden, strict=True)]
    masses = np.outer(*whole) - np.outer(*inside)
    found = _masses("forbidden rectangle", [axis, axis], state, action, "cell")
    np.testing.assert_allclose(found, masses.ravel() / masses.sum(), atol=1e-12)


def test_the_reference_is_a_fixed_point():
    """Of the point law, whose masses are the density at the nodes."""
    q, axis = optimal_q("uniform", "point"), np.linspace(-1, 1, 15)
    for i, j in ((0, 0), (7, 1), (14, 0)):
        near = np.abs(axis - 0.6 * axis[i] - 0.2 * ACTIONS[j]) < 0.3
        expected = np.cos(3 * axis[i]) - 0.1 + DISCOUNT * q.max(axis=1)[near].mean()
        assert q[i, j] == pytest.approx(expected, abs=1e-12)


MANY = pytest.param(range(FEW, NUM_SEEDS), marks=pytest.mark.slow)


@pytest.mark.parametrize("seeds", [range(FEW), MANY], ids=["few", "many"])
def test_brackets_hold_the_truth(seeds):
    """20 seeds by independent draws; a certificate may miss in one run of twenty, and none does."""
    runs = [brackets("exponential", seed, ("guaranteed",))["guaranteed"] for seed in seeds]
    assert all(found["covered"] and found["bounded"] and found["width"] < 0.5 for found in runs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exponential", "forbidden rectangle"])
def test_brackets_by_sums_and_chains_hold_the_truth(name):
    runs = [brackets(name, seed, ("exact", "asymptotic")) for seed in range(NUM_SEEDS)]
    for method, width in (("exact", 0.01), ("asymptotic", 0.5)):
        made = [found[method] for found in runs]
        assert all(found["covered"] and found["bounded"] for found in made)
        assert np.median([found["width"] for found in made]) < width


def test_refusals_are_counted_apart():
    held = {"covered": True, "bounded": True, "width": 0.5, "error": 0.1}
    runs = [("uniform", {method: held for method in ("exact", "guaranteed")} | {"asymptotic": {"refused": "no"}})] * 3
    runs[1] = ("uniform", {method: held | {"covered": False} for method in ("exact", "asymptotic", "guaranteed")})
    rows = {row["method"]: row for row in counted(("uniform",), runs)}
    assert (rows["exact"]["covered"], rows["exact"]["runs"], rows["exact"]["refused"]) == (2, 3, 0)
    assert (rows["asymptotic"]["covered"], rows["asymptotic"]["refused"]) == (0, 2)
