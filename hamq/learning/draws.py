"""Draws for many pairs: the one place that batches samplers over states and actions.

Every state draws with random numbers of the seed and its own index. On a CPU states are processed in tiles of fixed size,
the last one padded: the bits do not depend on how the states are batched, or on how many devices share them. An
accelerator gets them in one large call, and keeps what it drew. All actions of a state share a stream of random numbers
(coupled), so that the noise of their backups cancels in the differences that decide the policy; with `coupled=False` each
pair has its own.
"""

import concurrent.futures
import functools
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from hamq.learning.calls import Drawer
from hamq.learning.chunks import Call, Made
from hamq.learning.defined import require_defined
from hamq.learning.devices import Devices, own_device
from hamq.learning.identities import with_weights
from hamq.learning.layout import Filled, Kept, Rows, lay_out
from hamq.learning.pilot import Allowance, tuned_sampler
from hamq.problem.grid import Grid
from hamq.problem.lapack import calls_lapack
from hamq.problem.problem import Problem, listed_actions, pair_name
from hamq.problem.tables import check_covariances
from hamq.sampling.cell_table import CELLS
from hamq.sampling.draws import AbstractSampler, Info
from hamq.solution import Cost
from hamq.types import HamqError, HamqWarning, Key, as_key, is_cpu

FEW, FEW_SHARE = 30.0, 0.1
"""Independent draws below which an average says little, and the same as a part of the draws where there are few."""
Progress = Callable[[str, int, int], None]
"""Told (what is being done, how many parts are done, of how many)."""


class PairDraws(NamedTuple):
    """Draws of S states × A actions, the draw axis last.

    `locations` are grid indices `[S, A, n]` in the smallest integer type that fits (cell and point laws), or points
    `[S, A, d, n]` (linear law); `log_weights` is None where all draws count the same.
    """

    locations: Shaped[Array | np.ndarray, "S A *d n"]
    log_weights: Float[Array | np.ndarray, "S A n"] | None


class Drawn(NamedTuple):
    """Tables have the axes `[tiles, tile, width, …]` and live where their states do; `info` is `[S, width]`, on the host."""

    locations: Shaped[Array, "tiles tile width *d n"]
    weights: Float[Array, "tiles tile width n"] | None
    rows: Rows
    info: Info
    cost: Cost
    sampler: AbstractSampler

    @property
    def draws(self) -> PairDraws:
        """Of the pairs, in their order; on a CPU as NumPy arrays, which compile nothing."""
        tables = (self.locations, self.weights)
        locations, weights = jax.tree.map(self.rows.pairs, jax.device_get(tables) if is_cpu() else tables)
        with np.errstate(divide="ignore"):  # a weight may underflow
            return PairDraws(locations, None if weights is None else np.log(weights) if is_cpu() else jnp.log(weights))


def draw_each(
    problem: Problem,
    sampler: AbstractSampler,
    states: Int[np.ndarray, " S"] | None = None,
    *,
    key: Key | int,
    coupled: bool = True,
) -> Drawn:
    """Draws for all actions of the states with these indices (all states when None), with diagnostics per pair.

    Stops with the pair's name where a pair has no valid draw; warns of chains that never moved, modes that were not
    crossed, weights that collapsed and walls that leak.
    """
    prepare_key, draw_key = (jr.fold_in(as_key(key), i) for i in range(2))
    sampler, preparation = prepare(problem, sampler, key=prepare_key)
    indices = np.arange(problem.num_states) if states is None else np.asarray(states)
    actions = np.broadcast_to(np.arange(problem.num_actions), (len(indices), problem.num_actions))
    drawn = draw_pairs(problem, sampler, indices, actions, key=draw_key, coupled=coupled)
    warn_of(problem, drawn.info, sampler)
    return drawn._replace(cost=drawn.cost.plus(preparation))


def prepare(problem: Problem, sampler: AbstractSampler, *, key: Key, by_calls: bool = True) -> tuple[AbstractSampler, Cost]:
    """The sampler with everything settled that is the same for all pairs, and what that cost.

    by_calls    whether its draws will be made by `Drawer`, whose programs are then compiled ahead
    """
    return prepare_within(problem, sampler, Allowance(), key=key, by_calls=by_calls)[:2]


class Prepared(NamedTuple):
    """A sampler that is ready, what that cost, and a note of what it did not pay to find out."""

    sampler: AbstractSampler
    cost: Cost
    note: str


def prepare_within(
    problem: Problem, sampler: AbstractSampler, allowance: Allowance, *, key: Key, by_calls: bool = True
) -> Prepared:
    """The same with pilots that keep to an allowance of gradients."""
    problem.require_enumerable("Drawing for every state and action")
    check_covariances(problem)
    sampler, info = sampler.prepare(problem, key=key)
    cost, note = Cost(0, int(info.density_evaluations), int(info.gradient_evaluations)), ""
    if is_cpu() and (by_calls or sampler.needs_pilot):
        Drawer(problem, sampler).compile_ahead()
    if sampler.evaluates_density and not problem.kernel.has_one_mode:
        with jax.enable_x64(False):
            cost = cost.plus(Cost(0, require_defined(problem, key=jr.fold_in(key, 5)), 0))
    if sampler.needs_pilot:
        sampler, *spent, said = tuned_sampler(problem, sampler.in_chunks(), allowance, key=key)
        cost, note = cost.plus(Cost(0, *spent)), note + said
    chains = sampler.in_chunks()
    if chains is not None and not problem.kernel.has_one_mode:
        left = allowance._replace(pilots=allowance.pilots - cost.gradient_evaluations)
        sampler, *spent, said = with_weights(problem, chains, left, key=jr.fold_in(key, 4))
        cost, note = cost.plus(Cost(0, *spent)), note + said
    return Prepared(sampler, cost, f"pilots kept to the budget: {note[:-2]}" if note else "")


def draw_pairs(
    problem: Problem,
    sampler: AbstractSampler,
    states: Int[np.ndarray, " S"],
    actions: Int[np.ndarray, "S width"],
    *,
    key: Key,
    coupled: bool = True,
    devices: Devices | None = None,
    progress: Progress | None = None,
) -> Drawn:
    """Draws of a prepared sampler for some actions of each of the states, both given by their indices."""
    devices = devices or own_device()
    rows = lay_out(states, actions, devices)
    drawing = Drawing(problem, sampler, rows, devices, key, coupled, progress)
    (locations, weights), info = drawing.each(lambda made, _: ((made.locations, made.weights), made.info))
    info = checked_info(problem, states, actions, rows, info, devices)
    return Drawn(locations, weights, rows, info, cost_of(info, locations.shape[-1]), sampler)


def checked_info(problem: Problem, states, actions, rows: Rows, info: Info, devices: Devices) -> Info:
    """What the sampler says, per pair and on the host; stops where a pair has no valid draw."""
    info = jax.tree.map(rows.pairs, devices.gather(info))
    _stop_at_failure(problem, states, actions, info)
    return info


def cost_of(info: Info, num_samples: int) -> Cost:
    spent = (int(np.sum(counts, dtype=np.int64)) for counts in (info.density_evaluations, info.gradient_evaluations))
    return Cost(info.acceptance.size * num_samples, *spent)


class Drawing(NamedTuple):
    """Draws that are about to be made."""

    problem: Problem
    sampler: AbstractSampler
    rows: Rows
    devices: Devices
    key: Key
    coupled: bool
    progress: Progress | None = None

    def each(self, use: Callable[[Made, Call], Any]) -> Any:
        """`use` of the draws of every call, as tables that live where the states do.

        On a CPU calls run in threads: XLA gives the small arrays of a call one core only. All of them run on the first
        device, so that they compile once, and what they find is dealt out.
        """
        problem, rows, own = self.problem, self.rows, self.devices.own_part
        table, actions = _state_table(problem.grid), np.asarray(listed_actions(problem), np.float32)
        drawer, is_shared = Drawer(problem, self.sampler), self.coupled and rows.width > 1

        def calls(place):
            i, block, pieces = place
            state = rows.states[own][i, block]
            for action in rows.actions[own][i, block, pieces]:
                stream = state if self.coupled else state * problem.num_actions + action
                given = table[state], actions[action], stream.astype(np.uint32)
                if not is_cpu():
                    given = jax.device_put(given, self.devices.own[i])
                yield Call(given[0], given[1], given[2], is_shared)

        def draw(place):
            given = list(calls(place))
            groups = [given] if self.coupled else [[call] for call in given]  # calls of a group share random numbers
            made = [of_call for group in groups for of_call in drawer.draw(group, key=self.key)]
            found = [use(*both) for both in zip(made, given, strict=True)]
            return jax.block_until_ready(found) if is_cpu() else found

        found = Filled(rows) if is_cpu() else Kept(rows)
        places = [place for place in rows.places if place[0] < len(self.devices.own)]
        with concurrent.futures.ThreadPoolExecutor(_num_threads(problem)) as threads:
            for number, (place, part) in enumerate(zip(places, threads.map(draw, places), strict=True), 1):
                found.add(place, part)
                if self.progress is not None:
                    self.progress("drawing", number, len(places))
        return found.dealt(self.devices)


def _num_threads(problem: Problem) -> int | None:
    """LAPACK calls of two threads can wait for each other in XLA's pool for ever; only user functions make any."""
    return 1 if calls_lapack(problem) or not is_cpu() else os.cpu_count()


@functools.lru_cache(maxsize=4)
def _state_table(grid: Grid) -> Float[np.ndarray, "S d"]:
    return grid.states().astype(np.float32)


def _stop_at_failure(problem: Problem, states: np.ndarray, actions: np.ndarray, info: Info) -> None:
    failed = np.argwhere(np.asarray(info.has_failed))
    if len(failed):
        s, a = (int(v) for v in failed[0])
        pair = pair_name(problem, int(states[s]), int(actions[s, a]))
        raise HamqError(
            f"no valid draw at {pair} ({len(failed)} pairs failed): no place of finite log-density was found in the box, or "
            "independent tries never fell into it; check the log-density there. If it is −inf in most of the box, let it "
            "fall with the distance from where it is finite instead (−1e3 times the distance): a search then finds the way."
        )


def fewest(num_samples: int) -> float:
    """Independent draws that the draws of a pair must be worth: the one rule for chains and for weights."""
    return min(FEW, FEW_SHARE * num_samples)


def warn_of(problem: Problem, info: Info, sampler: AbstractSampler, *, of_weights: bool = True) -> None:
    """Says what is wrong with chains and weights, and what to change.

    of_weights  False where somebody else (`worth.py`) says what the weights leave of the draws
    """
    pairs, is_cut = info.is_stuck.size, bool(np.any(info.is_cut))
    stuck = int(np.sum(info.is_stuck))
    if stuck:
        remedy = _independent(problem) if is_cut else "use a smaller step_size (None adapts it) or walls='logit'"
        _say(problem, f"{stuck} of {pairs} chains never moved; {remedy}")
    uncrossed = int(np.sum((info.num_modes > 1) & (info.num_crossings == 0)))
    if uncrossed:
        _say(problem, f"{uncrossed} of {pairs} pairs have several modes that the chain did not cross; use more samples")
    if of_weights:
        _warn_of_weights(problem, info, sampler)
    outside = float(np.mean(info.outside))
    if outside > 0.01:
        _say(problem, f"{outside:.1%} of the draws lie outside the box; use a larger sharpness or walls='logit'")
    nonfinite = int(np.sum(info.num_nonfinite))
    # Where a density is zero, trajectories that end there are rejected, as they must be.
    if nonfinite > 0.01 * info.num_nonfinite.size and not is_cut:
        _say(problem, f"{nonfinite} trajectories ended in a non-finite energy and were rejected; use a smaller step_size")


def _warn_of_weights(problem: Problem, info: Info, sampler: AbstractSampler) -> None:
    """Weights that leave few draws: a small share of many draws may still be enough."""
    num_samples = sampler.num_samples  # rows of masses have none, and nothing to warn of
    few = fewest(num_samples)
    collapsed = int(np.sum(info.weight_share * num_samples < few))
    if not collapsed:
        return
    count = f"the weights of {collapsed} of {info.weight_share.size} pairs leave fewer than {few:.3g} of {num_samples} draws"
    others = f"use more samples, or {_independent(problem).removeprefix('use ')}"
    _say(problem, f"{count}; {sampler.weights_remedy or others}")


def _independent(problem: Problem) -> str:
    """A remedy for what chains or weights cannot do: independent draws from masses, where these can be tabulated."""
    if problem.grid.dimension in CELLS:
        return "use IID, which draws from the masses of the cells"
    return "use more samples of HMC, and compare solutions of two keys"


def _say(problem: Problem, sentence: str) -> None:
    warnings.warn(f"{problem.name}: {sentence}.", HamqWarning, stacklevel=4)
