"""How far Q is expected to be from that of the problem itself because its draws are few.

The draws of a pair are K parts: pieces of its chains, or of draws without chains. With weights w that sum to one, part k has
a share in the error of Ê = Σ w_i V_i,

    u_k = Σ_{i in part k} w_i (V_i − Ê),    and    Var Ê ≈ K/(K−1) · Σ_k u_k².

Whole chains instead of their pieces give another estimate, which is rough for one pair. Over all pairs together, the larger
of the two counts: chains that disagree, or are slow, count with what they differ by.

Noise of this variance, ε = √(K/(K−1)) · Σ_k g_k u_k with standard normal g_k, is added to the expectations: one g for all
actions of a state where they share their random numbers. One backup of the noisy expectations says what the maximum makes of
the noise, its optimism included, and δ = (I − γP)⁻¹ · (max_a Q_ε − max_a Q) what becomes of it in the end, with P the law of
the chosen actions as drawn. The root of the mean square of γ(ε + Pδ) over many such noises is the error to expect. A
completion misses in other states what it misses in the anchor states, where all actions are drawn: this is added.

It is an estimate: what no chain has found it cannot know. Most of the error is the level of V, one number, so that a single
solve is off by twice as much in one case of twenty.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from hamq.completion.completion import Observed
from hamq.completion.selection import as_mask
from hamq.learning.backup import Stock
from hamq.learning.health import values_of
from hamq.learning.preparation import Run
from hamq.problem.grid import Grid

NUM_PARTS, LEAST_LENGTH = 16, 20
"""Of the draws of a pair, where pieces of chains have so many draws at least."""
FEWEST, MOST = 8, 256
"""Noises; fewer where the table is large."""
WORK = 3 * 10**8
"""Multiplications that all of them may take."""
LEFT = 0.01
"""Part of δ that its iteration may leave out."""
RARE = 0.95
LEAST_LEFT = 0.1
"""Part of the variance that calibration is believed to leave at least."""

Table = Float[np.ndarray, "S A"]


class Errors(NamedTuple):
    """Root of the mean of (Q − Q*)² that is to be expected, as a part of the range of V.

    total   of draws and completion together; its root mean square over noises
    draws   the same of the draws alone
    rare    what one noise of twenty exceeds
    """

    total: float
    draws: float
    rare: float


class Noise(NamedTuple):
    """Of the pairs that were drawn, NaN elsewhere: Ê, and the parts u of the chains in its error."""

    expected: Table
    parts: Float[np.ndarray, "S A K"]


def expected_errors(run: Run, q: Table, is_fair: bool) -> Errors | None:
    """None where no draws were kept, or other processes have some of them.

    is_fair     the optimism of Q was taken off
    """
    if run.stocks is None or run.sampler.is_exhaustive or not run.devices.is_alone:
        return None
    value = q.max(axis=1)
    noise, moves, span = measured(run, value), chosen_moves(run, q), float(np.ptp(value))
    if span <= 0:
        return Errors(0.0, 0.0, 0.0)
    draws = _propagated(run, noise, moves, is_fair, None) / span
    missed = run.completion.missed(_observed(run, noise.expected), _completed(run, noise.expected))
    both = draws if missed is None else _propagated(run, noise, moves, is_fair, missed) / span
    total, alone = (math.sqrt(float(np.mean(errors**2))) for errors in (both, draws))
    return Errors(total, alone, float(np.quantile(both, RARE)))


def _propagated(
    run: Run, noise: Noise, moves: Any, is_fair: bool, missed: Float[np.ndarray, "m A"] | None
) -> Float[np.ndarray, " noises"]:
    """The error of Q that each of some noises makes, with or without what the completion misses."""
    discount = run.problem.discount
    turns = math.ceil(math.log(LEFT) / math.log(discount)) if discount > 0 else 0
    num = int(np.clip(WORK / max(1, turns * moves.nnz), FEWEST, MOST))
    plain = _completed(run, noise.expected)
    level = (run.rewards + discount * plain).max(axis=1)
    changes = [_completed(run, noise.expected + each) - plain for each in _noises(run, noise, num)]
    if missed is not None:
        changes = [change + lack for change, lack in zip(changes, _lacks(missed, len(plain)), strict=False)]
    excess = np.stack([(run.rewards + discount * (plain + change)).max(axis=1) - level for change in changes], axis=1)
    if is_fair:
        excess -= excess.mean(axis=1, keepdims=True)
    excess[run.is_ended[:, 0]] = 0
    delta, later = excess, np.zeros_like(excess)
    for _ in range(turns):
        later = moves @ delta
        delta = excess + discount * later
    squares = [np.mean(np.where(run.is_ended, 0, (c + later[:, r, None]) ** 2)) for r, c in enumerate(changes)]
    return discount * np.sqrt(squares)


def measured(run: Run, value: Float[np.ndarray, " S"]) -> Noise:
    """Ê and u of the draws that are kept."""
    assert run.stocks is not None
    chains, n = run.sampler.chains, run.stocks[0].locations.shape[-1]
    num = chains * int(np.clip(n // (chains * LEAST_LENGTH), 1, NUM_PARTS // min(chains, NUM_PARTS)))
    num = num if num > 1 else min(2, n)
    tables = [np.full(run.rewards.shape, np.nan) for _ in range(3)]
    parts = np.full((*run.rewards.shape, num), np.nan)
    for block, stock in zip(run.reused, run.stocks, strict=True):
        place = block.states[:, None], block.actions
        *found, parts[place] = _of_block(run, stock, value, num)
        for table, each in zip(tables, found, strict=True):
            table[place] = each
    expected, plain, variance = tables
    parts *= _by_chains(parts, chains)
    if run.sampler.calibrates:
        parts *= math.sqrt(left_by_calibration(expected - plain, parts, variance, 2 * run.problem.grid.dimension))
    return Noise(expected, parts)


def _by_chains(parts: Float[np.ndarray, "S A K"], chains: int) -> float:
    """By how much whole chains differ more than their pieces say, over all pairs; 1 where they do not."""
    if not 1 < chains < parts.shape[2]:
        return 1.0
    whole = parts.reshape(*parts.shape[:2], chains, -1).sum(axis=3)
    ours, theirs = (k / (k - 1) * float(np.nansum(u**2)) for k, u in ((chains, whole), (parts.shape[2], parts)))
    return math.sqrt(max(1.0, ours / theirs)) if theirs > 0 else 1.0


def left_by_calibration(correction: Table, parts: Float[np.ndarray, "S A K"], variance: Table, num_functions: int) -> float:
    """The part of Var Ê that calibrated weights leave of that of even ones, the same for all pairs.

    The correction β·z̄ that they make has the variance that they take away, for its mean is 0. Of m effective draws, f
    functions fit a part f/m of what they do not explain.
    """
    known = ~np.isnan(correction)
    even = parts.shape[2] / max(1, parts.shape[2] - 1) * float(np.sum(parts[known] ** 2))
    if even <= 0:
        return 1.0
    fitted = num_functions * even / max(float(np.sum(variance[known])), 1e-300)
    if fitted >= 0.5:
        return 1.0
    left = 1 - float(np.sum(correction[known] ** 2)) / even
    return float(np.clip(left / (1 - fitted) ** 2, LEAST_LEFT, 1))


def _of_block(run: Run, stock: Stock, value: Float[np.ndarray, " S"], num: int) -> list[np.ndarray]:
    """Of the pairs of a block `[R, K]`: Ê, the even mean, the variance of V over the draws; and u `[R, K, num]`.

    Calibrated weights differ little, and chains are compared without them. Others are part of the law that was drawn from.
    """
    n, shape = stock.locations.shape[-1], stock.locations.shape[:3]
    weights = None if stock.weights is None else np.asarray(stock.weights).reshape(-1, n)
    starts, first, found = np.arange(num) * n // num, 0, []
    for values in values_of(run.problem, np.asarray(stock.locations), value):
        even = np.full((1, n), 1 / n)
        w = even if weights is None else weights[first : first + len(values)].astype(np.float64)
        own = even if run.sampler.calibrates else w
        first += len(values)
        mean, centre = np.sum(w * values, axis=1), np.sum(own * values, axis=1)
        parts = np.add.reduceat(own * (values - centre[:, None]), starts, axis=1)
        found.append((mean, centre, values.var(axis=1), parts))
    whole = (np.concatenate(column) for column in zip(*found, strict=True))
    return [stock.rows.pairs(column.reshape(*shape, *column.shape[1:])) for column in whole]


def _noises(run: Run, noise: Noise, num: int) -> Iterator[Table]:
    """Errors of Ê as they might have been; the draws of states are independent."""
    random, parts = np.random.default_rng(0), noise.parts
    scale = math.sqrt(parts.shape[2] / max(1, parts.shape[2] - 1))
    width = 1 if run.settings.passes.coupled else parts.shape[1]
    for _ in range(num):
        yield scale * np.sum(random.standard_normal((len(parts), width, parts.shape[2])) * parts, axis=2)


def _completed(run: Run, expected: Table) -> Table:
    """Expectations of all pairs, where only some were drawn."""
    observed = _observed(run, expected)
    if observed.mask.all():
        return expected
    return run.completion.complete(observed, np.zeros_like(expected), ()).q


def _observed(run: Run, expected: Table) -> Observed:
    return Observed(expected, as_mask(run.problem, run.reused))


def _lacks(missed: Float[np.ndarray, "m A"], num_states: int) -> Iterator[Table]:
    """What the completion may miss in every state: what it misses in one of the states that are known, chosen at random."""
    random = np.random.default_rng(1)
    while True:
        yield missed[random.integers(len(missed), size=num_states)]


def chosen_moves(run: Run, q: Table) -> Any:
    """P `[S, S]`, sparse, of the best action of each state among those that were drawn, from its draws."""
    assert run.stocks is not None
    size, grid = run.problem.num_states, run.problem.grid
    block, stock = run.reused[0], run.stocks[0]  # every state has a row in the first one
    best = np.argmax(q[block.states[:, None], block.actions], axis=1)
    at = np.arange(len(best)), best
    places = stock.rows.pairs(np.asarray(stock.locations))[at]
    weights = None if stock.weights is None else stock.rows.pairs(np.asarray(stock.weights))[at].ravel().astype(np.float64)
    if run.problem.law == "linear":
        places = _nearest(grid, np.moveaxis(places, 1, 2))  # near enough for an estimate
    n = places.shape[-1]
    rows = np.repeat(block.states, n)
    given = np.full(rows.size, 1 / n) if weights is None else weights
    return scipy.sparse.coo_array((given, (rows, places.ravel().astype(np.int64))), shape=(size, size)).tocsr()


def _nearest(grid: Grid, points: Float[np.ndarray, "S n d"]) -> Int[np.ndarray, "S n"]:
    """Flat indices of the nearest states."""
    index = np.zeros(points.shape[:2], np.int64)
    for axis, (low, step, num) in enumerate(zip(grid.lower, grid.spacing, grid.points, strict=True)):
        nearest = np.rint((points[:, :, axis] - low) / step).astype(np.int64)
        index = index * num + (nearest % num if grid.periodic[axis] else np.clip(nearest, 0, num - 1))
    return index
