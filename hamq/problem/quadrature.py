"""Masses of rows by quadrature that adapts to each pair, for densities without closed forms.

Every piece of the box (a cell, or the box between neighbouring nodes) starts with a small rule (`rules.py`). What differs
between its two sums is its error. As long as the errors of a pair add up to more than was asked for, its worst parts are
refined:

-   a part whose sums agree fast with more points gets more points (the density is smooth there);
-   a part that does not, that holds both a density and none, or of which one point carries most of a row, is halved along
    the axis that is roughest.

So a jump costs a few evaluations per digit in one dimension, and a narrow peak is found by following the point that carries
it. The error is an estimate, not a bound: two rules can agree and be wrong alike.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.problem.evaluation import Evaluation, Sums
from hamq.problem.integrand import Integrand
from hamq.problem.parts import Beginning, Closed, Measured, Parts, close, joined, make_beginning, new_parts
from hamq.problem.parts import Integral as Integral
from hamq.problem.problem import Problem
from hamq.problem.rules import first_order, make_pieces, make_rule, orders
from hamq.problem.summits import Fall, climb

MAX_PEAK = 0.5
"""Largest share of a row that one point may carry: more means a density narrower than the points are apart."""
SMOOTH, ROUGH = 0.15, 0.15
"""More points must cut the error of a part to this share, and halving it to that, or it counts as rough."""
STEADY, CREST = 1e-3, 0.05
"""Share of the mass that the highest polynomials of a smooth part stay below; where they do not, so much of them counts as
error."""
MOVED, SURE = 0.1, 4.0
"""Share of the change of a sum by more points that counts as its error. Where the change is small against the sum itself,
the share is less, so many times the root of that ratio: smooth sums settle faster the nearer they are."""
FACE = 1e-6
"""Part of a half within which a point lies between two."""
SMALL, REACHES, NEGLIGIBLE = 0.25, (0.25, 1.0, 2.0, 4.0, 8.0), 25.0
"""Parts no larger than this are looked around, at these distances in their own sizes; log p must fall by less than that."""
MOST_CLIMBED = 4
"""Dimension up to which summits are climbed to."""
LOST = 0.5
"""A part whose points are all lower than one that was seen before, by so much in log p, has lost a peak."""
STEEP, JUMP = 0.35, 1 / 3
"""Halving a part with a jump leaves so much of its error, or more. Its error is then this share of what the whole part would
weigh at its largest density: Lobatto's sum of a jump misses less."""
LEAST_SIZE = 2.0**-45
"""Of a part, in pieces."""
MAX_PARTS = 2**22
"""Parts of a block: about a gigabyte."""
EMPTY_ROUNDS = 12
"""Rounds of halving everything before a pair without any density is given up."""
FIRST_VALUES = 2**19
"""Values of the density that the first round of a block of pairs may have."""

Tell = Callable[[int, int], None]
"""Told (evaluations of the call that has just ended, pairs that are settled)."""


def integrate(
    problem: Problem,
    states: Float[np.ndarray, "P d"],
    actions: Float[np.ndarray, "P *k"],
    tolerance: float,
    max_evaluations: int | float,
    divisions: int = 1,
    tell: Tell | None = None,
    axis: int | None = None,
) -> Integral:
    """Masses of the pairs of any states of the box, each until its error or its evaluations reach what is given.

    Pieces begin in `divisions` along each axis. `tell` hears how many evaluations were spent and how many pairs are settled.
    `axis`: the masses of one coordinate of a product kernel, on the nodes of its axis.
    """
    refinement = Refinement(Integrand(problem, axis), states, actions, divisions, tell)
    refinement.refine(tolerance, max_evaluations)
    return refinement.integral()


class Refinement:
    """The parts of a block of pairs while they are refined."""

    def __init__(
        self, integrand: Integrand, states: np.ndarray, actions: np.ndarray, divisions: int = 1, tell: Tell | None = None
    ):
        self._tell_caller, self._num_settled, self.needed = tell, 0, None
        self.integrand, self.evaluation = integrand, Evaluation(integrand, states, actions, self._heard)
        self.grid, self.pieces = integrand.grid, make_pieces(integrand.grid, integrand.law)
        self.num_pairs, self.dimension = len(states), self.grid.dimension
        self.evaluations = np.zeros(self.num_pairs, np.int64)
        self.beginning = make_beginning(self.pieces, first_order(self.grid), divisions)
        none, nowhere = np.zeros(0, np.int64), np.zeros((0, self.dimension))
        self.parts = new_parts(none, none, nowhere, nowhere, 0, self.pieces.owners.shape[1])
        self.closed, self._has_climbed = self._begin(), np.zeros(self.num_pairs, bool)

    def _heard(self, evaluations: int) -> None:
        if self._tell_caller is not None:
            self._tell_caller(evaluations, self._num_settled)

    def _begin(self) -> Closed:
        """The first rule of every beginning of every pair."""
        start, num = self.beginning, self.num_pairs
        piece, low, size = (np.tile(a, (num,) + (1,) * (a.ndim - 1)) for a in (start.piece, start.low, start.size))
        sums = self._summed(start.order, np.repeat(np.arange(num), start.num), piece, low, size)
        volumes, masses, errors = self._in_own_units(sums, piece, low, size)
        errors = np.where(sums.is_cut, np.maximum(errors, JUMP * sums.spread * volumes), errors)
        return close(sums, masses, errors, sums.peak * volumes, num)

    def refine(self, tolerance: float, max_evaluations: int | float) -> None:
        empty_rounds, fall = 0, Fall(tolerance)
        while True:
            measured = self._measured()
            fall.add(self.evaluations, 0.5 * measured.of_pairs, measured.masses)
            if self._open(measured, tolerance, max_evaluations):
                measured = self._measured()
            chosen = self._worst(measured, tolerance, max_evaluations)
            is_empty = measured.totals[self.parts.pair[chosen]] == 0
            empty_rounds += bool(is_empty.any())
            if empty_rounds > EMPTY_ROUNDS:
                chosen = chosen[~is_empty]
            self._num_settled = self.num_pairs - len(np.unique(self.parts.pair[chosen]))
            if len(chosen):
                self._refine(chosen, measured.is_peak)
            elif not self._climb(max_evaluations) and not self._look_across(max_evaluations):
                break
        self.needed = fall.needed()

    def _open(self, measured: Measured, tolerance: float, max_evaluations: int | float) -> bool:
        """Whether beginnings became parts: those with more than their share of the error, or one point that carries much."""
        is_unsettled, allowed = self._unsettled(measured, tolerance, max_evaluations)
        rows, closed = np.flatnonzero(is_unsettled), self.closed
        factors = measured.closed[rows, None]
        is_chosen = (closed.errors[rows] * factors > allowed[rows, None]) & ~closed.is_open[rows]
        dominating = closed.peaks * measured.closed[:, None] > MAX_PEAK * measured.totals[:, None]
        dominating[rows] |= is_chosen
        which = np.flatnonzero(dominating & (self.evaluations < max_evaluations)[:, None])
        if len(which):
            self._open_these(which)
        return len(which) > 0

    def _open_these(self, which: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Beginnings (numbers among all of the block) as parts; their numbers."""
        start, num_corners, before = self.beginning, self.pieces.owners.shape[1], self.parts.num
        pair, which_of = np.divmod(which, start.num)
        place = start.piece[which_of], start.low[which_of], start.size[which_of]
        self.parts = joined(self.parts, new_parts(pair, *place, start.order, num_corners))
        new = np.arange(before, self.parts.num)
        self._record(new, self.closed.open(which), np.zeros(len(new), bool), start.order)
        return new

    def open_all(self) -> None:
        """Makes parts of all that is still closed, for those who look at parts."""
        which = np.flatnonzero(~self.closed.is_open.ravel())
        if len(which):
            self._open_these(which)

    def _look_across(self, max_evaluations: int | float) -> bool:
        """Whether parts about the largest density of a pair knew nothing of it: the density there is evaluated and told.

        A density much narrower than a piece may reach across the faces of the parts that were halved to find it, between the
        points of its neighbours. Only pairs whose largest density is in such a part are looked at.
        """
        parts, pieces = self.parts, self.pieces
        order = np.lexsort((-parts.log, parts.pair))
        ends = np.searchsorted(parts.pair[order], np.arange(self.num_pairs + 1))
        pairs = np.flatnonzero((ends[1:] > ends[:-1]) & (self.evaluations < max_evaluations))
        best = order[ends[pairs]]
        is_small = (parts.size[best].min(axis=1) <= SMALL) & np.isfinite(parts.log[best])
        is_small &= parts.log[best] >= self.closed.log[pairs].max(axis=1)
        pairs, best = pairs[is_small], best[is_small]
        if not len(pairs):
            return False
        starts, lengths = pieces.starts[parts.piece[best]], pieces.lengths[parts.piece[best]]
        steps = np.concatenate([reach * np.eye(self.dimension) for reach in (*REACHES, *(-r for r in REACHES))])
        around = (starts + lengths * parts.top[best])[:, None] + (lengths * parts.size[best])[:, None] * steps
        around, is_inside = self.wrapped(around.reshape(-1, self.dimension))
        owner = np.repeat(np.arange(len(pairs)), len(steps))
        logs = self.evaluation.logs(pairs[owner], around)
        np.add.at(self.evaluations, pairs[owner], make_rule(self.dimension, 0, pieces.has_hats).num_points)
        is_told = False
        for k in np.flatnonzero(is_inside & (logs > parts.log[best][owner] - NEGLIGIBLE)):
            pair = pairs[owner[k]]
            own = order[ends[pair] : ends[pair + 1]]
            is_told |= self._tell(int(pair), own, around[k], float(logs[k]))
        return is_told

    def _climb(self, max_evaluations: int | float) -> bool:
        """Whether a climb to the summits of log p found one that no part knew of: it is told. Each pair once.

        One peak that is much narrower than a piece draws all points to itself, and others are lost between them. So pairs
        climb whose mass is in small parts.
        """
        measured, parts = self._measured(), self.parts
        of_small = measured.factors * parts.masses.sum(axis=1) * (parts.size.min(axis=1) <= SMALL)
        is_narrow = np.bincount(parts.pair, of_small, self.num_pairs) > 0.5 * measured.masses
        pairs = np.flatnonzero(is_narrow & ~self._has_climbed & (self.evaluations < max_evaluations))
        if not len(pairs) or self.dimension > MOST_CLIMBED:
            return False
        self._has_climbed[pairs] = True
        lower = self.pieces.starts.min(axis=0)
        upper = (self.pieces.starts + self.pieces.lengths).max(axis=0)

        def logs(pairs, points):
            points, is_inside = self.wrapped(points)
            np.add.at(self.evaluations, pairs, make_rule(self.dimension, 0, self.pieces.has_hats).num_points)
            return np.where(is_inside, self.evaluation.logs(pairs, points), -np.inf)

        summits, heights = climb(logs, pairs, lower, upper)
        is_told = False
        for k, pair in enumerate(pairs):
            is_high = np.isfinite(heights[k]) & (heights[k] > heights[k].max() - NEGLIGIBLE)
            for at in np.flatnonzero(is_high):
                own = np.flatnonzero(self.parts.pair == pair)
                is_told |= self._tell(int(pair), own, summits[k, at], float(heights[k, at]))
        return is_told

    def wrapped(self, points: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """Points with their periodic coordinates within the pieces, and whether they are in the box."""
        lower = self.pieces.starts.min(axis=0)
        upper = (self.pieces.starts + self.pieces.lengths).max(axis=0)
        wrapped = np.where(self.grid.periodic, lower + (points - lower) % (upper - lower), points)
        return wrapped.clip(lower, upper), np.all((wrapped > lower) & (wrapped < upper), axis=1)

    def _tell(self, pair: int, own: Int[np.ndarray, " n"], point: Float[np.ndarray, " d"], log: float) -> bool:
        """Tells the part that holds a point of its density, which is then the error of the part; False where it knew."""
        other = self._holder(self.parts, own, point)
        if other is None:
            start = self.beginning
            number = self._holder(start, np.flatnonzero(~self.closed.is_open[pair]), point)
            if number is None or self.closed.log[pair, number] >= log - LOST:
                return False
            other = int(self._open_these(np.asarray([pair * start.num + number]))[0])
        parts, pieces = self.parts, self.pieces
        if parts.log[other] >= log - LOST:
            return False
        factor = np.exp(parts.unit[other] - log)
        parts.masses[other] *= factor
        parts.peak[other] *= factor
        parts.error[other] = parts.base_error[other] = JUMP * pieces.volumes[parts.piece[other]] * parts.size[other].prod()
        parts.top[other] = (point - pieces.starts[parts.piece[other]]) / pieces.lengths[parts.piece[other]]
        parts.unit[other] = parts.log[other] = log
        parts.is_rough[other] = parts.is_jump[other] = True
        return True

    def _holder(self, boxes: Parts | Beginning, own: Int[np.ndarray, " n"], point: Float[np.ndarray, " d"]) -> int | None:
        """Which of the boxes `own` a point is in."""
        piece = boxes.piece[own]
        inside = (point - self.pieces.starts[piece]) / self.pieces.lengths[piece]
        holds = np.all((inside >= boxes.low[own]) & (inside <= boxes.low[own] + boxes.size[own]), axis=1)
        return int(own[np.argmax(holds)]) if holds.any() else None

    def integral(self) -> Integral:
        parts, num_states, measured = self.parts, self.grid.num_states, self._measured()
        num_pieces, num_corners = self.pieces.owners.shape
        of_pieces = self.closed.masses.reshape(self.num_pairs, num_pieces, -1, num_corners).sum(axis=2)
        masses = np.zeros((self.num_pairs, num_states))
        for corner in range(num_corners):  # each state has one piece at most of which it is this corner
            masses[:, self.pieces.owners[:, corner]] += of_pieces[..., corner] * measured.closed[:, None]
        owners = self.pieces.owners[parts.piece] + parts.pair[:, None] * num_states
        opened = np.bincount(owners.ravel(), (parts.masses * measured.factors[:, None]).ravel(), masses.size)
        masses += opened.reshape(masses.shape)
        totals = masses.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):  # a pair without any mass is refused by whoever asked
            return Integral(masses / totals[:, None], 0.5 * measured.of_pairs / totals, self.evaluations, self.needed)

    def totals(self) -> Float[np.ndarray, " P"]:
        """Mass of each pair in units of its largest density."""
        return self._measured().masses

    def part_masses(self) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " P"]]:
        """(masses of the parts, which sum to one in each pair, estimated errors of the pairs); NaN without any density."""
        self.open_all()
        measured, pair = self._measured(), self.parts.pair
        masses = measured.factors * np.maximum(self.parts.masses.sum(axis=1), 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            totals = np.bincount(pair, masses, self.num_pairs)
            return masses / totals[pair], 0.5 * measured.of_pairs / totals

    def _measured(self) -> Measured:
        parts, closed, num = self.parts, self.closed, self.num_pairs
        scale = np.where(closed.is_open.all(axis=1), -np.inf, closed.unit)
        np.maximum.at(scale, parts.pair, parts.unit)
        finite = np.where(np.isfinite(scale), scale, 0)
        factors = np.exp(parts.unit - finite[parts.pair])
        of_closed = np.exp(np.minimum(closed.unit - finite, 0))
        # A peak that only the coarse rule sees is an error without a mass.
        masses = of_closed * closed.masses.sum(axis=(1, 2))
        masses += np.bincount(parts.pair, factors * parts.masses.sum(axis=1), num)
        closed_errors = of_closed * closed.errors.sum(axis=1)
        totals = masses + np.bincount(parts.pair, factors * parts.error, num) + closed_errors
        peaks = factors * parts.peak
        is_peak = peaks > MAX_PEAK * totals[parts.pair]
        errors = np.where(is_peak, np.maximum(factors * parts.error, peaks), factors * parts.error)
        of_pairs = np.bincount(parts.pair, errors, num) + closed_errors
        return Measured(factors, of_closed, masses, totals, errors, is_peak, of_pairs)

    def _unsettled(
        self, measured: Measured, tolerance: float, max_evaluations: int | float
    ) -> tuple[Bool[np.ndarray, " P"], Float[np.ndarray, " P"]]:
        """(pairs with a larger error than was asked for, the error that one of their parts may have)."""
        counts = np.bincount(self.parts.pair, minlength=self.num_pairs) + np.sum(~self.closed.is_open, axis=1)
        is_empty, can_go_on = measured.totals == 0, (self.evaluations < max_evaluations) & (self.parts.num < MAX_PARTS)
        is_unsettled = ((0.5 * measured.of_pairs > tolerance * measured.masses) | is_empty) & can_go_on
        return is_unsettled, np.where(is_empty, -1.0, tolerance * measured.totals / counts)

    def _worst(self, measured: Measured, tolerance: float, max_evaluations: int | float) -> Int[np.ndarray, " n"]:
        """Parts that have more than their share of the error of a pair which is not settled yet."""
        parts = self.parts
        is_unsettled, allowed = self._unsettled(measured, tolerance, max_evaluations)
        can_shrink = parts.size.max(axis=1) > LEAST_SIZE
        return np.flatnonzero(is_unsettled[parts.pair] & (measured.errors > allowed[parts.pair]) & can_shrink)

    def _refine(self, chosen: Int[np.ndarray, " n"], is_peak: Bool[np.ndarray, " N"]) -> None:
        parts = self.parts
        is_last = parts.order[chosen] == len(orders(self.dimension)) - 1
        halve = is_last | is_peak[chosen] | parts.is_rough[chosen]
        parts.order[chosen[~halve]] += 1
        new = self._halve(chosen[halve])
        self._sum(np.concatenate([chosen, new]), is_child=np.concatenate([halve, np.ones(len(new), bool)]))

    def _halve(self, chosen: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Each becomes its first half; the numbers of the second halves, which are appended."""
        parts = self.parts
        parts.size[chosen, parts.axis[chosen]] /= 2
        parts.order[chosen] = np.where(parts.is_jump[chosen], 0, 1)
        second = Parts(*(column[chosen] for column in parts))
        rows = np.arange(len(chosen)), second.axis
        second.low[rows] += second.size[rows]
        # The largest density that was seen is in one of the halves, or in both where it was seen between them.
        away = (second.top[rows] - second.low[rows]) / second.size[rows]
        parts.log[chosen[away > FACE]] = second.log[away < -FACE] = -np.inf
        self.parts = joined(parts, second)
        return np.arange(parts.num, parts.num + len(chosen))

    def _sum(self, chosen: Int[np.ndarray, " n"], is_child: Bool[np.ndarray, " n"]) -> None:
        """Evaluates the rules of these parts; `is_child` marks those that were halved."""
        order = np.argsort(self.parts.pair[chosen], kind="stable")
        chosen, is_child = chosen[order], is_child[order]
        for number in np.unique(self.parts.order[chosen]):
            has_rule = self.parts.order[chosen] == number
            rows, parts = chosen[has_rule], self.parts
            sums = self._summed(int(number), *(a[rows] for a in (parts.pair, parts.piece, parts.low, parts.size)))
            self._record(rows, sums, is_child[has_rule], int(number))

    def _summed(self, order: int, pair: np.ndarray, piece: np.ndarray, low: np.ndarray, size: np.ndarray) -> Sums:
        lengths = self.pieces.lengths[piece]
        num_points = make_rule(self.dimension, order, self.pieces.has_hats).num_points
        self.evaluations += num_points * np.bincount(pair, minlength=self.num_pairs)
        return self.evaluation.sums(order, pair, self.pieces.starts[piece] + lengths * low, lengths * size)

    def _in_own_units(
        self, sums: Sums, piece: np.ndarray, low: np.ndarray, size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(volumes, masses of the corners, errors) of parts, masses and errors in units of the largest density of each."""
        volumes = (self.pieces.volumes[piece] * size.prod(axis=1))[:, None]
        masses, coarse = (self.pieces.shared(moments * volumes, low, size) for moments in (sums.fine, sums.coarse))
        errors = np.abs(masses - coarse).sum(axis=1)
        crest = sums.crest * volumes[:, 0]  # both rules may see as much of a peak
        errors = np.where(crest > STEADY * masses.sum(axis=1), np.maximum(errors, CREST * crest), errors)
        return volumes[:, 0], masses, errors

    def _record(self, chosen: np.ndarray, sums: Sums, is_child: np.ndarray, number: int) -> None:
        """Writes down what a rule found in parts, beside what was known of them."""
        parts, low, size = self.parts, self.parts.low[chosen], self.parts.size[chosen]
        volumes, masses, error = self._in_own_units(sums, parts.piece[chosen], low, size)
        known = parts.log[chosen]
        unit = np.maximum(known, sums.log)
        with np.errstate(over="ignore", invalid="ignore"):
            shrink, units = (np.nan_to_num(np.exp(log - unit), nan=0.0) for log in (sums.log, parts.unit[chosen]))
            before, last = parts.base_error[chosen] * units, parts.error[chosen] * units
        masses, error = masses * shrink[:, None], error * shrink
        is_lost = known > sums.log + LOST
        is_new = parts.unit[chosen] == -np.inf
        is_raised = ~is_child & ~is_new
        # More points may miss what fewer saw: then the sum moves by more than it says it is off.
        moved = np.abs(masses - parts.masses[chosen] * units[:, None]).sum(axis=1)
        with np.errstate(all="ignore"):
            share = np.nan_to_num(moved / masses.sum(axis=1), nan=0.0)
        error = np.where(is_raised, np.maximum(error, np.minimum(MOVED, SURE * np.sqrt(share)) * moved), error)
        is_rough = sums.is_cut | is_lost | np.where(is_child, error > ROUGH * before, is_raised & (error > SMOOTH * last))
        # Where a density jumps, or is larger than at any point of the rule, both sums may be off by more than they differ.
        is_jump = sums.is_cut | is_lost | (is_child & (error > STEEP * before))
        spread = np.where(is_lost, 1.0, sums.spread * shrink)
        error = np.where(is_jump, np.maximum(error, JUMP * spread * volumes), error)
        parts.error[chosen], parts.base_error[chosen] = error, np.where(is_child | is_new, error, before)
        parts.masses[chosen], parts.peak[chosen] = masses, sums.peak * shrink * volumes
        is_higher = sums.log >= known
        positions = make_rule(self.dimension, number, self.pieces.has_hats).positions
        parts.top[chosen[is_higher]] = (low + size * positions[sums.top])[is_higher]
        parts.log[chosen] = parts.unit[chosen] = unit
        parts.is_rough[chosen], parts.is_jump[chosen] = is_rough, is_jump
        # Along the roughest axis; the longer one where several are as rough.
        parts.axis[chosen] = np.argmax((sums.tails + 1e-300) * size, axis=1)
