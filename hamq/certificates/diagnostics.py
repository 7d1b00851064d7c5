"""Whether HMC can be believed on a problem: fresh chains from dispersed starts, and how far they agree on V = max_a Q.

The draws that solved the problem say little about themselves: one chain per pair, begun at the mode, agrees with itself
wherever it is. Here every pair that is looked at gets several new ones, begun away from the mode, independent of each other
and of other pairs, with even weights. What is compared is the number that a backup averages: V at the next state, looked up
in its cell or interpolated, as the problem's law has it. `chain_statistics.py` has the formulas, docs/diagnostics.md says
what to do.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, Shaped

from hamq.certificates.certificate import checked_table, problem_of
from hamq.certificates.chain_diagnosis import FALSE_ALARM, MIN_ESS, ChainDiagnosis, ChainNumbers
from hamq.certificates.chain_statistics import LEAST_DRAWS, ChainStatistics, chain_statistics, rhat_by_chance
from hamq.learning.draws import Progress, draw_pairs, prepare
from hamq.learning.health import interpolated
from hamq.problem.problem import Problem
from hamq.problem.tables import terminal_table
from hamq.sampling.draws import AbstractSampler, Info
from hamq.sampling.hmc import HMC
from hamq.solution import Cost
from hamq.types import HamqError, Key, as_key, np_generator, require_count

MAX_PAIRS = 2000
"""Pairs that are looked at where nobody says how many; with more of them a random part is."""
NUM_SAMPLES, NUM_CHAINS = 4000, 4
"""Of a pair: with half as many, the correlation of HMC's own good draws comes near the limits (docs/diagnostics.md)."""
BLOCK = 2**11
"""Pairs whose draws are held at a time."""

FRESH = 0xD1A6
"""Folded into the key, so that it never is that of a solver."""


def diagnose(
    solution: Any,
    problem: Problem | None = None,
    *,
    sampler: AbstractSampler | None = None,
    num_pairs: int | None = None,
    key: Key | int = 0,
    progress: Progress | None = None,
) -> ChainDiagnosis:
    """Split R̂, bulk and tail ESS, disagreement, stuck and divergent chains of V = max_a Q, pair by pair, from fresh chains.

    solution    what a solver returned, or a run (`read_run`) or a table `[S, A]` with its `problem`: V decides what the
                chains must agree on
    sampler     an `HMC` of at least 2 chains; its draws are weighted evenly, and with logit walls its chains start
                dispersed. None: the default settings with 4 chains of 1,000 draws
    num_pairs   how many pairs, at random; None: all of them up to 2,000, and 2,000 at random beyond
    """
    problem = problem_of("diagnose", solution, problem)
    value = _value(problem, solution)
    sampler = _several_chains(sampler)
    fresh = jr.fold_in(as_key(key), FRESH)
    pairs_key, prepare_key, draw_key = (jr.fold_in(fresh, i) for i in range(3))
    states, actions = _chosen(problem, num_pairs, key=pairs_key)
    prepared, cost = prepare(problem, sampler, key=prepare_key)
    parts = list(_in_blocks(problem, prepared, states, actions, value, key=draw_key, progress=progress))
    num_draws = sampler.num_samples // sampler.chains
    return ChainDiagnosis(
        problem=problem,
        states=states,
        actions=actions,
        by_pair=ChainNumbers(*(np.concatenate(columns) for columns in zip(*(part.numbers for part in parts), strict=True))),
        num_chains=sampler.chains,
        num_draws=num_draws,
        rhat_limit=rhat_by_chance(sampler.chains, num_draws, MIN_ESS, len(states), FALSE_ALARM),
        cost=Cost(*(sum(counts) for counts in zip(cost, *(part.cost for part in parts), strict=True))),
        is_cut=prepared.is_cut,
    )


class Part(NamedTuple):
    """Of one block of pairs."""

    numbers: ChainNumbers
    cost: Cost


def _value(problem: Problem, solution: Any) -> Float[np.ndarray, " S"]:
    """max_a Q of whatever holds a table, 0 in terminal states."""
    best, ended = checked_table("diagnose", problem, solution).max(axis=1), terminal_table(problem)
    return best if ended is None else np.where(ended, 0, best)


def _several_chains(sampler: AbstractSampler | None) -> AbstractSampler:
    if sampler is None:
        sampler = HMC(NUM_SAMPLES, num_chains=NUM_CHAINS)
    if not sampler.has_chains:
        raise HamqError(
            f"diagnose: sampler must have chains, as HMC has, and {type(sampler).__name__} has none to look at; "
            "use None for the default."
        )
    if sampler.chains < 2:
        raise HamqError("diagnose: one chain has nothing to agree with; give it num_chains=4 or more.")
    if sampler.num_samples < LEAST_DRAWS * sampler.chains:
        raise HamqError(
            f"diagnose: chains must have at least {LEAST_DRAWS} draws each, got num_samples={sampler.num_samples} for "
            f"{sampler.chains} chains; raise num_samples."
        )
    return sampler.for_diagnosis()


def _chosen(problem: Problem, num_pairs: int | None, *, key: Key) -> tuple[Int[np.ndarray, " P"], Int[np.ndarray, " P"]]:
    """(states, actions) of the pairs, in the order of the table; without replacement."""
    problem.require_enumerable("Looking at chains pair by pair")
    if num_pairs is not None:
        require_count("diagnose: num_pairs", num_pairs)
    total = problem.num_states * problem.num_actions
    wanted = min(total, MAX_PAIRS if num_pairs is None else num_pairs)
    chosen = np.arange(total) if wanted == total else np.sort(np_generator(key).choice(total, wanted, replace=False))
    return chosen // problem.num_actions, chosen % problem.num_actions


def _in_blocks(problem, sampler, states, actions, value, *, key: Key, progress: Progress | None) -> Iterator[Part]:
    """Keys belong to pairs: the size of a block changes no number."""
    for start in range(0, len(states), BLOCK):
        block = slice(start, start + BLOCK)
        drawn = draw_pairs(problem, sampler, states[block], actions[block, None], key=key, coupled=False, progress=progress)
        values = _values(problem, drawn.draws.locations[:, 0], value)
        statistics = chain_statistics(values.reshape(len(values), sampler.chains, -1))
        info = jax.tree.map(lambda of_pairs: np.asarray(of_pairs)[:, 0], drawn.info)
        yield Part(_numbers(sampler, statistics, info), drawn.cost)


def _numbers(sampler: AbstractSampler, statistics: ChainStatistics, info: Info) -> ChainNumbers:
    trajectories = sampler.chains * sampler.num_transitions
    return ChainNumbers(
        *statistics,
        stuck=np.asarray(info.stuck_share, np.float64),
        divergent=np.asarray(info.num_nonfinite, np.float64) / trajectories,
        uncrossed=np.asarray((info.num_modes > 1) & (info.num_crossings == 0), np.float64),
        acceptance=np.asarray(info.acceptance, np.float64),
    )


def _values(problem: Problem, locations: Shaped[Any, "P *d n"], value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "P n"]:
    """V at the draws."""
    if problem.law != "linear":
        return value[np.asarray(locations)]
    return np.asarray(interpolated(problem.grid, np.asarray(value, np.float32), locations), np.float64)
