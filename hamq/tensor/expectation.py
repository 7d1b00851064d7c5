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
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Shaped, UInt32

from hamq.problem.problem import Problem, action_values
from hamq.sampling.draws import AbstractSampler, Smooth, Target, make_info
from hamq.sampling.exhaustive import Exhaustive
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


class DrawnExpectation(AbstractExpectation):
    """Any sampler that may be traced: what it draws where every state has the same key."""

    problem: Problem
    sampler: AbstractSampler
    words: UInt32[Array, " w"]
    """Of the key."""
    order: Order
    spent: tuple[int, int] = eqx.field(static=True)
    """Densities and gradients of one pair."""

    def prepare(self, state, action):
        draws, _ = self.sampler.draw(Target(self.problem, state, action), key=jr.wrap_key_data(self.words))
        return Cloud(draws.points[jnp.asarray(self.order)], jnp.exp(draws.log_weights))

    def blank(self, count):
        return _blank_cloud(count, jnp.zeros((self.problem.grid.dimension, self.sampler.num_samples), jnp.float32))

    @property
    def cost(self):
        return PairCost(self.sampler.num_samples, *self.spent)

    @property
    def constants(self):
        leaves, structure = jax.tree.flatten(eqx.partition(self.sampler, eqx.is_array)[1])
        return type(self).__name__, tuple(leaves), structure, self.spent


def _blank_cloud(count: int, normals: Float[Array, "d n"]) -> Cloud:
    d, n = normals.shape
    return Cloud(jnp.zeros((count, d, n), normals.dtype), jnp.zeros((count, n), normals.dtype))


def best_sampler(problem: Problem) -> AbstractSampler:
    """What measured best (docs/high_dimension.md): exact sums, draws of a cut normal law, or importance draws."""
    is_normal = problem.kernel.normal is not None
    if problem.is_product and is_normal:
        return Exhaustive()
    return IID(32) if is_normal else Importance(256)


def require_honoured(who: str, sampler: AbstractSampler) -> None:
    """Refuses settings of a sampler that draws which all states share do not honour."""
    if sampler.not_smooth:
        raise HamqError(
            f"{who}: {type(sampler).__name__} has {', '.join(sampler.not_smooth)}, which draws that all states share do not "
            "honour; leave it out."
        )


def make_expectation(
    problem: Problem,
    sampler: AbstractSampler,
    choices: Choices,
    order: Order,
    seed: int,
    surveyor: Surveyor | None = None,
) -> AbstractExpectation:
    """Of this sampler, with randomness that all states share; `surveyor` says what a law does at pairs."""
    asked = sampler.smooth(problem)
    if asked.kind == "drawn":
        return _drawn(problem, sampler, order, seed, is_counted=True)
    if asked.kind != "tilted":
        return blank_expectation(problem, sampler, order, seed)
    return TiltedExpectation(problem, choose_law(problem, choices, *_settled(asked), seed, surveyor), order)


def blank_expectation(problem: Problem, sampler: AbstractSampler, order: Order, seed: int) -> AbstractExpectation:
    """What `make_expectation` will return, with zeros where it would have to be fitted: enough to compile for."""
    asked = sampler.smooth(problem)
    if asked.kind == "sums":
        return ExactExpectation(problem, order)
    if asked.kind == "normals":
        return GaussianExpectation(problem, _normals(asked.num_samples, problem, seed), order)
    if asked.kind == "drawn":
        return _drawn(problem, sampler, order, seed, is_counted=False)
    return TiltedExpectation(problem, blank(problem, *_settled(asked)), order)


def _settled(asked: Smooth) -> tuple[int, int, float]:
    """(number of draws, leapfrog steps, their size)."""
    return asked.num_samples, asked.num_leapfrog, TRAJECTORY_STEP if asked.step_size is None else asked.step_size


def _drawn(problem: Problem, sampler: AbstractSampler, order: Order, seed: int, *, is_counted: bool) -> DrawnExpectation:
    key = jr.key(seed)
    sampler, _ = sampler.prepare(problem, key=key)
    if sampler.needs_rows(problem) or sampler.needs_pilot:
        raise HamqError(
            f"{type(sampler).__name__} makes draws of {problem.name} that cannot be traced, and tensor trains trace them; "
            "use Importance."
        )
    state = jnp.asarray(problem.grid.states_at(np.zeros(1, np.int64))[0], jnp.float32)
    info = sampler.draw(Target(problem, state, action_values(problem)[0]), key=key)[1] if is_counted else make_info()
    spent = int(info.density_evaluations), int(info.gradient_evaluations)
    return DrawnExpectation(problem, sampler, jr.key_data(key), order, spent)


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
