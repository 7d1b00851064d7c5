"""Draws for a certificate: pilot draws that settle what is averaged, and fresh ones that bound its mean in each pair.

`Rules` switch the reductions of variance off, one by one, to see what each is worth.

How much of their mass draws in float32 may put into wrong cells: counted in every bound from draws.

With ε = 2⁻²³, per axis and at least 2·10⁻⁶ (uniform numbers, quantiles and values have 24 bits):

    ε·|x|·(1/h + 1/σ)    a point moves by ε·|x|/2: over the edge of a cell of width h, or away from a mean
    ε·Σ_jj·(Σ⁻¹)_jj      a covariance is factored: its conditional variances are what is left of a difference
    ε·(σ/h)^p, ε·z²/8    masses of narrow cells (p = 1; 2 where they are hats) and of a box z σ away from the mean cancel

σ is the smallest or the largest of all pairs, whichever is worse. The last three are envelopes of what was measured against
float64 (tests/certificates/test_rounding.py). A density of the user is taken to be right to 2·10⁻⁶.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hamq.certificates.evidence import AbstractEvidence, evidence_of
from hamq.certificates.fresh import Seen, Source, draw_round, make_source
from hamq.certificates.integrand import Integrand, bounded, joined, regressed
from hamq.certificates.methods import Method
from hamq.exact.dense import noise_of
from hamq.learning.draws import Progress
from hamq.problem.problem import Problem
from hamq.problem.tables import mean_table
from hamq.solution import Cost
from hamq.types import Key

LEAST = 2e-6
SINGLE = 2.0**-23


def rounding_of(problem: Problem) -> float:
    """Of the range of a function of the next state, in total."""
    grid = problem.grid
    if problem.kernel.normal is None:
        return LEAST * grid.dimension
    noise, means, total = noise_of(problem), mean_table(problem), 0.0
    for i, (low, high, h) in enumerate(zip(grid.lower, grid.upper, grid.spacing, strict=True)):
        outside = 0.0
        if not grid.periodic[i]:
            outside = max(low - means[..., i].min(), means[..., i].max() - high, 0.0) / noise.narrowest[i]
        places = max(abs(low), abs(high)) * (1 / h + 1 / noise.narrowest[i])
        coarseness = noise.widest[i] / h
        cancelled = {"cell": coarseness, "linear": coarseness**2, "point": 0.0}[problem.law] + outside**2 / 8
        total += max(LEAST, SINGLE * float(places + noise.inflation[i] + cancelled))
    return total


VERIFY = 2**20
"""Number of the first round that verifies: pilots have smaller ones."""
BLOCK_VALUES = 2**24
"""Values looked at before they are reduced to statistics."""
EPSILON = 1e-12
"""Of the size of a function: sums are in float64."""


class Rules(NamedTuple):
    """variates: average f, not V; allots: more draws where they decide; coupled: actions of a state share random numbers."""

    variates: bool = True
    allots: bool = True
    coupled: bool = True


ALL_RULES = Rules()


class Prepared(NamedTuple):
    """What pilot draws of P pairs say of one function V: its mean with standard error, and how f behaves in each pair.

    `spread` is the standard deviation of one draw of f, `inflation` what the mean of a chain has for variance, in that
    of as many independent draws (one number for all pairs), `reach` the largest |f − mean|; `locations` where the draws
    lie on the grid.
    """

    mean: Float[np.ndarray, " P"]
    error: Float[np.ndarray, " P"]
    integrand: Integrand
    spread: Float[np.ndarray, " P"]
    reach: Float[np.ndarray, " P"]
    inflation: float
    locations: np.ndarray
    cost: Cost


class Experiment(NamedTuple):
    """`level` is the probability with which one bound of one pair may fail."""

    problem: Problem
    method: Method
    level: float
    source: Source
    rules: Rules
    rounding: float = 0.0
    """Of the range of a function: what draws in float32 may be wrong by."""

    @property
    def evidence(self) -> AbstractEvidence:
        return evidence_of(self.method)

    def prepare(
        self, pairs: Int[np.ndarray, " P"], value: Float[np.ndarray, " S"], num: int, progress: Progress | None
    ) -> Prepared:
        """`num` rounds of pilot draws."""
        middle, span = float(value.max() + value.min()) / 2, float(np.ptp(value))
        parts, done = [], 0
        for block in _blocks(pairs, num * self.source.per_round):
            parts.append(self._of_block(block, (value - middle)[None], span, num))
            done += len(block)
            _tell(progress, "pilot draws", done, len(pairs))
        mean, error, spread, inflation, reach, integrands, locations, costs = zip(*parts, strict=True)
        inflated = float(np.mean(np.concatenate(inflation)))
        return Prepared(
            mean=np.concatenate(mean) + middle,
            error=np.concatenate(error) * np.sqrt(inflated / (num * self.source.per_round)),
            integrand=joined(integrands),
            spread=np.concatenate(spread),
            reach=np.concatenate(reach),
            inflation=inflated,
            locations=np.concatenate(locations),
            cost=_total(costs),
        )

    def _of_block(self, pairs, functions, span: float, num: int) -> tuple[Any, ...]:
        d = self.problem.grid.dimension
        seen = self._rounds(pairs, functions, range(num), is_pilot=True)
        best = regressed(seen, d) if self.rules.variates else bounded(len(pairs), 0.0)
        integrand = self.evidence.integrand(best, 1 / d if self.rules.variates and seen.conditional is not None else 0.0)
        f, of_best = integrand.values(seen, d)[:, 0], best.values(seen, d)[:, 0]
        reach = np.abs(f - f.mean(axis=1, keepdims=True)).max(axis=1)
        spread, inflation = self.evidence.spread(f, span)
        return of_best.mean(axis=1), of_best.std(axis=1), spread, inflation, reach, integrand, seen.locations, seen.cost

    def width(self, prepared: Prepared, span: float, draws: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        """What the half-width of each pair will be with so many draws, more or less."""
        return self.evidence.width(prepared.spread, prepared.reach, prepared.inflation, span, draws, self.level)

    def bounds(
        self,
        pairs: Int[np.ndarray, " P"],
        rounds: Int[np.ndarray, " P"],
        functions: Float[np.ndarray, "J S"],
        signs: Sequence[int],
        prepared: Prepared,
        progress: Progress | None,
    ) -> tuple[Float[np.ndarray, "J P"], Cost]:
        """Of E[u(s')] for each function: from above where its sign is 1, from below where it is −1; from fresh draws."""
        middle = (functions.max(axis=1) + functions.min(axis=1)) / 2
        half, size = np.ptp(functions, axis=1) / 2, np.abs(functions).max(axis=1)
        found, costs, per_round = np.empty((len(functions), len(pairs))), [], self.source.per_round
        centred, done, total = functions - middle[:, None], 0, int(rounds.sum())
        for block in _blocks(np.argsort(-rounds, kind="stable"), len(functions) * int(rounds.max()) * per_round):
            told = functools.partial(_tell_more, progress, done, total)
            f, cost = self._fresh(pairs[block], rounds[block], centred, prepared.integrand.of(block), told)
            costs.append(cost)
            done += int(rounds[block].sum())
            for num in np.unique(rounds[block]):
                own = np.flatnonzero(rounds[block] == num)
                for j, sign in enumerate(signs):
                    values = sign * f[own, j, : num * per_round]
                    found[j, block[own]] = sign * self._bound(values, half[j], size[j], prepared.spread[block[own]])
        return found + middle[:, None], _total(costs)

    def _bound(
        self, f: Float[np.ndarray, "P n"], half: float, size: float, spread: Float[np.ndarray, " P"]
    ) -> Float[np.ndarray, " P"]:
        """From above, of f between −half and half (its mean, at least), part of a function as large as `size`."""
        bound = self.evidence.bound(f, half, spread, self.level)
        return bound + self.rounding * 2 * half + EPSILON * size

    def _fresh(
        self, pairs: np.ndarray, rounds: np.ndarray, functions, integrand: Integrand, told: Callable[[int], None]
    ) -> tuple[Float[np.ndarray, "P J n"], Cost]:
        """f at the draws of these pairs, which come with falling numbers of rounds; what a pair has no draws for is not
        set."""
        per_round, costs = self.source.per_round, []
        f = np.empty((len(pairs), len(functions), int(rounds[0]) * per_round))
        for number in range(int(rounds[0])):
            num = int(np.count_nonzero(rounds > number))
            seen = self._rounds(pairs[:num], functions, range(VERIFY + number, VERIFY + number + 1))
            values = integrand.of(np.arange(num)).values(seen, self.problem.grid.dimension)
            f[:num, :, number * per_round : (number + 1) * per_round] = values
            costs.append(seen.cost)
            told(int(np.minimum(rounds, number + 1).sum()))
        return f, _total(costs)

    def _rounds(self, pairs: np.ndarray, functions, numbers: range, is_pilot: bool = False) -> Seen:
        """Several rounds as one; pilots are located, and look at Stein's functions also where they have no known range."""
        states, actions = np.divmod(pairs, self.problem.num_actions)
        source = self.source
        if not self.evidence.uses_stein and not is_pilot:
            source = source._replace(uses_stein=False)
        rounds = [draw_round(source, states, actions, functions, number, keeps_locations=is_pilot) for number in numbers]
        *tables, costs = zip(*rounds, strict=True)
        joined_tables: list[Any] = [None if parts[0] is None else np.concatenate(parts, axis=-1) for parts in tables]
        return Seen(*joined_tables, cost=_total(costs))


def make_experiment(problem: Problem, method: Method, level: float, rules: Rules, *, key: Key) -> tuple[Experiment, Cost]:
    """With the sampler of its method, and what preparing that cost."""
    sampler = evidence_of(method).sampler(problem)
    source, cost = make_source(problem, sampler, sampler.num_samples, rules.variates, rules.coupled, key=key)
    return Experiment(problem, method, level, source, rules, rounding_of(problem)), cost


def _blocks(pairs: Int[np.ndarray, " P"], values: int) -> Iterator[Int[np.ndarray, " B"]]:
    """So many pairs that their values fit into memory many times."""
    size = max(256, BLOCK_VALUES // values // 256 * 256)
    for start in range(0, len(pairs), size):
        yield pairs[start : start + size]


def _tell(progress: Progress | None, what: str, done: int, total: int) -> None:
    if progress is not None:
        progress(what, done, total)


def _tell_more(progress: Progress | None, before: int, total: int, done: int) -> None:
    _tell(progress, "verifying", before + done, total)


def _total(costs: Sequence[Cost]) -> Cost:
    return Cost(*(sum(column) for column in zip(*costs, strict=True)))
