"""`hamq solve-tensor`: V of one problem as a tensor train, into a run folder."""

from typing import Any

from hamq.cli import problems
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Request
from hamq.cli.report import page_beside, require_place
from hamq.cli.session import beginning, carry_out, open_recording, require_sense
from hamq.cli.solve import FAILED, size_of, summary_of
from hamq.cli.tensor_arguments import make_config, tensor_arguments
from hamq.cli.tensor_options import TensorRunOptions
from hamq.problem.cache import use_compilation_cache
from hamq.runs import naming
from hamq.runs.summary import summarise
from hamq.tensor.solve import solve_tensor


def run(request: Request) -> int:
    use_compilation_cache()
    output = request.options["output"]
    _require_sense(output)
    named = problems.named(request)
    problem = naming.build(named)
    arguments = tensor_arguments(request, problem)
    config = make_config(named, arguments, output)
    solution = None
    with open_recording(output, config, problem) as recording:
        if recording.is_done and (before := recording.before) is not None:
            say(f"{output.out} is finished already")
            summary = summary_of(before) | {"residual": before.residual}
        else:
            say(f"{problem.name}: {size_of(problem)}, {beginning(recording, 'compiling the first backups')}")
            given: dict[str, Any] = {**arguments, "resume": recording.start}
            solution = carry_out(request, recording, lambda callback, _: solve_tensor(problem, **given, callback=callback))
            if solution is None:
                return FAILED
            recording.finish(solution, found := summarise(solution).encode())
            head = {"problem": named.name, "result": solution.result, "converged": solution.converged}
            summary = head | {"residual": solution.residual} | found
    page = None
    if output.report:
        page = page_beside(output.out, problem, train=solution)
    _print(output, summary, page)
    return FAILED if "tolerance" in request.given and not summary["converged"] else 0


def _require_sense(output: TensorRunOptions) -> None:
    require_sense(output)
    if output.report:
        require_place(output.out)


def _print(output: TensorRunOptions, summary: dict[str, Any], page: str | None) -> None:
    if output.json:
        print_json(summary | {"out": output.out, "report": page})
        return
    tell(f"{summary['problem']}: {summary['result']}.")
    ranks = ", ".join(map(str, summary["ranks"]))
    tell(f"{summary['iterations']} iterations in {summary['seconds']:.1f} s, ranks {ranks}.")
    if output.out is not None:
        tell(f"Saved in {output.out}; hamq show and hamq report read it.")
    if page is not None:
        tell(f"The page is {page}.")
