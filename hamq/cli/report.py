"""`hamq report`: one or several runs as one self-contained page."""

from collections.abc import Sequence
from pathlib import Path

from hamq.cli import problems
from hamq.cli.animating import animated
from hamq.cli.finished import named_of, read_finished, short_names
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Request
from hamq.exact.solution import Solution
from hamq.problem.cache import use_compilation_cache
from hamq.problem.problem import Problem
from hamq.report.page import is_page
from hamq.report.run_page import Exact, Shown, Written, require_same_axes, write_run_page
from hamq.runs.loading import as_solution
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run
from hamq.tensor.solution import TensorSolution

REPORT = "report.html"


def run(request: Request) -> int:
    use_compilation_cache()
    output = request.options["output"]
    found = read_finished(request.words)
    exact = None if output.exact is None else _exact(output.exact, list(found.values()))
    path = Path(output.out or Path(request.words[0]) / REPORT)
    require_free(path)
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for the page; make it, or choose another with -o.")
    names = short_names(list(found))
    written = _written(path, [made_again(name, one) for name, one in zip(names, found.values(), strict=True)], exact)
    if output.json:
        runs = dict(zip(names, found, strict=True))
        print_json({"runs": runs, "page": str(path), "layers": written.layers, "notes": written.notes})
    else:
        tell(f"{path}: {'; '.join(written.layers)}.")
        for note in written.notes:
            tell(f"{note}.")
    return 0


def require_free(path: Path) -> None:
    """Refuses a place where something else is than a page of ours."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the page a name, such as {path / REPORT}.")
    if path.is_symlink():  # of a folder that somebody else made it may lead anywhere
        raise ValueError(f"{path} is a link, and would be written through; choose another name with -o.")
    try:
        is_taken = path.exists() and not is_page(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; choose another name for the page.") from error
    if is_taken:
        raise ValueError(f"{path} is there already, and not a page of hamq report; choose another name with -o.")


def require_place(out: str | None) -> None:
    """Refuses --report where it has no folder, or another file is in its place."""
    if out is None:
        raise ValueError("--report needs --out, the folder of the run.")
    require_free(Path(out) / REPORT)


def write(path: Path, found: Run, solution: TensorSolution | None = None) -> Written:
    """The page of a finished run of a train; its solution is made again if it is not given."""
    name = found.path.name
    again = made_again(name, found) if solution is None else Shown(name, found, solution.problem, solution)
    return _written(path, [again], None)


def page_beside(out: str | None, problem: Problem, exact: Solution | None = None) -> str:
    """The page of the table that was just saved in the folder `out`, written there."""
    assert out is not None  # see require_place
    found = read_run(out)
    answer = None if exact is None else Exact(found.manifest.problem, exact.q)
    return str(_written(Path(out) / REPORT, [Shown(found.path.name, found, problem)], answer).path)


def _exact(name: str, found: Sequence[Run]) -> Exact:
    """The exact answer of --exact; refused unless it is one, and of a problem that is shown."""
    one = read_run(name)
    if one.config["command"] != "exact" or one.q is None:
        raise ValueError(f"--exact takes a finished run of hamq exact, and {name} is of hamq {one.config['command']}.")
    if all(one.manifest.problem != other.manifest.problem for other in found):
        raise ValueError(f"--exact {name} is of another problem than the runs; give the exact answer of theirs.")
    return Exact(one.manifest.problem, one.q)


def made_again(name: str, found: Run) -> Shown:
    """The run with its problem, and its policy where it is a train; without them, and saying so, if they cannot be had."""
    try:
        problem = problems.build(named_of(found))
        if found.cores is not None:
            return Shown(name, found, problem, as_solution(found, problem))
        if problem_hash(problem) != found.manifest.problem:
            raise ValueError("it is no longer the problem that was solved")
        return Shown(name, found, problem)
    except Exception as error:  # the user's own code runs here, and V can be shown without it
        why_not = f"the problem cannot be made again: {str(error).rstrip('.')}"
        what = "no maps of the policy" if found.cores is not None else "no rollout"
        say(f"{what}, because {why_not}")
        return Shown(name, found, why_not=why_not)


def _written(path: Path, shown: Sequence[Shown], exact: Exact | None) -> Written:
    require_same_axes(shown)  # before what takes time
    if any(one.solution is not None for one in shown):
        say(f"{path}: backing up the policy's maps")
    animations, notes = animated(shown)
    try:
        written = write_run_page(path, shown, exact, animations)
        return written._replace(notes=(*written.notes, *notes))
    except OSError as error:
        raise ValueError(f"{path} could not be written: {error.strerror}; choose another place for the page.") from error
