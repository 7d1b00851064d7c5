"""Value iteration with V as a tensor train: `solve_tensor`.

One iteration is one improvement of the policy. The first ones at a rank are cross sweeps: they choose the points, fiber
by fiber, and the backup V ← max_a r + γ·E[V] gives their values. Then the points are frozen, fibers of the last sweep and
random states, a few times more than the cores have numbers; the best action of each is found, what is drawn for it is
kept, and a few evaluations V ← r_π + γ·P_π·V follow at a fraction of the price, each fitted by least squares. Every step
also adds γ/(1 − γ) times the mean of (backup − V), which takes off at once what value iteration would need 1/(1 − γ)
iterations for. Held-out states, used for nothing else, give the residual: when it stalls the rank grows, unless the last
growth did not help.
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.solution import History
from hamq.tensor import cross, train
from hamq.tensor.backup import Bellman, Engine
from hamq.tensor.beside_masses import require_masses
from hamq.tensor.choice import make_choices
from hamq.tensor.contraction import padded
from hamq.tensor.cross import Sets
from hamq.tensor.effective import Effective, effective_draws, in_words, lacks_draws, require_draws
from hamq.tensor.expectation import best_sampler, blank_expectation, make_expectation, require_honoured
from hamq.tensor.least_squares import Groups, compile_fit, fit, make_groups
from hamq.tensor.ordering import find_order
from hamq.tensor.pilot import Pilot
from hamq.tensor.settings import TensorSettings, resolve
from hamq.tensor.solution import TensorSolution
from hamq.tensor.train import Train
from hamq.types import HamqError, Key, as_key, is_cpu

NUM_HELD_OUT = 1024
NUM_SWEPT = 2
"""Cross iterations at every rank."""
NUM_EVALUATIONS = 4
POINTS_PER_NUMBER = 2.0
"""Random states per number of the cores, beside the fibers."""
GROWTH = 1.5
STALLED = 0.95
"""The rank is exhausted when an iteration leaves more than this part of the best residual so far."""
FALLING = 0.5
"""An iteration that leaves less than this part of the last residual is followed by another one, tolerance or not."""
HELPFUL = 0.85
"""A growth of the rank that leaves more than this part of the residual was the last one."""
MAX_KEPT = 2**29
"""Bytes of kept draws; more are drawn anew each time."""


class Row(NamedTuple):
    """One iteration.

    residual    rms of (backup − V) over held-out states, as a part of the rms of V
    rank        of V
    points      states that were backed up in this iteration
    reads, samples, density_evaluations, gradient_evaluations, seconds     spent so far
    """

    residual: float
    rank: int
    points: int
    reads: int
    samples: int
    density_evaluations: int
    gradient_evaluations: int
    seconds: float


COLUMNS = Row._fields


class State(NamedTuple):
    """What the next iteration needs.

    num_done    iterations at this rank
    shift       what the next sweep adds to every backup
    levels      the last actions at the frozen points
    best        the train with the least residual so far, and that residual
    before      the least residual of the ranks before
    residuals   of the iterations at this rank
    effective   draws of the last residual
    """

    value: Train
    sets: Sets
    rank: int
    num_done: int = 0
    shift: float = 0.0
    levels: Int[np.ndarray, "P k"] | None = None
    best: tuple[Train, float] = ((), math.inf)
    before: float = math.inf
    residuals: tuple[float, ...] = ()
    effective: Effective | None = None


class Iterate(NamedTuple):
    """What `callback` is given; `checkpoint()` is all that `solve_tensor(resume=…)` needs to go on."""

    iteration: int
    iterations: int
    row: Row
    history: Callable[[], History]
    checkpoint: Callable[[], dict[str, np.ndarray]]


class Run:
    """What does not change: the engine, its settings, the held-out states."""

    def __init__(self, problem: Problem, settings: TensorSettings, seed: int):
        self.problem, self.settings, self.seed = problem, settings, seed
        choices = make_choices(problem)
        self.order = find_order(problem, choices) if settings.order is None else settings.order
        self.points = tuple(problem.grid.points[axis] for axis in self.order)
        compile_fits(self, settings.rank)
        sampler = best_sampler(problem) if settings.sampler is None else settings.sampler
        self.pilot = Pilot(problem, choices, self.order, settings.num_starts, settings.rank)
        expectation = make_expectation(problem, sampler, choices, self.order, seed, self.pilot.survey)
        self.engine = Engine(Bellman(problem, choices, expectation, self.order), settings.num_starts)
        self.held_out_nodes = self.random_nodes(NUM_HELD_OUT, 1)
        self.held_out = self.engine.states(self.held_out_nodes)
        self.began = time.monotonic()

    def random_nodes(self, count: int, stream: int) -> Int[np.ndarray, "P d"]:
        return np.random.default_rng([self.seed, stream]).integers(0, self.points, (count, len(self.points)))

    def tenth_of(self, num_samples: int) -> float:
        """Effective draws that nine in ten pairs would have of so many."""
        return self.pilot.tenth_of(self.engine.bellman.expectation, self.held_out, num_samples)

    def padded(self, state: State) -> jax.Array:
        return jax.device_put(padded(state.value, state.rank))

    def values(self, state: State, nodes: Int[np.ndarray, "P d"], states: Float[np.ndarray, "P d"]) -> np.ndarray:
        """V at nodes and their states: its entries, or on an accelerator, which has a faster way, what is interpolated."""
        return train.entries(state.value, nodes) if is_cpu() else self.engine.interpolate(self.padded(state), states)

    @property
    def pull(self) -> float:
        """γ/(1 − γ): a constant that is missing from V is missing 1/(1 − γ) times; 0 where episodes end and take less on."""
        return 0.0 if self.problem.terminal is not None else self.problem.discount / (1 - self.problem.discount)


def compile_ahead(problem: Problem, settings: TensorSettings) -> None:
    """Starts to compile the backups before what they are given is known: XLA is done with them when it is."""
    order = tuple(range(problem.grid.dimension))
    sampler = best_sampler(problem) if settings.sampler is None else settings.sampler
    expectation = blank_expectation(problem, sampler, order, 0)
    engine = Engine(Bellman(problem, make_choices(problem), expectation, order), settings.num_starts)
    engine.compile_beside(settings.rank)


def first_state(run: Run) -> State:
    generator = np.random.default_rng([run.seed, 0])
    rank = run.settings.rank
    return State(train.constant(run.points, 0.0), cross.random_sets(run.points, rank, generator), rank)


def sweep(run: Run, state: State) -> State:
    """V ← backup of V, on points that cross approximation chooses anew, there and back."""
    cores, points = run.padded(state), run.points

    def read(indices):
        return run.engine.greedy(cores, run.engine.states(indices))[0] + state.shift

    _, sets = cross.sweep_right(read, points, state.sets)
    value, sets = cross.sweep_left(read, points, sets)
    return state._replace(value=train.rounded(value, 1e-7, state.rank), sets=sets, levels=None)


class Frozen(NamedTuple):
    """The points of a rank, once they have settled."""

    states: Float[np.ndarray, "P d"]
    nodes: Int[np.ndarray, "P d"]
    groups: Groups
    num_random: int


def freeze(run: Run, state: State) -> Frozen:
    fibers = cross.all_fibers(run.points, state.sets)
    at_random = run.random_nodes(_num_random(len(fibers)), 1 + state.rank)
    indices = np.concatenate([fibers, at_random])
    return Frozen(run.engine.states(indices), indices, make_groups(indices, run.points), len(at_random))


def _num_random(num_fibers: int) -> int:
    return int(POINTS_PER_NUMBER * num_fibers)


def compile_fits(run: Run, rank: int) -> None:
    """Starts to compile the fits at this rank, if there will be any."""
    if run.settings.iterations > NUM_SWEPT:
        num_fibers = cross.num_fibers(run.points, rank)
        compile_fit(num_fibers + _num_random(num_fibers), run.points, rank)


def improve(run: Run, state: State, frozen: Frozen) -> State:
    """The best actions at the frozen points, then evaluations of that policy."""
    engine, states, count = run.engine, frozen.states, len(frozen.states)
    if engine.num_bytes(count) <= MAX_KEPT:
        values, levels, kept = engine.greedy_and_keep(run.padded(state), states, state.levels)
    else:
        (values, levels), kept = engine.greedy(run.padded(state), states, state.levels), None
    state = _fitted(run, state, frozen, values)._replace(levels=levels)
    for _ in range(NUM_EVALUATIONS):
        cores = run.padded(state)
        values = engine.evaluate_anew(cores, states, levels) if kept is None else engine.evaluate(cores, kept, count)
        state = _fitted(run, state, frozen, values)
    return state


def _fitted(run: Run, state: State, frozen: Frozen, values: Float[np.ndarray, " P"]) -> State:
    """The train nearest to the values at the frozen points, with the mean change pulled to its limit."""
    at_random = slice(-frozen.num_random, None)
    before = run.values(state, frozen.nodes[at_random], frozen.states[at_random])
    shift = run.pull * float(np.mean(values[at_random] - before))
    return state._replace(value=fit(state.value, values + shift, frozen.groups, state.rank))


def residual(run: Run, state: State) -> tuple[float, float]:
    """(rms of backup − V over the held-out states as a part of the rms of V, mean of backup − V)."""
    cores = run.padded(state)
    values = run.values(state, run.held_out_nodes, run.held_out)
    missing = run.engine.greedy(cores, run.held_out)[0] - values
    size = math.sqrt(np.mean(values**2))
    return math.sqrt(np.mean(missing**2)) / max(size, 1e-30), float(np.mean(missing))


def grown(run: Run, state: State) -> State:
    rank = min(max(state.rank + 1, round(GROWTH * state.rank)), run.settings.max_rank)
    generator = np.random.default_rng([run.seed, 0, rank])
    sets = cross.random_sets(run.points, rank, generator, state.sets)
    return State(
        state.value, sets, rank, shift=state.shift, best=state.best, before=state.best[1], effective=state.effective
    )


def solve_tensor(
    problem: Problem,
    *,
    sampler: AbstractSampler | None = None,
    rank: int = 8,
    max_rank: int = 24,
    iterations: int = 40,
    tolerance: float = 0.01,
    order: Any = None,
    num_starts: int = 1,
    key: Key | int = 0,
    callback: Callable[[Iterate], Any] | None = None,
    resume: dict[str, np.ndarray] | None = None,
) -> TensorSolution:
    """V as a tensor train on the grid's nodes, for grids that no table can hold; law="linear".

    sampler         None: Exhaustive (exact sums) for product laws, IID for Gaussian kernels, Importance for others; HMC
                    carries the draws by weighted trajectories of `num_leapfrog` steps
    rank, max_rank  of the first train, and up to which it grows while the residual asks for it
    tolerance       stop when the rms residual over held-out states is this part of the rms of V
    order           of the axes along the train; None: what depends on each other side by side
    num_starts      of the coordinate-wise search for the best of many actions
    resume          what `checkpoint()` of the last Iterate gave; all other arguments as before
    """
    settings = resolve(problem, sampler, rank, max_rank, iterations, tolerance, order, num_starts)
    if sampler is not None:
        require_honoured("solve_tensor", sampler)
    if resume is None:
        compile_ahead(problem, settings)
    run = Run(problem, settings, seed_of(key))
    state, rows = (first_state(run), []) if resume is None else restored(run, resume)
    frozen, elapsed = None, rows[-1].seconds if rows else 0.0
    while len(rows) < iterations and not (rows and _is_over(run, state)):
        if rows and _is_exhausted(state):
            state, frozen = grown(run, state), None
            run.engine.compile_beside(state.rank)
            compile_fits(run, state.rank)
        if state.num_done < NUM_SWEPT:
            state = sweep(run, state)
            num_points = len(cross.all_fibers(run.points, state.sets))
        else:
            frozen = freeze(run, state) if frozen is None else frozen
            state, num_points = improve(run, state, frozen), len(frozen.states)
        state = measured(run, state)
        spent = elapsed + time.monotonic() - run.began
        rows.append(Row(state.residuals[-1], state.rank, num_points, run.engine.reads, *run.engine.cost, spent))
        if callback is not None:
            callback(_iterate(run, state, rows, iterations))
    converged, sentence = state.best[1] <= tolerance, _sentence(run, state, rows)
    if (missed := require_masses(run.engine, run.padded(state), run.held_out)) is not None:
        converged, sentence = False, f"{missed}; {sentence}"
    made = (state.best[0], run.order, _history(rows), sentence, converged, state.best[1], run.engine)
    return TensorSolution(problem, *made, effective=state.effective)


def measured(run: Run, state: State) -> State:
    """With the residual of its train."""
    missing, mean = residual(run, state)
    best = (state.value, missing) if missing < state.best[1] else state.best
    residuals = (*state.residuals, missing)
    effective = effective_draws(run.engine.shares, run.engine.bellman.expectation.cost.samples)
    if state.effective is None or not lacks_draws(state.effective):  # said once
        require_draws(run.problem.name, effective, run.tenth_of)
    done = {"num_done": state.num_done + 1, "residuals": residuals, "effective": effective}
    return state._replace(shift=run.pull * mean, best=best, **done)


def _is_exhausted(state: State) -> bool:
    """Whether more iterations at this rank will not help: the last one hardly did."""
    fitted = state.residuals[NUM_SWEPT:]
    return len(fitted) >= 2 and fitted[-1] > STALLED * min(fitted[:-1])


def _is_over(run: Run, state: State) -> bool:
    """Within the tolerance, as long as another iteration, which costs little, would not take off half of the residual."""
    tolerance = run.settings.tolerance
    if state.best[1] <= tolerance:
        last = state.residuals[-2:]
        is_falling = len(last) < 2 or last[-1] < FALLING * last[-2]
        # V is off by up to residual/(1 − γ): where that is within the tolerance nothing is left to do.
        return not is_falling or state.best[1] <= tolerance * (1 - run.problem.discount)
    is_last = state.rank >= run.settings.max_rank or min(state.residuals) > HELPFUL * state.before
    return _is_exhausted(state) and is_last


def _sentence(run: Run, state: State, rows: list[Row]) -> str:
    found, last = state.best[1], rows[-1]
    assert state.effective is not None
    of_v = "of V in the sampled problem" if state.effective.draws else "of V"
    spent = f"{last.reads:,} backups, {last.samples:,} draws{in_words(state.effective)}"
    size = max(train.ranks(state.best[0]))
    if found <= run.settings.tolerance:
        return f"residual {found:.2%} {of_v} at rank {size} after {len(rows)} iterations ({spent})"
    head = f"residual {found:.2%} {of_v} at rank {size} where {run.settings.tolerance:.2%} was asked for"
    if not _is_exhausted(state):
        return f"{head}, and still falling after {len(rows)} iterations; use more iterations ({spent})"
    if min(state.residuals) > HELPFUL * state.before:
        return (
            f"{head}; rank {state.rank} hardly helped after {state.before:.2%}: V does not compress on this grid; use more "
            f"points per axis, another order, or a table ({spent})"
        )
    return f"{head}; raise max_rank = {run.settings.max_rank} ({spent})"


def seed_of(key: Key | int) -> int:
    """A seed of the shared random numbers from a key; that of an int is its last 32 bits, for which nothing is compiled."""
    if type(key) is int and -(2**63) <= key < 2**63:
        return key % 2**32
    return int(np.asarray(jax.random.key_data(as_key(key)), np.uint32)[-1])


def _history(rows: list[Row]) -> History:
    return History(**{name: np.asarray([getattr(row, name) for row in rows]) for name in COLUMNS})


def _iterate(run: Run, state: State, rows: list[Row], iterations: int) -> Iterate:
    rows = list(rows)
    return Iterate(len(rows), iterations, rows[-1], lambda: _history(rows), lambda: saved(run, state, rows))


def saved(run: Run, state: State, rows: list[Row]) -> dict[str, np.ndarray]:
    """Everything that `restored` needs, as arrays."""
    arrays: dict[str, Any] = {f"rows/{name}": [getattr(row, name) for row in rows] for name in COLUMNS}
    arrays |= {f"value/{k}": core for k, core in enumerate(state.value)}
    arrays |= {f"best/{k}": core for k, core in enumerate(state.best[0])}
    arrays |= {f"left/{k}": indices for k, indices in enumerate(state.sets.left)}
    arrays |= {f"right/{k}": indices for k, indices in enumerate(state.sets.right)}
    if state.levels is not None:
        arrays["levels"] = state.levels
    numbers = (state.shift, state.best[1], state.before)
    arrays |= {"numbers": numbers, "counts": (state.rank, state.num_done, run.engine.reads, run.engine.pairs)}
    arrays |= {"residuals": state.residuals, "order": run.order, "effective": state.effective}
    return {name: np.asarray(array) for name, array in arrays.items()}


def restored(run: Run, arrays: dict[str, np.ndarray]) -> tuple[State, list[Row]]:
    if "counts" not in arrays:
        raise HamqError("solve_tensor: resume has no 'counts'; give it what `checkpoint()` of an Iterate returned.")
    if tuple(arrays["order"].tolist()) != run.order:
        raise HamqError(
            f"solve_tensor: resume has the axes in the order {arrays['order'].tolist()}, this run in {list(run.order)}; "
            "resume with the problem and order it was started with."
        )
    rank, num_done, run.engine.reads, run.engine.pairs = arrays["counts"].tolist()
    shift, least, before = arrays["numbers"].tolist()
    d = len(run.points)
    value, best = (tuple(arrays[f"{name}/{k}"] for k in range(d)) for name in ("value", "best"))
    sets = Sets(*(tuple(arrays[f"{name}/{k}"] for k in range(d + 1)) for name in ("left", "right")))
    residuals = tuple(arrays["residuals"].tolist())
    if "effective" not in arrays:
        raise HamqError("solve_tensor: resume is a checkpoint of an earlier version, without effective draws; start anew.")
    draws, *numbers = arrays["effective"].tolist()
    effective = Effective(int(draws), *numbers)
    state = State(value, sets, rank, num_done, shift, arrays.get("levels"), (best, least), before, residuals, effective)
    columns = [arrays[f"rows/{name}"].tolist() for name in COLUMNS]
    return state, [Row(*values) for values in zip(*columns, strict=True)]
