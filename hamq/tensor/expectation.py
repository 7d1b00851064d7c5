"""E[V(s')] of one pair with randomness that all pairs share, so that it is a smooth function of state and action.

What is prepared of a pair does not depend on V and can be kept while its points stay: weighted next states (`Cloud`), or
for product laws the expected weight of every node, which makes the expectation exact (`NodeWeights`). Coordinates are
in the order of the cores.
"""

import abc
from collections.abc import Hashable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from hamq.tensor.choice import Choices
from hamq.tensor.contraction import Axes, Order, contract, interpolate, make_axes
from hamq.tensor.fitting import Surveyor, blank, choose_law
from hamq.tensor.gaussian import cut_draws, shared_normals
from hamq.tensor.law import TiltedLaw, effective_share, tilted_draws
from hamq.tensor.weights import expected_weights
from hamq.types import HamqError

TRAJECTORY_STEP = 0.4
"""Leapfrog step of weighted trajectories, in standard deviations of the fitted normal law."""


class Cloud(NamedTuple):
    """Weighted next states; the weights sum to one."""

    points: Float[Array, "*batch d n"]
    weights: Float[Array, "*batch n"]


class NodeWeights(NamedTuple):
    """E[hat_i] for every node of every axis."""

    weights: Float[Array, "*batch d n"]


class PairCost(NamedTuple):
    """What one pair costs."""

    samples: int
    density_evaluations: int
    gradient_evaluations: int


class AbstractExpectation(eqx.Module):
    """How E[V] is computed."""

    @abc.abstractmethod
    def prepare(self, state: Float[Array, " d"], action: Shaped[Array, "..."]) -> Cloud | NodeWeights:
        """What is needed of ONE pair; the state in the order of the grid."""

    @abc.abstractmethod
    def blank(self, count: int) -> Cloud | NodeWeights:
        """Zeros in the shapes of what is prepared of so many pairs."""

    @property
    @abc.abstractmethod
    def cost(self) -> PairCost: ...

    @property
    def constants(self) -> Hashable:
        """What a compiled program depends on, beside arrays and the problem."""
        return type(self).__name__


class ExactExpectation(AbstractExpectation):
    """Product laws: closed forms on every axis."""

    problem: Problem
    order: Order

    def prepare(self, state, action):
        normal = self.problem.density(state, action).normal
        assert normal is not None
        order = jnp.asarray(self.order)
        axes, num_nodes = make_axes(self.problem.grid, self.order), max(self.problem.grid.points)
        each = jax.vmap(lambda axis, mean, std: expected_weights(axis, mean, std, num_nodes))
        return NodeWeights(each(axes, normal.mean[order], normal.factor[order]))

    def blank(self, count):
        return NodeWeights(jnp.zeros((count, self.problem.grid.dimension, max(self.problem.grid.points)), jnp.float32))

    @property
    def cost(self):
        return PairCost(0, 0, 0)


class GaussianExpectation(AbstractExpectation):
    """Normal laws cut to the box, drawn coordinate by coordinate (`gaussian.py`)."""

    problem: Problem
    normals: Float[Array, "d n"]
    order: Order

    def prepare(self, state, action):
        normal = self.problem.density(state, action).normal
        assert normal is not None
        points, log_weights = cut_draws(normal, self.problem.grid, self.normals)
        return Cloud(points[jnp.asarray(self.order)], jax.nn.softmax(log_weights))

    def blank(self, count):
        return _blank_cloud(count, self.normals)

    @property
    def cost(self):
        return PairCost(self.normals.shape[1], 0, 0)


class TiltedExpectation(AbstractExpectation):
    """Any density: weighted draws of a table of it, or of a fitted normal law (`fitting.py`)."""

    problem: Problem
    law: TiltedLaw
    order: Order

    def prepare(self, state, action):
        points, weights = tilted_draws(self.problem, self.law, state, action)
        return Cloud(points[jnp.asarray(self.order)], weights)

    def blank(self, count):
        return _blank_cloud(count, self.law.numbers)

    @property
    def cost(self):
        return PairCost(*self.law.cost)

    @property
    def constants(self):
        return type(self).__name__, type(self.law).__name__, self.law.constants


def _blank_cloud(count: int, normals: Float[Array, "d n"]) -> Cloud:
    d, n = normals.shape
    return Cloud(jnp.zeros((count, d, n), normals.dtype), jnp.zeros((count, n), normals.dtype))


def best_sampler(problem: Problem) -> AbstractSampler:
    """What measured best (docs/high_dimension.md): exact sums, draws of a cut normal law, or importance draws."""
    is_normal = problem.kernel.normal is not None
    if problem.is_product and is_normal:
        return Exhaustive()
    return IID(32) if is_normal else Importance(256)


def make_expectation(
    problem: Problem,
    sampler: AbstractSampler,
    choices: Choices,
    order: Order,
    seed: int,
    surveyor: Surveyor | None = None,
) -> AbstractExpectation:
    """The library's samplers, with randomness that all states share; `surveyor` says what a law does at pairs."""
    found = blank_expectation(problem, sampler, order, seed)
    if not isinstance(found, TiltedExpectation):
        return found
    return TiltedExpectation(problem, choose_law(problem, choices, *_asked(sampler), seed, surveyor), order)


def blank_expectation(problem: Problem, sampler: AbstractSampler, order: Order, seed: int) -> AbstractExpectation:
    """What `make_expectation` will return, with zeros where it would have to be fitted: enough to compile for."""
    is_normal = problem.kernel.normal is not None
    if isinstance(sampler, Exhaustive):
        if not (problem.is_product and is_normal):
            raise HamqError(
                "solve_tensor: sampler Exhaustive needs a normal law that is a product over the axes, and "
                f"{problem.name} has none; use IID for a Gaussian kernel, HMC or Importance for others."
            )
        return ExactExpectation(problem, order)
    if isinstance(sampler, IID):
        if not is_normal:
            raise HamqError(
                f"solve_tensor: sampler IID needs a GaussianKernel, and {problem.name} has an unnormalised one; "
                "use HMC or Importance."
            )
        return GaussianExpectation(problem, _normals(sampler.num_samples, problem, seed), order)
    if not isinstance(sampler, (HMC, Importance)):
        raise HamqError(f"solve_tensor: sampler must be IID, HMC, Importance or Exhaustive, got {sampler!r}.")
    return TiltedExpectation(problem, blank(problem, *_asked(sampler)), order)


def _asked(sampler: AbstractSampler) -> tuple[int, int, float]:
    """(number of draws, leapfrog steps, their size) of HMC or Importance."""
    if isinstance(sampler, HMC):
        step_size = TRAJECTORY_STEP if sampler.step_size is None else sampler.step_size
        return sampler.num_samples, sampler.steps, step_size
    assert isinstance(sampler, Importance)
    return sampler.num_samples, 0, TRAJECTORY_STEP


def _normals(num_samples: int, problem: Problem, seed: int) -> Float[Array, "d n"]:
    return jax.device_put(shared_normals(num_samples, problem.grid.dimension, seed).astype(np.float32))


def expected(cores: Float[Array, "d R nR"], axes: Axes, prepared: Any) -> Float[Array, " B"]:
    """E[V] for a batch of prepared pairs."""
    if isinstance(prepared, NodeWeights):
        return contract(cores, jnp.moveaxis(prepared.weights, 0, 2))
    points = jnp.moveaxis(prepared.points, 1, 0)
    values = interpolate(cores, axes, points.reshape(points.shape[0], -1)).reshape(prepared.weights.shape)
    return jnp.sum(prepared.weights * values, axis=-1)


def shares_of(prepared: Any, count: int) -> Float[Array, " B"]:
    """The effective share of the weights of each prepared pair: 1 where sums are exact, 0 where a weight is no number."""
    if isinstance(prepared, NodeWeights):
        return jnp.ones(count, prepared.weights.dtype)
    return effective_share(prepared.weights)
