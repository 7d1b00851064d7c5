"""An iteration that stays on the devices: for draws that are kept, backed up in full or completed from anchors.

Every device backs up the actions of its own states, mixes them to all actions (C·U⁺·R, completion/cross.py) and improves
its part of Q. What they tell each other is small: the entries of the anchor states, V, and the numbers of the history. Q
itself goes to the host only where somebody looks at it. Expectations are in float32, the table in float64, as on
the host (host.py), where the same steps are taken with the same formulas.

Each device works in the shape of a tile, one tile after the other, and what goes between the devices is moved, not computed
with: the bits do not depend on the number of devices.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.completion.completion import AbstractCompletion, Mixing
from hamq.completion.cross import mix, mixing_weights
from hamq.completion.selection import Pairs
from hamq.learning.backup import Stock, single
from hamq.learning.devices import Devices
from hamq.learning.layout import over_tiles
from hamq.learning.tables import AbstractTables, Improved
from hamq.problem.problem import Problem
from hamq.solution import Cost


class Table(NamedTuple):
    """Q where its states live; V = max_a Q as the next backup wants it, and Q at the anchor states, known to all devices."""

    q: Float[Array, "tiles tile A"]
    value: Float[Array, " rows"]
    at_anchors: Float[Array, "m A"]


class Mixture(NamedTuple):
    """How the columns make up all actions, and what is wrong with the entries of the anchor states."""

    weights: Float[Array, "k A"]
    rank: Int[Array, ""]
    residual: Float[Array, ""]
    is_finite: Bool[Array, ""]


class BackedUp(NamedTuple):
    """E[V] of the columns where their states live, and of the entries of the anchor states, known to all devices."""

    expected: Float[Array, "tiles tile k"]
    at_anchors: Float[Array, "..."] | None


class Mixtures(NamedTuple):
    """Of every device of this process; None where nothing is mixed."""

    own: list[Any]
    memory: tuple[np.ndarray, ...] = ()


class Shape(NamedTuple):
    """Of the entries of the anchor states: how many there are, the actions, and the places of the columns among them."""

    num: int
    tried: tuple[int, ...]
    inside: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Sweep(AbstractTables[Table, BackedUp, Mixtures]):
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

    def place(self, q: Float[np.ndarray, "S A"]) -> Table:
        value, rows = np.zeros(self._num_rows, np.float32), self.mixing.states
        value[: len(q)] = single(q.max(axis=1))
        with jax.enable_x64(True):
            return Table(_dealt(self.columns, q), self.devices.known(value), self.devices.known(q[rows]))

    def fetch(self, table: Table) -> Float[np.ndarray, "S A"]:
        """Q on the host."""
        return self.devices.gather(table.q).reshape(-1, self.problem.num_actions)[: self.problem.num_states]

    def back_up(self, pairs: tuple[Pairs, ...], table: Table, t: int) -> tuple[BackedUp, Cost]:
        """E[V] of the columns, each device for its own states, and of the anchor states, told to all."""
        del pairs, t  # they are those of the draws that are kept
        expected = self.columns.dealt(self.problem, table.value)
        found = None if self.anchors is None else self.devices.exchanged(self.anchors.dealt(self.problem, table.value))
        return BackedUp(expected, found), Cost(0, 0, 0)

    def complete(self, backed_up: BackedUp, table: Table, memory: tuple[np.ndarray, ...]) -> Mixtures:
        """The weights that make up all actions, found by every device for itself."""
        del memory
        if backed_up.at_anchors is None:
            return Mixtures([None] * len(self.devices.own))
        given = *self.at_anchors, self._shape, self.mixing.continuation, self.problem.discount
        with jax.enable_x64(True):
            both = zip(self.devices.parts(backed_up.at_anchors), self.devices.parts(table.at_anchors), strict=True)
            return Mixtures([_mixture(*own, *given) for own in both])

    def improve(self, backed_up: BackedUp, done: Mixtures, table: Table, step: float) -> tuple[Table, Improved]:
        devices, columns, nothing = self.devices, self.mixing.columns, [None] * len(self.devices.own)
        drawn = None if columns is None else tuple(columns.tolist())
        with jax.enable_x64(True):
            tables = (backed_up.expected, table.q, self.rewards, self.is_ended, self.exact)
            own = zip(*(nothing if part is None else devices.parts(part) for part in tables), strict=True)
            first, given = devices.own_part.start, (np.float64(step), self.problem.discount)
            improved = [
                _improved(own_tables, mixture, drawn, self.mixing.states, np.int64(first + i), *given)
                for i, (own_tables, mixture) in enumerate(zip(own, done.own, strict=True))
            ]
            q, value, picked, numbers = (devices.dealt(list(parts)) for parts in zip(*improved, strict=True))
            if columns is None:  # there are no anchors to tell of, and nothing is not exchanged
                value, picked = devices.exchanged(value), table.at_anchors
            else:
                value, picked = devices.exchanged((value, picked))
                picked = picked if devices.num == 1 else _sum_of_parts(picked, devices.num)
        return Table(q, value, picked), self._told(devices.gather(numbers), done.own[0])

    def _told(self, of_tiles: Float[np.ndarray, "tiles 4"], mixture: Mixture | None) -> Improved:
        residual, change, square, is_finite = of_tiles[: -(-self.problem.num_states // self.rewards.shape[1])].T
        rank, largest, finite = self.problem.num_actions, float(residual.max()), bool(is_finite.min())
        if mixture is not None:
            rank, largest = int(mixture.rank), max(largest, float(mixture.residual))
            finite = finite and bool(mixture.is_finite)
        return Improved(float(np.sqrt(square.sum())) / self.norm, largest, float(change.max()), rank, finite)


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
    weights, rank = mixing_weights(found, shape.inside)
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
            mixed = mix(expected, mixture.weights)
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
