"""Asymptotic certificates of densities with jumps: they cover the truth, or refuse."""

import dataclasses

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.certificates import fresh
from hamq.certificates.certify import certify
from hamq.certificates.experiment import ALL_RULES, make_experiment
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from tests.learning.cut_densities import CUT, SMOOTH, masses_of, problem_of, solved


def test_identities_are_not_used_across_jumps():
    """The problem of the test below, and one of its shape: they share programs."""
    same = {"method": "asymptotic", "level": 1e-4, "rules": ALL_RULES, "key": jr.key(0)}
    cut, _ = make_experiment(problem_of(CUT, points=11), **same)
    smooth, _ = make_experiment(problem_of(SMOOTH, points=11), **same)
    assert (cut.source.uses_stein, smooth.source.uses_stein) == (False, True)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_certificates_cover_laws_with_jumps(seed):
    """Five laws at once, from 25,000 evaluations per pair; one run in twenty may miss, and none of them does."""
    problem = problem_of(CUT, points=11)
    exact = solved(problem, masses_of(problem))
    made = certify(exact, problem, method="asymptotic", max_evaluations=25_000 * exact.size, key=seed)
    assert np.all(made.lower <= exact + 1e-6) and np.all(exact <= made.upper + 1e-6)
    assert made.upper.max() - made.lower.min() < 12 * np.ptp(exact.max(axis=1))


def test_refused_where_no_move_crosses(monkeypatch):
    grid = Grid([-1.0] * 4, [1.0] * 4, 2)
    kernel = UnnormalizedKernel(lambda n, s, a: -jnp.sum((n - s) ** 2))
    problem = Problem(grid, jnp.asarray([0.0]), kernel, lambda s, a: s[0], 0.9, name="four")

    def prepared(problem, sampler, *, key):
        return dataclasses.replace(sampler, step_size=0.3, judged="cut"), None

    monkeypatch.setattr(fresh.drawing, "prepare", prepared)
    with pytest.raises(ValueError, match=r"certify: the density of four jumps .* in 4 dimensions no chain is known to"):
        make_experiment(problem, "asymptotic", 1e-4, ALL_RULES, key=jr.key(0))
