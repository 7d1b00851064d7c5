"""Next states of any pairs by Hamiltonian chains, and what those chains are worth: where masses are too dear.

Every pair has two chains that begin away from its modes (`HMC` with `dispersed`). `effective` is the number of independent
draws that their draws are worth, of the coordinate that moves least. Chains that disagree share one mean, and count as one
that has hardly moved. The last draw of a chain that is worth many has forgotten where it began.

The number of draws is the same for all pairs. It is found on a few of them, once: chains are made twice as long until nearly
all are worth `FEWEST` draws. (Longer chains for those pairs alone that need them would prefer what a short chain likes.)
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
from hamq.learning.pilot import NUM_PAIRS, pilot_pairs, tuned_sampler
from hamq.problem.evaluation import numbers
from hamq.problem.lapack import calls_lapack
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.types import HamqError, Key, is_cpu

NUM_CHAINS = 2
NUM_LEAPFROG = 12
WARMUP_SHARE = 4
"""One draw is thrown away for so many that are kept."""
FEWEST, FEW_SHARE = 10.0, 0.05
"""Effective draws below which the next state is hardly drawn from the law, and the share of pairs that may have fewer."""
FIRST_DRAWS, MOST_DRAWS = 128, 2048
"""Shortest and longest chains that are tried."""
NO_BETTER = 1.2
"""Times the share of poor chains that the longest have: what is within it is as good."""
PILOT_KEY = 0
"""Step size and number of draws are found once for a problem, whatever is drawn later."""


class ChainDraws(NamedTuple):
    """Draws of P pairs; see the module's text for `effective`."""

    points: Float[np.ndarray, "P d n"]
    effective: Float[np.ndarray, " P"]
    is_stuck: Bool[np.ndarray, " P"]
    is_uncrossed: Bool[np.ndarray, " P"]
    """There are several modes, and no chain went from one to another: each has the share of its normal approximation."""


class PairChains:
    """Chains of a problem for pairs of any states and actions; num_draws None: found with the first draws."""

    def __init__(self, problem: Problem, num_draws: int | None = None):
        self.problem, self._continuous = problem, continuous(problem)
        self.num_draws = None if num_draws is None else num_draws + num_draws % NUM_CHAINS
        self._sampler: HMC | None = None
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
        with jax.enable_x64(False):
            if self._sampler is None:
                self._sampler = self._settled()
                self.num_draws = self._sampler.num_samples
            joined = self._draw(self._sampler, states, actions, streams, key)
        self._refuse_failures(joined, states, actions)
        return joined

    def _settled(self) -> HMC:
        """The sampler with its step size and its number of draws."""
        key = jr.key(PILOT_KEY)
        found = tuned_sampler(self._continuous, _sampler(self.num_draws or FIRST_DRAWS), key=key).sampler
        if self.num_draws is not None:
            return found
        states, actions = pilot_pairs(self._continuous, NUM_PAIRS, key=jr.fold_in(key, 1))
        num = call_shape()[0] * call_shape()[1]
        states, actions = (np.resize(a, (num, *a.shape[1:])) for a in (states, actions))
        shares: list[tuple[float, HMC]] = []
        while found.num_samples <= MOST_DRAWS:
            made = self._draw(found, states, actions, np.arange(num), jr.fold_in(key, 3))
            shares.append((float(np.mean(made.effective < FEWEST)), found))
            if shares[-1][0] <= FEW_SHARE:
                return found
            found = _sampler(2 * found.num_samples).with_step(found.step_size)
        # Where length does not help, as with modes that are never crossed, short chains do as well.
        return next(sampler for share, sampler in shares if share <= NO_BETTER * shares[-1][0])

    def _draw(self, sampler: HMC, states: np.ndarray, actions: np.ndarray, streams: np.ndarray, key: Key) -> ChainDraws:
        shape = _shape(len(states))
        chains = self._chains.get(shape)
        if chains is None or chains.sampler is not sampler:
            chains = self._chains[shape] = Chains(self._continuous, sampler)
        size = shape[0] * shape[1]
        firsts = range(0, len(states), size)

        def one(first: int) -> ChainDraws:
            part = slice(first, first + size)
            state, action = (_filled(a[part], shape, np.float32) for a in (states, actions))
            stream = _filled(streams[part], shape, np.uint32)
            with jax.enable_x64(False):  # for this thread
                (made,) = chains.draw([Call(state, action, stream, False)], key=key)
                return _told(made)

        found = [one(first) for first in firsts[:1]]
        with concurrent.futures.ThreadPoolExecutor(self._num_threads()) as threads:
            found += threads.map(one, firsts[1:])
        return ChainDraws(*(np.concatenate(column)[: len(states)] for column in zip(*found, strict=True)))

    def _num_threads(self) -> int | None:
        return 1 if calls_lapack(self.problem) or not is_cpu() else os.cpu_count()

    def _refuse_failures(self, draws: ChainDraws, states: np.ndarray, actions: np.ndarray) -> None:
        failed = np.asarray(~np.isfinite(draws.points).all(axis=(1, 2)))
        if np.any(failed):
            first = int(np.argmax(failed))
            raise HamqError(
                f"{self.problem.name}: no chain has a finite draw from state {numbers(states[first])} with action "
                f"{numbers(actions[first])} ({int(failed.sum())} of {failed.size} pairs); the log-density must be a finite "
                "number somewhere in the box, and never NaN."
            )


def _sampler(num_draws: int) -> HMC:
    warmup = max(8, num_draws // (NUM_CHAINS * WARMUP_SHARE))
    return HMC(num_draws, NUM_LEAPFROG, num_warmup=warmup, num_chains=NUM_CHAINS, calibrate=False, dispersed=True)


def _told(made: Made) -> ChainDraws:
    points = np.asarray(made.points())
    points = points.reshape(-1, *points.shape[2:])
    lanes, d, n = points.shape
    times = correlation_time(points.reshape(lanes * d, n), NUM_CHAINS).reshape(lanes, d)
    # A coordinate that never changed, and one that is no number, are worth one draw.
    effective = n / np.max(np.where(np.isfinite(times), times, n), axis=1)
    info = jax.tree.map(lambda a: np.asarray(a).reshape(-1), made.info)
    points = np.where(info.has_failed[:, None, None], np.nan, points)
    return ChainDraws(points, effective, info.is_stuck, (info.num_modes > 1) & (info.num_crossings == 0))


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
