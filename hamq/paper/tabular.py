"""One run with a table: exhaustive sums, IID or HMC, as the variant says."""

import dataclasses
import time
import warnings
from typing import Any

import jax
import numpy as np

from hamq.learning.draws import Progress
from hamq.learning.q_iteration import solve
from hamq.paper.records import Record, versions
from hamq.paper.tasks import TASKS, Reference, reference
from hamq.paper.variants import Posed, first_table_top, posed
from hamq.types import HamqWarning

NUM_MOMENTS = 32
"""Iterations that are kept of a run, evenly spread over their logarithm."""


def run(task: str, variant: str, method: str, seed: int, iterations: int, told: Progress | None = None) -> Record:
    """A record of one run; `told` hears (what, done, of how many)."""
    began = time.monotonic()
    case = posed(task, variant, method)
    gauge = reference(task, case.law)
    curve = _Curve(gauge, iterations)
    # The same first table for all methods of a seed.
    first = np.random.default_rng(seed).uniform(0, first_table_top(case.problem), gauge.exact.q.shape)
    if case.options is None:
        settings, result, q, cost = _sweep(gauge, first, iterations, curve, told)
    else:
        settings, result, q, cost = _solve(case, variant, first, seed, iterations, curve, told)
    return Record(
        task=task,
        variant=variant,
        method=method,
        seed=seed,
        settings=settings | {"law_of_reference": case.law, "iterations": iterations, "result": result},
        curve=curve.columns,
        final=dataclasses.asdict(gauge.compare(q)),
        cost=cost,
        seconds=time.monotonic() - began,
        maps=gauge.maps(TASKS[task], q.argmax(axis=1)) if seed == 0 else {},
        versions=versions(),
    )


class _Curve:
    """Errors at some of the iterations, with what was spent until then."""

    def __init__(self, gauge: Reference, iterations: int):
        self._gauge = gauge
        self._moments = set(np.geomspace(1, iterations, NUM_MOMENTS).round().astype(int).tolist())
        names = ("iteration", "frobenius", "advantage", "policy_loss", "samples", "gradient_evaluations")
        self.columns: dict[str, list[float | None]] = {name: [] for name in names}

    def add(self, iteration: int, q: np.ndarray, samples: int, gradients: int) -> None:
        if iteration in self._moments:
            spent = {"iteration": iteration, "samples": samples, "gradient_evaluations": gradients}
            for name, number in (spent | self._gauge.measure(q)).items():
                self.columns[name].append(float(number))


def _sweep(gauge: Reference, first: np.ndarray, iterations: int, curve: _Curve, told: Progress | None):
    """Q^{t+1} = r + γ P max_a Q^t for all pairs, eq. (2): every next state of every pair counts as a sample."""
    q, per_sweep = first, first.size * len(first)
    for t in range(1, iterations + 1):
        q = gauge.operator.backup(q.max(axis=1))
        curve.add(t, q, t * per_sweep, 0)
        if told is not None:
            told("sweep", t, iterations)
    spent = iterations * per_sweep
    cost = {"samples": spent, "density_evaluations": spent, "gradient_evaluations": 0}
    return {"sweeps": "all pairs, exact expectation"}, f"{iterations} sweeps", q, cost


def _solve(case: Posed, variant: str, first: np.ndarray, seed: int, iterations: int, curve: _Curve, told: Progress | None):
    options: dict[str, Any] = dict(case.options or {})
    settings = {name: _plain(value) for name, value in options.items()}
    if variant != "ours":
        options["initial"] = first
    options["iterations"] = iterations

    def callback(iterate):
        curve.add(iterate.iteration, iterate.q, iterate.row.samples, iterate.row.gradient_evaluations)
        if told is not None:
            told("iteration", iterate.iteration, iterate.iterations)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HamqWarning)
        solution = solve(case.problem, key=jax.random.key(seed), callback=callback, progress=told, **options)
    heard = sorted({str(warning.message) for warning in caught if issubclass(warning.category, HamqWarning)})
    last = solution.history[len(solution.history) - 1]
    cost = {name: int(last[name]) for name in ("samples", "density_evaluations", "gradient_evaluations")}
    return settings | {"warnings": heard}, solution.result, solution.q, cost


def _plain(value: Any) -> Any:
    """What JSON can hold: modules as their text."""
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
