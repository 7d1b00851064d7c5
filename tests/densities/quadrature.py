"""Masses of one pair by composite Gauss rules in plain NumPy: nothing of the library is used, its grids least of all.

An axis is cut at the ends of its cells (law "cell") or at its nodes (law "linear"), at the places where the density
jumps, and where its reach ends; every panel is then divided until it is no longer than the density's `scale`. What an
axis contributes to the masses is a matrix: Gauss weights times the indicator of a cell, or times a hat function.
"""

from typing import NamedTuple

import numpy as np

from tests.densities.record import Density


class Rule(NamedTuple):
    """Gauss points `[n]` of one axis, their weights `[n]`, and their shares of the masses of its m nodes `[n, m]`."""

    points: np.ndarray
    weights: np.ndarray
    shares: np.ndarray


class Rules(NamedTuple):
    """The rules of all axes for one pair."""

    axes: tuple[Rule, ...]

    @property
    def grid(self) -> list[np.ndarray]:
        """The points of every axis, shaped so that they broadcast."""
        d = len(self.axes)
        return [rule.points.reshape([-1 if i == j else 1 for j in range(d)]) for i, rule in enumerate(self.axes)]


def nodes(density: Density, axis: int) -> np.ndarray:
    """Both ends belong to an axis; a circle leaves the second one out."""
    ends = density.lower[axis], density.upper[axis]
    return np.linspace(*ends, density.points[axis], endpoint=not density.circles[axis])


def states(density: Density) -> np.ndarray:
    """All nodes `[S, d]`, last axis fastest."""
    axes = np.meshgrid(*(nodes(density, i) for i in range(density.dimension)), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def rules(density: Density, state, action, law: str | None = None, fineness: float = 1.0) -> Rules:
    """The quadrature of one pair; `fineness` 2 halves the panels."""
    law, d = law or density.law, density.dimension
    centre = density.centre(state, action)
    breaks = density.breaks(state, action) if density.breaks else ((),) * d
    return Rules(tuple(_rule(density, i, law, centre[i], tuple(breaks[i]), fineness) for i in range(d)))


def log_density(density: Density, state, action, points) -> np.ndarray:
    """log p at points that broadcast, wrapped round the circles; NaN nowhere."""
    wrapped = [
        low + (x - low) % width if circle else x
        for x, low, width, circle in zip(points, density.lower, density.widths, density.circles, strict=True)
    ]
    with np.errstate(all="ignore"):
        log = density.logdensity(np, wrapped, state, action)
    return np.broadcast_to(log, np.broadcast_shapes(*(x.shape for x in points)))


def row(density: Density, state, action, law: str | None = None, fineness: float = 1.0) -> np.ndarray:
    """P(next node | state, action), `[S]`: the mass of the truncated density in every cell, or under every hat."""
    found = rules(density, state, action, law, fineness)
    log = log_density(density, state, action, found.grid)
    top = log.max()
    if not np.isfinite(top):
        raise ValueError(f"{density.name} has no mass in the box at {state}, {action}: the largest log-density is {top}.")
    mass = np.exp(log - top)
    for rule in found.axes:  # sums the leading axis and appends its nodes at the end
        mass = np.tensordot(mass, rule.shares, axes=(0, 0))
    mass = mass.ravel()
    return mass / mass.sum()


def draw(density: Density, state, action, generator: np.random.Generator) -> np.ndarray:
    """One next state `[d]`, by its quadrature point and uniform in between: the law itself, up to the panels' width."""
    found = rules(density, state, action)
    log = log_density(density, state, action, found.grid)
    mass = np.exp(log - log.max())
    for i, rule in enumerate(found.axes):
        mass = mass * rule.weights.reshape([-1 if i == j else 1 for j in range(len(found.axes))])
    reached = np.cumsum(mass.ravel())
    picked = int(np.searchsorted(reached, generator.random() * reached[-1], side="right"))
    at = np.unravel_index(min(picked, reached.size - 1), mass.shape)
    return np.asarray([rule.points[i] for rule, i in zip(found.axes, at, strict=True)])


def _rule(density: Density, axis: int, law: str, centre, breaks: tuple, fineness: float) -> Rule:
    at = nodes(density, axis)
    width, circle = density.widths[axis], density.circles[axis]
    spacing = width / (len(at) if circle else len(at) - 1)
    if law == "cell":
        middles = at[:-1] + spacing / 2
        ends = (at[0] - spacing / 2, at[-1] + spacing / 2) if circle else (at[0], at[-1])
        edges = np.concatenate([ends[:1], middles, ends[1:]])
    else:
        edges = np.append(at, density.upper[axis]) if circle else at
    low, high = edges[0], edges[-1]
    jumps = np.asarray(breaks, float)
    jumps = low + (jumps - low) % width if circle else jumps
    if density.reach is not None and not circle:
        low, high = max(low, centre - density.reach), min(high, centre + density.reach)
    cuts = np.unique(np.concatenate([edges, jumps, [low, high]]))
    cuts = cuts[(cuts >= low) & (cuts <= high)]
    points, weights = _gauss(cuts, density.scale / fineness, density.order)
    shares = _cells(points, edges) if law == "cell" else _hats(points, at, spacing, circle)
    return Rule(points, weights, weights[:, None] * shares)


def _gauss(cuts: np.ndarray, longest: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights on panels between the cuts, none of them longer than `longest`."""
    lengths = np.diff(cuts)
    parts = np.maximum(np.ceil(lengths / longest - 1e-9), 1).astype(int)
    width = np.repeat(lengths / parts, parts)
    index = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    start = np.repeat(cuts[:-1], parts) + index * width
    at, weight = np.polynomial.legendre.leggauss(order)
    points = start[:, None] + width[:, None] * (at + 1) / 2
    return points.ravel(), (width[:, None] * weight / 2).ravel()


def _cells(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    cell = np.searchsorted(edges, points, side="right") - 1
    return (cell[:, None] == np.arange(len(edges) - 1)).astype(float)


def _hats(points: np.ndarray, at: np.ndarray, spacing: float, circle: bool) -> np.ndarray:
    distance = np.abs(points[:, None] - at) / spacing
    if circle:
        distance = np.minimum(distance, len(at) - distance)
    return np.maximum(1 - distance, 0)
