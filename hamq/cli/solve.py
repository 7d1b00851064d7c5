"""`hamq solve`: Algorithm 1 on one problem, into a run folder."""

import dataclasses
from typing import Any

import numpy as np

from hamq.certificates.comparison import Comparison, compare
from hamq.cli import problems
from hamq.cli.arguments import free_fields, make_config, solve_arguments
from hamq.cli.cache import use_compilation_cache
from hamq.cli.messages import print_json, say
from hamq.cli.options import RunOptions
from hamq.cli.parsing import Request
from hamq.cli.recording import Recording
from hamq.cli.report import page_beside, require_place
from hamq.cli.session import beginning, carry_out, is_done, open_recording, require_sense
from hamq.exact.solution import Solution
from hamq.exact.value_iteration import solve_exact
from hamq.learning.q_iteration import solve
from hamq.problem.actions import ProductActions
from hamq.problem.counts import as_count
from hamq.problem.problem import Problem
from hamq.runs.reading import Run, read_run

FAILED = 1
MAX_KEPT = 1000
"""Numbers in the list of actions that a summary keeps, so that a page need not make the problem again."""


def run(request: Request) -> int:
    use_compilation_cache()
    output = request.options["output"]
    require_sense(output)
    if output.report:
        require_place(output.out)
    named = problems.named(request)
    problem = problems.build(named)
    arguments = solve_arguments(request, problem)
    config = make_config(named, arguments, output)
    before = read_run(output.out) if output.resume else None
    with open_recording(output, config, problem, free_fields(arguments)) as recording:
        if before is not None and is_done(before, config):
            say(f"{output.out} is finished already")
            exact = _exact(problem) if output.exact and output.report else None
            page = page_beside(output.out, problem, exact) if output.report else None
            return _report(output, summary_of(before), arguments["tolerance"], page)
        say(f"{problem.name}: {size_of(problem)}, {beginning(recording, 'drawing next states')}")
        exact = _exact(problem) if output.exact else None
        solution = _solve(request, problem, arguments, exact, recording)
        if solution is None:
            return FAILED
        summary = summarise(solution) | {"comparison": exact and dataclasses.asdict(compare(solution, exact))}
        recording.finish(solution, summary)
    page = page_beside(output.out, problem, exact) if output.report else None
    head = {"problem": named.name, "result": solution.result, "converged": solution.converged}
    return _report(output, head | summary, arguments["tolerance"], page)


def size_of(problem: Problem) -> str:
    return f"{as_count(problem.num_states, ',')} states × {as_count(problem.num_actions)} actions"


def _exact(problem: Problem) -> Solution:
    say("solving exactly, to compare with")
    return solve_exact(problem)


def _solve(
    request: Request, problem: Problem, arguments: dict[str, Any], exact: Solution | None, recording: Recording
) -> Solution | None:
    """The solution; None where a value was not finite, which has been said."""
    given: dict[str, Any] = {**arguments, "exact": exact, "resume": recording.start}
    return carry_out(
        request,
        recording,
        lambda callback, progress: solve(problem, **given, callback=callback, progress=progress.draws),
    )


def summarise(solution: Solution) -> dict[str, Any]:
    """Numbers of a result, printed and kept: the last row of the history (its `error` is the solution's own) and sizes."""
    last = {name: column[-1].item() for name, column in solution.history.columns.items() if name != "error"}
    return {
        "iterations": len(solution.history),
        **last,
        **sizes_of(solution.problem),
    }


def sizes_of(problem: Problem) -> dict[str, Any]:
    """Name, law, grid and actions, as the summary of a run keeps them; many actions by their number alone."""
    grid, actions = problem.grid, problem.actions
    box = {"lower": [*map(float, grid.lower)], "upper": [*map(float, grid.upper)]}
    is_long = isinstance(actions, ProductActions) or actions.size > MAX_KEPT
    return {
        "name": problem.name,
        "law": problem.law,
        "grid": {"points": list(grid.points), **box, "periodic": list(grid.periodic)},
        "axis_names": list(problem.axis_names),
        "num_actions": problem.num_actions,
        **({} if is_long else {"actions": np.asarray(actions).tolist()}),
    }


def summary_of(done: Run) -> dict[str, Any]:
    return {"problem": done.config["problem"]["name"], "result": done.result, "converged": done.converged, **done.summary}


def _report(output: RunOptions, summary: dict[str, Any], tolerance: float | None, page: str | None) -> int:
    if output.json:
        print_json(summary | {"out": output.out, "report": page})
    else:
        print(f"{summary['problem']}: {summary['result']}.")
        print(f"{summary['iterations']} iterations in {summary['seconds']:.1f} s, {summary['samples']:,} draws.")
        if summary["comparison"] is not None:
            print(f"Against the exact answer: {Comparison(**summary['comparison'])}.")
        if output.out is not None:
            print(f"Saved in {output.out}; hamq show, hamq compare and hamq report read it.")
        if page is not None:
            print(f"The page is {page}.")
    return FAILED if tolerance is not None and not summary["converged"] else 0
