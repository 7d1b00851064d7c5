"""E[V] under a product law, as a chain of batched matrix products along a plan.

Each contraction is one `np.matmul` (batch: indices that both sides keep; summed: next coordinates), because `np.einsum`
with batch indices does not use BLAS. The constant operands are laid out once.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.exact.plan import Plan, Step

MAX_PRODUCT = 2**18
"""Multiply-adds of one matrix product: above it OpenBLAS starts threads, which double the time on a busy machine."""


class Factor(NamedTuple):
    """P_i(s'_i | …) as a table `[*sizes of the indices it depends on, n_i]`."""

    table: Float[np.ndarray, "..."]
    depends_on: tuple[int, ...]


class Contraction:
    """E[V] for all pairs, `[S] -> [S, A]`."""

    def __init__(self, plan: Plan, sizes: tuple[int, ...], factors: list[Factor]):
        self.plan, self.sizes = plan, sizes
        self.tables = [_operand(step, sizes, factors) for step in plan.steps]

    @property
    def num_summands(self) -> int:
        """Length of the longest chain of additions behind one entry: what rounding grows with."""
        return sum(math.prod(self.sizes[i] for i in step.summed) for step in self.plan.steps)

    def __call__(self, value: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S A"]:
        plan, d = self.plan, len(self.sizes) // 2
        result = np.empty(self.sizes[: d + 1])
        layout, common = tuple(range(d + 1, 2 * d + 1)), value
        for step, table in zip(plan.steps[: plan.num_hoisted], self.tables, strict=False):
            layout, common = step.layout, self._contract(step, table, layout, common)
        for fixed in np.ndindex(*(self.sizes[i] for i in plan.sliced)):
            at = dict(zip(plan.sliced, fixed, strict=True))
            here, part = layout, common
            for step, table in list(zip(plan.steps, self.tables, strict=True))[plan.num_hoisted :]:
                here, part = step.layout, self._contract(step, table[tuple(at[i] for i in step.sliced)], here, part)
            self._store(result[tuple(at.get(i, slice(None)) for i in range(d + 1))], here, part)
        return result.reshape(-1, self.sizes[d])

    def _contract(self, step: Step, table: np.ndarray, layout: tuple[int, ...], values: np.ndarray) -> np.ndarray:
        order = step.batch + step.rows + step.summed
        values = values.reshape([self.sizes[i] for i in layout]).transpose([layout.index(i) for i in order])
        num_batches, num_summed, num_columns = table.shape
        num_rows = math.prod(self.sizes[i] for i in step.rows)
        block = _block(tuple(self.sizes[i] for i in step.rows), MAX_PRODUCT // (num_summed * num_columns))
        return np.matmul(values.reshape(num_batches, num_rows // block, block, num_summed), table[:, None])

    def _store(self, target: np.ndarray, layout: tuple[int, ...], values: np.ndarray) -> None:
        """Writes a result into its place; an index that no factor depends on is broadcast."""
        values = values.reshape([self.sizes[i] for i in layout]).transpose(np.argsort(layout))
        shown = [i for i in range(len(self.sizes) // 2 + 1) if i not in self.plan.sliced]
        target[...] = values.reshape([self.sizes[i] if i in layout else 1 for i in shown])


def _operand(step: Step, sizes: tuple[int, ...], factors: list[Factor]) -> np.ndarray:
    """The product of the step's factors as `[*sliced, batch, summed, columns]`."""
    d = len(factors)
    order = step.sliced + step.batch + step.summed + step.columns
    result = np.ones([sizes[i] for i in order])
    for member in step.factors:
        table, own = factors[member].table, (*factors[member].depends_on, d + 1 + member)
        shape = [sizes[i] if i in own else 1 for i in order]
        result *= table.transpose([own.index(i) for i in order if i in own]).reshape(shape)
    parts = (step.batch, step.summed, step.columns)
    shape = [math.prod(sizes[i] for i in part) for part in parts]
    return result.reshape([*(sizes[i] for i in step.sliced), *shape])


def _block(sizes: tuple[int, ...], most: int) -> int:
    """The largest product of the last sizes that is not above `most`, and at least 1."""
    products = [1, *itertools.accumulate(reversed(sizes), int.__mul__)]
    return max([n for n in products if n <= most], default=1)
