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
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import t as student

from hamq.certificates.fresh import Seen, Source, draw_round, make_source
from hamq.certificates.integrand import Integrand, bounded, joined, regressed
from hamq.certificates.intervals import betting_bound, chain_bound, predicted_width
from hamq.exact.dense import noise_of
from hamq.learning.draws import Progress
from hamq.problem.problem import Problem
from hamq.problem.tables import mean_table
from hamq.sampling.cell_table import num_evaluations
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
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


Kind = Literal["guaranteed", "asymptotic"]
PER_ROUND = 100
"""Independent draws of a pair in one round."""
PER_CHAIN, NUM_CHAINS = 5, 40
"""Draws of a chain, and chains of a pair in one round: many short ones, because two of the observations are made up."""
NUM_LEAPFROG, QUARTER_TURN = 6, 1.6
"""After a quarter of a turn a draw has forgotten the one before; steps are half as long as elsewhere, because a chain
that is stuck in a steep place costs a certificate much more than twice its steps."""
VERIFY = 2**20
"""Number of the first round that verifies: pilots have smaller ones."""
BLOCK_VALUES = 2**24
"""Values looked at before they are reduced to statistics."""
EXTREME = 1.25
"""How much farther than in the pilot the most extreme draws will lie, more or less."""
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
    kind: Kind
    level: float
    source: Source
    rules: Rules
    rounding: float = 0.0
    """Of the range of a function: what draws in float32 may be wrong by."""

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
        integrand = best
        if self.kind == "guaranteed":
            integrand = bounded(len(pairs), 1 / d if self.rules.variates and seen.conditional is not None else 0.0)
        f, of_best = integrand.values(seen, d)[:, 0], best.values(seen, d)[:, 0]
        reach = np.abs(f - f.mean(axis=1, keepdims=True)).max(axis=1)
        spread, inflation = self._spread(f, span)
        return of_best.mean(axis=1), of_best.std(axis=1), spread, inflation, reach, integrand, seen.locations, seen.cost

    def _spread(self, f: Float[np.ndarray, "P n"], span: float) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviation and inflation of each pair; a bet is guarded by one more observation at half of the range."""
        if self.kind == "guaranteed":
            n = f.shape[1]
            return np.sqrt((f.var(axis=1) * n + (span / 2) ** 2) / (n + 1)), np.ones(len(f))
        spread = f.std(axis=1, ddof=1)
        of_chains = _chain_means(f).var(axis=1, ddof=1)
        is_constant = spread <= 1e-6 * span
        return spread, np.where(is_constant, 1, of_chains * PER_CHAIN / np.where(is_constant, 1, spread**2))

    def width(self, prepared: Prepared, span: float, draws: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        """What the half-width of each pair will be with so many draws, more or less."""
        if self.kind == "guaranteed":
            return predicted_width(prepared.spread, span, draws, self.level)
        chains = draws / PER_CHAIN
        within = prepared.spread**2 * prepared.inflation / PER_CHAIN * chains
        variance = (within + 2 * np.maximum(EXTREME * prepared.reach, span / 2) ** 2) / (chains + 1)
        return student.isf(self.level, chains + 1) * np.sqrt(variance / (chains + 2))

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
        ends = np.full(len(f), half)
        if self.kind == "guaranteed":
            bound = betting_bound(f, -ends, ends, spread, self.level)
        else:
            seen = np.minimum(f.min(axis=1), -half), np.maximum(f.max(axis=1), half)
            bound = np.minimum(chain_bound(_chain_means(f), *seen, self.level), half)
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
        if self.kind == "guaranteed" and not is_pilot:
            source = source._replace(uses_stein=False)
        rounds = [draw_round(source, states, actions, functions, number, keeps_locations=is_pilot) for number in numbers]
        *tables, costs = zip(*rounds, strict=True)
        joined_tables: list[Any] = [None if parts[0] is None else np.concatenate(parts, axis=-1) for parts in tables]
        return Seen(*joined_tables, cost=_total(costs))


def make_experiment(problem: Problem, kind: Kind, level: float, rules: Rules, *, key: Key) -> tuple[Experiment, Cost]:
    """With the sampler of its kind, and what preparing that cost."""
    sampler = sampler_of(problem, kind)
    source, cost = make_source(problem, sampler, sampler.num_samples, rules.variates, rules.coupled, key=key)
    return Experiment(problem, kind, level, source, rules, rounding_of(problem)), cost


def sampler_of(problem: Problem, kind: Kind) -> HMC | IID:
    """The sampler of one round."""
    is_normal = problem.kernel.normal is not None
    if kind == "asymptotic":
        step = QUARTER_TURN / NUM_LEAPFROG if is_normal else None
        return HMC(PER_CHAIN * NUM_CHAINS, NUM_LEAPFROG, step, num_chains=NUM_CHAINS, calibrate=False, dispersed=True)
    # A node that was drawn from its mass does not say where in its cell the state is: no conditional expectations.
    draws_points = is_normal and not problem.is_product and problem.law != "point"
    return IID(PER_ROUND, "rejection" if draws_points else None)


def evaluations_per_draw(problem: Problem, kind: Kind) -> float:
    """Density and gradient evaluations that one draw takes, rather too many; independent draws count as one each."""
    if kind == "guaranteed":
        return 1.0
    sampler = sampler_of(problem, kind)
    assert isinstance(sampler, HMC)
    transitions = (sampler.num_warmup + PER_CHAIN) / PER_CHAIN
    # Besides: the gradient of Stein's functions, the start of a chain, and where modes are searched these, the jumps, and
    # the table of cells that they are proposed from, which every round makes anew.
    others = 2.3
    if problem.kernel.normal is None:
        others = 10.0 + num_evaluations(problem.grid.dimension) / sampler.num_samples
    return transitions * (sampler.gradients_per_draw(problem) + 1) + others


def evaluations_to_prepare(problem: Problem, kind: Kind) -> int:
    """What a step size and the look for jumps take before the first draw, rather too many: tables of pairs, and chains."""
    if kind == "guaranteed" or problem.kernel.normal is not None:
        return 0
    return 420 * num_evaluations(problem.grid.dimension) + 130_000


def _chain_means(f: Float[np.ndarray, "P n"]) -> Float[np.ndarray, "P m"]:
    return f.reshape(len(f), -1, PER_CHAIN).mean(axis=2)


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
