"""`hamq report`: one or several runs as one self-contained page."""

from collections.abc import Sequence
from pathlib import Path

from hamq.cli.finished import read_finished, short_names
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Request
from hamq.errors import HamqError
from hamq.problem.cache import use_compilation_cache
from hamq.problem.problem import Problem
from hamq.report.run_page import Exact, Shown
from hamq.report.writing import REPORT, made_again, require_free, write
from hamq.runs.reading import Run, read_run
from hamq.solution import Solution
from hamq.tensor.solution import TensorSolution


def run(request: Request) -> int:
    use_compilation_cache()
    output = request.options["output"]
    found = read_finished(request.words)
    exact = None if output.exact is None else _exact(output.exact, list(found.values()))
    path = Path(output.out or Path(request.words[0]) / REPORT)
    require_free(path)
    if not path.parent.is_dir():
        raise HamqError(f"there is no folder {path.parent} for the page; make it, or choose another with -o.")
    names = short_names(list(found))
    written = write(path, [made_again(name, one, say) for name, one in zip(names, found.values(), strict=True)], exact, say)
    if output.json:
        runs = dict(zip(names, found, strict=True))
        print_json({"runs": runs, "page": str(path), "layers": written.layers, "notes": written.notes})
    else:
        tell(f"{path}: {'; '.join(written.layers)}.")
        for note in written.notes:
            tell(f"{note}.")
    return 0


def require_place(out: str | None) -> None:
    """Refuses --report where it has no folder, or another file is in its place."""
    if out is None:
        raise HamqError("--report needs --out, the folder of the run.")
    require_free(Path(out) / REPORT)


def page_beside(
    out: str | None, problem: Problem, exact: Solution | None = None, train: TensorSolution | None = None
) -> str:
    """The page of the run that was just saved in the folder `out`, written there."""
    assert out is not None  # see require_place
    found = read_run(out)
    answer = None if exact is None else Exact(found.manifest.problem, exact.q)
    is_told = found.cores is None or train is not None
    shown = Shown(found.path.name, found, problem, train) if is_told else made_again(found.path.name, found, say)
    return str(write(Path(out) / REPORT, [shown], answer, say).path)


def _exact(name: str, found: Sequence[Run]) -> Exact:
    """The exact answer of --exact; refused unless it is one, and of a problem that is shown."""
    one = read_run(name)
    if one.setup.command != "exact" or one.q is None:
        raise HamqError(f"--exact takes a finished run of hamq exact, and {name} is of hamq {one.setup.command}.")
    if all(one.manifest.problem != other.manifest.problem for other in found):
        raise HamqError(f"--exact {name} is of another problem than the runs; give the exact answer of theirs.")
    return Exact(one.manifest.problem, one.q)
