"""How well the sampler did in each state: acceptance, chains that never moved, and how much the draws are worth.

The effective number of draws of a pair is that of independent draws whose average of V would be as uncertain,

    (1/Σ w_i²) / τ,    τ = 1 + 2 Σ_t ρ_t,

ρ_t the correlation of V(s'_i) and V(s'_{i+t}) along the chains, with V the one that was found. The sum ends before the
first sum of two neighbours ρ_{2k} + ρ_{2k+1} that is not positive (Geyer 1992: from there on it is noise). Chains share one
mean, so that chains which disagree count as one correlated whole. HMC makes ρ_1 negative where its trajectories are about
half a turn: then n draws are worth more than n independent ones; at most n·log₁₀ n are believed. Samplers without chains
have τ = 1. Calibration (sampling/calibration.py) makes averages of smooth V better than this number says.

Everything comes from what `solve` has kept of its draws: no density is evaluated, and Q does not know of it.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Num

from hamq.completion.selection import Pairs
from hamq.learning.backup import Stock
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler, Info
from hamq.solution import Health

BLOCK = 2**16
"""Draws whose V is looked up at a time: what fits into the cache."""


class Diagnosis(NamedTuple):
    """Of the pairs of one block: what is kept of the sampler's Info."""

    acceptance: Float[np.ndarray, "R K"]
    stuck: Float[np.ndarray, "R K"]
    weight_share: Float[np.ndarray, "R K"]


def diagnose(info: Info) -> Diagnosis:
    return Diagnosis(*(np.asarray(of_pairs) for of_pairs in (info.acceptance, info.stuck_share, info.weight_share)))


def health_of(
    problem: Problem,
    sampler: AbstractSampler,
    blocks: Sequence[Pairs],
    stocks: Sequence[Stock],
    diagnoses: Sequence[Diagnosis],
    value: Float[np.ndarray, " S"],
) -> Health | None:
    """Of the draws kept for reuse, at the V that they led to; None for masses, which are not drawn."""
    if sampler.is_exhaustive:
        return None
    shape = problem.num_states, problem.num_actions
    acceptance, stuck = (np.full(shape, np.nan) for _ in range(2))
    if sampler.has_chains:
        for block, diagnosis in zip(blocks, diagnoses, strict=True):
            place = block.states[:, None], block.actions
            acceptance[place], stuck[place] = diagnosis.acceptance, diagnosis.stuck
    effective = pair_worth(problem, sampler, blocks, stocks, diagnoses, value).effective
    return Health(*(_mean_of_drawn(table) for table in (acceptance, stuck, effective)))


class PairWorth(NamedTuple):
    """Of every pair that was drawn (NaN and False elsewhere): effective draws, and whether its chains disagree."""

    effective: Float[np.ndarray, "S A"]
    disagrees: Bool[np.ndarray, "S A"]


def pair_worth(
    problem: Problem,
    sampler: AbstractSampler,
    blocks: Sequence[Pairs],
    stocks: Sequence[Stock],
    diagnoses: Sequence[Diagnosis],
    value: Float[np.ndarray, " S"],
) -> PairWorth:
    """What the draws of each pair are worth to the average of V; arguments as those of `health_of`."""
    num_chains = sampler.chains if sampler.has_chains else None
    shape = problem.num_states, problem.num_actions
    effective, disagrees = np.full(shape, np.nan), np.zeros(shape, bool)
    for block, stock, diagnosis in zip(blocks, stocks, diagnoses, strict=True):
        place = block.states[:, None], block.actions
        effective[place] = stock.locations.shape[-1] * diagnosis.weight_share.astype(np.float64)
        if num_chains is not None:
            times, disagrees[place] = _times(problem, stock, num_chains, diagnosis.stuck, value)
            effective[place] /= times
    return PairWorth(effective, disagrees)


def _mean_of_drawn(table: Float[np.ndarray, "S A"]) -> Float[np.ndarray, " S"]:
    """Over the pairs of a state that are not NaN; NaN where all are."""
    is_drawn = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.where(is_drawn, table, 0).sum(axis=1) / is_drawn.sum(axis=1)


def _times(
    problem, stock: Stock, num_chains: int, stuck: np.ndarray, value: np.ndarray
) -> tuple[Float[np.ndarray, "R K"], Bool[np.ndarray, "R K"]]:
    """τ of every pair, and whether its chains disagree. Each process sees to its own draws.

    τ is n where V is the same at all draws because chains never moved.
    """
    found = [_times_of(problem, np.asarray(own), num_chains, value) for own in stock.devices.parts(stock.locations)]
    times, apart = (stock.rows.pairs(stock.devices.gather(stock.devices.dealt(list(a)))) for a in zip(*found, strict=True))
    return np.where(np.isnan(times), np.where(stuck > 0, stock.locations.shape[-1], 1), times), apart > 0


def _times_of(problem, locations: np.ndarray, num_chains: int, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`[tiles, tile, K]` each, the second 1 where chains disagree."""
    blocks = list(values_of(problem, locations, value))
    times = np.concatenate([correlation_time(block, num_chains) for block in blocks])
    apart = np.concatenate([chains_disagree(block, num_chains) for block in blocks])
    return times.reshape(locations.shape[:3]).astype(np.float32), apart.reshape(locations.shape[:3]).astype(np.float32)


def chains_disagree(values: Num[np.ndarray, "pairs n"], num_chains: int) -> Bool[np.ndarray, " pairs"]:
    """Whether the means of chains differ by more than the draws within them explain, and by enough to matter.

    With W the mean variance within chains and τ their own correlation time, means differ by chance with a variance of
    W·τ/length; sixteen times as much has a probability below 1e-5 for 4 chains. One chain has nothing to disagree with.
    """
    if num_chains < 2:
        return np.zeros(len(values), bool)
    x = values.astype(np.float64).reshape(len(values), num_chains, -1)
    length = x.shape[2]
    within, between = x.var(axis=2).mean(axis=1), x.mean(axis=2).var(axis=1, ddof=1)
    alone = correlation_time((x - x.mean(axis=2, keepdims=True)).reshape(len(values), -1), num_chains)
    by_chance = within * np.where(np.isnan(alone), 1, alone) / length
    scale = np.maximum(np.abs(x).max(axis=(1, 2)), 1e-300)
    return (between > 16 * by_chance) & (between > 0.1 * within) & (between > (1e-6 * scale) ** 2)


def values_of(
    problem: Problem, locations: np.ndarray, value: Float[np.ndarray, " S"]
) -> Iterator[Num[np.ndarray, "pairs n"]]:
    """V at the draws, pair by pair, some pairs at a time."""
    locations = locations.reshape(-1, *locations.shape[3:])
    size = max(1, BLOCK // locations.shape[-1])
    single = np.asarray(value, np.float32)
    for start in range(0, len(locations), size):
        part = locations[start : start + size]
        if problem.law != "linear":
            yield value[part]
        else:
            # A last block of the same size, so that nothing is compiled for it alone.
            filled = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
            yield np.asarray(interpolated(problem.grid, single, filled))[: len(part)]


@functools.partial(jax.jit, static_argnums=0)
def interpolated(grid: Grid, value: Float[Array, " S"], points: Float[Array, "pairs d n"]) -> Float[Array, "pairs n"]:
    """V at points between the nodes."""
    at = jax.vmap(lambda point: grid.interpolate(value, point), in_axes=1)
    return jax.vmap(at)(points)


def correlation_time(values: Num[np.ndarray, "pairs n"], num_chains: int) -> Float[np.ndarray, " pairs"]:
    """τ of series that are `num_chains` chains of equal length one after the other; NaN where a series is constant."""
    num, n = values.shape
    x = values.astype(np.float64).reshape(num, num_chains, -1)
    x -= x[:, :1, :1]  # constant series become exact zeros
    x -= x.mean(axis=(1, 2), keepdims=True)
    variance = np.einsum("pci,pci->p", x, x)
    times = np.where(variance > 0, -1.0, np.nan)
    rows = np.flatnonzero(variance > 0)
    x, length = x[rows] / np.sqrt(variance[rows])[:, None, None], x.shape[2]
    for lag in range(0, length, 2):
        pair = np.einsum("pci,pci->p", x[:, :, lag:], x[:, :, : length - lag])
        if lag + 1 < length:
            pair += np.einsum("pci,pci->p", x[:, :, lag + 1 :], x[:, :, : length - lag - 1])
        is_signal = pair > 0
        rows, x = rows[is_signal], x[is_signal]
        times[rows] += 2 * pair[is_signal]
        if not len(rows):
            break
    return np.clip(times, 1 / max(1.0, np.log10(n)), n)
