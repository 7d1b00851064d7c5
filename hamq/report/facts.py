"""What every page says of a run, whatever it holds: result, problem, size, cost, versions."""

import math
from pathlib import Path
from typing import Any

from hamq.runs.naming import Named
from hamq.runs.reading import Run
from hamq.types import as_count

COSTS = {"samples": "draws", "density_evaluations": "densities", "gradient_evaluations": "gradients"}
"""Columns of the history, and their words."""
ORDER = (
    *("Result", "Problem", "Size", "Law", "Method", "Sampler", "Completion", "Settings", "Ranks", "Order of the axes"),
    *("Residual", "Certified", "Certificate", "Expected error", "Against Q*", "Sampler health", "Policy", "Backups"),
    *("Cost", "Time", "Written with"),
)
"""Of all facts, where runs with different ones stand side by side."""

Facts = list[tuple[str, str]]


def common_facts(run: Run) -> Facts:
    """Result, problem and size; the law where it is known."""
    grid, law = run.outcome.grid, law_of(run)
    states = as_count(math.prod(grid.points), ",")
    size = f"{states} states × {as_count(run.outcome.num_actions)} actions, {dimensions(grid.dimension)}"
    head = [
        ("Result", f"{run.result}." if run.converged else f"Not converged: {run.result}."),
        ("Problem", described(run.setup.problem)),
        ("Size", size),
    ]
    return head + ([] if law is None else [("Law", law)])


def law_of(run: Run) -> str | None:
    """From the summary, or, of a run that does not keep it there, from the options of its problem."""
    return run.outcome.law or run.setup.law


def title_of(run: Run) -> str:
    """The name that the problem gives itself, or the one it was asked for by."""
    return run.outcome.name or _without_folder(run.setup.problem.name)


def versions(run: Run) -> tuple[str, str]:
    return "Written with", ", ".join(f"{package} {version}" for package, version in run.manifest.versions.items())


def dimensions(count: int) -> str:
    return f"{count} dimension{'s' * (count != 1)}"


def described(problem: Named) -> str:
    """`spring_chain(num_masses=2, …)`; of a user's file the name alone, without its folder."""
    name = _without_folder(problem.name)
    return name if problem.options is None else called(name, problem.options)


def called(name: str, fields: dict[str, Any]) -> str:
    """`name(field=value, …)` of what is set."""
    given = [f"{key}={value}" for key, value in fields.items() if key != "kind" and value is not None]
    return f"{name}({', '.join(given)})"


def _without_folder(name: str) -> str:
    source, colon, function = name.rpartition(":")
    return f"{Path(source).name}{colon}{function}"
