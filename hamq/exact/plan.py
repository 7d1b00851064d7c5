"""The cheapest order in which to contract V with the tables of a product law.

    E[V](s, a) = Σ_{s'} V(s'₁, …, s'_d) Π_i P_i(s'_i | s, a),

where factor P_i depends on few of the indices s₁, …, s_d, a. Summing the s'_i out one after the other, each as soon as
V is contracted with its factor, costs a tiny part of the dense sum; the order decides how tiny. What is left to do and
what the intermediate depends on follow from the SET of factors already summed, so the best order is a shortest path
through the sets. Several factors may be multiplied beforehand and summed in one product: that is a longer edge.

Where an intermediate is too large, it is computed for one value of some output indices at a time (sliced); what comes
before those indices appear is computed once.

Index i < d is state coordinate i, d the action, d + 1 + i the next coordinate i; sets of indices and of factors are bit
masks.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

WORK_BYTES = 2**27
"""Largest step (operands and result) that is not sliced: slices cost nothing and stay nearer to the cache."""
MAX_GROUP = 3
"""Factors that may be multiplied beforehand."""
MULTIPLY_ADD, READ, CALL, STEP = 2.5e-10, 1e-9, 1e-7, 1e-5
"""Seconds per multiply-add, per value moved, per matrix of a batch, per step: only their ratios matter."""


class Step(NamedTuple):
    """`[batch, rows, summed] @ [batch, summed, columns]`: the intermediate times the product of these factors.

    The indices in `sliced` are fixed while the step runs.
    """

    factors: tuple[int, ...]
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    summed: tuple[int, ...]
    columns: tuple[int, ...]
    sliced: tuple[int, ...]

    @property
    def layout(self) -> tuple[int, ...]:
        """Indices of the result, in order."""
        return self.batch + self.rows + self.columns


class Plan(NamedTuple):
    """The steps of one sweep, the first `num_hoisted` of them outside the loop over slices, and what it costs."""

    steps: tuple[Step, ...]
    sliced: tuple[int, ...]
    num_hoisted: int
    seconds: float
    multiply_adds: int
    table_bytes: int
    work_bytes: int


class _Edge(NamedTuple):
    """What it costs to contract one group of factors."""

    before: int
    depends: int
    summed: int
    seconds: float
    multiply_adds: int
    table_bytes: int
    work_bytes: int


def make_plan(sizes: tuple[int, ...], depends_on: list[tuple[int, ...]], max_bytes: int) -> Plan | None:
    """The fastest plan with the fewest sliced indices whose steps fit, or None; sizes: (*points, actions, *points)."""
    used = sorted(set().union(*depends_on))
    for budget in (min(WORK_BYTES, max_bytes), max_bytes):
        for count in range(len(used) + 1):
            plans = [_fastest(sizes, depends_on, sliced, budget) for sliced in itertools.combinations(used, count)]
            found = [plan for plan in plans if plan is not None]
            if found:
                return min(found, key=lambda plan: plan.seconds)
    return None


def _fastest(sizes, depends_on: list[tuple[int, ...]], sliced: tuple[int, ...], budget: int) -> Plan | None:
    """The fastest plan with these indices sliced whose steps need no more than `budget` bytes each."""
    depends, fixed = [_mask(indices) for indices in depends_on], _mask(sliced)
    everything = 2 ** len(depends) - 1

    @functools.cache
    def best(done: int) -> tuple[float, tuple[int, ...]]:
        if done == everything:
            return 0.0, ()
        choices: list[tuple[float, tuple[int, ...]]] = [(math.inf, ())]
        for group in _groups(everything & ~done):
            edge = _edge(sizes, depends, fixed, done, group)
            made_bytes = edge.table_bytes if group.bit_count() > 1 else 0  # a single factor's table is there anyway
            if max(edge.work_bytes, made_bytes) <= budget:
                seconds, rest = best(done | group)
                choices.append((edge.seconds + seconds, (group, *rest)))
        return min(choices)

    seconds, groups = best(0)
    return None if math.isinf(seconds) else _assemble(sizes, depends, sliced, groups)


def _edge(sizes: tuple[int, ...], depends: list[int], fixed: int, done: int, group: int) -> _Edge:
    d = len(depends)
    size = functools.partial(_size, sizes)
    reached, reach = _union(depends, done), _union(depends, group)
    before = ((2**d - 1 & ~done) << (d + 1)) | (reached & ~fixed)
    summed, touched = group << (d + 1), reach & ~fixed
    after = (before & ~summed) | touched
    operand, result, table = size(before), size(after), size(touched | summed)
    multiply_adds = size(before | touched)
    seconds = MULTIPLY_ADD * multiply_adds + READ * (2 * operand + table + result) + CALL * size(before & touched) + STEP
    turns = size(fixed) if (reached | reach) & fixed else 1
    return _Edge(
        before,
        touched,
        summed,
        turns * seconds,
        turns * multiply_adds,
        table_bytes=8 * size(reach | summed),
        work_bytes=8 * (2 * operand + result),
    )


def _assemble(sizes, depends: list[int], sliced: tuple[int, ...], groups: tuple[int, ...]) -> Plan:
    """The steps of these groups; what both sides keep stays in the order in which it lies in memory."""
    d, done, steps, edges = len(depends), 0, [], []
    layout = tuple(range(d + 1, 2 * d + 1))
    for group in groups:
        edge = _edge(sizes, depends, _mask(sliced), done, group)
        kept = [i for i in layout if not edge.summed >> i & 1]
        step = Step(
            factors=_indices(group),
            batch=tuple(i for i in kept if edge.depends >> i & 1),
            rows=tuple(i for i in kept if not edge.depends >> i & 1),
            summed=tuple(i for i in layout if edge.summed >> i & 1),
            columns=_indices(edge.depends & ~edge.before),
            sliced=_indices(_union(depends, group) & _mask(sliced)),
        )
        steps.append(step)
        edges.append(edge)
        layout, done = step.layout, done | group
    return Plan(
        tuple(steps),
        sliced,
        num_hoisted=next((k for k, step in enumerate(steps) if step.sliced), len(steps)),
        seconds=sum(edge.seconds for edge in edges),
        multiply_adds=sum(edge.multiply_adds for edge in edges),
        table_bytes=sum(edge.table_bytes for edge in edges),
        work_bytes=max(edge.work_bytes for edge in edges),
    )


def _groups(factors: int) -> Iterator[int]:
    """All ways to take one, two or three of these factors."""
    members = [1 << i for i in _indices(factors)]
    for count in range(1, min(MAX_GROUP, len(members)) + 1):
        for chosen in itertools.combinations(members, count):
            yield sum(chosen)


def _size(sizes: tuple[int, ...], mask: int) -> int:
    return math.prod([sizes[i] for i in _indices(mask)])


def _union(depends: list[int], factors: int) -> int:
    return functools.reduce(int.__or__, (depends[i] for i in _indices(factors)), 0)


@functools.cache
def _indices(mask: int) -> tuple[int, ...]:
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def _mask(indices: tuple[int, ...]) -> int:
    return sum(1 << i for i in indices)
