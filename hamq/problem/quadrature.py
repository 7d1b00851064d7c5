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

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.problem.evaluation import Evaluation
from hamq.problem.problem import Problem
from hamq.problem.rules import INSIDE, first_order, make_pieces, make_rule, orders

MAX_PEAK = 0.5
"""Largest share of a row that one point may carry: more means a density narrower than the points are apart."""
SMOOTH, ROUGH = 0.15, 0.15
"""More points must cut the error of a part to this share, and halving it to that, or it counts as rough."""
STEADY, CREST = 1e-3, 0.05
"""Share of the mass that the highest polynomials of a smooth part stay below; where they do not, so much of them counts as
error."""
MOVED = 0.1
"""Share of the change of a sum by more points that counts as its error."""
FACE = 1e-6
"""Part of a half within which a point lies between two."""
SMALL, REACHES, NEGLIGIBLE = 0.25, (0.25, 1.0, 2.0, 4.0, 8.0), 25.0
"""Parts no larger than this are looked around, at these distances in their own sizes; log p must fall by less than that."""
LOST = 0.5
"""A part whose points are all lower than one that was seen before, by so much in log p, has lost a peak."""
STEEP, JUMP = 0.35, 1 / 3
"""Halving a part with a jump leaves so much of its error, or more. Its error is then this share of what the whole part would
weigh at its largest density: Lobatto's sum of a jump misses less."""
LEAST_SIZE = 2.0**-45
"""Of a part, in pieces."""
EMPTY_ROUNDS = 12
"""Rounds of halving everything before a pair without any density is given up."""
FIRST_VALUES = 2**19
"""Values of the density that the first round of a block of pairs may have."""


class Parts(NamedTuple):
    """Parts of the pieces of a block of pairs, one row each.

    `low` and `size` are in units of the piece; `order` is the number of its rule. `masses` are those of the corners; they,
    the errors and the peak are in units of exp(`unit`). `log` is the largest log p ever seen in the part, at `top`.
    `base_error` is that of the part's first rule, or of its parent's while the part is new.
    """

    pair: Int[np.ndarray, " N"]
    piece: Int[np.ndarray, " N"]
    low: Float[np.ndarray, "N d"]
    size: Float[np.ndarray, "N d"]
    order: Int[np.ndarray, " N"]
    unit: Float[np.ndarray, " N"]
    log: Float[np.ndarray, " N"]
    top: Float[np.ndarray, "N d"]
    masses: Float[np.ndarray, "N corners"]
    error: Float[np.ndarray, " N"]
    base_error: Float[np.ndarray, " N"]
    peak: Float[np.ndarray, " N"]
    axis: Int[np.ndarray, " N"]
    is_rough: Bool[np.ndarray, " N"]
    is_jump: Bool[np.ndarray, " N"]


class Measured(NamedTuple):
    """Parts in units of the largest density of their pair: factors of their own units, and errors, which are all that a part
    has where one point carries most of a row."""

    factors: Float[np.ndarray, " N"]
    masses: Float[np.ndarray, " P"]
    totals: Float[np.ndarray, " P"]
    """Masses and errors."""
    errors: Float[np.ndarray, " N"]
    is_peak: Bool[np.ndarray, " N"]


class Integral(NamedTuple):
    """Of each pair: masses that sum to one, their estimated error (total variation), and the evaluations spent."""

    masses: Float[np.ndarray, "P S"]
    errors: Float[np.ndarray, " P"]
    evaluations: Int[np.ndarray, " P"]


def integrate(
    problem: Problem,
    states: Float[np.ndarray, "P d"],
    actions: Float[np.ndarray, "P *k"],
    tolerance: float,
    max_evaluations: int | float,
) -> Integral:
    """Masses of the pairs of any states of the box, each until its error or its evaluations reach what is given."""
    refinement = Refinement(problem, states, actions)
    refinement.refine(tolerance, max_evaluations)
    return refinement.integral()


class Refinement:
    """The parts of a block of pairs while they are refined."""

    def __init__(self, problem: Problem, states: np.ndarray, actions: np.ndarray):
        self.problem, self.evaluation = problem, Evaluation(problem, states, actions)
        self.pieces = make_pieces(problem.grid, problem.law)
        self.num_pairs, self.dimension = len(states), problem.grid.dimension
        self.evaluations = np.zeros(self.num_pairs, np.int64)
        self.parts = self._first()
        self._sum(np.arange(len(self.parts.pair)))

    def refine(self, tolerance: float, max_evaluations: int | float) -> None:
        empty_rounds = 0
        while True:
            measured = self._measured()
            chosen = self._worst(measured, tolerance, max_evaluations)
            is_empty = measured.totals[self.parts.pair[chosen]] == 0
            empty_rounds += bool(is_empty.any())
            if empty_rounds > EMPTY_ROUNDS:
                chosen = chosen[~is_empty]
            if len(chosen):
                self._refine(chosen, measured.is_peak)
            elif not self._look_across(max_evaluations):
                return

    def _look_across(self, max_evaluations: int | float) -> bool:
        """Whether parts about the largest density of a pair knew nothing of it: the density there is evaluated and told.

        A density much narrower than a piece may reach across the faces of the parts that were halved to find it, between the
        points of its neighbours. Only pairs whose largest density is in such a part are looked at.
        """
        parts, pieces = self.parts, self.pieces
        order = np.lexsort((-parts.log, parts.pair))
        ends = np.searchsorted(parts.pair[order], np.arange(self.num_pairs + 1))
        best = order[ends[:-1]]
        is_small = (parts.size[best].min(axis=1) <= SMALL) & (self.evaluations < max_evaluations)
        pairs = np.flatnonzero(is_small & np.isfinite(parts.log[best]))
        if not len(pairs):
            return False
        best = best[pairs]
        starts, lengths = pieces.starts[parts.piece[best]], pieces.lengths[parts.piece[best]]
        steps = np.concatenate([reach * np.eye(self.dimension) for reach in (*REACHES, *(-r for r in REACHES))])
        around = (starts + lengths * parts.top[best])[:, None] + (lengths * parts.size[best])[:, None] * steps
        around, is_inside = self._wrapped(around.reshape(-1, self.dimension))
        owner = np.repeat(np.arange(len(pairs)), len(steps))
        tiny = np.full(around.shape, INSIDE) * lengths[owner]
        logs = self.evaluation.sums(0, pairs[owner], around - tiny / 2, tiny).log
        np.add.at(self.evaluations, pairs[owner], make_rule(self.dimension, 0, pieces.has_hats).num_points)
        is_told = False
        for k in np.flatnonzero(is_inside & (logs > parts.log[best][owner] - NEGLIGIBLE)):
            pair = pairs[owner[k]]
            is_told |= self._tell(order[ends[pair] : ends[pair + 1]], around[k], float(logs[k]))
        return is_told

    def _wrapped(self, points: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
        """Points with their periodic coordinates within the pieces, and whether they are in the box."""
        lower = self.pieces.starts.min(axis=0)
        upper = (self.pieces.starts + self.pieces.lengths).max(axis=0)
        wrapped = np.where(self.problem.grid.periodic, lower + (points - lower) % (upper - lower), points)
        return wrapped.clip(lower, upper), np.all((wrapped > lower) & (wrapped < upper), axis=1)

    def _tell(self, own: Int[np.ndarray, " n"], point: Float[np.ndarray, " d"], log: float) -> bool:
        """Tells the part that holds a point of its density, which is then the error of the part; False where it knew."""
        parts, pieces = self.parts, self.pieces
        inside = (point - pieces.starts[parts.piece[own]]) / pieces.lengths[parts.piece[own]]
        holds = np.all((inside >= parts.low[own]) & (inside <= parts.low[own] + parts.size[own]), axis=1)
        which = int(np.argmax(holds))
        other = own[which]
        if not holds[which] or parts.log[other] >= log - LOST:
            return False
        factor = np.exp(parts.unit[other] - log)
        parts.masses[other] *= factor
        parts.peak[other] *= factor
        parts.error[other] = parts.base_error[other] = JUMP * pieces.volumes[parts.piece[other]] * parts.size[other].prod()
        parts.top[other] = inside[which]
        parts.unit[other] = parts.log[other] = log
        parts.is_rough[other] = parts.is_jump[other] = True
        return True

    def integral(self) -> Integral:
        parts, num_states = self.parts, self.problem.num_states
        owners = self.pieces.owners[parts.piece] + parts.pair[:, None] * num_states
        measured = self._measured()
        size, masses = self.num_pairs * num_states, parts.masses * measured.factors[:, None]
        masses = np.bincount(owners.ravel(), masses.ravel(), size).reshape(self.num_pairs, -1)
        totals = masses.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):  # a pair without any mass is refused by whoever asked
            errors = 0.5 * np.bincount(parts.pair, measured.errors, self.num_pairs) / totals
            return Integral(masses / totals[:, None], errors, self.evaluations)

    def part_masses(self) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " P"]]:
        """(masses of the parts, which sum to one in each pair, estimated errors of the pairs); NaN without any density."""
        measured, pair = self._measured(), self.parts.pair
        masses = measured.factors * np.maximum(self.parts.masses.sum(axis=1), 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            totals = np.bincount(pair, masses, self.num_pairs)
            return masses / totals[pair], 0.5 * np.bincount(pair, measured.errors, self.num_pairs) / totals

    def _first(self) -> Parts:
        num = len(self.pieces.starts)
        total, corners = self.num_pairs * num, self.pieces.owners.shape[1]
        return Parts(
            pair=np.repeat(np.arange(self.num_pairs), num),
            piece=np.tile(np.arange(num), self.num_pairs),
            low=np.zeros((total, self.dimension)),
            size=np.ones((total, self.dimension)),
            order=np.full(total, first_order(self.problem.grid)),
            unit=np.full(total, -np.inf),
            log=np.full(total, -np.inf),
            top=np.zeros((total, self.dimension)),
            masses=np.zeros((total, corners)),
            error=np.zeros(total),
            base_error=np.zeros(total),
            peak=np.zeros(total),
            axis=np.zeros(total, np.int64),
            is_rough=np.zeros(total, bool),
            is_jump=np.zeros(total, bool),
        )

    def _measured(self) -> Measured:
        parts = self.parts
        scale = np.full(self.num_pairs, -np.inf)
        np.maximum.at(scale, parts.pair, parts.unit)
        factors = np.exp(parts.unit - np.where(np.isfinite(scale), scale, 0)[parts.pair])
        # A peak that only the coarse rule sees is an error without a mass.
        masses = np.bincount(parts.pair, factors * parts.masses.sum(axis=1), self.num_pairs)
        totals = masses + np.bincount(parts.pair, factors * parts.error, self.num_pairs)
        peaks = factors * parts.peak
        is_peak = peaks > MAX_PEAK * totals[parts.pair]
        return Measured(
            factors,
            masses,
            totals,
            np.where(is_peak, np.maximum(factors * parts.error, peaks), factors * parts.error),
            is_peak,
        )

    def _worst(self, measured: Measured, tolerance: float, max_evaluations: int | float) -> Int[np.ndarray, " n"]:
        """Parts that have more than their share of the error of a pair which is not settled yet."""
        parts, totals, errors = self.parts, measured.totals, measured.errors
        counts = np.bincount(parts.pair, minlength=self.num_pairs)
        of_pairs = np.bincount(parts.pair, errors, self.num_pairs)
        is_open = (0.5 * of_pairs > tolerance * measured.masses) & (self.evaluations < max_evaluations)
        is_empty = (totals == 0) & (self.evaluations < max_evaluations)
        allowed = np.where(is_empty, -1.0, tolerance * totals / counts)
        can_shrink = parts.size.max(axis=1) > LEAST_SIZE
        return np.flatnonzero((is_open | is_empty)[parts.pair] & (errors > allowed[parts.pair]) & can_shrink)

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
        first_new = len(parts.pair)
        self.parts = Parts(*(np.concatenate(both) for both in zip(parts, second, strict=True)))
        return np.arange(first_new, first_new + len(chosen))

    def _sum(self, chosen: Int[np.ndarray, " n"], is_child: Bool[np.ndarray, " n"] | None = None) -> None:
        """Evaluates the rules of these parts; `is_child` marks those that were halved, None where all are whole pieces."""
        order = np.argsort(self.parts.pair[chosen], kind="stable")
        chosen = chosen[order]
        is_child = np.zeros(len(chosen), bool) if is_child is None else is_child[order]
        for number in np.unique(self.parts.order[chosen]):
            has_rule = self.parts.order[chosen] == number
            self._sum_of_order(chosen[has_rule], is_child[has_rule], int(number))

    def _sum_of_order(self, chosen: np.ndarray, is_child: np.ndarray, number: int) -> None:
        parts, pieces = self.parts, self.pieces
        pair, piece, low, size = (column[chosen] for column in (parts.pair, parts.piece, parts.low, parts.size))
        lengths = pieces.lengths[piece]
        sums = self.evaluation.sums(number, pair, pieces.starts[piece] + lengths * low, lengths * size)
        rule = make_rule(self.dimension, number, pieces.has_hats)
        np.add.at(self.evaluations, pair, rule.num_points)
        volumes = (pieces.volumes[piece] * size.prod(axis=1))[:, None]
        masses, coarse = (pieces.shared(moments * volumes, low, size) for moments in (sums.fine, sums.coarse))
        error = np.abs(masses - coarse).sum(axis=1)
        if number > 0:  # both rules may see one flank of a peak at points that nearly coincide
            crest = sums.crest * volumes[:, 0]
            error = np.where(crest > STEADY * masses.sum(axis=1), np.maximum(error, CREST * crest), error)
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
        error = np.where(is_raised, np.maximum(error, MOVED * moved), error)
        is_rough = sums.is_cut | is_lost | np.where(is_child, error > ROUGH * before, is_raised & (error > SMOOTH * last))
        # Where a density jumps, or is larger than at any point of the rule, both sums may be off by more than they differ.
        is_jump = sums.is_cut | is_lost | (is_child & (error > STEEP * before))
        spread = np.where(is_lost, 1.0, sums.spread * shrink)
        error = np.where(is_jump, np.maximum(error, JUMP * spread * volumes[:, 0]), error)
        parts.error[chosen], parts.base_error[chosen] = error, np.where(is_child | is_new, error, before)
        parts.masses[chosen], parts.peak[chosen] = masses, sums.peak * shrink * volumes[:, 0]
        is_higher = sums.log >= known
        parts.top[chosen[is_higher]] = (low + size * rule.positions[sums.top])[is_higher]
        parts.log[chosen] = parts.unit[chosen] = unit
        parts.is_rough[chosen], parts.is_jump[chosen] = is_rough, is_jump
        # Along the roughest axis; the longer one where several are as rough.
        parts.axis[chosen] = np.argmax((sums.tails + 1e-300) * size, axis=1)
