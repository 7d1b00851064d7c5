"""Sums of a density over parts of the box, for many pairs at once in float64: one program per rule.

Everything that a rule says of a part is computed where the density is evaluated, so that only a few numbers per part come
back. Calls of one size run in threads.
"""

import concurrent.futures
import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int

from hamq.problem.kernel import CorrelatedDensity, GaussianKernel
from hamq.problem.lapack import must_run_alone
from hamq.problem.normal import NUM_IMAGES
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.problem.rules import Rule, make_rule

POINTS_PER_CALL, POINTS_PER_GROUP = 2**15, 2**10
"""Points of one call, and of what is evaluated together within it, which stays in cache."""


class Sums(NamedTuple):
    """What a rule found in N parts, in units of exp(log) and of the volume of a part.

    log, top    largest log p of the points, and the number of the point that has it
    fine, coarse    moments by the two rules
    peak        largest summand of a rule
    spread      largest minus smallest value
    tails, crest    roughness along each axis, and that of the roughest in the highest polynomial alone
    is_cut      there are points with a density and points without
    is_bad      a value is NaN or +inf
    """

    log: Float[Any, " N"]
    top: Int[Any, " N"]
    fine: Float[Any, "N moments"]
    coarse: Float[Any, "N moments"]
    peak: Float[Any, " N"]
    spread: Float[Any, " N"]
    tails: Float[Any, "N d"]
    crest: Float[Any, " N"]
    is_cut: Bool[Any, " N"]
    is_bad: Bool[Any, " N"]


def summed(rule: Rule, logs: Float[Array, " M"]) -> Sums:
    """The sums of one part from log p at the points of its rule."""
    largest, top = jnp.max(logs), jnp.argmax(logs)
    values = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0))
    fine, coarse = values[: rule.num_fine], values[rule.num_fine :]
    peak = jnp.maximum(jnp.max(fine * rule.fine[:, 0]), jnp.max(coarse * rule.coarse[:, 0]))
    tails, crests = (
        jnp.stack([jnp.sum((fine @ jnp.asarray(matrix)) ** 2) for matrix in each]) for each in (rule.tails, rule.crests)
    )
    is_cut = jnp.any(jnp.isneginf(logs)) & jnp.isfinite(largest)
    is_bad = jnp.any(jnp.isnan(logs) | (logs == jnp.inf))
    spread = jnp.max(values) - jnp.min(values)
    moments = fine @ jnp.asarray(rule.fine), coarse @ jnp.asarray(rule.coarse)
    return Sums(largest, top, *moments, peak, spread, tails, jnp.sqrt(jnp.max(crests)), is_cut, is_bad)


class Evaluation:
    """Sums over parts of given pairs."""

    def __init__(self, problem: Problem, states: Float[np.ndarray, "P d"], actions: Float[np.ndarray, "P *k"]):
        self.problem = problem
        self.states, self.actions = np.asarray(states, np.float64), np.asarray(actions, np.float64)
        self._is_alone = must_run_alone(problem)

    def sums(
        self, order: int, pairs: Int[np.ndarray, " N"], starts: Float[np.ndarray, "N d"], lengths: Float[np.ndarray, "N d"]
    ) -> Sums:
        """Of the parts of pairs that begin at `starts`; stops at a value that is no density, with its pair and point."""
        rule = make_rule(self.problem.grid.dimension, order, self.problem.law == "linear")
        size = POINTS_PER_GROUP // rule.num_points or 1
        num = size * max(1, POINTS_PER_CALL // (size * rule.num_points))
        calls = range(0, len(pairs), num)

        def evaluate(first: int) -> Sums:
            part = slice(first, first + num)
            given = [
                _filled(a, num) for a in (self.states[pairs[part]], self.actions[pairs[part]], starts[part], lengths[part])
            ]
            with jax.enable_x64(True):  # for this thread
                found = self._program(rule, order, size, given)(*given)
            return Sums(*(np.asarray(column)[: len(pairs[part])] for column in found))

        found = [evaluate(first) for first in calls[:1]]
        if self._is_alone:
            found += [evaluate(first) for first in calls[1:]]
        elif len(calls) > 1:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
                found += threads.map(evaluate, calls[1:])
        sums = Sums(*(np.concatenate(column) for column in zip(*found, strict=True)))
        if np.any(sums.is_bad):
            first = int(np.argmax(sums.is_bad))
            self._refuse(int(pairs[first]), starts[first] + lengths[first] * rule.positions)
        return sums

    def _program(self, rule: Rule, order: int, size: int, given: list[np.ndarray]) -> Callable[..., Any]:
        problem = self.problem

        def of_part(state, action, start, length):
            points = start[:, None] + length[:, None] * jnp.asarray(rule.positions.T)
            return summed(rule, jax.vmap(lifted(problem, problem.density(state, action)), in_axes=1)(points))

        def trace(*arrays):
            groups = tuple(a.reshape(-1, size, *a.shape[1:]) for a in arrays)
            found = jax.lax.map(lambda group: jax.vmap(of_part)(*group), groups)
            return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), found)

        job = ("parts", problem.constants, order)
        return program(job, problem.kernel.functions, trace, *given)

    def _refuse(self, pair: int, points: Float[np.ndarray, "M d"]) -> None:
        state, action = self.states[pair], self.actions[pair]
        with jax.enable_x64(True):
            density = self.problem.density(jnp.asarray(state), jnp.asarray(action))
            values = np.asarray(jax.vmap(density.log)(jnp.asarray(points)))
        worst = int(np.argmax(np.isnan(values) | (values == np.inf)))
        raise ValueError(
            f"the log-density of {self.problem.name} is {values[worst]} at the next state {numbers(points[worst])}, from "
            f"state {numbers(state)} with action {numbers(action)}; it must be a finite number, or -inf where the next "
            "state cannot be."
        )


def _filled(part: np.ndarray, num: int) -> np.ndarray:
    """`num` rows, the last one repeated."""
    missing = num - len(part)
    return np.pad(part, ((0, missing), *((0, 0),) * (part.ndim - 1)), mode="edge") if missing else part


def numbers(values: Any) -> str:
    """How messages name a state or an action: 1 or (1, 0.5)."""
    values = np.atleast_1d(values)
    text = ", ".join(f"{v:.6g}" for v in values)
    return text if len(values) == 1 else f"({text})"


def lifted(problem: Problem, density):
    """log p of one point; a Gaussian on a periodic axis is summed over its images."""
    if not isinstance(density, CorrelatedDensity) or not any(problem.grid.periodic):
        return density.log
    density = eqx.tree_at(lambda g: g.mean, density, problem.grid.wrap(density.mean))
    shifts = _image_shifts(problem)

    def log_at(point):
        return logsumexp(jax.vmap(lambda shift: density.log(point + shift))(jnp.asarray(shifts, point.dtype)))

    return log_at


def _image_shifts(problem: Problem) -> np.ndarray:
    """Shifts of a correlated normal's images round its circles."""
    grid, reach = problem.grid, image_reach(problem)
    ranges = [range(-k, k + 1) if circle else (0,) for k, circle in zip(reach, grid.periodic, strict=True)]
    return np.asarray(list(itertools.product(*ranges))) * np.asarray(grid.widths)


def image_reach(problem: Problem) -> Int[np.ndarray, " d"]:
    """How many circles away images of a correlated normal are summed: to 6.5 σ (σ half a circle where it varies)."""
    assert isinstance(problem.kernel, GaussianKernel)
    widths, covariance = np.asarray(problem.grid.widths), problem.kernel.covariance
    stds = widths / 2 if callable(covariance) else np.sqrt(np.diag(covariance))
    return np.minimum(np.ceil(6.5 * stds / widths).astype(int) + 1, NUM_IMAGES)
