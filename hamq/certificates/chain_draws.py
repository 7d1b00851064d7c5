"""Next states of any pairs by Hamiltonian chains, and what those chains are worth: where masses are too dear.

Every pair has two chains that begin away from its modes (`HMC` with `dispersed`). `effective` is the number of independent
draws that their draws are worth, of the coordinate that moves least. Chains that disagree share one mean, and count as one
that has hardly moved. The last draw of a chain that is worth many has forgotten where it began.
"""

import concurrent.futures
import os
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.learning.chunks import Call, Chains, Made
from hamq.learning.health import correlation_time
from hamq.learning.layout import call_shape
from hamq.learning.pilot import adapted_step_size
from hamq.problem.evaluation import numbers
from hamq.problem.lapack import calls_lapack
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.types import Key, is_cpu

NUM_CHAINS = 2
NUM_LEAPFROG = 12
WARMUP_SHARE = 4
"""One draw is thrown away for so many that are kept."""
STEP_KEY = 0
"""The step size is found once for a problem, whatever is drawn later."""


class ChainDraws(NamedTuple):
    """Draws of P pairs; see the module's text for `effective`."""

    points: Float[np.ndarray, "P d n"]
    effective: Float[np.ndarray, " P"]
    acceptance: Float[np.ndarray, " P"]
    is_stuck: Bool[np.ndarray, " P"]


class PairChains:
    """Chains of a problem for pairs of any states and actions."""

    def __init__(self, problem: Problem, num_draws: int):
        self.problem, self._continuous = problem, continuous(problem)
        self.num_draws = num_draws + num_draws % NUM_CHAINS
        warmup = max(8, self.num_draws // (NUM_CHAINS * WARMUP_SHARE))
        self._sampler = HMC(
            self.num_draws, NUM_LEAPFROG, num_warmup=warmup, num_chains=NUM_CHAINS, calibrate=False, dispersed=True
        )
        self._chains: dict[tuple[int, int], Chains] = {}

    def draw(
        self,
        states: Float[np.ndarray, "P d"],
        actions: Float[np.ndarray, "P *k"],
        streams: Int[np.ndarray, " P"],
        *,
        key: Key,
    ) -> ChainDraws:
        """Pairs with the same stream and key have the same random numbers."""
        shape = _shape(len(states))
        with jax.enable_x64(False):
            chains = self._prepared(shape)
            size = shape[0] * shape[1]
            firsts = range(0, len(states), size)

            def one(first: int) -> Made:
                part = slice(first, first + size)
                state, action = (_filled(a[part], shape, np.float32) for a in (states, actions))
                stream = _filled(streams[part], shape, np.uint32)
                with jax.enable_x64(False):  # for this thread
                    (made,) = chains.draw([Call(state, action, stream, False)], key=key)
                    return made

            with concurrent.futures.ThreadPoolExecutor(self._num_threads()) as threads:
                made = [one(first) for first in firsts[:1]] + list(threads.map(one, firsts[1:]))
        found = [self._told(each) for each in made]
        joined = ChainDraws(*(np.concatenate(column)[: len(states)] for column in zip(*found, strict=True)))
        self._refuse_failures(joined, states, actions)
        return joined

    def _prepared(self, shape: tuple[int, int]) -> Chains:
        if self._sampler.needs_pilot:
            self._sampler, _, _ = adapted_step_size(self._continuous, self._sampler, key=jr.key(STEP_KEY))
        if shape not in self._chains:
            self._chains[shape] = Chains(self._continuous, self._sampler)
        return self._chains[shape]

    def _num_threads(self) -> int | None:
        return 1 if calls_lapack(self.problem) or not is_cpu() else os.cpu_count()

    def _told(self, made: Made) -> ChainDraws:
        points = np.asarray(made.points())
        points = points.reshape(-1, *points.shape[2:])
        lanes, d, n = points.shape
        times = correlation_time(points.reshape(lanes * d, n), NUM_CHAINS).reshape(lanes, d)
        # A coordinate that never changed, and one that is no number, are worth one draw.
        effective = n / np.max(np.where(np.isfinite(times), times, n), axis=1)
        acceptance, is_stuck = (np.asarray(a).reshape(-1) for a in (made.info.acceptance, made.info.is_stuck))
        return ChainDraws(points, effective, acceptance, is_stuck)

    def _refuse_failures(self, draws: ChainDraws, states: np.ndarray, actions: np.ndarray) -> None:
        failed = np.asarray(~np.isfinite(draws.points).all(axis=(1, 2)))
        if np.any(failed):
            first = int(np.argmax(failed))
            raise ValueError(
                f"{self.problem.name}: no chain has a finite draw from state {numbers(states[first])} with action "
                f"{numbers(actions[first])} ({int(failed.sum())} of {failed.size} pairs); the log-density must be a finite "
                "number somewhere in the box, and never NaN."
            )


def continuous(problem: Problem) -> Problem:
    """The same problem with law="linear": its draws are points, on a grid of any size."""
    if problem.law == "linear":
        return problem
    return Problem(
        problem.grid,
        problem.actions,
        problem.kernel,
        problem.reward,
        problem.discount,
        name=problem.name,
        law="linear",
        expected=("aliasing", "noise", "outside"),
    )


def _shape(num: int) -> tuple[int, int]:
    """(tile, K) of a call: one pair, as an environment has it, or as many as draws of `solve` have."""
    return (1, 1) if num == 1 else call_shape()


def _filled(part: np.ndarray, shape: tuple[int, int], kind: Any) -> np.ndarray:
    """`[tile, K, …]`, the last row repeated."""
    missing = shape[0] * shape[1] - len(part)
    rows = np.pad(part, ((0, missing), *((0, 0),) * (part.ndim - 1)), mode="edge") if missing else part
    return np.ascontiguousarray(rows.reshape(*shape, *part.shape[1:]), kind)
