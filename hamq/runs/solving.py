"""`hamq.solve`, `hamq.solve_exact` and `hamq.solve_tensor`: the solvers, with a run folder where one is asked for.

    solve(problem, out="runs/mine")                 a folder as `hamq solve --out` writes it; refused if it holds a run
    solve(problem, out="runs/mine", resume=True)    goes on from its last checkpoint, starts where nothing is yet, and
                                                    returns what is there where it has come to its end

Whatever ends the solver early, Ctrl-C or an error of a callback included, the last iteration is saved first.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable
from typing import Any, TypeVar

import jax.random as jr
import numpy as np

from hamq.certificates.comparison import compare
from hamq.exact.value_iteration import solve_exact as exact_solver
from hamq.learning.q_iteration import solve as table_solver
from hamq.problem.problem import Problem
from hamq.runs.config import Command, RunConfig, new_config
from hamq.runs.loading import solution_of
from hamq.runs.problem_hash import problem_hash
from hamq.runs.progress import progress_for
from hamq.runs.recording import Iterate, Recording
from hamq.runs.summary import summarise
from hamq.solution import Solution
from hamq.tensor.expectation import best_sampler
from hamq.tensor.settings import resolve
from hamq.tensor.solution import TensorSolution
from hamq.tensor.solve import seed_of
from hamq.tensor.solve import solve_tensor as tensor_solver
from hamq.types import HamqError, as_key

Found = TypeVar("Found", Solution, TensorSolution)
OWN = ("resume", "progress")
"""Arguments of solvers that are given to them here."""
AROUND = """\
out             the folder of the run, as the shell writes it: config, history, checkpoints, result; None: nothing is kept
resume          True continues the run in `out`, or starts it where there is none yet; "overwrite" replaces it, once there is
                something to put in its place; or what `checkpoint()` of the last Iterate gave, with all other arguments as
                before. False: refused if `out` holds a run
progress        True or False; None: shown on a terminal and in a notebook, and not elsewhere. Or a function that is told
                (what is being done, parts done, parts in all) while draws and masses are made"""
NOT_KEPT = ("problem", "exact", "callback", "progress", "resume")
"""Arguments of a solver that change nothing about what it computes."""


@dataclasses.dataclass(frozen=True)
class Around:
    """What is around a solver: where its run is written, what becomes of one that is there, and what is shown."""

    out: str | os.PathLike | None = None
    resume: Any = False
    progress: Any = None

    def check(self, caller: str) -> None:
        """`resume` may also be the arrays of a checkpoint, which go to the solver as they are."""
        if not isinstance(self.resume, (bool, dict)) and self.resume is not None and not _replaces(self.resume):
            raise HamqError(
                f"{caller}: resume must be True, False, 'overwrite' or what `checkpoint()` of an Iterate gave, got "
                f"{self.resume!r:.60}."
            )
        if (self.resume is True or _replaces(self.resume)) and self.out is None:
            raise HamqError(f"{caller}: resume={self.resume!r} needs out=, the folder of the run.")
        if isinstance(self.resume, dict) and self.out is not None:
            raise HamqError(f"{caller}: resume from arrays has no folder; give resume=True with out=, or the arrays alone.")


def _with_a_folder(solver: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function that takes all arguments of the solver, and those of `Around`, say so."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = [field.replace(kind=field.KEYWORD_ONLY) for field in inspect.signature(Around).parameters.values()]
        kept = [field for field in inspect.signature(solver).parameters.values() if field.name not in OWN]
        result = inspect.signature(solver).return_annotation
        function.__signature__ = inspect.Signature([*kept, *own], return_annotation=result)  # type: ignore[attr-defined]
        lines = inspect.cleandoc(solver.__doc__ or "").splitlines()
        function.__doc__ = "\n".join([*(line for line in lines if not line.startswith(OWN)), "", AROUND])
        return function

    return decorate


@_with_a_folder(table_solver)
def solve(problem: Any, *arguments: Any, **settings: Any) -> Solution:
    """`hamq.learning.q_iteration.solve`, with `out`, `resume` and `overwrite`."""
    around, given = _given("solve", table_solver, problem, arguments, settings)
    config = _config("solve", given | {"key": _seed(given["key"])}, exact=given["exact"] is not None)
    return _carried_out(table_solver, given, config, around)


@_with_a_folder(tensor_solver)
def solve_tensor(problem: Any, *arguments: Any, **settings: Any) -> TensorSolution:
    """`hamq.tensor.solve.solve_tensor`, with `out`, `resume` and `overwrite`."""
    around, given = _given("solve_tensor", tensor_solver, problem, arguments, settings)
    resolve(**{name: value for name, value in given.items() if name not in ("key", "callback", "resume")})
    # The sampler is never None: the config then says what drew, whatever later versions choose.
    sampler = best_sampler(problem) if given["sampler"] is None else given["sampler"]
    config = _config("solve-tensor", given | {"sampler": sampler, "key": seed_of(given["key"])})
    return _carried_out(tensor_solver, given, config, around)


@_with_a_folder(exact_solver)
def solve_exact(problem: Any, *arguments: Any, **settings: Any) -> Solution:
    """`hamq.exact.value_iteration.solve_exact`, with `out`, `resume` and `overwrite`."""
    around, given = _given("solve_exact", exact_solver, problem, arguments, settings)
    kept = {name: value for name, value in given.items() if name != "initial" or value is not None}  # as 0.1 wrote it
    return _carried_out(exact_solver, given, _config("exact", kept), around)


def _given(
    caller: str, solver: Callable[..., Any], problem: Any, arguments: tuple[Any, ...], settings: dict[str, Any]
) -> tuple[Around, dict[str, Any]]:
    """Where the run goes, and all arguments of the solver by their names."""
    if not isinstance(problem, Problem):
        raise HamqError(f"{caller}: problem must be a hamq.Problem, such as hamq.problems.cartpole(), got {problem!r:.200}.")
    around = Around(
        **{field.name: settings.pop(field.name) for field in dataclasses.fields(Around) if field.name in settings}
    )
    around.check(caller)
    bound = inspect.signature(solver).bind(problem, *arguments, **settings)
    bound.apply_defaults()
    return around, dict(bound.arguments)


def _config(command: Command, given: dict[str, Any], **more: Any) -> RunConfig:
    kept = {name: value for name, value in given.items() if name not in NOT_KEPT}
    return new_config(command, given["problem"], kept, **more)


def _seed(key: Any) -> Any:
    """A seed as it is, a key as the list of its numbers."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return int(key)
    return np.asarray(jr.key_data(as_key(key))).tolist()


def _carried_out(solver: Callable[..., Found], given: dict[str, Any], config: RunConfig, around: Around) -> Found:
    """What the solver returns, with what made it, recorded in its folder."""
    problem, out = given["problem"], around.out
    digest = "" if out is None else problem_hash(problem)
    how = {"overwrite": _replaces(around.resume), "resume": around.resume is True}
    with (
        Recording(None if out is None else os.fspath(out), config, digest, **how) as recording,
        progress_for(around.progress) as (on_draws, on_iteration),
    ):
        if recording.is_done and recording.before is not None:
            return solution_of(recording.before, problem, given.get("sampler"))  # type: ignore[return-value]
        if isinstance(around.resume, dict):
            recording.start = around.resume
        solution = record(solver, given, recording, on_draws, before=on_iteration, after=given.get("callback"))
        if out is not None:
            finish(recording, solution, given.get("exact"))
    return solution


def record(
    solver: Callable[..., Found],
    given: dict[str, Any],
    recording: Recording,
    progress: Any,
    *,
    before: Callable[[Iterate], Any] | None = None,
    after: Callable[[Iterate], Any] | None = None,
) -> Found:
    """What the solver returns, with what made it. Whatever ends it early, its last iteration is saved first.

    before, after   told of every iterate, before and after it is recorded
    """
    asked = inspect.signature(solver).parameters
    told = [before, recording.add if recording.is_kept else None, after]
    own = {"callback": _each(told), "progress": progress, "resume": recording.start}
    try:
        found = solver(**given | {name: value for name, value in own.items() if name in asked})
    except BaseException:
        recording.save_last()
        raise
    return dataclasses.replace(found, origin=recording.config)


def finish(recording: Recording, solution: Solution | TensorSolution, exact: Solution | None = None) -> dict[str, Any]:
    """Writes the result, where it is kept, and returns its summary."""
    summary = summarise(solution, None if exact is None else compare(solution, exact)).encode()
    recording.finish(solution, summary)
    return summary


def _replaces(resume: Any) -> bool:
    return isinstance(resume, str) and resume == "overwrite"


def _each(told: list[Callable[[Iterate], Any] | None]) -> Callable[[Iterate], None] | None:
    """A callback that tells all of them; None where there are none, for an iterate costs something."""
    listening = [one for one in told if one is not None]

    def callback(iterate: Iterate) -> None:
        for one in listening:
            one(iterate)

    return callback if listening else None
