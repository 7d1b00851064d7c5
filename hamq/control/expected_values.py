"""E[V(s')] of pairs of a density without a normaliser, from any states: what the decoder `lookahead` compares.

Σ_s' P(s' | s, a) V(s') with the masses that quadrature finds for each pair, or where those are too dear the mean of V over
the draws of chains, which all pairs make with the same random numbers. Both are checked; what may be off is said once.
"""

import warnings

import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.control.chain_draws import PairChains
from hamq.control.next_state import FAR, FEW_SHARE, FEWEST, MAX_POINTS, choose_method, nearest_nodes
from hamq.learning.health import interpolated
from hamq.problem.cells import rows_of
from hamq.problem.problem import Problem
from hamq.types import HamqWarning

TOLERANCE = 5e-3
"""Estimated total variation that masses may miss: so much of the range of V, and in truth a tenth of it or less."""
VALUES_PER_BLOCK = 2**22
"""Masses that are made at once."""
PAIRS_PER_BLOCK = 256
"""Pairs whose draws are looked up at once."""
MAX_KEPT = 2**20
"""Expectations that are kept for nodes that come again."""


class ExpectedValues:
    """E[V] of every action in given states; a function of states `[B, d]` and actions `[C]` or `[C, k]`."""

    def __init__(self, problem: Problem, values: Float[np.ndarray, " S"], num_draws: int | None = None):
        self.problem, self.values = problem, np.asarray(values, np.float64)
        is_dear = problem.law != "point" and choose_method(problem) == "chains"
        self._chains = PairChains(problem, num_draws) if is_dear else None
        self._kept: dict[bytes, np.ndarray] = {}
        self._has_warned = False

    def __call__(self, states: Float[np.ndarray, "B d"], actions: Float[np.ndarray, "C *k"]) -> Float[np.ndarray, "B C"]:
        names = [state.tobytes() for state in states]
        new = {name: i for i, name in enumerate(names) if name not in self._kept}
        if (len(self._kept) + len(new)) * len(actions) > MAX_KEPT:
            self._kept = {}
            new = {name: i for i, name in enumerate(names)}
        if new:
            found = self._of_pairs(*_pairs(states[np.fromiter(new.values(), np.int64)], actions))
            self._kept |= dict(zip(new, found.reshape(len(new), len(actions)), strict=True))
        return np.stack([self._kept[name] for name in names])

    def _of_pairs(self, states: Float[np.ndarray, "P d"], actions: Float[np.ndarray, "P *k"]) -> Float[np.ndarray, " P"]:
        size = max(1, VALUES_PER_BLOCK // self.problem.num_states) if self._chains is None else PAIRS_PER_BLOCK
        by = self._by_masses if self._chains is None else self._by_chains
        blocks = [slice(first, first + size) for first in range(0, len(states), size)]
        return np.concatenate([by(states[block], actions[block]) for block in blocks])

    def _by_masses(self, states: np.ndarray, actions: np.ndarray) -> Float[np.ndarray, " P"]:
        rows = rows_of(self.problem, states, actions, TOLERANCE, 2 * MAX_POINTS)
        far = rows.errors > FAR
        if np.any(far):
            self._warn(
                f"the masses of {int(far.sum())} of {len(far)} pairs may be off by up to {rows.errors.max():.2g} (total "
                "variation); use more grid points, or decoder='interpolate'"
            )
        # Row by row: a matrix product would round by the number of rows.
        return np.asarray([np.sum(row * self.values) for row in rows.masses])

    def _by_chains(self, states: np.ndarray, actions: np.ndarray) -> Float[np.ndarray, " P"]:
        assert self._chains is not None
        made = self._chains.draw(states, actions, np.zeros(len(states), np.int64), key=jr.key(0))
        few = made.effective < FEWEST
        if few.sum() > FEW_SHARE * len(few):
            self._warn(
                f"the chains of {int(few.sum())} of {len(few)} pairs are worth less than {FEWEST:.0f} independent draws "
                f"({int(made.is_stuck.sum())} never moved); use a num_draws above {self._chains.num_draws}, or "
                "decoder='interpolate'"
            )
        return self._values_at(made.points).mean(axis=1)

    def _values_at(self, points: Float[np.ndarray, "P d n"]) -> Float[np.ndarray, "P n"]:
        grid = self.problem.grid
        if self.problem.law == "linear":
            filled = np.resize(points, (PAIRS_PER_BLOCK, *points.shape[1:]))
            found = interpolated(grid, self.values.astype(np.float32), filled.astype(np.float32))
            return np.asarray(found, np.float64)[: len(points)]
        nodes = nearest_nodes(grid, np.moveaxis(points, 1, 2).reshape(-1, grid.dimension).astype(np.float64))
        return self.values[np.ravel_multi_index(tuple(nodes.T), grid.points)].reshape(len(points), -1)

    def _warn(self, sentence: str) -> None:
        if not self._has_warned:
            warnings.warn(f"lookahead on {self.problem.name}: {sentence}.", HamqWarning, stacklevel=7)
        self._has_warned = True


def _pairs(states: Float[np.ndarray, "B d"], actions: Float[np.ndarray, "C *k"]) -> tuple[np.ndarray, np.ndarray]:
    """All actions of the first state, then those of the second, …"""
    num, many = len(states), len(actions)
    return np.repeat(states, many, axis=0), np.tile(actions, (num, *(1,) * (actions.ndim - 1)))
