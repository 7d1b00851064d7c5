"""`hamq plot`: runs side by side as one picture."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hamq
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Command, Request
from hamq.errors import HamqError

PLOT = "plot.png"


@dataclasses.dataclass(frozen=True)
class PlotOptions:
    """The picture and what is printed."""

    out: str | None = None
    """The picture to write (.png, .pdf or .svg), also as -o; None: plot.png in the first run folder."""
    axes: str = "0,1"
    """The two axes that are shown, from 0."""
    at: str | None = None
    """A full state (0.1,0,0,0) near which the other axes are held; None: the middle of the box."""
    json: bool = False
    """Print one JSON object on stdout."""


COMMAND = Command("RUN [RUN ...]", "a picture for papers: maps of policy, value and error", 7, {"output": PlotOptions()})


def run(request: Request) -> int:
    from hamq.report.policy_map import write_plot
    from hamq.runs.loading import problem_of, read_finished, short_names, solution_of

    hamq.use_compilation_cache()
    output = request.options["output"]
    axes, at = _axes(output.axes), None if output.at is None else _numbers("--at", output.at, float)
    found = read_finished(request.words)
    _require_one_problem(found)
    path = Path(output.out or Path(request.words[0]) / PLOT)
    require_free(path)
    problem = problem_of(request.words[0], found[request.words[0]])
    exact = [word for word in found if found[word].setup.command == "exact"]
    words = exact[:1] + [word for word in found if word not in exact[:1]]  # the reference first
    if any(found[word].cores is not None for word in words):
        say(f"{path}: backing up the policy's map")
    solutions = [solution_of(found[word], problem) for word in words]
    figure = hamq.plot(*solutions, titles=short_names(words), axes=axes, at=at)
    try:
        write_plot(path, figure)
    except OSError as error:
        raise HamqError(f"{path} could not be written: {error.strerror}; choose another place for it.") from error
    if output.json:
        print_json({"runs": words, "picture": str(path), "axes": list(axes), "at": at})
    else:
        against = f", against {exact[0]}" if exact and len(words) > 1 else ""
        tell(f"{path}: {', '.join(words)}{against}.")
    return 0


def require_free(path: Path) -> None:
    """Refuses a name that is none of a picture, or a place where something else is than a picture of ours."""
    from hamq.report.policy_map import FORMATS, is_plot

    if path.suffix.lower() not in FORMATS:
        raise HamqError(f"-o {path}: a picture ends in one of {', '.join(FORMATS)}; choose another name.")
    if not path.parent.is_dir():
        raise HamqError(f"there is no folder {path.parent} for the picture; make it, or choose another with -o.")
    if path.is_symlink():
        raise HamqError(f"{path} is a link, and would be written through; choose another name with -o.")
    try:
        is_taken = path.exists() and (path.is_dir() or not is_plot(path))
    except OSError as error:
        raise HamqError(f"{path} cannot be read: {error.strerror}; choose another name with -o.") from error
    if is_taken:
        raise HamqError(f"{path} is there already, and not a picture of hamq plot; choose another name with -o.")


def _axes(text: str) -> tuple[int, int]:
    axes = _numbers("--axes", text, int)
    if len(axes) != 2:
        raise HamqError(f"--axes takes two axes, such as 0,1, got {text!r}.")
    return axes[0], axes[1]


def _numbers(flag: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    what = "whole numbers" if kind is int else "numbers"
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        raise HamqError(f"{flag} takes {what} with commas between them, got {text!r}.") from None
    if not all(map(math.isfinite, numbers)):
        raise HamqError(f"{flag} takes finite numbers, got {text!r}.")
    return numbers


def _require_one_problem(found: "dict[str, hamq.Run]") -> None:
    (first, reference), *_ = found.items()
    for name, one in found.items():
        if one.manifest.problem != reference.manifest.problem:
            raise HamqError(f"{name} is of another problem than {first}; show runs of one problem together.")
