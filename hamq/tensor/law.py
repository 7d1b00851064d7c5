"""What every way to draw from a density without a normaliser has in common, and what its draws are worth.

A law gives weighted next states of one pair, as a smooth function of state and action: the random numbers are shared by
all pairs, nothing is rejected or resampled. The effective share of n weights is 1/(n·Σw²): 1 where all are equal, 1/n where
one draw has all the weight, and 0 where a weight is no number.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.problem.programs import program

PAIRS_PER_CALL, PAIRS_PER_TILE = 128, 8


class TiltedLaw(eqx.Module):
    """What is the same for all pairs: numbers that were fitted, and the shared random numbers."""

    numbers: eqx.AbstractVar[Float[Array, "d n"]]

    @abc.abstractmethod
    def draws(self, problem: Problem, state: Array, action: Array) -> tuple[Float[Array, "d n"], Float[Array, " n"]]:
        """(points in the box, weights that sum to one) of ONE pair."""

    @abc.abstractmethod
    def with_draws(self, num_samples: int) -> "TiltedLaw":
        """The same law with so many draws per pair."""

    @property
    @abc.abstractmethod
    def cost(self) -> tuple[int, int, int]:
        """(draws, evaluations of the density, of its gradient) of one pair."""

    @property
    @abc.abstractmethod
    def constants(self) -> tuple:
        """What a compiled program depends on, beside arrays and the problem."""


def features_of(state: Float[Array, " d"], action: Shaped[Array, "..."]) -> Float[Array, " features"]:
    """(1, s, a): what laws are linear in."""
    return jnp.concatenate([jnp.ones(1, state.dtype), state, jnp.atleast_1d(action)])


def tilted_draws(problem: Problem, law: TiltedLaw, state, action) -> tuple[Float[Array, "d n"], Float[Array, " n"]]:
    """(points, weights that sum to one) of one pair."""
    return law.draws(problem, state, action)


def effective_share(weights: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
    """1/(n·Σw²) of weights that sum to one; 0 where a weight is not finite."""
    found = 1 / (weights.shape[-1] * jnp.sum(weights**2, axis=-1))
    return jnp.where(jnp.isfinite(found), found, 0)


class Survey(NamedTuple):
    """What a law does at pairs: effective shares, and the means and standard deviations of its weighted draws."""

    shares: Float[np.ndarray, " P"]
    means: Float[np.ndarray, "P d"]
    stds: Float[np.ndarray, "P d"]


def survey_of(grid: Grid, points: Float[np.ndarray, "P d n"], weights: Float[np.ndarray, "P n"]) -> Survey:
    """By the draws of pairs, on the host."""
    points, weights = np.asarray(points, np.float64), np.asarray(weights, np.float64)
    lower, widths, circle = (np.asarray(each)[:, None] for each in (grid.lower, grid.widths, grid.periodic))
    places = np.where(circle, np.sin(2 * np.pi * (points - lower) / widths), points)
    with np.errstate(all="ignore"):
        shares = 1 / (weights.shape[1] * np.sum(weights**2, axis=1))
        means = np.einsum("pn,pdn->pd", weights, places)
        stds = np.sqrt(np.einsum("pn,pdn->pd", weights, (places - means[:, :, None]) ** 2))
    return Survey(np.where(np.isfinite(shares), shares, 0), means, stds)


def shares(problem: Problem, law: TiltedLaw, states: Any, actions: Any) -> Float[np.ndarray, " P"]:
    """The effective share of the law's weights at pairs (states `[P, d]`, actions `[P]` or `[P, k]`); NaN counts as 0."""
    return survey(problem, law, states, actions).shares


def survey(problem: Problem, law: TiltedLaw, states: Any, actions: Any) -> Survey:
    """By a program of its own."""
    states, actions = np.asarray(states, np.float32), np.asarray(actions, np.float32)

    def trace(law, states, actions):
        return jax.lax.map(lambda given: law.draws(problem, *given), (states, actions), batch_size=PAIRS_PER_TILE)

    job = ("survey", type(law).__name__, law.constants, problem.kernel.constants, problem.grid)
    found = []
    for start in range(0, len(states), PAIRS_PER_CALL):
        part = [np.resize(array[start:], (PAIRS_PER_CALL, *array.shape[1:])) for array in (states, actions)]
        points, weights = program(job, problem.kernel.functions, trace, law, *part)(law, *part)
        found.append(survey_of(problem.grid, np.asarray(points), np.asarray(weights)))
    return Survey(*(np.concatenate(column)[: len(states)] for column in zip(*found, strict=True)))


def moments(
    grid: Grid, points: Float[Array, "d n"], weights: Float[Array, " n"]
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """(mean, standard deviation) on every axis; of the sine on a circle, where a point has no mean."""
    if any(grid.periodic):
        lower, widths = (jnp.asarray(each, points.dtype)[:, None] for each in (grid.lower, grid.widths))
        turned = jnp.sin(2 * jnp.pi * (points - lower) / widths)
        points = jnp.where(jnp.asarray(grid.periodic)[:, None], turned, points)
    mean = jnp.sum(weights[None] * points, axis=1)
    return mean, jnp.sqrt(jnp.sum(weights[None] * (points - mean[:, None]) ** 2, axis=1))
