"""All samplers follow one law: their expectations of random V equal those of the exact cell and linear rows,
which a dense sum in NumPy gives (`tests/problem` compares `cells.py` with such sums too).

Replicates are 100 independent keys, by vmap; false alarm 1e-6, and the smallest error of E[V] that must be seen stands
beside each assertion (V has standard deviation 1). Self-normalised weights are biased by O(1/n): n keeps that below.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.integrate
import scipy.special

from hamq.learning.draws import draw_pairs, prepare
from hamq.problem import zoo
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import action_values
from hamq.sampling.draws import Target
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from tests.sampling.posed import pose, user_log
from tests.stats import assert_mean_equals

NUM_KEYS = 100
NUM_VALUES = 3
STEPS = {("product", "logit"): 0.4}
"""Of chains; where nothing is said, the pilot chooses."""
PAIRS = {"first": (0, 0), "middle": (19, 1), "last": (41, 0)}  # corners and middle of the 7 × 6 states


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def posed(name, law):
    return zoo.repelling_agents(2, points=[7, 6], law=law) if name == "repelling" else pose(name, law)


def random_values(num_states):
    return np.random.default_rng(0).normal(size=(NUM_VALUES, num_states)).astype(np.float32)


@eqx.filter_jit
def expectations(problem, sampler, states, actions, keys, values):
    """Σ w V(s') `[keys, pairs, values]` by nearest node and by interpolation, from the same draws; and the infos."""
    grid = problem.grid

    def one(state, action, key):
        draws, info = sampler.draw(Target(problem, state, action), key=key)
        weights, points = jnp.exp(draws.log_weights), draws.points.T
        nearest = values[:, jax.vmap(grid.locate)(points)]
        between = jax.vmap(lambda v: jax.vmap(lambda p: grid.interpolate(v, p))(points))(values)
        return nearest @ weights, between @ weights, info

    return jax.vmap(jax.vmap(one, in_axes=(0, 0, None)), in_axes=(None, None, 0))(states, actions, keys)


def estimates(name, sampler, law="cell", num_keys=NUM_KEYS):
    """Replicates of E[V] by the cell and by the linear law, and the two exact answers."""
    problem = posed(name, law)
    is_settled = getattr(sampler, "step_size", 0) is not None  # there is no need of the programs of a pilot
    sampler, _ = sampler.prepare(problem, key=jr.key(0)) if is_settled else prepare(problem, sampler, key=jr.key(0))
    s, a = (np.asarray(v) for v in zip(*PAIRS.values(), strict=True))
    states = jnp.asarray(problem.grid.states_at(s), jnp.float32)
    values = random_values(problem.num_states)
    keys = jr.split(jr.key(1), num_keys)
    if sampler.needs_rows(problem):
        found = picked_expectations(problem, sampler, s, a, keys, values)
        return [found, found], exact_answers(name), None
    *found, info = expectations(problem, sampler, states, action_values(problem)[a], keys, jnp.asarray(values))
    assert not np.any(info.has_failed)
    return found, exact_answers(name), info


def picked_expectations(problem, sampler, states, actions, keys, values):
    """The same for draws that are picked from rows of masses: they are nodes, whatever the law."""
    found = []
    for key in keys:
        drawn = draw_pairs(problem, sampler, states, actions[:, None], key=key).draws
        points = np.asarray(drawn.locations)[:, 0]
        index = points if problem.law == "cell" else located(problem.grid, np.swapaxes(points, 1, 2))
        weights = np.full(index.shape, 1 / index.shape[1]) if drawn.log_weights is None else np.exp(drawn.log_weights)[:, 0]
        found.append(np.einsum("vpn,pn->pv", values[:, index], weights))
    return np.stack(found)


def located(grid, points):
    return np.asarray(jax.jit(jax.vmap(jax.vmap(grid.locate)))(points))


@functools.cache
def exact_answers(name):
    """E[V] of the pairs by the cell and by the linear law."""
    problem = posed(name, "cell")
    values = random_values(problem.num_states)
    rows = [exact_rows(problem, problem.grid.states_at(np.asarray([s]))[0], problem.actions[a]) for s, a in PAIRS.values()]
    return [np.stack(of_law) @ values.T for of_law in zip(*rows, strict=True)]


def exact_rows(problem, state, action):
    """One row of each law by a midpoint sum over the box: 840 points per axis, a multiple of all half cells."""
    grid = problem.grid
    axes = [low + width * (np.arange(840) + 0.5) / 840 for low, width in zip(grid.lower, grid.widths, strict=True)]
    x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    shifts = [np.asarray([turn * grid.widths[0], 0.0]) for turn in ((-2, -1, 0, 1, 2) if grid.periodic[0] else (0,))]
    if isinstance(problem.kernel, UnnormalizedKernel):
        logs = user_log(problem.kernel.logdensity, x, state, action)
    else:
        covariance = np.asarray(problem.kernel.covariance)
        precision = np.linalg.inv(covariance if covariance.ndim == 2 else np.diag(covariance))
        offsets = np.stack([x + shift - 0.7 * state - 0.4 * action for shift in shifts])
        logs = scipy.special.logsumexp(-0.5 * np.einsum("ksi,ij,ksj->ks", offsets, precision, offsets), axis=0)
    density = np.exp(logs - logs.max()).reshape(840, 840)
    shares = ([axis_shares(grid, i, axes[i], law) for i in (0, 1)] for law in ("cell", "linear"))
    rows = [(first @ density @ second.T).ravel() for first, second in shares]
    return [row / row.sum() for row in rows]


def axis_shares(grid, axis, x, law):
    """How much of a point at x each node gets: all of it to the nearest one, or linearly to two."""
    gaps = x - grid.axis_nodes(axis)[:, None]
    gaps = np.abs(gaps - grid.periodic[axis] * grid.widths[axis] * np.round(gaps / grid.widths[axis]))
    return (gaps == gaps.min(axis=0)).astype(float) if law == "cell" else np.maximum(0, 1 - gaps / grid.spacing[axis])


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("product", "cell"),
        slow("periodic", "linear"),
        ("two-modes", "cell"),
        slow("correlated", "linear"),
        slow("repelling", "cell"),
        slow("repelling", "linear"),
    ],
)
def test_exhaustive_is_exact(name, law):
    found, exact, _ = estimates(name, Exhaustive(), law, num_keys=1)
    k = ["cell", "linear"].index(law)
    # At nodes nearest and interpolated values are the same: whatever the law, the weights carry it.
    for estimate in found:
        np.testing.assert_allclose(estimate[0], exact[k], atol=3e-4)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("product", "product"),
        slow("periodic", "product"),
        ("correlated", "rejection"),
        slow("correlated-periodic", "rejection"),
    ],
)
def test_independent_draws_agree_with_both_laws(name, method):
    sampler = IID(400, method)
    found, exact, _ = estimates(name, sampler)
    for estimate, expected in zip(found, exact, strict=True):
        assert_mean_equals(estimate, expected, resolution=0.05)


@pytest.mark.parametrize(
    ("name", "law"),
    [("correlated", "cell"), slow("two-modes", "cell"), slow("correlated", "linear"), slow("two-modes", "linear")],
)
def test_draws_from_masses_agree_with_their_law(name, law):
    found, exact, _ = estimates(name, IID(400, "masses"), law)
    assert_mean_equals(found[0], exact[["cell", "linear"].index(law)], resolution=0.05)


@pytest.mark.parametrize("name", ["product", slow("periodic"), slow("correlated"), slow("repelling"), "two-modes"])
def test_weighted_draws_agree_with_both_laws(name):
    found, exact, info = estimates(name, Importance(1000))
    assert np.mean(info.weight_share) > 0.3
    for estimate, expected in zip(found, exact, strict=True):
        assert_mean_equals(estimate, expected, resolution=0.05)


@pytest.mark.parametrize(
    ("name", "walls"),
    [
        ("product", "logit"),
        slow("periodic", "logit"),
        slow("correlated", "logit"),
        slow("repelling", "logit"),
        slow("two-modes", "logit"),
        slow("circle-two-modes", "logit"),
        slow("product", "reflect"),
        slow("correlated", "reflect"),
    ],
)
def test_chains_agree_with_both_laws(name, walls):
    found, exact, info = estimates(name, HMC(100, walls=walls, step_size=STEPS.get((name, walls))))
    assert np.max(info.outside) < 1e-6
    assert np.mean(info.acceptance) > 0.7
    for estimate, expected in zip(found, exact, strict=True):
        assert_mean_equals(estimate, expected, resolution=0.12)


def test_chains_with_soft_walls_follow_the_softened_law():
    """What leaks counts at the wall: the nearest node, and constant interpolation, beyond the box."""
    sharpness, name = 25.0, "product"
    found, _, info = estimates(name, HMC(100, step_size=0.1, num_leapfrog=15, walls="sigmoid", sharpness=sharpness))
    assert 0.005 < np.mean(info.outside) < 0.2
    problem = posed(name, "cell")
    s, a = (np.asarray(v) for v in zip(*PAIRS.values(), strict=True))
    values = random_values(problem.num_states).astype(np.float64)
    for estimate, law in zip(found, ("cell", "linear"), strict=True):
        expected = [
            values @ np.kron(*(softened(problem, law, axis, sharpness, i, j) for axis in (0, 1)))
            for i, j in zip(s, a, strict=True)
        ]
        assert_mean_equals(estimate, np.stack(expected), resolution=0.12)


def softened(problem, law, axis, sharpness, state, action):
    """Masses of one axis under the normal times its soft walls, by a fine sum."""
    grid = problem.grid
    low, high, nodes = grid.lower[axis], grid.upper[axis], grid.axis_nodes(axis)
    mean = 0.7 * grid.states_at(np.asarray([state]))[0, axis] + 0.4 * problem.actions[action]
    x = np.linspace(low - 1, high + 1, 40_001)
    log = -0.5 * (x - mean) ** 2 / problem.kernel.covariance[axis]
    log -= np.logaddexp(0, sharpness * (x - high)) + np.logaddexp(0, sharpness * (low - x))
    distances = np.abs(np.clip(x, low, high) - nodes[:, None]) / grid.spacing[axis]
    shares = (distances == distances.min(axis=0)) if law == "cell" else np.maximum(0, 1 - distances)
    masses = scipy.integrate.trapezoid(np.exp(log) * shares, x, axis=1)
    return masses / masses.sum()
