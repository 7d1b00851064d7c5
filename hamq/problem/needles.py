"""Into how many parts the pieces of a problem are divided before anything is refined, so that narrow peaks are seen.

A peak beside a broad part is seen by the quadrature only if a point comes within two or three of its widths: farther away
neither log p nor its gradient knows of it. One pair alone can therefore not tell how narrow its peaks are. But the pairs of
a problem are alike. A few of them are looked at with many more points, and one that sees a peak speaks for all.

Of each pair that was looked at, the width of the highest peak is measured: how far away log p has fallen by one half. The
points are too far apart for a peak that is narrower than their distance if the density is as large at one as at two of these
distances from it, so that nothing leads there. A peak with a slope all around is found by following the largest value,
however narrow it is.
"""

import itertools
import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.problem.actions import action_at
from hamq.problem.grid import Grid
from hamq.problem.integrand import Integrand
from hamq.problem.programs import remembered
from hamq.problem.quadrature import Refinement
from hamq.problem.rules import combinations, first_order, make_rule, num_points
from hamq.types import HamqWarning

LOOKED_AT, MOST_LOOKED_AT, SHARE_OF_WORK = 16, 64, 0.1
"""Pairs that are looked at: so many, or more where they take no more than this share of the first points of all pairs."""
LOOK = {1: 8, 2: 4, 3: 2}
"""Divisions of a piece along each axis in these pairs, by dimension; none in more."""
MOST = {1: 64, 2: 10, 3: 4}
"""Divisions at most of the pieces of all pairs."""
LOOSE, ROUNDS = 1e-3, 4
"""Error to which these pairs are refined, and their evaluations at most, in those of their first points."""
FALL, HALVINGS = 0.5, 20
"""What log p loses at the width of a peak, and how often the distance of the points is halved to find it."""
LEAST_SHARE = 0.01
"""Mass of a peak that matters, as a share of its row."""
NEAR, NEAR_ON_A_LINE = 2.5, 1.0
"""Widths of a peak within which a point must be. On a line few points see a peak, and both rules may see as much of it."""
ANNOUNCED, ANNOUNCED_ON_A_LINE = 1.5, 4.0
"""A peak is announced where log p falls by so much, on average, from one distance of the points to two."""


class Peak(NamedTuple):
    """Where the largest density of a pair is, how wide its peak is (in cells), and the pair's number."""

    place: Float[np.ndarray, " d"]
    width: float
    pair: int


class Needles(NamedTuple):
    """Divisions that the pieces of all pairs need, and the width (in cells) of the narrowest peak; 1 and inf without any."""

    divisions: int
    width: float


def divisions_for(integrand: Integrand, max_evaluations: int | float = np.inf) -> int:
    """Divisions of each piece along each axis; warns where more would be needed than are possible, or than are paid for."""
    found, grid = find_needles(integrand), integrand.grid
    d, per_pair = grid.dimension, num_points(grid, integrand.law)
    paid_for = int(max(1.0, min(1e6, (max_evaluations / per_pair) ** (1 / d))))
    allowed = min(MOST.get(d, 1), paid_for)
    if found.divisions <= allowed:
        return found.divisions
    points = max(_finer(grid, found.width).points)
    remedy = f"use a grid with more points ({points} along its longest axis)"
    if paid_for < min(found.divisions, MOST.get(d, 1)):
        needed = per_pair * min(found.divisions, MOST.get(d, 1)) ** d
        remedy += f" or a max_evaluations of {needed:.1e} for each pair"
    warnings.warn(
        f"{integrand}: the density has peaks of about {found.width:.2g} of a cell beside broader parts. Quadrature may "
        f"miss them where none of its points is near, and masses, exact answers and certificates with it; {remedy}.",
        HamqWarning,
        stacklevel=2,
    )
    return allowed


def _finer(grid: Grid, width: float) -> Grid:
    """A grid over the same box on which a peak of this width, in cells of the old one, is wide enough."""
    d, finer, factor = grid.dimension, grid, 1.0
    while _enough(d, make_rule(d, first_order(finer), False).reach, width * factor) > MOST.get(d, 1):
        factor *= 1.25
        finer = Grid(grid.lower, grid.upper, [int(np.ceil((n - 1) * factor)) + 1 for n in grid.points], grid.periodic)
    return finer


def _enough(dimension: int, reach: float, width: float) -> int:
    """Divisions with which points are near enough to a peak of this width, in cells."""
    return max(1, int(np.ceil(reach / ((NEAR if dimension > 1 else NEAR_ON_A_LINE) * width))))


def find_needles(integrand: Integrand) -> Needles:
    """What a few pairs say of the peaks of all; looked for once for each problem."""
    problem = integrand.problem
    if problem.kernel.has_one_mode:
        return Needles(1, np.inf)
    actions = getattr(problem.actions, "levels", None) or np.asarray(problem.actions).tobytes()
    job = ("needles", integrand.constants, problem.action_shape, actions)
    return remembered(job, integrand.functions, lambda: _found(integrand))


def _found(integrand: Integrand) -> Needles:
    d, order = integrand.grid.dimension, first_order(integrand.grid)
    reach = make_rule(d, order, False).reach
    try:
        refinement = _looked_at(integrand)
    except ValueError:  # what is no density is refused by whoever needs the pair
        return Needles(1, np.inf)
    needles = Needles(1, np.inf)
    for peak in _peaks(refinement, reach):
        narrow = _divisions(refinement, peak, reach)
        if narrow > needles.divisions:
            needles = Needles(narrow, peak.width)
    return needles


def _looked_at(integrand: Integrand) -> Refinement:
    """A few pairs, refined from many more points than others begin with."""
    problem, d = integrand.problem, integrand.grid.dimension
    num_pairs = problem.num_states * problem.num_actions
    look = LOOK.get(d, 1)
    num = min(num_pairs, max(LOOKED_AT, min(MOST_LOOKED_AT, int(SHARE_OF_WORK * num_pairs / look**d))))
    random = np.random.default_rng(0)
    states = problem.grid.states_at(random.integers(problem.num_states, size=num))
    last = min(problem.num_actions, 2**62)
    actions = np.stack([np.asarray(action_at(problem.actions, int(k)), float) for k in random.integers(last, size=num)])
    refinement = Refinement(integrand, states, actions, look)
    refinement.refine(LOOSE, ROUNDS * look**d * num_points(integrand.grid, integrand.law))
    return refinement


def _peaks(refinement: Refinement, reach: float) -> list[Peak]:
    """The highest peak of each pair that has any density, unless it holds next to nothing."""
    refinement.open_all()
    parts, pieces, d = refinement.parts, refinement.pieces, refinement.dimension
    order = np.lexsort((-parts.log, parts.pair))
    best = order[np.searchsorted(parts.pair[order], np.arange(refinement.num_pairs))]
    places = pieces.starts[parts.piece[best]] + pieces.lengths[parts.piece[best]] * parts.top[best]
    widths = _widths(refinement, places, parts.log[best], reach)
    # In units of the largest density of a pair, whose mass is then at least that of a normal peak.
    volumes = np.prod(widths * np.asarray(refinement.grid.spacing), axis=1) * (2 * np.pi) ** (d / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = volumes / refinement.totals()
    means = np.exp(np.log(widths).mean(axis=1))
    return [Peak(places[k], float(means[k]), int(k)) for k in np.flatnonzero(shares > LEAST_SHARE)]


def _widths(
    refinement: Refinement, places: Float[np.ndarray, "P d"], logs: Float[np.ndarray, " P"], reach: float
) -> Float[np.ndarray, "P d"]:
    """How far from each place log p has fallen by `FALL`, along each axis and in cells; at most twice the reach of a rule.

    The shorter of both sides counts, unless that is a wall of the box.
    """
    num, d = places.shape
    steps = 2 * reach * 2.0 ** -np.arange(HALVINGS, -1, -1)
    widths = np.full((num, d), 2 * reach)
    for axis, sign in itertools.product(range(d), (-1, 1)):
        away = np.zeros((num, len(steps), d))
        away[..., axis] = sign * steps * refinement.grid.spacing[axis]
        points, is_inside = refinement.wrapped((places[:, None] + away).reshape(-1, d))
        found = refinement.evaluation.logs(np.repeat(np.arange(num), len(steps)), points)
        with np.errstate(invalid="ignore"):
            fallen = np.where(is_inside, np.repeat(logs, len(steps)) - found, 0).reshape(num, -1)
        has_fallen = fallen >= FALL
        first = np.argmax(has_fallen, axis=1)
        drop = np.take_along_axis(fallen, first[:, None], axis=1)[:, 0]
        width = np.where(has_fallen.any(axis=1), steps[first] * np.sqrt(FALL / np.clip(drop, FALL, 4 * FALL)), 2 * reach)
        widths[:, axis] = np.minimum(widths[:, axis], width)
    return widths


def _divisions(refinement: Refinement, peak: Peak, reach: float) -> int:
    """The fewest with which points come near enough to a peak, or it announces itself; at most one more than possible."""
    d = refinement.dimension
    divisions, enough = 1, min(_enough(d, reach, peak.width), MOST.get(d, 1) + 1)
    while divisions < enough and not _is_announced(refinement, peak, reach / divisions):
        divisions += 1
    return divisions


def _is_announced(refinement: Refinement, peak: Peak, away: float) -> bool:
    """Whether the density falls between one and two of these distances (in cells, along all axes at once) from a peak."""
    spacing, least = np.asarray(refinement.grid.spacing), ANNOUNCED if len(peak.place) > 1 else ANNOUNCED_ON_A_LINE
    directions = combinations([np.array([-1.0, 1.0])] * refinement.dimension)
    points = peak.place + away * spacing * np.concatenate([directions, 2 * directions])
    points, is_inside = refinement.wrapped(points)
    logs = refinement.evaluation.logs(np.full(len(points), peak.pair), points)
    once, twice = logs.reshape(2, -1)
    both = is_inside.reshape(2, -1).all(axis=0) & (np.isfinite(once) | np.isfinite(twice))
    if not both.any():
        return not is_inside.any()
    with np.errstate(invalid="ignore"):
        return float(np.clip(once[both] - twice[both], -10, 10).mean()) > least
