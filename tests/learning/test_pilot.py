"""The number of leapfrog steps: what brings a chain farthest with the same gradients."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.learning.pilot import LENGTHS, errors_of_chains, functions_of, tuned_sampler
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from tests.learning.cut_densities import problem_of


def chains(correlation, n, seed):
    noise = np.random.default_rng(seed).normal(size=(32, 4, n, 2))
    x = noise.copy()
    for i in range(1, n):
        x[:, :, i] = correlation * x[:, :, i - 1] + np.sqrt(1 - correlation**2) * noise[:, :, i]
    return x


def test_errors_are_those_of_a_mean():
    """(1 + ρ)/(1 − ρ)/n of autoregressions, from 128 chains each; the error of 192 of them has a deviation of 7 %."""
    found = errors_of_chains([chains(0.0, 40, 0), chains(0.5, 80, 1)])
    np.testing.assert_allclose(found, [1 / 40, 3 / 80], rtol=0.35)


def test_chains_that_stay_are_the_worst():
    """Chains that never left their start have equal means, and no error that can be seen in them alone."""
    still = 0.1 * chains(0.0, 40, 2)
    found = errors_of_chains([still, chains(0.5, 40, 3)])
    assert found[0] > 3 * found[1]


def test_functions_of_a_circle_are_periodic():
    problem = Problem(
        Grid([-1.0, 0.0], [1.0, 2.0], 4, periodic=[True, False]), jnp.asarray([0.0]),
        UnnormalizedKernel(lambda n, s, a: 0.0 * n[0]), lambda s, a: s[0], 0.9,
    )  # fmt: skip
    ends = functions_of(problem, np.asarray([[-1.0, 0.5], [1.0, 0.5]])[None, None])
    np.testing.assert_allclose(ends[0, 0, 0], ends[0, 0, 1], atol=1e-9)


def test_a_pilot_settles_both_and_counts():
    tuned = tuned_sampler(problem_of(["normal"]), HMC(40), key=jr.key(0))
    assert tuned.sampler.num_leapfrog in LENGTHS and tuned.sampler.step_size > 0.1
    assert tuned.gradient_evaluations > 0 and tuned.density_evaluations > 0
    kept = tuned_sampler(problem_of(["normal"]), HMC(40, num_leapfrog=7), key=jr.key(0))
    assert kept.sampler.num_leapfrog == 7 and not kept.sampler.varies


@pytest.mark.parametrize(("varies", "expected"), [(False, {6}), (True, {3, 4, 5, 6, 7, 8, 9})])
def test_lengths(varies, expected):
    sampler = HMC(400, num_leapfrog=6, step_size=0.2, varies=varies)
    lengths = sampler.lengths(0, 400)
    assert set(lengths.tolist()) == expected and abs(lengths.mean() - 6) < 0.05
    np.testing.assert_array_equal(sampler.lengths(128, 100), lengths[128:228])
