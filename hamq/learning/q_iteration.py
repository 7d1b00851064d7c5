"""Hamiltonian Q-Learning, Algorithm 1 of the paper: sample next states, back up a part of Q, complete the rest.

`q_iteration` is one pass, in the paper's four steps; `solve` is the loop around it. To the letter (`paper_literal`) it
does not converge: draws of different actions are independent, and the completion sets empty rows to 0. The defaults are
what measured best at equal gradients (docs/solving.md): draws coupled between the actions of a state, made once and
reused, calibrated (sampling/calibration.py); a few whole columns and rows instead of scattered entries; and only the
expectation is completed, because the reward is known.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float

from hamq.completion.anchors import Anchors
from hamq.completion.completion import AbstractCompletion
from hamq.learning.draws import Progress
from hamq.learning.expected_error import expected_errors
from hamq.learning.health import health_of
from hamq.learning.host import HostTables
from hamq.learning.optimism import without_optimism
from hamq.learning.passes import Passes
from hamq.learning.preparation import Run, prepare_run
from hamq.learning.record import COLUMNS, Row, distance, finite_or_stop, is_settled, sentence
from hamq.learning.settings import resolve
from hamq.learning.tables import AbstractTables
from hamq.learning.worth import Worth, worth
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.solution import Cost, History, Solution
from hamq.types import HamqError, HamqWarning, Key, NonFiniteError, as_key


class State(NamedTuple):
    """What the next iteration needs: Q^t (on the host, or where the states live), what the completion remembers, and what
    was spent."""

    q: Any
    memory: tuple[np.ndarray, ...]
    cost: Cost


class Iterate(NamedTuple):
    """What `callback` is given after every iteration; `checkpoint()` is all that `solve(resume=…)` needs to go on."""

    iteration: int
    iterations: int
    q: Float[np.ndarray, "S A"]
    history: Callable[[], History]
    row: Row
    checkpoint: Callable[[], dict[str, np.ndarray]]


def q_iteration(run: Run, state: State, t: int) -> tuple[State, Row]:
    """One pass of Algorithm 1, Q^t → Q^{t+1}, with tables on the host (host.py) or where the draws are (sweep.py)."""
    tables = tables_of(run)
    pairs = run.choose(t)  # step 1: Ω_t
    backed_up, cost = tables.back_up(pairs, state.q, t)  # steps 2 and 3: H_t, and eq. (9)
    done = tables.complete(backed_up, state.q, state.memory)  # step 4, eq. (10)
    q, told = tables.improve(backed_up, done, state.q, run.settings.passes.step(t))
    if not told.is_finite:
        _stop(run, state._replace(q=tables.fetch(state.q)), t)
    spent = state.cost.plus(cost)
    numbers = (told.distance, told.residual, told.change, told.rank, told.unidentified, told.incomplete)
    return State(q, done.memory, spent), Row(*numbers, *spent, 0.0)


def tables_of(run: Run) -> AbstractTables[Any, Any, Any]:
    """Where Q is iterated: with the draws on the devices, where that is possible and pays, else on the host."""
    return HostTables(run) if run.sweep is None else run.sweep


def _stop(run: Run, state: State, t: int) -> NoReturn:
    """Names the pair, by the same pass on the host."""
    tables = HostTables(run)
    backed_up, _ = tables.back_up(run.choose(t), state.q, t)
    done = tables.complete(backed_up, state.q, state.memory)
    finite_or_stop(run.problem, tables.improve(backed_up, done, state.q, run.settings.passes.step(t))[0], t)
    raise NonFiniteError(f"iteration {t + 1}: a value of Q is not finite on the devices; it is on the host.")


def solve(
    problem: Problem,
    sampler: AbstractSampler | None = None,
    completion: AbstractCompletion | None = Anchors(),  # noqa: B008 (frozen)
    *,
    iterations: int = 200,
    tolerance: float | None = None,
    max_gradients: int | None = None,
    initial: Any = None,
    exact: Solution | None = None,
    callback: Callable[[Iterate], Any] | None = None,
    key: Key | int = 0,
    passes: Passes | None = None,
    progress: Progress | None = None,
    resume: dict[str, np.ndarray] | None = None,
) -> Solution:
    """Q by sampled backups and completion, with one row of history per iteration.

    sampler         None: masses by quadrature where a pilot says that they are affordable (densities of your own in few
                    dimensions), else HMC with as many draws as `max_gradients` buys
    completion      Anchors (columns and rows chosen by the library), NuclearNorm or SoftImpute; each says which pairs are
                    backed up. Keep: some pairs, and the others keep their values. None: all pairs
    iterations, tolerance   stop after so many, or when Q is within `tolerance` of the limit of the sampled iteration
    max_gradients   of everything, pilots and mode search included
    initial         the first table `[S, A]`; by default mean(r)/(1−γ); or a number, "uniform" (on [0, 1]) or "uniform:2"
    exact           a solution with Q*: the history then has the distance to it
    passes          Passes(draws=…, coupled=…, step_size=…, …): which draws, which steps, and where
    progress        told (what is being done, parts done, parts in all) while draws are made
    resume          what `checkpoint()` of the last Iterate gave; all other arguments as before
    """
    if not isinstance(problem, Problem):
        raise HamqError(f"solve: problem must be a hamq.Problem, such as hamq.problems.cartpole(), got {problem!r}.")
    problem.require_enumerable("solve")
    given = {"iterations": iterations, "tolerance": tolerance, "max_gradients": max_gradients, "passes": passes}
    settings = resolve(problem, sampler, completion, **given)
    began = time.monotonic()
    run = prepare_run(problem, settings, exact, initial, key=as_key(key), progress=progress)
    tables = tables_of(run)
    state = State(tables.place(run.first), (), run.cost)
    rows: list[Row] = []
    if resume is not None:
        state, rows, elapsed = _restore(run, resume)
        began -= elapsed
    for t in range(len(rows), iterations):
        if is_settled(run, rows):
            break
        state, row = q_iteration(run, state, t)
        rows.append(row._replace(seconds=time.monotonic() - began))
        if callback is not None:
            callback(_iterate(run, state, rows, t, iterations))
    q, health = tables.fetch(state.q), None
    fair = without_optimism(run, q)
    if fair is not None:
        q = fair.q
        rows[-1] = rows[-1]._replace(distance=distance(q, exact))
    told = _worth(run, q, fair is not None)
    converged, result = sentence(run, rows, "" if fair is None else fair.sentence, told)
    if told is not None and told.is_poor:
        warnings.warn(f"{problem.name}: {told.sentence}.", HamqWarning, stacklevel=2)
    if run.stocks is not None and run.diagnoses is not None:
        health = health_of(problem, run.sampler, run.reused, run.stocks, run.diagnoses, q.max(axis=1))
    error = None if told is None or told.errors is None else told.errors.total
    return Solution(problem, q, _history(rows), result, converged, health=health, expected_error=error)


def _worth(run: Run, q: Float[np.ndarray, "S A"], is_fair: bool) -> Worth | None:
    """What the kept draws of a density that is given as a function are worth; nobody doubts those of a Gaussian."""
    if run.stocks is None or run.diagnoses is None or run.problem.kernel.has_one_mode:
        return None
    errors = expected_errors(run, q, is_fair)
    return worth(run.problem, run.sampler, run.reused, run.stocks, run.diagnoses, q.max(axis=1), errors)


def _history(rows: list[Row]) -> History:
    return History(**{name: np.asarray([getattr(row, name) for row in rows]) for name in COLUMNS})


def _iterate(run: Run, state: State, rows: list[Row], t: int, iterations: int) -> Iterate:
    rows = list(rows)  # what is kept of this iteration does not grow with the next ones
    q = tables_of(run).fetch(state.q)

    def checkpoint() -> dict[str, np.ndarray]:
        memory = {f"memory/{i}": array for i, array in enumerate(state.memory)}
        table = {f"rows/{name}": np.asarray([getattr(row, name) for row in rows]) for name in COLUMNS}
        return {"q": q, "cost": np.asarray(state.cost, np.int64), **memory, **table}

    return Iterate(t + 1, iterations, q, lambda: _history(rows), rows[-1], checkpoint)


def _restore(run: Run, saved: dict[str, np.ndarray]) -> tuple[State, list[Row], float]:
    shape = (run.problem.num_states, run.problem.num_actions)
    if "q" not in saved:
        raise HamqError("solve: resume has no table 'q'; give it what `checkpoint()` of an Iterate returned.")
    if saved["q"].shape != shape:
        raise HamqError(f"solve: resume has a table of shape {saved['q'].shape}, and {run.problem.name} needs {shape}.")
    memory = tuple(saved[f"memory/{i}"] for i in range(sum(name.startswith("memory/") for name in saved)))
    columns = [saved[f"rows/{name}"].tolist() for name in COLUMNS]
    rows = [Row(*values) for values in zip(*columns, strict=True)]
    state = State(tables_of(run).place(saved["q"].copy()), memory, Cost(*saved["cost"].tolist()))
    return state, rows, rows[-1].seconds if rows else 0.0
