"""`hamq report`: a run as one self-contained page."""

from pathlib import Path

from hamq.cli import problems
from hamq.cli.cache import use_compilation_cache
from hamq.cli.messages import print_json, say
from hamq.cli.parsing import Request
from hamq.report.page import is_page
from hamq.report.tensor_page import Written, write_tensor_page
from hamq.runs.loading import as_solution
from hamq.runs.reading import Run, read_run
from hamq.tensor.solution import TensorSolution

REPORT = "report.html"


def run(request: Request) -> int:
    use_compilation_cache()
    name, output = request.words[0], request.options["output"]
    found = read_run(name)
    _require_train(name, found)
    path = Path(output.out or Path(name) / REPORT)
    require_free(path)
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for the page; make it, or choose another with -o.")
    written = write(path, found)
    if output.json:
        print_json({"run": name, "page": str(path), "layers": written.layers, "notes": written.notes})
    else:
        print(f"{path}: {'; '.join(written.layers)}.")
        for note in written.notes:
            print(f"{note}.")
    return 0


def _require_train(name: str, found: Run) -> None:
    command = found.config["command"]
    if command != "solve-tensor":
        raise ValueError(
            f"hamq report makes pages of hamq solve-tensor, and {name} is of hamq {command}; pages of tables are still to "
            "come, and hamq show and hamq compare read them."
        )
    if not found.is_finished:
        raise ValueError(f"{name} is not finished: it has {len(found.history)} iterations; continue it with --resume.")


def require_free(path: Path) -> None:
    """Refuses a place where something else is than a page of ours."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the page a name, such as {path / REPORT}.")
    try:
        is_taken = path.exists() and not is_page(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; choose another name for the page.") from error
    if is_taken:
        raise ValueError(f"{path} is there already, and not a page of hamq report; choose another name with -o.")


def write(path: Path, found: Run, solution: TensorSolution | None = None) -> Written:
    """The page of a finished run; its solution is made again if it is not given."""
    why_not = ""
    if solution is None:
        try:
            solution = as_solution(found, problems.build(problems.Named(**found.config["problem"])))
        except Exception as error:  # the user's own code runs here, and V can be shown without it
            why_not = f"the problem cannot be made again: {str(error).rstrip('.')}"
            say(f"no maps of the policy, because {why_not}")
    if solution is not None:
        say(f"{path}: backing up the policy's maps")
    try:
        return write_tensor_page(path, found, solution, why_not)
    except OSError as error:
        raise ValueError(f"{path} could not be written: {error.strerror}; choose another place for the page.") from error
