"""The grid of states: a box, a number of points per axis, and which axes are circles.

An ordinary axis includes both ends: spacing (upper − lower)/(points − 1). A periodic axis is a circle of length
upper − lower: its end point is its start point, so it is left out, and the spacing is (upper − lower)/points.
The cell of a node is what is nearer to it than to any other node: the cells at the ends of an ordinary axis are half
cells, a periodic axis has neither ends nor half cells.

Grids are lazy: 10³⁸ states can be described; only `states()` and `locate` must enumerate, and refuse what they cannot.
"""

import itertools
import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.types import HamqError, as_power

MAX_ENUMERATED = 2**31 - 1
"""States that an int32 index can tell apart: JAX wraps larger ones to negative numbers without a word."""


class Grid(eqx.Module):
    """A regular grid over the box [lower, upper]; `periodic[i]` makes axis i a circle."""

    lower: tuple[float, ...] = eqx.field(static=True)
    upper: tuple[float, ...] = eqx.field(static=True)
    points: tuple[int, ...] = eqx.field(static=True)
    periodic: tuple[bool, ...] = eqx.field(static=True)

    def __init__(self, lower, upper, points, periodic: Sequence[bool] | bool | None = None):
        self.lower = _floats("lower", lower)
        self.upper = _floats("upper", upper)
        d = len(self.lower)
        self.points = _per_axis("points", points, d, int)
        self.periodic = _per_axis("periodic", False if periodic is None else periodic, d, bool)

    def __check_init__(self):
        d = len(self.lower)
        for name in ("upper", "points", "periodic"):
            if len(getattr(self, name)) != d:
                raise HamqError(
                    f"Grid: {name} has {len(getattr(self, name))} entries and lower has {d}; give one per state dimension."
                )
        for i, (low, high, n) in enumerate(zip(self.lower, self.upper, self.points, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high)):
                raise HamqError(
                    f"Grid: axis {i} runs from {low} to {high}; the box must be finite; cut it where the state has no use."
                )
            if low >= high:
                raise HamqError(f"Grid: axis {i} has lower = {low} and upper = {high}; lower must be below upper.")
            if n < 2:
                raise HamqError(f"Grid needs at least 2 points per axis, got points = {n} on axis {i}.")

    @property
    def dimension(self) -> int:
        return len(self.lower)

    @property
    def num_states(self) -> int:
        """A Python int, so that 9⁴⁰ is 9⁴⁰."""
        return math.prod(self.points)

    @property
    def widths(self) -> tuple[float, ...]:
        return tuple(high - low for low, high in zip(self.lower, self.upper, strict=True))

    @property
    def spacing(self) -> tuple[float, ...]:
        return tuple(
            width / (n if circle else n - 1)
            for width, n, circle in zip(self.widths, self.points, self.periodic, strict=True)
        )

    def axis_nodes(self, axis: int) -> np.ndarray:
        low, h, n = self.lower[axis], self.spacing[axis], self.points[axis]
        nodes = low + h * np.arange(n)
        if not self.periodic[axis]:
            nodes[-1] = self.upper[axis]
        return nodes

    def axis_edges(self, axis: int) -> np.ndarray:
        """The n + 1 ends of the n cells of one axis."""
        nodes, h = self.axis_nodes(axis), self.spacing[axis]
        middles = (nodes[:-1] + nodes[1:]) / 2
        if self.periodic[axis]:
            return np.concatenate([[nodes[0] - h / 2], middles, [nodes[-1] + h / 2]])
        return np.concatenate([nodes[:1], middles, nodes[-1:]])

    def require_enumerable(self, what: str) -> None:
        if self.num_states > MAX_ENUMERATED:
            raise HamqError(
                f"{what} must enumerate the grid's {as_power(self.num_states, 3)} states, more than {MAX_ENUMERATED:.3e}; "
                "use fewer points per axis, or hamq.solve_tensor."
            )

    def states(self) -> np.ndarray:
        """All states `[S, d]` in float64, last axis fastest."""
        num_bytes = 8 * self.dimension * self.num_states
        if self.num_states > MAX_ENUMERATED or num_bytes > 2**36:
            raise HamqError(
                f"Grid.states() would enumerate {as_power(self.num_states, 3)} states in {as_power(num_bytes, 3)} bytes; "
                "use fewer points per axis, or states_at() for the ones that are needed."
            )
        return self.states_at(np.arange(self.num_states))

    def states_at(self, indices: Int[np.ndarray, " S"]) -> Float[np.ndarray, "S d"]:
        """The states with these flat indices, in float64."""
        coordinates = np.unravel_index(indices, self.points)
        return np.stack([self.axis_nodes(i)[c] for i, c in enumerate(coordinates)], axis=-1)

    def coordinates(self, point: Float[Array, " d"]) -> Int[Array, " d"]:
        """The nearest node on each axis; what lies outside the box goes to the end node."""
        n = jnp.asarray(self.points, jnp.int32)
        lower, h = self._constant(self.lower, point), self._constant(self.spacing, point)
        nearest = jnp.round((point - lower) / h).astype(jnp.int32)
        return jnp.where(jnp.asarray(self.periodic), nearest % n, jnp.clip(nearest, 0, n - 1))

    def locate(self, point: Float[Array, " d"]) -> Int[Array, ""]:
        """Flat index of the nearest state."""
        self.require_enumerable("Grid.locate")
        strides = np.cumprod((1, *self.points[:0:-1]))[::-1]
        return jnp.sum(self.coordinates(point) * jnp.asarray(strides, jnp.int32), dtype=jnp.int32)

    def wrap(self, point: Float[Array, " d"]) -> Float[Array, " d"]:
        """The same state with its periodic coordinates in [lower, upper)."""
        if not any(self.periodic):
            return point
        lower, width = self._constant(self.lower, point), self._constant(self.widths, point)
        return jnp.where(jnp.asarray(self.periodic), lower + (point - lower) % width, point)

    def contains(self, point: Float[Array, " d"]) -> Bool[Array, ""]:
        lower, upper = self._constant(self.lower, point), self._constant(self.upper, point)
        return jnp.all(jnp.asarray(self.periodic) | ((point >= lower) & (point <= upper)))

    def interpolate(self, values: Float[Array, " S"], point: Float[Array, " d"]) -> Float[Array, ""]:
        """Multilinear interpolation of node values at one point; constant beyond the box."""
        self.require_enumerable("Grid.interpolate")
        lower, h = self._constant(self.lower, point), self._constant(self.spacing, point)
        n = jnp.asarray(self.points, jnp.int32)
        circle = jnp.asarray(self.periodic)
        position = (point - lower) / h
        last = self._constant([m - 1 for m in self.points], point)
        position = jnp.where(circle, position % n.astype(point.dtype), jnp.clip(position, 0, last))
        left = jnp.minimum(jnp.floor(position).astype(jnp.int32), jnp.where(circle, n - 1, n - 2))
        share = position - left.astype(point.dtype)
        right = jnp.where(circle, (left + 1) % n, left + 1)
        strides = np.cumprod((1, *self.points[:0:-1]))[::-1]
        total = jnp.zeros((), point.dtype)
        for corner in itertools.product((0, 1), repeat=self.dimension):
            index = sum((right[i] if up else left[i]) * int(strides[i]) for i, up in enumerate(corner))
            weight = math.prod([share[i] if up else 1 - share[i] for i, up in enumerate(corner)])
            total = total + weight * values[index]
        return total

    def _constant(self, values, like: Array) -> Array:
        return jnp.asarray(np.asarray(values, np.float64), like.dtype)


def _floats(name: str, values) -> tuple[float, ...]:
    values = np.asarray(values)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iuf":
        raise HamqError(f"Grid: {name} must be a list of numbers, one per state dimension, got {values!r}.")
    return tuple(float(v) for v in values)


def _per_axis(name: str, values, d: int, kind: type) -> tuple:
    values = np.asarray(values)
    allowed = "iu" if kind is int else "b"
    if values.dtype.kind not in allowed or values.ndim > 1:
        raise HamqError(f"Grid: {name} must be one {kind.__name__} or a list of them, got {values!r}.")
    return tuple(kind(v) for v in (np.broadcast_to(values, (d,)) if values.ndim == 0 else values))
