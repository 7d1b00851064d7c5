"""How E[V] is computed: which way for which problem, and refusals."""

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from hamq.tensor.choice import make_choices
from hamq.tensor.contraction import make_axes, padded
from hamq.tensor.expectation import (
    Cloud,
    ExactExpectation,
    GaussianExpectation,
    NodeWeights,
    TiltedExpectation,
    best_sampler,
    expected,
    make_expectation,
)
from hamq.tensor.tilted import NormalLaw
from hamq.tensor.train import dense
from tests.tensor.posed import pose_plane, random_train


def make(problem, sampler, order=None):
    order = tuple(range(problem.grid.dimension)) if order is None else order
    return make_expectation(problem, sampler, make_choices(problem), order, 0)


def test_what_is_best_for_which_problem():
    assert isinstance(best_sampler(pose_plane()), Exhaustive)
    springs, agents = hamq.problems.spring_chain(2, points=3), hamq.problems.repelling_agents(2, points=3, law="linear")
    assert isinstance(best_sampler(springs), IID)
    assert isinstance(best_sampler(agents), (Importance, HMC))


def test_samplers_become_expectations():
    plane = pose_plane()
    assert isinstance(make(plane, Exhaustive()), ExactExpectation)
    assert isinstance(make(plane, IID(7)), GaussianExpectation) and make(plane, IID(7)).cost.samples == 7
    assert make(plane, Exhaustive()).cost == (0, 0, 0)


@pytest.mark.parametrize(("sampler", "steps"), [(HMC(20, num_leapfrog=3, step_size=0.2), 3), (Importance(20), 0)])
def test_trajectories_cost_gradients(monkeypatch, sampler, steps):
    """The sampler's numbers reach the choice of a law, which is not repeated here."""
    asked = []

    def choose_law(problem, choices, num_samples, num_leapfrog, step_size, seed, surveyor):
        asked.append((num_samples, num_leapfrog, step_size if steps else 0.2))
        assert surveyor is None and choices.actions(choices.random(np.random.default_rng(0), 5)).shape == (5, 2)
        normals, momenta = jnp.zeros((2, num_samples)), jnp.zeros((num_leapfrog, 2, num_samples))
        return NormalLaw(jnp.zeros((2, 5)), jnp.eye(2), jnp.eye(2), normals, momenta, step_size, False)

    monkeypatch.setattr("hamq.tensor.expectation.choose_law", choose_law)
    moved = make(hamq.problems.repelling_agents(2, points=3, law="linear"), sampler)
    assert isinstance(moved, TiltedExpectation) and asked == [(20, steps, 0.2)]
    assert moved.cost.samples == 20 and moved.cost.gradient_evaluations >= 20 * (steps + 1)


@pytest.mark.parametrize(
    ("problem", "sampler", "sentence"),
    [
        (lambda: hamq.problems.spring_chain(2, points=3), Exhaustive(), "Exhaustive needs a normal law that is a product"),
        (lambda: hamq.problems.repelling_agents(2, points=3, law="linear"), IID(8), "IID needs a GaussianKernel"),
    ],
)
def test_refusals(problem, sampler, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(problem(), sampler)


def test_clouds_and_weights_are_sums():
    """Σ w·V over points, and Σ over nodes of Π weights · V, against the dense tensor."""
    problem = pose_plane(points=(4, 5))
    given = random_train((5, 4), (2,), 0)
    axes, cores = make_axes(problem.grid, (1, 0)), jnp.asarray(padded(given, 3))
    generator = np.random.default_rng(0)
    nodes = generator.integers(0, (5, 4), (6, 3, 2))
    places = np.stack([problem.grid.axis_nodes(axis)[nodes[..., k]] for k, axis in enumerate((1, 0))], axis=1)
    shares = generator.dirichlet(np.ones(3), 6)
    whole = dense(given)
    cloud = Cloud(jnp.asarray(places, jnp.float32), jnp.asarray(shares, jnp.float32))
    found = expected(cores, axes, cloud)
    np.testing.assert_allclose(found, np.sum(shares * whole[nodes[..., 0], nodes[..., 1]], axis=1), atol=1e-4)
    weights = generator.uniform(0, 1, (6, 2, 5))
    weights[:, 1, 4] = 0
    found = expected(cores, axes, NodeWeights(jnp.asarray(weights, jnp.float32)))
    np.testing.assert_allclose(found, np.einsum("bi,bj,ij->b", weights[:, 0], weights[:, 1, :4], whole), atol=1e-4)
