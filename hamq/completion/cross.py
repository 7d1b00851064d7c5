"""Completion from whole columns and whole rows: X ≈ C·U⁺·R.

C = X[:, J] is known in all states for a few actions J, R = X[I, :] for all actions in a few states I, and U = X[I, J] is
where they cross. With W = U⁺·R the table is C·W: in every state the entries of the actions J are mixed with the same
weights. It is exact where the table has rank |J| and U has that rank too, and it averages the noise of R over |I| states.

Which columns: those of largest volume. The k leading right singular vectors of R say how actions differ from each other; the
k actions whose rows in them span the largest volume are the ones that the others are mixtures of (for a table that is
linear in one action variable: its two ends).

Of many actions only some are tried in the states I, and W is continued smoothly to the others (actions.py).

How many: `lack_of_fit` measures on rows that were held out what k columns cannot express. Two independent replicates
of R make it honest: their noise has mean 0 in the product of the two residuals.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from hamq.completion.completion import AbstractCompletion, Completion, Mixing, Observed, Part
from hamq.completion.pivots import pivot_rows
from hamq.completion.selection import Pairs, some_actions
from hamq.problem.problem import Problem
from hamq.types import Key

CUTOFF = 1e-10
"""What is left of a column after those before it, as a part of it, that is rounding."""


class Cross(AbstractCompletion):
    """C·U⁺·R with anchors that were chosen: the table is observed in `columns` and, in `states`, in the actions `tried`.

    `continuation` (actions.py) leads from the tried actions to all; None where all were tried.
    """

    columns: Int[np.ndarray, " k"]
    states: Int[np.ndarray, " m"]
    tried: Int[np.ndarray, " T"]
    continuation: Float[np.ndarray, "T A"] | None = None
    completes: Part = eqx.field(static=True, default="expectation")

    @property
    def is_fixed(self) -> bool:
        return True

    def choose(self, problem: Problem, *, key: Key) -> tuple[Pairs, ...]:
        """The columns in all states, and what is tried in the anchor states."""
        del key
        tried = np.broadcast_to(self.tried, (len(self.states), len(self.tried)))
        return some_actions(problem, self.columns), Pairs(self.states, tried)

    @property
    def mixing(self) -> Mixing | None:
        mixing = Mixing(self.columns, self.states, self.tried, self.continuation)
        return mixing if self.completes == "expectation" else None

    def missed(self, observed: Observed, table: Float[np.ndarray, "S A"]) -> Float[np.ndarray, "m A"]:
        """Of the anchor states."""
        place = self.states[:, None], self.tried
        missing = observed.values[place] - table[place]
        if self.continuation is not None:
            return missing @ self.continuation
        rows = np.zeros((len(self.states), table.shape[1]))
        rows[:, self.tried] = missing
        return rows

    def complete(
        self, observed: Observed, previous: Float[np.ndarray, "S A"], memory: tuple[np.ndarray, ...] = ()
    ) -> Completion:
        """C·W in all entries, observed ones too: mixing averages noise. Every state is identified by its columns."""
        rows = observed.values[self.states[:, None], self.tried]
        weights, rank = mixing_weights(rows, np.searchsorted(self.tried, self.columns))
        if self.continuation is not None:
            weights = weights @ self.continuation
        table = mix(observed.values[:, self.columns], weights)
        lack = np.abs(table - observed.values)[observed.mask].max()
        largest = np.abs(observed.values)[observed.mask].max()
        result = f"{len(self.columns)} columns and {len(self.states)} states, off by {lack:.2g} at most where observed"
        return Completion(table, int(rank), 0, float(lack / (largest or 1)), float("nan"), 1, True, result, ())


def mixing_weights(rows: Any, columns: Sequence[int] | Int[np.ndarray, " k"]) -> tuple[Any, Any]:
    """Weights W `[k, A]` with U·W ≈ R in least squares, R the rows `[m, A]` and U their columns, and the rank of U.

    Of NumPy's arrays and, traced, of JAX's. Gram–Schmidt, every vector twice, as accurate as Householder's; no LAPACK, which
    CPU devices cannot call side by side. A column that those before it express gets the weight 0 (the pseudo-inverse would
    share its weight among them).
    """
    xp: Any = jnp if isinstance(rows, jax.Array) else np
    num, units, upper, is_new = len(columns), [], [], []
    for column in columns:
        vector = left = rows[:, column]
        entries: Any = 0
        for _ in range(2 if units else 0):
            basis = xp.array(units)
            again = basis @ left
            left, entries = left - again @ basis, entries + again
        length = xp.sqrt(left @ left)
        new = length > CUTOFF * xp.sqrt(vector @ vector)
        length = xp.where(new, length, 1)
        units.append(xp.where(new, left / length, 0))
        upper.append((entries, length))
        is_new.append(new)
    shares, weights = xp.array(units) @ rows, [rows[0]] * num
    for k in reversed(range(num)):
        later = sum(upper[j][0][k] * weights[j] for j in range(k + 1, num))
        weights[k] = xp.where(is_new[k], (shares[k] - later) / upper[k][1], 0)
    return xp.array(weights), xp.array(is_new).sum()


def mix(columns: Any, weights: Any) -> Any:
    """C·W, of NumPy's arrays or of JAX's, added up column by column: the same bits for any number of rows."""
    return sum(columns[:, k, None] * weights[None, k] for k in range(columns.shape[1]))


def largest_volume(rows: Float[np.ndarray, "m A"], num_columns: int) -> Int[np.ndarray, " k"]:
    """The actions whose entries in the leading right singular vectors of the rows span the largest volume, in order."""
    vectors = np.linalg.svd(rows, full_matrices=False)[2][:num_columns].T
    chosen = pivot_rows(vectors)
    for _ in range(100):  # each exchange raises the volume by its factor, which is bounded
        shares = np.abs(vectors @ np.linalg.pinv(vectors[chosen]))
        action, slot = np.unravel_index(np.argmax(shares), shares.shape)
        if shares[action, slot] <= 1 + 1e-6:
            break
        chosen[slot] = action
    return np.sort(chosen)


def lack_of_fit(
    first: Float[np.ndarray, "m A"], second: Float[np.ndarray, "m A"], columns: Int[np.ndarray, " k"]
) -> tuple[float, float]:
    """(bias², noise²) of completing rows from these columns: mean squares per row, of what decides between actions.

    `first` and `second` are independent estimates of the same rows. Weights come from one half of the rows, and are tried
    on the other; constant errors of a row leave the choice between its actions as it is, and do not count.
    """
    bias = noise = 0.0
    halves = np.arange(len(first)) % 2 == 0
    for half in (halves, ~halves):
        weights, _ = mixing_weights((first[half] + second[half]) / 2, columns)
        misses = [_centred(rows[~half] - rows[~half][:, columns] @ weights) for rows in (first, second)]
        bias += float(np.sum(misses[0] * misses[1]))
        noise += float(np.sum(_centred((first - second)[~half][:, columns] @ weights) ** 2)) / 2
    return max(bias, 0.0) / len(first), noise / len(first)


def noise_in_full(first: Float[np.ndarray, "m A"], second: Float[np.ndarray, "m A"]) -> float:
    """noise² of rows that are not completed, as in `lack_of_fit`."""
    return float(np.sum(_centred(first - second) ** 2)) / 2 / len(first)


def _centred(rows: np.ndarray) -> np.ndarray:
    return rows - rows.mean(axis=1, keepdims=True)
