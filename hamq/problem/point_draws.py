"""Next states drawn from the density itself, by the quadrature that makes its masses.

Nodes (`pick_by_axis`) come from a row of masses: the first coordinate by its marginal law, the second given the first, …
Points of a continuous law (`draw_points`) come in three steps. The box is refined for each pair until its masses are as good
as was asked for (`quadrature.py`); one of the parts is picked by its mass; the part is divided into equal boxes, one of
which is picked by the density at its middle, and the point is anywhere in that box.

Every coordinate has uniform numbers of its own. Pairs that are alike and share them have next states that are alike.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.problem.evaluation import numbers
from hamq.problem.grid import Grid
from hamq.problem.integrand import Integrand
from hamq.problem.needles import divisions_for
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.problem.quadrature import FIRST_VALUES, Refinement
from hamq.problem.rules import make_rule, num_points, orders
from hamq.types import HamqError

BOXES = {1: 64, 2: 16, 3: 8}
"""Boxes along each axis of a part, by dimension."""
FEWEST_BOXES = 5
PARTS_PER_CALL = (1, 64)
"""Parts that are divided in one call: an environment has one, rollouts have many."""


class PointDraws(NamedTuple):
    """One next state of each pair, the estimated error of the law that it was drawn from (total variation), and the cost."""

    points: Float[np.ndarray, "P m"]
    errors: Float[np.ndarray, " P"]
    evaluations: Int[np.ndarray, " P"]


def pick_by_axis(
    masses: Float[np.ndarray, "R N"], shape: tuple[int, ...], uniforms: Float[np.ndarray, "P d"], own: Int[np.ndarray, " P"]
) -> Int[np.ndarray, "P d"]:
    """Coordinates of one cell of each of the rows `own`; `shape`: cells along each axis, the last axis fastest."""
    rest, chosen = masses.reshape(len(masses), *shape), np.empty(uniforms.shape, np.int64)
    for axis, n in enumerate(shape):
        reached = np.cumsum(rest.reshape(len(rest), n, -1).sum(axis=2), axis=1)[own if axis == 0 else slice(None)]
        goal = uniforms[:, axis] * reached[:, -1]
        chosen[:, axis] = np.minimum(np.sum(reached <= goal[:, None], axis=1), n - 1)
        rest = rest[own if axis == 0 else np.arange(len(own)), chosen[:, axis]]
    return chosen


def num_uniforms(dimension: int) -> int:
    """Uniform numbers of one point: pieces and boxes along each axis, and the part of a piece."""
    return 2 * dimension + 1


def draw_points(
    problem: Problem,
    states: Float[np.ndarray, "P d"],
    actions: Float[np.ndarray, "P *k"],
    uniforms: Float[np.ndarray, "P u"],
    tolerance: float,
    max_evaluations: int | float = np.inf,
    axis: int | None = None,
) -> PointDraws:
    """One point of the law of each pair, of any states of the box; law="linear". Refuses a pair without any density.

    `axis`: one coordinate `[P, 1]` of a product kernel.
    """
    integrand = Integrand(problem, axis)
    pairs = np.concatenate([states, np.asarray(actions).reshape(len(states), -1)], axis=1)
    _, first, own = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    divisions = divisions_for(integrand, max_evaluations)
    per_pair = num_points(integrand.grid, problem.law) * divisions**integrand.grid.dimension
    own, size = own.reshape(-1), max(1, FIRST_VALUES // per_pair)
    shape = (len(states), integrand.grid.dimension)
    points, errors, evaluations = np.empty(shape), np.empty(len(states)), np.empty(len(states), np.int64)
    for start in range(0, len(first), size):
        block = np.flatnonzero((own >= start) & (own < start + size))
        pairs = first[start : start + size]
        refinement = Refinement(integrand, states[pairs], actions[pairs], divisions)
        refinement.refine(tolerance, max_evaluations)
        found = _draw_block(refinement, own[block] - start, uniforms[block])
        points[block], errors[block], evaluations[block] = found
    return PointDraws(points, errors, evaluations)


def _draw_block(refinement: Refinement, own: Int[np.ndarray, " P"], uniforms: Float[np.ndarray, "P u"]) -> PointDraws:
    """Points of pairs that are refined, given by their numbers: a pair may have several."""
    masses, errors = refinement.part_masses()
    integrand, parts, pieces = refinement.integrand, refinement.parts, refinement.pieces
    states, actions, d = refinement.evaluation.states, refinement.evaluation.actions, refinement.dimension
    _require_mass(integrand, states, actions, errors)
    chosen = _pick_parts(refinement, masses, own, uniforms[:, : d + 1])
    piece, lengths = parts.piece[chosen], pieces.lengths[parts.piece[chosen]]
    starts, sizes = pieces.starts[piece] + lengths * parts.low[chosen], lengths * parts.size[chosen]
    points = _points_of_parts(integrand, states[own], actions[own], starts, sizes, uniforms[:, d + 1 :])
    return PointDraws(points, errors[own], refinement.evaluations[own] + boxes_per_axis(d) ** d)


def _pick_parts(
    refinement: Refinement, masses: Float[np.ndarray, " N"], own: Int[np.ndarray, " P"], uniforms: Float[np.ndarray, "P u"]
) -> Int[np.ndarray, " P"]:
    """Numbers of parts: of each pair a piece axis by axis, then one of its parts."""
    grid, parts, num_pairs = refinement.grid, refinement.parts, refinement.num_pairs
    num_pieces, d = len(refinement.pieces.starts), grid.dimension
    shape = tuple(n - (not circle) for n, circle in zip(grid.points, grid.periodic, strict=True))
    owner = parts.pair * num_pieces + parts.piece
    of_pieces = np.bincount(owner, masses, num_pairs * num_pieces).reshape(num_pairs, num_pieces)
    piece = np.ravel_multi_index(tuple(pick_by_axis(of_pieces, shape, uniforms[:, :d], own).T), shape)
    order = np.lexsort((*parts.low.T[::-1], owner))
    owner, reached = owner[order], np.cumsum(masses[order])
    wanted = own * num_pieces + piece
    first, last = np.searchsorted(owner, wanted, "left"), np.searchsorted(owner, wanted, "right")
    before = np.where(first > 0, reached[first - 1], 0.0)
    goal = before + uniforms[:, d] * (reached[last - 1] - before)
    return order[np.clip(np.searchsorted(reached, goal, "right"), first, last - 1)]


def boxes_per_axis(dimension: int) -> int:
    return BOXES.get(dimension, FEWEST_BOXES)


def _points_of_parts(integrand: Integrand, states, actions, starts, sizes, uniforms) -> Float[np.ndarray, "P m"]:
    """One point of each part; parts are padded to calls of one size."""
    num = PARTS_PER_CALL[len(states) > PARTS_PER_CALL[0]]
    given = [np.asarray(a, np.float64) for a in (states, actions, starts, sizes, uniforms)]
    filled = -(-len(states) // num) * num
    given = [np.resize(a, (filled, *a.shape[1:])) for a in given]
    d = integrand.grid.dimension
    shape = (boxes_per_axis(d),) * d

    def trace(*arrays):
        return jax.lax.map(lambda one: _point_of_part(integrand, shape, *one), arrays)

    with jax.enable_x64(True):
        calls = [[a[first : first + num] for a in given] for first in range(0, filled, num)]
        run = program(("points of parts", integrand.constants), integrand.functions, trace, *calls[0])
        points = np.concatenate([np.asarray(run(*call)) for call in calls])[: len(states)]
    return _inside(integrand.grid, points)


def _point_of_part(integrand: Integrand, shape: tuple[int, ...], state, action, start, size, uniforms) -> Float[Array, " m"]:
    """A box by the density at its middle, and a place in it; the middle itself where that place has no density.

    A part that has no density at any middle has some at the points of its rule, or it would have no mass: the best of those.
    """
    n, d = shape[0], len(shape)
    log_at = integrand.log_at(state, action)
    middles = (np.stack(np.meshgrid(*[np.arange(n)] * d, indexing="ij"), axis=-1).reshape(-1, d) + 0.5) / n
    logs = jax.vmap(lambda middle: log_at(start + size * middle))(jnp.asarray(middles))
    logs = jnp.where(jnp.isnan(logs), -jnp.inf, logs)
    largest = jnp.max(logs)
    rest = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0)).reshape(shape)
    middle, place = [], []
    for axis in range(d):
        marginal = jnp.sum(rest.reshape(n, -1), axis=1)
        reached = jnp.cumsum(marginal)
        goal = uniforms[axis] * reached[-1]
        k = jnp.minimum(jnp.sum(reached <= goal), n - 1)
        share = jnp.clip((goal - (reached[k] - marginal[k])) / jnp.maximum(marginal[k], 1e-300), 0, 1)
        middle.append((k.astype(share.dtype) + 0.5) / n)
        place.append((k.astype(share.dtype) + share) / n)
        rest = rest[k]
    middle, place = start + size * jnp.stack(middle), start + size * jnp.stack(place)
    found = jnp.where(jnp.isfinite(log_at(place)), place, middle)
    others = start[:, None] + size[:, None] * jnp.asarray(_rule_positions(d).T)
    best = others[:, jnp.argmax(jnp.nan_to_num(jax.vmap(log_at, 1)(others), nan=-jnp.inf))]
    return jnp.where(jnp.isfinite(largest), found, best)


def _rule_positions(dimension: int) -> Float[np.ndarray, "M d"]:
    """Points of all rules that a part may have had."""
    orders_of = range(len(orders(dimension)))
    return np.concatenate([make_rule(dimension, order, False).positions for order in orders_of])


def _inside(grid: Grid, points: Float[np.ndarray, "P m"]) -> Float[np.ndarray, "P m"]:
    """Round the circles, and not beyond a wall by rounding."""
    lower, upper, widths = (np.asarray(a) for a in (grid.lower, grid.upper, grid.widths))
    wrapped = lower + (points - lower) % widths
    return np.where(np.asarray(grid.periodic), wrapped, np.clip(points, lower, upper))


def _require_mass(integrand: Integrand, states: Any, actions: Any, errors: Float[np.ndarray, " P"]) -> None:
    """Errors of a pair without any density are no numbers."""
    bad = ~np.isfinite(errors)
    if np.any(bad):
        first = int(np.argmax(bad))
        raise HamqError(
            f"the density of {integrand} has no finite mass in the box at state {numbers(states[first])}, action "
            f"{numbers(actions[first])} ({int(bad.sum())} of {len(bad)} pairs); the log-density must be a number "
            "somewhere in the box, and never NaN."
        )
