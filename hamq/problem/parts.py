"""Parts of the box while they are refined: where every pair begins, and what is known of each part.

A pair begins with its pieces, each divided into equal boxes where a density has peaks that the points of a piece may miss
(`needles.py`). Most boxes are never looked at again: they stay `Closed`, a few arrays for a whole block of pairs. Those that
matter become rows of `Parts`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.problem.evaluation import Sums
from hamq.problem.rules import Pieces, combinations


class Beginning(NamedTuple):
    """The boxes that every pair begins with: `low` and `size` in units of their pieces, `order` the number of their rule."""

    piece: Int[np.ndarray, " B"]
    low: Float[np.ndarray, "B d"]
    size: Float[np.ndarray, "B d"]
    order: int

    @property
    def num(self) -> int:
        return len(self.piece)


def make_beginning(pieces: Pieces, order: int, divisions: int) -> Beginning:
    """Each piece in `divisions` along each axis, the boxes of one piece after those of another."""
    num, d = pieces.starts.shape
    steps = combinations([np.arange(divisions) / divisions] * d)
    piece = np.repeat(np.arange(num), len(steps))
    return Beginning(piece, np.tile(steps, (num, 1)), np.full((len(piece), d), 1 / divisions), order)


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

    @property
    def num(self) -> int:
        return len(self.pair)


def new_parts(
    pair: Int[np.ndarray, " N"],
    piece: Int[np.ndarray, " N"],
    low: Float[np.ndarray, "N d"],
    size: Float[np.ndarray, "N d"],
    order: int,
    num_corners: int,
) -> Parts:
    """Parts of which nothing is known yet."""
    num, d = low.shape
    return Parts(
        pair=pair,
        piece=piece,
        low=low,
        size=size,
        order=np.full(num, order),
        unit=np.full(num, -np.inf),
        log=np.full(num, -np.inf),
        top=np.zeros((num, d)),
        masses=np.zeros((num, num_corners)),
        error=np.zeros(num),
        base_error=np.zeros(num),
        peak=np.zeros(num),
        axis=np.zeros(num, np.int64),
        is_rough=np.zeros(num, bool),
        is_jump=np.zeros(num, bool),
    )


def joined(parts: Parts, more: Parts) -> Parts:
    return Parts(*(np.concatenate(both) for both in zip(parts, more, strict=True)))


class Closed(NamedTuple):
    """The beginnings of P pairs as their first rule found them, in units of exp(`unit`), the largest log p of each pair.

    What was opened has no mass, no error and no peak here. `sums` has one row for each of the P·B beginnings.
    """

    sums: Sums
    unit: Float[np.ndarray, " P"]
    log: Float[np.ndarray, "P B"]
    masses: Float[np.ndarray, "P B corners"]
    errors: Float[np.ndarray, "P B"]
    peaks: Float[np.ndarray, "P B"]
    is_open: Bool[np.ndarray, "P B"]

    def open(self, which: Int[np.ndarray, " n"]) -> Sums:
        """What was found in these beginnings (numbers among P·B), which are no longer closed."""
        shape = self.errors.shape
        at = np.unravel_index(which, shape)
        self.masses[at] = self.errors[at] = self.peaks[at] = 0
        self.log[at], self.is_open[at] = -np.inf, True
        return Sums(*(column[which] for column in self.sums))


def close(
    sums: Sums,
    masses: Float[np.ndarray, "N corners"],
    errors: Float[np.ndarray, " N"],
    peaks: Float[np.ndarray, " N"],
    num_pairs: int,
) -> Closed:
    """All beginnings of a block; masses, errors and peaks are in units of exp(`sums.log`)."""
    log = sums.log.reshape(num_pairs, -1).copy()
    unit = log.max(axis=1)
    factors = np.exp(log - np.where(np.isfinite(unit), unit, 0)[:, None])
    return Closed(
        sums,
        unit,
        log,
        masses.reshape(*log.shape, -1) * factors[..., None],
        errors.reshape(log.shape) * factors,
        peaks.reshape(log.shape) * factors,
        np.zeros(log.shape, bool),
    )


class Measured(NamedTuple):
    """A block in units of the largest density of each pair: factors of the units of parts and of closed beginnings, and
    errors, which are all that a part has where one point carries most of a row."""

    factors: Float[np.ndarray, " N"]
    closed: Float[np.ndarray, " P"]
    masses: Float[np.ndarray, " P"]
    totals: Float[np.ndarray, " P"]
    """Masses and errors."""
    errors: Float[np.ndarray, " N"]
    is_peak: Bool[np.ndarray, " N"]
    of_pairs: Float[np.ndarray, " P"]
    """Errors of the pairs, twice the total variation."""


class Integral(NamedTuple):
    """Of each pair: masses that sum to one, their estimated error (total variation), and the evaluations spent.

    `needed`: evaluations until the error is what was asked for, by how it fell; those spent where it is.
    """

    masses: Float[np.ndarray, "P S"]
    errors: Float[np.ndarray, " P"]
    evaluations: Int[np.ndarray, " P"]
    needed: Float[np.ndarray, " P"] | None = None
