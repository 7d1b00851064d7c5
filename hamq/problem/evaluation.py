"""Sums of a density over parts of the box, for many pairs at once in float64: one program per rule.

The compiled program has the density and nothing else, so that it compiles fast; NumPy sums. Calls of one size run in
threads.
"""

import concurrent.futures
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.problem.integrand import Integrand
from hamq.problem.lapack import must_run_alone
from hamq.problem.programs import program
from hamq.problem.rules import Rule, make_rule
from hamq.types import HamqError

POINTS_PER_CALL, POINTS_PER_SUM = 2**16, 2**15
"""Points that are evaluated in one call, and points that are summed together, which stay in cache."""
TINY = 1e-9
"""Width of a part that stands for a point, in cells."""


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


def summed(rule: Rule, logs: Float[np.ndarray, "M N"]) -> Sums:
    """The sums of N parts from log p at the points of their rule."""
    is_bad = ~(logs.max(axis=0) < np.inf)  # NaN too
    if np.any(is_bad):
        logs = np.where(is_bad, -np.inf, logs)
    largest, smallest = logs.max(axis=0), logs.min(axis=0)
    is_some = np.isfinite(largest)
    values = logs - np.where(is_some, largest, 0)
    np.exp(values, out=values)
    moments = np.matmul(rule.both, values)
    peak = (values * rule.weights[:, None]).max(axis=0)
    tails, crest = _roughness(rule, values[: rule.num_fine])
    with np.errstate(invalid="ignore"):
        spread = np.where(is_some, 1 - np.exp(smallest - largest), 0)
    return Sums(
        log=largest,
        top=np.argmax(logs == largest, axis=0),
        fine=moments[: rule.fine.shape[1]].T,
        coarse=moments[rule.fine.shape[1] :].T,
        peak=peak,
        spread=spread,
        tails=tails.T,
        crest=crest,
        is_cut=is_some & np.isneginf(smallest),
        is_bad=is_bad,
    )


def _roughness(rule: Rule, values: Float[np.ndarray, "F N"]) -> tuple[np.ndarray, np.ndarray]:
    """(tails `[d, N]`, crest `[N]`): sizes of the highest polynomials along each axis, all other axes summed."""
    n, d, num = len(rule.of_axis), rule.positions.shape[1], values.shape[1]
    tails, crests = np.empty((d, num)), np.empty((d, num))
    for axis in range(d):
        found = np.matmul(rule.highest, values.reshape(n**axis, n, -1)) ** 2
        found = found.reshape(n**axis, 2, n ** (d - 1 - axis), num)
        others = functools.reduce(np.multiply.outer, [rule.of_axis] * (d - 1), np.ones(()))
        of_each = np.einsum("pq,pkqn->kn", others.reshape(n**axis, -1), found)
        tails[axis], crests[axis] = of_each.sum(axis=0), of_each[: rule.num_crests].sum(axis=0)
    return tails, np.sqrt(crests.max(axis=0))


class Evaluation:
    """Sums over parts of given pairs."""

    def __init__(
        self,
        integrand: Integrand,
        states: Float[np.ndarray, "P d"],
        actions: Float[np.ndarray, "P *k"],
        tell: Callable[[int], None],
    ):
        """`tell` hears of the evaluations of each call."""
        self.integrand, self._tell = integrand, tell
        self.states, self.actions = np.asarray(states, np.float64), np.asarray(actions, np.float64)
        self._is_alone = must_run_alone(integrand.problem)

    def sums(
        self, order: int, pairs: Int[np.ndarray, " N"], starts: Float[np.ndarray, "N m"], lengths: Float[np.ndarray, "N m"]
    ) -> Sums:
        """Of the parts of pairs that begin at `starts`; stops at a value that is no density, with its pair and point."""
        rule = make_rule(self.integrand.grid.dimension, order, self.integrand.law == "linear")
        num, together = (max(1, points // rule.num_points) for points in (POINTS_PER_CALL, POINTS_PER_SUM))
        calls = range(0, len(pairs), num)

        def evaluate(first: int) -> list[Sums]:
            part = slice(first, first + num)
            columns = self.states[pairs[part]], self.actions[pairs[part]], starts[part], lengths[part]
            given = [_filled(column, num) for column in columns]
            with jax.enable_x64(True):  # for this thread
                logs = np.asarray(self._program(rule, order, given)(*given))[:, : len(pairs[part])]
            return [summed(rule, logs[:, k : k + together]) for k in range(0, logs.shape[1], together)]

        found = []
        for of_call in self._each(evaluate, calls):
            found += of_call
            self._tell(num * rule.num_points)
        sums = Sums(*(np.concatenate(column) for column in zip(*found, strict=True)))
        if np.any(sums.is_bad):
            first = int(np.argmax(sums.is_bad))
            pair, points = int(pairs[first]), starts[first] + lengths[first] * rule.positions
            require_density(self.integrand, self.states[pair], self.actions[pair], points)
        return sums

    def _each(self, evaluate: Callable[[int], list[Sums]], calls: range) -> Iterator[list[Sums]]:
        """The first call compiles; the others follow in threads, where that is safe."""
        yield from map(evaluate, calls[:1])
        if self._is_alone or len(calls) == 1:
            yield from map(evaluate, calls[1:])
        else:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
                yield from threads.map(evaluate, calls[1:])

    def logs(self, pairs: Int[np.ndarray, " N"], points: Float[np.ndarray, "N d"]) -> Float[np.ndarray, " N"]:
        """log p of pairs at one point each, by the smallest rule on a tiny part: nothing more is compiled for it."""
        tiny = np.full(points.shape, TINY) * np.asarray(self.integrand.grid.spacing)
        return self.sums(0, pairs, points - tiny / 2, tiny).log

    def _program(self, rule: Rule, order: int, given: list[np.ndarray]) -> Callable[..., Any]:
        """log p `[M, N]`: the parts are the last axis everywhere, along which XLA and NumPy are fast."""
        integrand = self.integrand

        def of_part(state, action, start, length):
            points = start[:, None] + length[:, None] * jnp.asarray(rule.positions.T)
            return jax.vmap(integrand.log_at(state, action), in_axes=1)(points)

        trace = jax.vmap(of_part, in_axes=-1, out_axes=-1)
        return program(("parts", integrand.constants, order), integrand.functions, trace, *given)


def require_density(integrand: Integrand, state: Any, action: Any, points: Float[np.ndarray, "M m"]) -> None:
    """Refuses a log-density that is NaN or +inf at one of these next states, in float64."""
    with jax.enable_x64(True):
        log_at = integrand.log_at(jnp.asarray(state, jnp.float64), jnp.asarray(action, jnp.float64))
        values = np.asarray(jax.vmap(log_at)(jnp.asarray(points, jnp.float64)))
    is_bad = np.isnan(values) | (values == np.inf)
    if not is_bad.any():
        return
    worst, what = int(np.argmax(is_bad)), "state" if integrand.axis is None else "coordinate"
    raise HamqError(
        f"the log-density of {integrand} is {values[worst]} at the next {what} {numbers(points[worst])}, from "
        f"state {numbers(state)} with action {numbers(action)}; it must be a finite number, or -inf where the next "
        "state cannot be."
    )


def _filled(part: np.ndarray, num: int) -> np.ndarray:
    """`num` rows, the last one repeated, as columns."""
    missing = num - len(part)
    rows = np.pad(part, ((0, missing), *((0, 0),) * (part.ndim - 1)), mode="edge") if missing else part
    return np.ascontiguousarray(np.moveaxis(rows, 0, -1))


def numbers(values: Any) -> str:
    """How messages name a state or an action: 1 or (1, 0.5)."""
    values = np.atleast_1d(values)
    text = ", ".join(f"{v:.6g}" for v in values)
    return text if len(values) == 1 else f"({text})"
