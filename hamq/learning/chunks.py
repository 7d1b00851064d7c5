"""Draws of chains for one call of tiles, some transitions at a time: few programs, which every number of draws shares.

modes      where the chains of each pair begin, and their masses               compiled for the kernel
noise      the random numbers of a chunk of transitions                        for the dimension
start      the first state of a chain                                          for the dimension
advance    a chunk of transitions: points, and functions whose mean is 0       for the kernel

Weights (`calibration.py`) are found in NumPy on a CPU, and by a program of their own on accelerators.
Pilots, trials of step sizes, columns, anchor rows, certificates and diagnoses differ in the number of draws, chains, states
and actions, which are values or loops here. On a CPU a chunk is `CHUNK` transitions; an accelerator makes all of them at
once, because there a small call costs as much as a large one, and compiles again for another number.

Arrays of a call are `[tile, K, …]` (`layout.py`); chains have the lanes (tile × K) first, and their random numbers have
them last.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Shaped, UInt32

from hamq.learning.layout import locations_of
from hamq.problem.evaluation import require_density
from hamq.problem.integrand import Integrand
from hamq.problem.problem import Problem
from hamq.problem.programs import compile_beside, program
from hamq.sampling.calibration import calibrated_weights, tilt_on_host
from hamq.sampling.cell_table import CellTable, make_table, make_tables, num_evaluations, table_shapes
from hamq.sampling.chain import ChainState
from hamq.sampling.draws import Info
from hamq.sampling.hmc import HMC
from hamq.sampling.modes import Modes, find_modes
from hamq.sampling.noise import ChainNoise, StartNoise, make_noise
from hamq.types import Key, is_cpu

CHUNK = 128
"""Transitions that a CPU makes in one call."""
MOST_DOUBTED = 4
"""Pairs of a call whose NaN is looked at again in float64."""
PLACES = 128
"""Of a pair whose density is looked at in one call."""
NOISE_BLOCK = 32
"""Transitions whose random numbers it makes at a time: a short chain needs few of a chunk."""


class Call(NamedTuple):
    """The pairs of one call: their states, actions and streams of random numbers."""

    states: Float[Any, "tile K d"]
    actions: Float[Any, "tile K *k"]
    streams: UInt32[Any, "tile K"]
    is_shared: bool
    """Whether the lanes of a row have one stream in common."""


class Made(NamedTuple):
    """Draws of the pairs of one call; `locations` are grid indices, or points (linear law)."""

    locations: Shaped[Any, "tile K *d n"]
    points: Callable[[], Float[Any, "tile K d n"]]
    weights: Float[Any, "tile K n"] | None
    """They sum to one; None where all are the same."""
    info: Info


class Counted(NamedTuple):
    """What a chunk, a chain or all chains of each pair went through."""

    acceptance: Any
    moves: Any
    nonfinite: Any
    jumps: Any
    outside: Any
    failures: Any


class Chunk(NamedTuple):
    """What a chunk of transitions gave, and which of them are kept."""

    kept: slice
    locations: Any
    points: Any
    functions: Any


@dataclasses.dataclass
class Run:
    """The chains of one call while they are made."""

    states: Any
    actions: Any
    steps: Any
    modes: Modes
    state: ChainState | None = None
    chunks: list[Chunk] = dataclasses.field(default_factory=list)
    chains: list[list[Counted]] = dataclasses.field(default_factory=list)

    def begin(self, state: ChainState) -> None:
        """A new chain."""
        self.state = state
        self.chains.append([])

    @property
    def points(self) -> Float[Any, "tile K d n"]:
        return _joined([(chunk.kept, chunk.points) for chunk in self.chunks])

    @property
    def functions(self) -> Float[Any, "lanes functions n"] | None:
        """What has the mean 0 if the density has no jumps."""
        if self.chunks[0].functions is None:
            return None
        return _joined([(chunk.kept, chunk.functions) for chunk in self.chunks])


class Chains:
    """The chains of a prepared sampler for pairs of a problem, and the programs that make them.

    Methods that take arrays alone are traced; nothing in them depends on the number of draws, chains or pairs.
    """

    def __init__(self, problem: Problem, sampler: HMC, chunk: int | None = None):
        self.problem = problem
        self.kernel, self.grid, self.law, self.sampler = problem.kernel, problem.grid, problem.law, sampler
        self.jumps = not problem.kernel.has_one_mode
        # Those of jumping chains are made in any case: whether they are used is found out by the same program.
        self.gives_functions = sampler.walls == "logit" and (self.jumps or sampler.weighs)
        self.chunk = CHUNK if is_cpu() else chunk or sampler.num_transitions
        self._ready: dict[str, Any] = {}

    def draw(self, calls: Sequence[Call], *, key: Key, steps: Any = None) -> list[Made]:
        """Draws for calls that share their streams; `steps` are step sizes `[tile, K]` where they are not the sampler's."""
        return [self.made(run) for run in self.run(calls, key=key, steps=steps)]

    def run(self, calls: Sequence[Call], *, key: Key, steps: Any = None, modes: Modes | None = None) -> "list[Run]":
        """The chains of these calls, with all that they went through; `modes` where they are known already."""
        sampler, streams = self.sampler, calls[0].streams
        if steps is None:
            steps = _xp().full(streams.shape, sampler.step_size, np.float32)
        modes_of = self.find_modes if modes is None else lambda _: modes
        runs = [Run(call.states, call.actions, steps, modes_of(call)) for call in calls]
        for chain in range(sampler.chains):
            words = jr.key_data(jr.fold_in(key, chain))
            for first in range(0, sampler.num_transitions, self.chunk):
                count = min(self.chunk, sampler.num_transitions - first)
                start, noise = self._run(_noise_of(calls[0]), words, streams, np.uint32(first), np.int32(count))
                for run in runs:
                    if first == 0:
                        run.begin(self._run("start", run.states, run.actions, run.modes, start))
                    self._go_on(run, noise, first, count)
        return runs

    def _go_on(self, run: "Run", noise: ChainNoise, first: int, count: int) -> None:
        """The chunk of `count` transitions that begins with this one."""
        skipped = max(0, self.sampler.num_warmup - first)
        lengths = self.sampler.lengths(first, self.chunk)
        given = run.states, run.actions, run.steps, run.modes, run.state, noise, lengths, np.int32(skipped), np.int32(count)
        run.state, places, counted, functions = self._run("advance", *given)
        run.chains[-1].append(counted)
        if count > skipped:
            locations, points = places
            run.chunks.append(Chunk(slice(skipped, count), locations, points, functions if self.sampler.weighs else None))

    def compile_ahead(self, call: Call) -> None:
        """Starts to compile all that `draw` needs for calls of this shape (arrays or their shapes), beside each other."""
        of = jax.ShapeDtypeStruct
        pair, number = (call.states, call.actions), of((), np.int32)
        modes = self._compile("modes", *pair)
        if self.jumps:
            lanes = math.prod(call.states.shape[:2])
            shapes = [(lanes, *a.shape[2:]) for a in pair] + [(lanes, PLACES, self.grid.dimension)]
            self._compile("logs", *(of(shape, np.float32) for shape in shapes))
            modes = modes._replace(table=table_shapes(lanes, self.grid.dimension))
        start, noise = self._compile(_noise_of(call), of((2,), np.uint32), call.streams, of((), np.uint32), number)
        state = self._compile("start", *pair, modes, start)
        given = *pair, of(call.streams.shape, np.float32), modes, state, noise
        self._compile("advance", *given, of((self.chunk,), np.int32), number, number)

    def _run(self, name: str, *given: Any) -> Any:
        if name not in self._ready:  # the shapes of a name never change here
            self._ready[name] = program(*self._described(name), *given)
        return self._ready[name](*given)

    def _compile(self, name: str, *given: Any) -> Any:
        return compile_beside(*self._described(name), *given)

    def _described(self, name: str) -> tuple[Hashable, tuple, Callable]:
        """(job, functions, what is traced) of a program."""
        shared = name, self.grid.dimension, self.jumps, self.chunk
        sampler = self.sampler
        if name == "info":
            counts = sampler.num_samples, sampler.chains, sampler.num_warmup, sampler.steps, sampler.dispersed
            counts = *counts, sampler.varies, sampler.judged
            return (*shared, counts), (), self.info
        if name == "logs":
            return (name, self.kernel.constants, self.grid), self.kernel.functions, self.logs
        is_own = name in ("modes", "table", "advance") or (name == "start" and sampler.dispersed)
        if not is_own:
            return shared, (), getattr(self, name)
        steps = None if self.jumps else sampler.steps  # those of jumping chains are values
        kind = steps, sampler.walls, float(sampler.sharpness), self.gives_functions, sampler.dispersed
        job = (*shared, self.kernel.constants, self.grid, self.law, kind)
        return job, self.kernel.functions, getattr(self, name)

    def _potential(self, state: Array, action: Array):
        return self.sampler.potential(self.kernel.at(self.grid, state, action), self.grid)

    def modes(self, states: Array, actions: Array) -> Modes:
        """`[lanes, …]`."""

        return jax.vmap(lambda s, a: find_modes(self._potential(s, a), s))(_lanes(states), _lanes(actions))

    def table(self, states: Array, actions: Array) -> CellTable:
        """The same for tables of cells, on accelerators."""
        return jax.vmap(lambda s, a: make_table(self._potential(s, a)))(_lanes(states), _lanes(actions))

    def logs(self, states: Array, actions: Array, points: Array) -> Array:
        """log p at points of each pair: `[lanes, places]`."""
        return jax.vmap(lambda s, a, x: jax.vmap(self.kernel.at(self.grid, s, a).log)(x))(states, actions, points)

    def logs_at(self, states: Any, actions: Any, points: Float[np.ndarray, "lanes n d"]) -> Float[np.ndarray, "lanes n"]:
        """The same for any number of places, some at a time: one program for all who ask for single values.

        Refuses NaN and +inf, unless they come of rounding to float32.
        """
        n = points.shape[1]
        size = -(-n // PLACES) * PLACES
        padded = np.concatenate([points, np.repeat(points[:, -1:], size - n, axis=1)], axis=1)
        parts = np.split(np.ascontiguousarray(padded, np.float32), size // PLACES, axis=1)
        found = [np.asarray(self._run("logs", states, actions, np.ascontiguousarray(part))) for part in parts]
        logs = np.concatenate(found, axis=1)[:, :n]
        for lane in np.flatnonzero(np.any(np.isnan(logs) | (logs == np.inf), axis=1))[:MOST_DOUBTED]:
            is_bad = np.isnan(logs[lane]) | (logs[lane] == np.inf)
            require_density(
                Integrand(self.problem), np.asarray(states)[lane], np.asarray(actions)[lane], points[lane][is_bad]
            )
        return logs

    def find_modes(self, call: Call) -> Modes:
        """The modes of the pairs of a call, with tables of cells where jumps are proposed from them."""
        modes = self._run("modes", call.states, call.actions)
        num = num_evaluations(self.grid.dimension) if self.jumps else 0
        if not num:
            return modes
        if is_cpu():
            states, actions = _lanes(np.asarray(call.states)), _lanes(np.asarray(call.actions))
            lower, widths = (np.asarray(a, np.float32) for a in (self.grid.lower, self.grid.widths))

            def logs(shares):
                return self.logs_at(states, actions, lower + widths * shares)

            with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
                table = make_tables(logs, len(states), self.grid.dimension, np)
        else:
            table = self._run("table", call.states, call.actions)
        return modes._replace(table=table, density_evaluations=modes.density_evaluations + np.int32(num))

    def noise(self, key: Array, streams: Array, first: Array, count: Array) -> tuple[StartNoise, ChainNoise]:
        """With the lanes last; on a CPU not more than about `count` transitions, and zeros after them."""

        def part(size, begin):
            def of_stream(stream):
                at = first + jnp.asarray(begin, jnp.uint32)
                return make_noise(size, self.grid.dimension, self.jumps, key=jr.wrap_key_data(key), stream=stream, first=at)

            return jax.vmap(of_stream, out_axes=-1)(streams.reshape(-1))

        if not is_cpu():
            return part(self.chunk, 0)

        size = math.gcd(self.chunk, NOISE_BLOCK)
        block = jax.jit(functools.partial(part, size), inline=True)  # traced once, for its shapes and for the loop

        def fill(number, made):
            start, noise = block(number * size)
            put = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=number * size, axis=0)
            return start, jax.tree.map(put, made[1], noise)

        start, noise = jax.eval_shape(block, jax.ShapeDtypeStruct((), np.int32))
        room = (
            jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), start),
            jax.tree.map(lambda a: jnp.zeros((self.chunk, *a.shape[1:]), a.dtype), noise),
        )
        return jax.lax.fori_loop(0, -(-count // size), fill, room)

    def noise_of_rows(self, key: Array, streams: Array, first: Array, count: Array) -> tuple[StartNoise, ChainNoise]:
        """The same for rows whose lanes have one stream in common."""
        made = self.noise(key, streams[:, 0], first, count)
        return jax.tree.map(lambda a: jnp.repeat(a, streams.shape[1], axis=-1), made)

    def start(self, states: Array, actions: Array, modes: Modes, noise: StartNoise) -> ChainState:
        def of_lane(state, action, modes, noise):
            potential = self._potential(state, action) if self.sampler.dispersed else None
            return self.sampler.start(potential, modes, noise)

        return jax.vmap(of_lane, in_axes=(0, 0, 0, -1))(_lanes(states), _lanes(actions), modes, noise)

    def advance(self, states, actions, steps, modes: Modes, state: ChainState, noise: ChainNoise, lengths, skipped, count):
        """(state, (locations, points), what was counted, functions `[lanes, functions, n]`)."""

        def of_lane(state, action, step, modes, chain, noise):
            potential = self._potential(state, action)
            is_whole = jnp.isfinite(chain.energy)
            chain, made = self.sampler.advance(potential, modes, step, chain, noise, lengths, count)
            points = self.sampler.points(potential, made.positions)
            functions = self.sampler.functions(potential, made) if self.gives_functions else None
            at = jnp.arange(len(points))
            is_kept = (at >= skipped) & (at < count)
            is_outside = is_kept & ~jax.vmap(self.grid.contains)(points)
            is_bad = is_kept & ~jnp.all(jnp.isfinite(points), axis=1)
            of_all = made.has_moved, made.is_nonfinite, made.has_jumped, is_outside, is_bad
            moves, nonfinite, jumps, outside, bad = (jnp.sum(flags, dtype=jnp.int32) for flags in of_all)
            acceptance = jnp.sum(jnp.where(is_kept, made.acceptance, 0))
            counted = Counted(acceptance, moves, nonfinite, jumps, outside, bad + (~is_whole).astype(jnp.int32))
            functions = None if functions is None else functions.T
            return chain, (locations_of(self.grid, self.law, points.T), points.T), counted, functions

        of_lanes = jax.vmap(of_lane, in_axes=(0, 0, 0, 0, 0, -1))
        given = _lanes(states), _lanes(actions), _lanes(steps), modes, state, noise
        chain, places, counted, functions = of_lanes(*given)
        return chain, *jax.tree.map(lambda a: a.reshape(*steps.shape, *a.shape[1:]), (places, counted)), functions

    def tilt(self, functions: Array) -> Array:
        """Weights `[lanes, n]`."""
        return jnp.exp(jax.vmap(lambda z: calibrated_weights(z.T))(functions))

    def made(self, run: "Run") -> Made:
        chunks = run.chunks
        locations = _joined([(chunk.kept, chunk.locations) for chunk in chunks])
        weights = None if chunks[0].functions is None else self._weights(run.functions)
        told = run.modes, run.chains, weights
        info = self.info(*_host(told)) if is_cpu() else self._run("info", *told)
        if weights is not None:
            weights = weights.reshape(*run.steps.shape, -1)
        return Made(locations, lambda: run.points, weights, info)

    def _weights(self, functions: Any) -> Any:
        """Those of calibrated draws `[lanes, n]`; they sum to one."""
        return tilt_on_host(functions) if is_cpu() else self._run("tilt", functions)

    def info(self, modes: Modes, chains: list[list[Counted]], weights: Any) -> Info:
        """What is known of the draws of each pair `[tile, K]`; in NumPy on a CPU, traced elsewhere."""
        sampler, xp = self.sampler, _xp()
        totals = [_total(parts) for parts in chains]
        counted, shape = _total(totals), totals[0].acceptance.shape
        never_moved = _total([(chain.moves + chain.jumps == 0).astype(np.int32) for chain in totals])
        densities, gradients = sampler.evaluations(modes, self.jumps, self.grid.dimension)
        if weights is None:
            share = xp.ones(shape, np.float32)
        else:
            share = 1 / (weights.shape[1] * xp.einsum("pn,pn->p", weights, weights)).reshape(shape)
        return Info(
            acceptance=counted.acceptance / np.float32(sampler.num_samples),
            is_stuck=never_moved > 0,
            stuck_share=never_moved.astype(np.float32) / np.float32(len(chains)),
            outside=counted.outside.astype(np.float32) / np.float32(sampler.num_samples),
            num_modes=modes.count.reshape(shape),
            num_crossings=counted.jumps,
            num_nonfinite=counted.nonfinite,
            weight_share=share,
            has_failed=counted.failures > 0,
            density_evaluations=densities.reshape(shape),
            gradient_evaluations=gradients.reshape(shape),
            is_cut=xp.full(shape, sampler.judged == "cut"),
        )


def _noise_of(call: Call) -> str:
    return "noise_of_rows" if call.is_shared else "noise"


def _xp() -> Any:
    """NumPy on a CPU, where it compiles nothing and copies nothing; elsewhere arrays stay on their device."""
    return np if is_cpu() else jnp


def _host(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree) if is_cpu() else tree


def _total(parts: list[Any]) -> Any:
    return functools.reduce(lambda a, b: jax.tree.map(_xp().add, a, b), parts)


def _joined(parts: list[tuple[slice, Any]]) -> Any:
    """What is kept of the parts, one after the other along the last axis."""
    pieces = [_host(part)[..., kept] for kept, part in parts]
    return pieces[0] if len(pieces) == 1 else _xp().concatenate(pieces, axis=-1)


def _lanes(table: Any) -> Any:
    """`[lanes, …]` from `[tile, K, …]`."""
    return table.reshape(-1, *table.shape[2:])
