"""`hamq report`: one or several runs as one self-contained page."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hamq
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Command, Request
from hamq.errors import HamqError


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """The page and what is printed."""

    out: str | None = None
    """The page to write, also as -o; None: report.html in the folder of the first run."""
    exact: str | None = None
    """A run of hamq exact on the same problem: the page then has maps of the error."""
    json: bool = False
    """Print one JSON object on stdout."""


COMMAND = Command(
    "RUN [RUN ...]",
    "a page to look at runs: maps of policy, value and error, convergence, facts",
    6,
    {"output": ReportOptions()},
    is_long=lambda words: True,
)


def run(request: Request) -> int:
    from hamq.report.writing import REPORT, made_again, require_free, write
    from hamq.runs.loading import read_finished, short_names

    hamq.use_compilation_cache()
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
    from hamq.report.writing import REPORT, require_free

    if out is None:
        raise HamqError("--report needs --out, the folder of the run.")
    require_free(Path(out) / REPORT)


def page_beside(
    out: str | None,
    problem: "hamq.Problem",
    exact: "hamq.Solution | None" = None,
    train: "hamq.TensorSolution | None" = None,
) -> str:
    """The page of the run that was just saved in the folder `out`, written there."""
    from hamq.report.run_page import Exact, Shown
    from hamq.report.writing import REPORT, made_again, write

    assert out is not None  # see require_place
    found = hamq.read_run(out)
    answer = None if exact is None else Exact(found.manifest.problem, exact.q)
    is_told = found.cores is None or train is not None
    shown = Shown(found.path.name, found, problem, train) if is_told else made_again(found.path.name, found, say)
    return str(write(Path(out) / REPORT, [shown], answer, say).path)


def _exact(name: str, found: "Sequence[hamq.Run]") -> Any:
    """The exact answer of --exact; refused unless it is one, and of a problem that is shown."""
    from hamq.report.run_page import Exact

    one = hamq.read_run(name)
    if one.setup.command != "exact" or one.q is None:
        raise HamqError(f"--exact takes a finished run of hamq exact, and {name} is of hamq {one.setup.command}.")
    if all(one.manifest.problem != other.manifest.problem for other in found):
        raise HamqError(f"--exact {name} is of another problem than the runs; give the exact answer of theirs.")
    return Exact(one.manifest.problem, one.q)
