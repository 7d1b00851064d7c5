"""An iteration that stays on the devices: for draws that are kept, backed up in full or completed from anchors.

Every device backs up the actions of its own states, mixes them to all actions (C·U⁺·R, completion/anchors.py) and improves
its part of Q. What they tell each other is small: the entries of the anchor states, V, and the numbers of the history. Q
itself goes to the host only where somebody looks at it. Expectations are in float32, the table in float64, as in
`q_iteration`, which does the same with every table on the host.

Each device works in the shape of a tile, one tile after the other, and what goes between the devices is moved, not computed
with: the bits do not depend on the number of devices.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.completion.completion import AbstractCompletion, Mixing
from hamq.completion.cross import CUTOFF
from hamq.learning.backup import Stock, single
from hamq.learning.devices import Devices
from hamq.learning.layout import over_tiles
from hamq.problem.problem import Problem


class Table(NamedTuple):
    """Q where its states live; V = max_a Q as the next backup wants it, and Q at the anchor states, known to all devices."""

    q: Float[Array, "tiles tile A"]
    value: Float[Array, " rows"]
    at_anchors: Float[Array, "m A"]


class Numbers(NamedTuple):
    """Of one iteration; see `record.Row`."""

    distance: float
    residual: float
    change: float
    rank: int
    is_finite: bool


class Mixture(NamedTuple):
    """How the columns make up all actions, and what is wrong with the entries of the anchor states."""

    weights: Float[Array, "k A"]
    rank: Int[Array, ""]
    residual: Float[Array, ""]
    is_finite: Bool[Array, ""]


class Shape(NamedTuple):
    """Of the entries of the anchor states: how many there are, the actions, and the places of the columns among them."""

    num: int
    tried: tuple[int, ...]
    inside: tuple[int, ...]


class Sweep(NamedTuple):
    """What stays the same: draws, rewards, ends, and the exact table to compare with."""

    problem: Problem
    columns: Stock
    anchors: Stock | None
    mixing: Mixing
    rewards: Float[Array, "tiles tile A"]
    is_ended: Bool[Array, "tiles tile 1"]
    exact: Float[Array, "tiles tile A"] | None
    at_anchors: tuple[np.ndarray, np.ndarray]
    """Rewards and ends of the anchor states."""
    norm: float

    @property
    def devices(self) -> Devices:
        return self.columns.devices

    @property
    def _num_rows(self) -> int:
        """Rows of all devices, with those that pad them."""
        return self.columns.rows.states_per_device * self.devices.num

    @property
    def _shape(self) -> Shape:
        assert self.anchors is not None and self.mixing.columns is not None
        rows, tried, columns = self.anchors.rows, self.mixing.tried, self.mixing.columns
        inside = np.searchsorted(tried, columns)
        return Shape(rows.num, tuple(tried.tolist()), tuple(inside.tolist()))

    def start(self, q: Float[np.ndarray, "S A"]) -> Table:
        value, rows = np.zeros(self._num_rows, np.float32), self.mixing.states
        value[: len(q)] = single(q.max(axis=1))
        with jax.enable_x64(True):
            return Table(_dealt(self.columns, q), self.devices.known(value), self.devices.known(q[rows]))

    def table(self, table: Table) -> Float[np.ndarray, "S A"]:
        """Q on the host."""
        return self.devices.gather(table.q).reshape(-1, self.problem.num_actions)[: self.problem.num_states]

    def improve(self, table: Table, step: float) -> tuple[Table, Numbers]:
        devices, discount = self.devices, self.problem.discount
        expected = self.columns.dealt(self.problem, table.value)
        nothing = [None] * len(devices.own)
        mixtures: list[Mixture] | list[None] = nothing
        found = None if self.anchors is None else devices.exchanged(self.anchors.dealt(self.problem, table.value))
        with jax.enable_x64(True):
            if found is not None:
                both = zip(devices.parts(found), devices.parts(table.at_anchors), strict=True)
                mixtures = [
                    _mixture(*own, *self.at_anchors, self._shape, self.mixing.continuation, discount) for own in both
                ]
            tables = (expected, table.q, self.rewards, self.is_ended, self.exact)
            own = zip(*(nothing if part is None else devices.parts(part) for part in tables), strict=True)
            columns, states = self.mixing.columns, self.mixing.states
            drawn = None if columns is None else tuple(columns.tolist())
            first = devices.own_part.start
            done = [
                _improved(own_tables, mixture, drawn, states, np.int64(first + i), np.float64(step), discount)
                for i, (own_tables, mixture) in enumerate(zip(own, mixtures, strict=True))
            ]
            q, value, picked, numbers = (devices.dealt(list(parts)) for parts in zip(*done, strict=True))
            if columns is None:  # there are none to tell of, and nothing is not exchanged
                value, picked = devices.exchanged(value), table.at_anchors
            else:
                value, picked = devices.exchanged((value, picked))
                picked = picked if devices.num == 1 else _sum_of_parts(picked, devices.num)
        return Table(q, value, picked), self._numbers(devices.gather(numbers), mixtures[0])

    def _numbers(self, of_tiles: Float[np.ndarray, "tiles 4"], mixture: Mixture | None) -> Numbers:
        residual, change, square, is_finite = of_tiles[: -(-self.problem.num_states // self.rewards.shape[1])].T
        rank, largest, finite = self.problem.num_actions, float(residual.max()), bool(is_finite.min())
        if mixture is not None:
            rank, largest = int(mixture.rank), max(largest, float(mixture.residual))
            finite = finite and bool(mixture.is_finite)
        return Numbers(float(np.sqrt(square.sum())) / self.norm, largest, float(change.max()), rank, finite)


def make_sweep(
    problem: Problem,
    completion: AbstractCompletion,
    stocks: tuple[Stock, ...],
    rewards: Float[np.ndarray, "S A"],
    is_ended: Bool[np.ndarray, "S 1"],
    exact: Float[np.ndarray, "S A"] | None,
) -> Sweep | None:
    """None where states are not completed one by one, from their own entries."""
    mixing = completion.mixing
    if mixing is None:
        return None
    columns, anchors = (*stocks, None)[:2]
    assert columns is not None
    dealt = (None if table is None else _dealt(columns, table) for table in (rewards, is_ended, exact))
    states = mixing.states
    norm = float("nan") if exact is None else float(np.linalg.norm(exact))
    return Sweep(problem, columns, anchors, mixing, *dealt, (rewards[states], is_ended[states]), norm)  # type: ignore[arg-type]


def _dealt(stock: Stock, table: np.ndarray) -> Array:
    """A table of all states, laid out like the rows of the stock; rows that pad it have ended, and are 0 for ever."""
    rows, devices = stock.rows, stock.devices
    missing = rows.states_per_device * devices.num - len(table)
    padded = np.pad(table, ((0, missing), (0, 0)), constant_values=table.dtype == bool)
    padded = padded.reshape(devices.num, -1, rows.tile, table.shape[1])
    with jax.enable_x64(True):
        return devices.dealt(list(padded[devices.own_part]))


@eqx.filter_jit
def _mixture(found, q, rewards, is_ended, shape: Shape, continuation, discount: float) -> Mixture:
    found, tried = found.reshape(-1, found.shape[-1])[: shape.num].astype(jnp.float64), np.asarray(shape.tried)
    weights, rank = mixing(found, shape.inside)
    if continuation is not None:
        weights = weights @ continuation
    observed = jnp.where(is_ended, 0, rewards[:, tried] + discount * found)
    residual = jnp.max(jnp.abs(observed - q[:, tried]))
    return Mixture(weights, rank, residual, jnp.all(jnp.isfinite(observed)))


@eqx.filter_jit
def _improved(own_tables, mixture: Mixture | None, drawn, states, place, step, discount: float):
    """(Q, V, Q at the own anchor states and 0 at others, numbers of each tile) of one device."""

    def of_tile(expected, q, rewards, is_ended, exact):
        expected = expected.astype(jnp.float64)
        of_drawn = slice(None) if drawn is None else np.asarray(drawn)
        observed = jnp.where(is_ended, 0, rewards[:, of_drawn] + discount * expected)
        mixed = expected
        if mixture is not None:
            mixed = sum(expected[:, k, None] * mixture.weights[None, k] for k in range(expected.shape[1]))
        new = jnp.where(is_ended, 0, q + step * (rewards + discount * mixed - q))
        residual, change = jnp.max(jnp.abs(observed - q[:, of_drawn])), jnp.max(jnp.abs(new - q))
        square = jnp.asarray(jnp.nan) if exact is None else jnp.sum((new - exact) ** 2)
        is_finite = jnp.all(jnp.isfinite(observed)) & jnp.all(jnp.isfinite(new))
        numbers = jnp.stack([residual, change, square, is_finite.astype(jnp.float64)])
        return new, jnp.max(new, axis=1).astype(jnp.float32), numbers

    new, value, numbers = over_tiles(of_tile, *own_tables)
    flat = new.reshape(-1, new.shape[-1])
    at = jnp.asarray(states, jnp.int64) - place * len(flat)
    is_here = (at >= 0) & (at < len(flat))
    picked = jnp.where(is_here[:, None], flat[jnp.clip(at, 0, len(flat) - 1)], 0)
    return new, value.reshape(-1), picked, numbers


@eqx.filter_jit
def _sum_of_parts(parts: Array, num: int) -> Array:
    """Of which all but one are 0 in every entry."""
    return jnp.sum(parts.reshape(num, -1, parts.shape[-1]), axis=0)


def mixing(rows: Float[Array, "m T"], inside: tuple[int, ...]) -> tuple[Float[Array, "k T"], Int[Array, ""]]:
    """Weights W with U·W ≈ R in least squares, U = R[:, inside], and the rank of U: `anchors.mixing_weights` on a device.

    Gram–Schmidt, every vector twice, as accurate as Householder's; no LAPACK, which CPU devices cannot call side by side. A
    column that those before it express gets the weight 0 (the pseudo-inverse would share its weight among them).
    """
    basis: list[Array] = []
    upper, is_new, rest, shares = [], [], rows, []
    for column in inside:
        vector, entries = rows[:, column], [jnp.zeros((), rows.dtype)] * len(basis)
        length = jnp.sqrt(jnp.sum(vector**2))
        for _ in range(2):
            for i, known in enumerate(basis):
                share = jnp.sum(known * vector)
                vector, entries[i] = vector - share * known, entries[i] + share
        left = jnp.sqrt(jnp.sum(vector**2))
        new = left > CUTOFF * length
        unit = jnp.where(new, vector / jnp.where(new, left, 1), 0)
        basis.append(unit)
        upper.append([*entries, jnp.where(new, left, 1)])
        is_new.append(new)
        share = jnp.sum(unit[:, None] * rest, axis=0)
        rest = rest - unit[:, None] * share[None, :]
        shares.append(share)
    weights: dict[int, Array] = {}
    for k in reversed(range(len(basis))):
        later = sum(upper[j][k] * weights[j] for j in range(k + 1, len(basis)))
        weights[k] = jnp.where(is_new[k], (shares[k] - later) / upper[k][k], 0)
    return jnp.stack([weights[k] for k in range(len(basis))]), jnp.sum(jnp.stack(is_new))
