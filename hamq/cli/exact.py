"""`hamq exact`: Q* of one problem, between certified bounds."""

import dataclasses

from hamq.cli import problems
from hamq.cli.messages import print_json, tell
from hamq.cli.parsing import Request
from hamq.cli.report import page_beside, require_place
from hamq.cli.solve import FAILED
from hamq.errors import HamqError
from hamq.exact.value_iteration import solve_exact
from hamq.problem.cache import use_compilation_cache
from hamq.runs import naming
from hamq.runs.config import new_config
from hamq.runs.problem_hash import problem_hash
from hamq.runs.progress import Progress
from hamq.runs.recording import Recording
from hamq.runs.summary import summarise


def run(request: Request) -> int:
    use_compilation_cache()
    output = request.options["output"]
    if output.overwrite and output.out is None:
        raise HamqError("--overwrite needs --out, the folder of the run.")
    if output.report:
        require_place(output.out)
    named = problems.named(request)
    problem = naming.build(named)
    arguments = dataclasses.asdict(request.options["exact"])
    config = new_config("exact", named, arguments)
    digest = "" if output.out is None else problem_hash(problem)
    with Recording(output.out, config, digest, overwrite=output.overwrite) as recording:
        with Progress(beats=True) as progress:
            solution = solve_exact(problem, **arguments, progress=progress.draws)
        summary = summarise(solution).encode()
        recording.finish(solution, summary)
    page = page_beside(output.out, problem) if output.report else None
    if output.json:
        head = {"problem": named.name, "result": solution.result, "converged": solution.converged}
        print_json(head | {"error": solution.error} | summary | {"out": output.out, "report": page})
    else:
        value = solution.value
        tell(f"{named.name}: {solution.result}.")
        tell(f"V* lies between {value.min():.6g} and {value.max():.6g}; {len(solution.history)} sweeps.")
        if output.out is not None:
            tell(f"Saved in {output.out}; hamq show, hamq compare and hamq report read it.")
        if page is not None:
            tell(f"The page is {page}.")
    return 0 if solution.converged else FAILED
