"""Chains that start apart: where they begin, and that it does not matter where they end."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.problem.problem import action_values
from hamq.sampling.draws import Target
from hamq.sampling.hmc import HMC
from tests.sampling.posed import ExactLaw, pose
from tests.sampling.test_agreement import estimates
from tests.stats import assert_mean_equals

NUM_CHAINS = 200


def first_draws():
    """Of chains that hardly move: steps of a hundredth of a standard deviation, from the middle of a correlated problem."""
    problem = pose("correlated")
    sampler = HMC(NUM_CHAINS, 1, 0.01, num_warmup=0, num_chains=NUM_CHAINS, calibrate=False, dispersed=True)
    state = jnp.asarray(problem.grid.states_at(np.asarray([21]))[0], jnp.float32)
    draw = eqx.filter_jit(lambda key: sampler.draw(Target(problem, state, action_values(problem)[1]), key=key))
    draws, info = draw(jr.key(0))
    assert not info.has_failed
    return np.asarray(draws.points), state


def test_chains_start_apart():
    """Up to twice as wide as the target, and not all at the mode, where other chains start."""
    points, state = first_draws()
    precision, mean = np.linalg.inv([[0.16, 0.2], [0.2, 0.5]]), 0.7 * np.asarray(state) + 0.4 * 0.5
    law = ExactLaw(lambda x: -0.5 * np.einsum("ni,ij,nj->n", x - mean, precision, x - mean))
    std = law.draw(4000, 0).std(axis=0)
    spread = points.std(axis=1) / std
    assert np.all((spread > 1.05) & (spread < 2.5)), spread
    assert len(np.unique(points, axis=1).T) == NUM_CHAINS
    assert np.all((points > np.asarray([[-1.0], [-2.0]])) & (points < 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["correlated", "two-modes"])
def test_dispersed_chains_agree_with_both_laws(name):
    found, exact, info = estimates(name, HMC(200, 6, num_chains=20, calibrate=False, dispersed=True))
    assert np.mean(info.acceptance) > 0.7
    for estimate, expected in zip(found, exact, strict=True):
        assert_mean_equals(estimate, expected, resolution=0.12)


@pytest.mark.parametrize("walls", ["reflect", "sigmoid"])
def test_other_walls_are_refused(walls):
    with pytest.raises(ValueError, match=f"dispersed=True needs walls='logit', got walls='{walls}': .* use dispersed=False"):
        HMC(10, walls=walls, dispersed=True)
