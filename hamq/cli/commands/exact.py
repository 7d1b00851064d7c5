"""`hamq exact`: Q* of one problem, between certified bounds."""

import dataclasses

import hamq
from hamq.cli.commands.report import page_beside, require_place
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Command, Request
from hamq.cli.session import FAILED, build, tell_place
from hamq.errors import HamqError


@dataclasses.dataclass(frozen=True)
class ExactOptions:
    """Value iteration with certified bounds."""

    tolerance: float = 1e-6
    """Certified bound of |q − Q*|; the exit code is 1 if it was missed."""
    max_sweeps: int = 10_000
    """Stop after so many."""
    max_bytes: int | None = None
    """Memory that may be used; None: half of what is free."""
    max_evaluations: int | None = None
    """Of the density, for kernels that are no product over the axes."""


@dataclasses.dataclass(frozen=True)
class ExactRunOptions:
    """The run folder and what is printed."""

    out: str | None = None
    """Run folder to write; without it nothing is kept."""
    resume: bool = False
    """Keep the answer in --out if it is what is asked for, and compute it if not: for job schedulers."""
    overwrite: bool = False
    """Replace the run in --out."""
    report: bool = False
    """Write report.html into the run folder as well."""
    json: bool = False
    """Print one JSON object on stdout."""


COMMAND = Command(
    "PROBLEM",
    "solve it exactly, between certified bounds",
    3,
    {"exact": ExactOptions(), "output": ExactRunOptions()},
    is_long=lambda words: True,
)


def run(request: Request) -> int:
    from hamq.exact.value_iteration import solve_exact
    from hamq.runs.config import new_config
    from hamq.runs.loading import table_of
    from hamq.runs.problem_hash import problem_hash
    from hamq.runs.progress import Progress
    from hamq.runs.recording import Recording
    from hamq.runs.solving import finish, record

    hamq.use_compilation_cache()
    output = request.options["output"]
    for name in ("resume", "overwrite"):
        if getattr(output, name) and output.out is None:
            raise HamqError(f"--{name} needs --out, the folder of the run.")
    if output.resume and output.overwrite:
        raise HamqError("--resume keeps the run in --out and --overwrite replaces it; give one of them.")
    if output.report:
        require_place(output.out)
    named, problem = build(request)
    arguments = dataclasses.asdict(request.options["exact"])
    digest = "" if output.out is None else problem_hash(problem)
    how = {"overwrite": output.overwrite, "resume": output.resume}
    with Recording(output.out, new_config("exact", named, arguments), digest, **how) as recording:
        if recording.is_done and recording.before is not None:
            say(f"{output.out} is finished already")
            solution, summary = table_of(recording.before, problem), recording.before.summary
        else:
            with Progress(beats=True) as progress:
                solution = record(solve_exact, {"problem": problem, **arguments}, recording, progress.draws)
            summary = finish(recording, solution)
    page = page_beside(output.out, problem) if output.report else None
    if output.json:
        head = {"problem": named.name, "result": solution.result, "converged": solution.converged}
        print_json(head | {"error": solution.error} | summary | {"out": output.out, "report": page})
    else:
        value = solution.value
        tell(f"{named.name}: {solution.result}.")
        tell(f"V* lies between {value.min():.6g} and {value.max():.6g}; {len(solution.history)} sweeps.")
        tell_place(output.out, page)
    return 0 if solution.converged else FAILED
