"""Draws for many pairs: the one place that batches samplers over states and actions.

States are processed in tiles of fixed size, the last one padded, and every state draws with a key folded from the seed and
its own index: the bits do not depend on how the states are batched. All actions of a state share the key (coupled), so
that the noise of their backups cancels in the differences that decide the policy; `coupled=False` folds the action in.
"""

import concurrent.futures
import os
import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from hamq.problem.problem import Problem, action_values, pair_name
from hamq.problem.tables import check_covariances
from hamq.sampling.draws import AbstractSampler, Info, Target
from hamq.types import HamqWarning, Key, as_key

TILE = 16
"""States that are drawn side by side; small enough for the cache, and never a function of the batch."""
TILES_PER_CALL = 8
"""Tiles in one compiled call; calls of product kernels run side by side, one per core."""


class PairDraws(NamedTuple):
    """Draws of S states × A actions, the draw axis last.

    `locations` are grid indices `[S, A, n]` in the smallest integer type that fits (cell and point laws), or points
    `[S, A, d, n]` (linear law); `log_weights` is None where all draws count the same.
    """

    locations: Shaped[Array, "S A *d n"]
    log_weights: Float[Array, "S A n"] | None


class Cost(NamedTuple):
    """What was spent, preparation and mode search included; Python ints."""

    samples: int
    density_evaluations: int
    gradient_evaluations: int


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
    problem.grid.require_enumerable("Drawing for every state")
    indices = np.arange(problem.num_states) if states is None else np.asarray(states)
    check_covariances(problem)
    sampler, preparation = sampler.prepare(problem, key=prepare_key)
    draws, info = _draw_calls(problem, sampler, indices, draw_key, coupled)
    _stop_at_failure(problem, indices, info)
    _warn(problem, info)
    num_draws = draws.locations.shape[-1]
    cost = Cost(
        len(indices) * problem.num_actions * num_draws,
        _total(info.density_evaluations) + int(preparation.density_evaluations),
        _total(info.gradient_evaluations) + int(preparation.gradient_evaluations),
    )
    return Drawn(draws, info, cost, sampler)


def _total(counts: Array) -> int:
    return int(np.asarray(counts).sum(dtype=np.int64))


def _draw_calls(
    problem: Problem, sampler: AbstractSampler, indices: np.ndarray, key: Key, coupled: bool
) -> tuple[PairDraws, Info]:
    """One call compiles, then the others run in threads: XLA gives the small arrays of a tile one core only."""
    padded = np.pad(indices, (0, -len(indices) % (TILE * TILES_PER_CALL)), mode="edge")
    blocks = padded.reshape(-1, TILES_PER_CALL, TILE)

    def call(block):
        states = problem.grid.states_at(block.ravel()).reshape(*block.shape, -1)
        parts = _draw_tiles(problem, sampler, jnp.asarray(states, jnp.float32), jnp.asarray(block, jnp.int32), key, coupled)
        return jax.block_until_ready(parts)

    first = call(blocks[0])
    # LAPACK calls of two threads (mode searches) can wait for each other in XLA's pool for ever; product kernels have none.
    num_threads = os.cpu_count() if problem.is_product else 1
    with concurrent.futures.ThreadPoolExecutor(num_threads) as threads:
        others = list(threads.map(call, blocks[1:]))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[: len(indices)], first, *others)


@eqx.filter_jit
def _draw_tiles(
    problem: Problem,
    sampler: AbstractSampler,
    states: Float[Array, "tiles tile d"],
    indices: Int[Array, "tiles tile"],
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

    def draw_state(state, index):
        state_key = jr.fold_in(key, index)
        if coupled:
            return jax.vmap(draw_pair, in_axes=(0, 0, None))(*_with(state, actions), state_key)
        action_keys = jax.vmap(lambda a: jr.fold_in(state_key, a))(jnp.arange(len(actions)))
        return jax.vmap(draw_pair)(*_with(state, actions), action_keys)

    draws, info = jax.lax.map(lambda tile: jax.vmap(draw_state)(*tile), (states, indices))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (draws, info))


def _with(state: Float[Array, " d"], actions: Array) -> tuple[Array, Array]:
    return jnp.broadcast_to(state, (len(actions), len(state))), actions


def smallest_integer(num_states: int) -> type:
    """The smallest unsigned integer type that tells the states apart."""
    return jnp.uint8 if num_states <= 2**8 else jnp.uint16 if num_states <= 2**16 else jnp.uint32


def _stop_at_failure(problem: Problem, indices: np.ndarray, info: Info) -> None:
    failed = np.argwhere(np.asarray(info.has_failed))
    if len(failed):
        s, a = (int(v) for v in failed[0])
        raise ValueError(
            f"no valid draw at {pair_name(problem, int(indices[s]), a)} ({len(failed)} pairs failed): the density has no "
            "finite value where the chain starts, or independent tries never fell into the box; check the log-density "
            "there, or use HMC with walls='logit'."
        )


def _warn(problem: Problem, info: Info) -> None:
    pairs = info.is_stuck.size
    stuck = int(np.sum(info.is_stuck))
    if stuck:
        _say(problem, f"{stuck} of {pairs} chains never moved; use a smaller step_size (None adapts it) or walls='logit'")
    uncrossed = int(np.sum((info.num_modes > 1) & (info.num_crossings == 0) & (info.weight_share == 1)))
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
