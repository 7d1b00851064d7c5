"""`hamq solve`: Algorithm 1 on one problem, into a run folder."""

import functools
import json
import os
import warnings
from typing import Any, NamedTuple

from hamq.certificates.comparison import Comparison, compare
from hamq.cli import problems
from hamq.cli.arguments import make_config, solve_arguments
from hamq.cli.interruption import Interruption
from hamq.cli.messages import print_json, say, tell
from hamq.cli.options import RunOptions
from hamq.cli.parsing import Request
from hamq.cli.place import place_of
from hamq.cli.processes import Order, give, joined, receive
from hamq.cli.report import page_beside, require_place
from hamq.cli.session import beginning, carry_out, open_recording, require_sense
from hamq.exact.value_iteration import solve_exact
from hamq.learning.devices import Devices, is_any
from hamq.learning.q_iteration import Iterate, solve
from hamq.problem.cache import use_compilation_cache
from hamq.problem.counts import as_count
from hamq.problem.problem import Problem
from hamq.runs import naming
from hamq.runs.config import RunConfig
from hamq.runs.encoding import plain
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run
from hamq.runs.recording import Recording
from hamq.runs.summary import summarise
from hamq.solution import Solution
from hamq.types import NonFiniteError

FAILED = 1


class Task(NamedTuple):
    """What is to be solved, the same in all processes."""

    request: Request
    named: naming.Named
    problem: Problem
    arguments: dict[str, Any]
    config: RunConfig
    devices: Devices

    @property
    def output(self) -> RunOptions:
        return self.request.options["output"]

    @property
    def same(self) -> str:
        """What a process compares with process 0."""
        return json.dumps([plain(self.config.encode(), "config"), problem_hash(self.problem)], sort_keys=True)

    def code(self, converged: bool) -> int:
        return FAILED if self.arguments["tolerance"] is not None and not converged else 0


def run(request: Request) -> int:
    place = place_of(request.options["processes"], os.environ)
    with joined(place, request.options["solve"].devices) as devices:
        use_compilation_cache()
        output = request.options["output"]
        require_sense(output)
        named = problems.named(request)
        problem = naming.build(named)
        arguments = solve_arguments(request, problem)
        task = Task(request, named, problem, arguments, make_config(named, arguments, output), devices)
        return _lead(task) if place.index == 0 else _follow(task)


def _lead(task: Task) -> int:
    """The solve as process 0, or a lone one, has it: with run folder, progress and results."""
    output, problem, same = task.output, task.problem, "" if task.devices.is_alone else task.same
    try:
        if output.report:
            require_place(output.out)
        opened = open_recording(output, task.config, problem)
    except Exception as error:
        give(task.devices, Order(same, refused=str(error)))
        raise
    with opened as recording:
        if recording.is_done and (before := recording.before) is not None:
            give(task.devices, Order(same, is_done=True, converged=bool(before.converged)))
            say(f"{output.out} is finished already")
            exact = _exact(problem) if output.exact and output.report else None
            page = page_beside(output.out, problem, exact) if output.report else None
            return _report(task, summary_of(before), page)
        give(task.devices, Order(same, recording.start))
        say(f"{problem.name}: {size_of(problem)}, {beginning(recording, 'drawing next states')}")
        exact = _exact(problem) if output.exact else None
        solution = _solve(task, exact, recording)
        if solution is None:
            return FAILED
        summary = summarise(solution, None if exact is None else compare(solution, exact)).encode()
        recording.finish(solution, summary)
    page = page_beside(output.out, problem, exact) if output.report else None
    head = {"problem": task.named.name, "result": solution.result, "converged": solution.converged}
    return _report(task, head | summary, page)


def _follow(task: Task) -> int:
    """The same solve as the other processes have it: silent, and without a disk."""
    order = receive(task.devices, task.same)
    if order.is_done:
        return task.code(order.converged)
    with warnings.catch_warnings(), Interruption(tell=lambda sentence: None) as interruption:
        warnings.simplefilter("ignore")  # process 0 says them

        def callback(iterate: Iterate) -> None:
            interruption.is_patient = True
            if is_any(task.devices, interruption.is_asked):
                raise KeyboardInterrupt

        exact = solve_exact(task.problem) if task.output.exact else None
        try:
            solution = solve(task.problem, **task.arguments, exact=exact, resume=order.start, callback=callback)
        except NonFiniteError:
            return FAILED
    return task.code(solution.converged)


def size_of(problem: Problem) -> str:
    return f"{as_count(problem.num_states, ',')} states × {as_count(problem.num_actions)} actions"


def _exact(problem: Problem) -> Solution:
    say("solving exactly, to compare with")
    return solve_exact(problem)


def _solve(task: Task, exact: Solution | None, recording: Recording) -> Solution | None:
    """The solution; None where a value was not finite, which has been said."""
    given: dict[str, Any] = {**task.arguments, "exact": exact, "resume": recording.start}
    return carry_out(
        task.request,
        recording,
        lambda callback, progress: solve(task.problem, **given, callback=callback, progress=progress.draws),
        functools.partial(is_any, task.devices),
    )


def summary_of(done: Run) -> dict[str, Any]:
    return {"problem": done.setup.problem.name, "result": done.result, "converged": done.converged, **done.summary}


def _report(task: Task, summary: dict[str, Any], page: str | None) -> int:
    output = task.output
    if output.json:
        print_json({"comparison": None} | summary | {"out": output.out, "report": page})
    else:
        tell(f"{summary['problem']}: {summary['result']}.")
        tell(f"{summary['iterations']} iterations in {summary['seconds']:.1f} s, {summary['samples']:,} draws.")
        if summary.get("comparison") is not None:
            tell(f"Against the exact answer: {Comparison(**summary['comparison'])}.")
        if output.out is not None:
            tell(f"Saved in {output.out}; hamq show, hamq compare and hamq report read it.")
        if page is not None:
            tell(f"The page is {page}.")
    return task.code(summary["converged"])
