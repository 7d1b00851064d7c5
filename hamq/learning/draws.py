"""Draws for many pairs: the one place that batches samplers over states and actions.

Every state draws with a key folded from the seed and its own index. On a CPU states are processed in tiles of fixed size,
the last one padded: the bits do not depend on how the states are batched. An accelerator gets them in one large call.
All actions of a state share the key (coupled), so that the noise of their backups cancels in the differences that
decide the policy; `coupled=False` folds the action in.
"""

import concurrent.futures
import math
import os
import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from hamq.problem.lapack import calls_lapack
from hamq.problem.problem import Problem, action_values, pair_name
from hamq.problem.tables import check_covariances
from hamq.sampling.draws import AbstractSampler, Info, Target
from hamq.types import HamqWarning, Key, as_key, is_cpu

TILE = 16
"""States that a CPU draws for side by side; small enough for the cache, and never a function of the batch."""
MAX_ACTIONS = 16
"""Actions of a state that are drawn side by side; rows of fewer get larger tiles."""
TILES_PER_CALL = 2
"""Tiles in one compiled call; calls run side by side, one per core."""
ACCELERATOR_ROWS = 2**15
"""States that an accelerator draws for side by side: there a small call costs as much as a large one."""


Progress = Callable[[str, int, int], None]
"""Told (what is being done, how many parts are done, of how many)."""


class PairDraws(NamedTuple):
    """Draws of S states × A actions, the draw axis last.

    `locations` are grid indices `[S, A, n]` in the smallest integer type that fits (cell and point laws), or points
    `[S, A, d, n]` (linear law); `log_weights` is None where all draws count the same.
    """

    locations: Shaped[Array | np.ndarray, "S A *d n"]
    log_weights: Float[Array | np.ndarray, "S A n"] | None


class Cost(NamedTuple):
    """What was spent, preparation and mode search included; Python ints."""

    samples: int
    density_evaluations: int
    gradient_evaluations: int

    def plus(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))


class Drawn(NamedTuple):
    draws: PairDraws
    info: Info
    cost: Cost
    sampler: AbstractSampler


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
    prepare_key, draw_key = jr.split(as_key(key))
    sampler, preparation = prepare(problem, sampler, key=prepare_key)
    indices = np.arange(problem.num_states) if states is None else np.asarray(states)
    actions = np.broadcast_to(np.arange(problem.num_actions), (len(indices), problem.num_actions))
    drawn = draw_pairs(problem, sampler, indices, actions, key=draw_key, coupled=coupled)
    warn_of(problem, drawn.info)
    return drawn._replace(cost=drawn.cost.plus(preparation))


def prepare(problem: Problem, sampler: AbstractSampler, *, key: Key) -> tuple[AbstractSampler, Cost]:
    """The sampler with everything settled that is the same for all pairs, and what that cost."""
    problem.require_enumerable("Drawing for every state and action")
    check_covariances(problem)
    sampler, info = sampler.prepare(problem, key=key)
    return sampler, Cost(0, int(info.density_evaluations), int(info.gradient_evaluations))


def draw_pairs(
    problem: Problem,
    sampler: AbstractSampler,
    states: Int[np.ndarray, " S"],
    actions: Int[np.ndarray, "S K"],
    *,
    key: Key,
    coupled: bool = True,
    progress: Progress | None = None,
) -> Drawn:
    """Draws of a prepared sampler for K actions of each of the states, both given by their indices."""
    num, width = actions.shape
    if not num:
        raise ValueError("no pairs to draw for: the selection is empty; raise fraction.")
    # Many actions are split into rows of their own: a state's key, and so the coupling, stays the same.
    pieces = -(-width // MAX_ACTIONS)
    padded = np.pad(actions, ((0, 0), (0, -width % pieces)), mode="edge").reshape(num * pieces, -1)
    draws, info = _draw_calls(problem, sampler, np.repeat(states, pieces), padded, key, coupled, progress)
    draws, info = jax.tree.map(lambda leaf: leaf.reshape(num, -1, *leaf.shape[2:])[:, :width], (draws, info))
    _stop_at_failure(problem, states, actions, info)
    cost = Cost(num * width * draws.locations.shape[-1], _total(info.density_evaluations), _total(info.gradient_evaluations))
    return Drawn(draws, info, cost, sampler)


def _total(counts: Array | np.ndarray) -> int:
    return int(np.asarray(counts).sum(dtype=np.int64))


def _draw_calls(
    problem: Problem,
    sampler: AbstractSampler,
    indices: np.ndarray,
    actions: np.ndarray,
    key: Key,
    coupled: bool,
    progress: Progress | None,
) -> tuple[PairDraws, Info]:
    """One call compiles, then the others run in threads: XLA gives the small arrays of a tile one core only."""
    num = len(indices)
    tiles, tile = _layout(*actions.shape)
    missing = -num % (tiles * tile)
    indices = np.pad(indices, (0, missing), mode="edge").reshape(-1, tiles, tile)
    actions = np.pad(actions, ((0, missing), (0, 0)), mode="edge").reshape(*indices.shape, -1)

    def call(block):
        index, action = block
        states = problem.grid.states_at(index.ravel()).reshape(*index.shape, -1)
        rows = (jnp.asarray(states, jnp.float32), jnp.asarray(index, jnp.int32), jnp.asarray(action, jnp.int32))
        return jax.block_until_ready(_draw_tiles(problem, sampler, rows, key, coupled))

    blocks = list(zip(indices, actions, strict=True))
    first = call(blocks[0])
    # LAPACK calls of two threads can wait for each other in XLA's pool for ever; only user functions make any.
    num_threads = 1 if calls_lapack(problem) or not is_cpu() else os.cpu_count()
    others = []
    with concurrent.futures.ThreadPoolExecutor(num_threads) as threads:
        for part in threads.map(call, blocks[1:]):
            others.append(part)
            if progress is not None:
                progress("drawing", len(others) + 1, len(blocks))
    # In NumPy: a changing number of pairs compiles nothing.
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:num], first, *others)


def _layout(num: int, width: int) -> tuple[int, int]:
    """(tiles in a call, rows in a tile) for so many rows of so many actions."""
    if is_cpu():
        return TILES_PER_CALL, TILE * max(1, MAX_ACTIONS // (2 * width))
    return 1, min(2 ** math.ceil(math.log2(num)), max(1, ACCELERATOR_ROWS // width))


@eqx.filter_jit
def _draw_tiles(
    problem: Problem,
    sampler: AbstractSampler,
    rows: tuple[Float[Array, "tiles tile d"], Int[Array, "tiles tile"], Int[Array, "tiles tile K"]],
    key: Key,
    coupled: bool,
) -> tuple[PairDraws, Info]:
    actions = action_values(problem)

    def draw_pair(state, action, pair_key):
        draws, info = sampler.draw(Target(problem, state, action), key=pair_key)
        if problem.law == "linear":
            return PairDraws(draws.points, draws.log_weights), info
        located = jax.vmap(problem.grid.locate, in_axes=1)(draws.points)
        return PairDraws(located.astype(smallest_integer(problem.num_states)), draws.log_weights), info

    def draw_row(state, index, chosen):
        state_key = jr.fold_in(key, index)
        states = jnp.broadcast_to(state, (len(chosen), len(state)))
        if coupled:
            return jax.vmap(draw_pair, in_axes=(0, 0, None))(states, actions[chosen], state_key)
        action_keys = jax.vmap(lambda a: jr.fold_in(state_key, a))(chosen)
        return jax.vmap(draw_pair)(states, actions[chosen], action_keys)

    draws, info = jax.lax.map(lambda tile: jax.vmap(draw_row)(*tile), rows)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (draws, info))


def smallest_integer(num_states: int) -> type:
    """The smallest unsigned integer type that tells the states apart."""
    return jnp.uint8 if num_states <= 2**8 else jnp.uint16 if num_states <= 2**16 else jnp.uint32


def _stop_at_failure(problem: Problem, states: np.ndarray, actions: np.ndarray, info: Info) -> None:
    failed = np.argwhere(np.asarray(info.has_failed))
    if len(failed):
        s, a = (int(v) for v in failed[0])
        pair = pair_name(problem, int(states[s]), int(actions[s, a]))
        raise ValueError(
            f"no valid draw at {pair} ({len(failed)} pairs failed): the density has no "
            "finite value where the chain starts, or independent tries never fell into the box; check the log-density "
            "there, or use HMC with walls='logit'."
        )


def warn_of(problem: Problem, info: Info) -> None:
    """Says what is wrong with chains and weights, and what to change."""
    pairs = info.is_stuck.size
    stuck = int(np.sum(info.is_stuck))
    if stuck:
        _say(problem, f"{stuck} of {pairs} chains never moved; use a smaller step_size (None adapts it) or walls='logit'")
    uncrossed = int(np.sum((info.num_modes > 1) & (info.num_crossings == 0)))
    if uncrossed:
        _say(problem, f"{uncrossed} of {pairs} pairs have several modes that the chain did not cross; use more samples")
    collapsed = int(np.sum(info.weight_share < 0.1))
    if collapsed:
        _say(problem, f"the weights of {collapsed} of {pairs} pairs have an effective size below 0.1 of the draws; use HMC")
    outside = float(np.mean(info.outside))
    if outside > 0.01:
        _say(problem, f"{outside:.1%} of the draws lie outside the box; use a larger sharpness or walls='logit'")
    nonfinite = int(np.sum(info.num_nonfinite))
    if nonfinite > 0.01 * info.num_nonfinite.size:
        _say(problem, f"{nonfinite} trajectories ended in a non-finite energy and were rejected; use a smaller step_size")


def _say(problem: Problem, sentence: str) -> None:
    warnings.warn(f"{problem.name}: {sentence}.", HamqWarning, stacklevel=4)
