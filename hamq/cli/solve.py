"""`hamq solve`: Algorithm 1 on one problem, into a run folder."""

import dataclasses
import shlex
from typing import Any

from hamq.certificates.comparison import Comparison, compare
from hamq.cli import problems
from hamq.cli.arguments import free_fields, make_config, solve_arguments
from hamq.cli.cache import use_compilation_cache
from hamq.cli.interruption import Interruption
from hamq.cli.messages import print_json, say
from hamq.cli.options import RunOptions
from hamq.cli.parsing import Request
from hamq.cli.progress import Progress
from hamq.cli.recording import Recording
from hamq.exact.solution import Solution
from hamq.exact.value_iteration import solve_exact
from hamq.learning.q_iteration import Iterate, solve
from hamq.learning.record import NonFiniteError
from hamq.problem.counts import as_count
from hamq.problem.problem import Problem
from hamq.runs.encoding import plain
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run

FAILED = 1


def run(request: Request) -> int:
    use_compilation_cache()
    output = request.options["output"]
    _require_sense(output)
    named = problems.named(request)
    problem = problems.build(named)
    arguments = solve_arguments(request, problem)
    config = make_config(named, arguments, output)
    before = read_run(output.out) if output.resume else None
    recording = Recording(
        output.out,
        config,
        "" if output.out is None else problem_hash(problem),
        overwrite=output.overwrite,
        resume=output.resume,
        free=free_fields(arguments),
        every_iterations=output.checkpoint_every,
        every_seconds=output.checkpoint_seconds,
    )
    with recording:
        if before is not None and before.is_finished and before.config == plain(config, "config"):
            say(f"{output.out} is finished already")
            return _report(output, _summary_of(before), arguments["tolerance"])
        size = f"{as_count(problem.num_states, ',')} states × {as_count(problem.num_actions)} actions"
        say(f"{problem.name}: {size}, {_beginning(recording)}")
        exact = _exact(problem) if output.exact else None
        solution = _solve(request, problem, arguments, exact, recording)
        if solution is None:
            return FAILED
        summary = summarise(solution) | {"comparison": exact and dataclasses.asdict(compare(solution, exact))}
        recording.finish(solution, summary)
    head = {"problem": named.name, "result": solution.result, "converged": solution.converged}
    return _report(output, head | summary, arguments["tolerance"])


def _require_sense(output: RunOptions) -> None:
    for name in ("resume", "overwrite", "checkpoint_every"):
        if getattr(output, name) and output.out is None:
            raise ValueError(f"--{name.replace('_', '-')} needs --out, the folder of the run.")
    if output.resume and output.overwrite:
        raise ValueError("--resume continues the run in --out and --overwrite replaces it; give one of them.")
    if output.checkpoint_every is not None and output.checkpoint_every < 1:
        raise ValueError(f"--checkpoint-every must be at least 1, got {output.checkpoint_every}.")
    if not output.checkpoint_seconds > 0:
        raise ValueError(f"--checkpoint-seconds must be above 0, got {output.checkpoint_seconds}.")


def _beginning(recording: Recording) -> str:
    return f"continued from iteration {recording.num_saved}" if recording.num_saved else "drawing next states"


def _exact(problem: Problem) -> Solution:
    say("solving exactly, to compare with")
    return solve_exact(problem)


def _solve(
    request: Request, problem: Problem, arguments: dict[str, Any], exact: Solution | None, recording: Recording
) -> Solution | None:
    """The solution; None where a value was not finite, which has been said."""
    with Interruption() as interruption, Progress() as progress:

        def callback(iterate: Iterate) -> None:
            interruption.is_patient = True  # from here on there is something to save
            progress.iteration(iterate)
            recording.add(iterate)
            if interruption.is_asked:
                recording.save_last()
                raise KeyboardInterrupt

        try:
            return solve(
                problem, **arguments, exact=exact, callback=callback, progress=progress.draws, resume=recording.start
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_farewell(request, recording.num_saved)) from None
        except NonFiniteError as error:
            recording.save_last()
            say(str(error))
            return None


def _farewell(request: Request, num_saved: int) -> str:
    out = request.options["output"].out
    if not num_saved:
        return "nothing was saved" + (f"; {out} is what it was." if out else ", because no --out was given.")
    again = [word for word in request.argv if word not in ("--resume", "--overwrite")]
    command = shlex.join(["hamq", request.command, *again, "--resume"])
    return f"{num_saved} iterations are saved; continue with\n  {command}"


def summarise(solution: Solution) -> dict[str, Any]:
    """Numbers of a result, printed and kept: the last row of the history (its `error` is the solution's own) and sizes."""
    grid = solution.problem.grid
    last = {name: column[-1].item() for name, column in solution.history.columns.items() if name != "error"}
    return {
        "iterations": len(solution.history),
        **last,
        "grid": {"points": list(grid.points), "lower": [*map(float, grid.lower)], "upper": [*map(float, grid.upper)]},
        "num_actions": solution.problem.num_actions,
    }


def _summary_of(done: Run) -> dict[str, Any]:
    return {"problem": done.config["problem"]["name"], "result": done.result, "converged": done.converged, **done.summary}


def _report(output: RunOptions, summary: dict[str, Any], tolerance: float | None) -> int:
    if output.json:
        print_json(summary | {"out": output.out})
    else:
        print(f"{summary['problem']}: {summary['result']}.")
        print(f"{summary['iterations']} iterations in {summary['seconds']:.1f} s, {summary['samples']:,} draws.")
        if summary["comparison"] is not None:
            print(f"Against the exact answer: {Comparison(**summary['comparison'])}.")
        if output.out is not None:
            print(f"Saved in {output.out}; hamq show and hamq compare read it.")
    return FAILED if tolerance is not None and not summary["converged"] else 0
