"""The page of a run of `hamq solve-tensor`: maps of V and of the policy, facts, convergence."""

import math
from pathlib import Path
from typing import Any, NamedTuple

from hamq.problem.counts import as_count
from hamq.problem.grid import Grid
from hamq.report.page import Layer, write_page
from hamq.report.policy_train import NUM_HELD_OUT, SHARE, action_ranges, policy_train
from hamq.runs.reading import Run
from hamq.tensor import train
from hamq.tensor.solution import TensorSolution

MAX_ERROR = 0.25
"""Part of the range beyond which a train of the policy would mislead."""
MAX_ACTUATORS = 4
"""Policies shown: each needs backups of its own."""

COSTS = {"samples": "draws", "density_evaluations": "densities", "gradient_evaluations": "gradients"}
"""Columns of the history, and their words."""

Facts = list[tuple[str, str]]


class Written(NamedTuple):
    """The page, the names of its layers, and what is said about those that are not there."""

    path: Path
    layers: tuple[str, ...]
    notes: tuple[str, ...]


def write_tensor_page(path: Path, run: Run, solution: TensorSolution | None, why_not: str = "") -> Written:
    """`solution`: the run's, for maps of the policy; None where it cannot be had, and `why_not` then says so."""
    assert run.cores is not None and run.order is not None
    value = Layer("Value", run.cores, run.order)
    layers, notes = ([], [f"no maps of the policy: {why_not}"]) if solution is None else _policies(solution)
    history = {"Residual, held out": run.history.residual.tolist(), "Largest rank": run.history.rank.tolist()}
    grid = Grid(**run.summary["grid"])
    facts = _facts(run) + [("Policy", note) for note in notes]
    write_page(path, run.summary["name"], [value, *layers], grid, facts, history)
    return Written(path, tuple(layer.name for layer in (value, *layers)), tuple(notes))


def _policies(solution: TensorSolution) -> tuple[list[Layer], list[str]]:
    """A layer for each of the first actuators whose train is good enough, and a sentence on each."""
    count = len(action_ranges(solution.problem))
    shown = min(count, MAX_ACTUATORS)
    budget = SHARE * int(solution.history.reads[-1]) / shown
    layers, notes = [], []
    for i in range(shown):
        name = "Greedy action" if count == 1 else f"Greedy action {i + 1}"
        found = policy_train(solution, i, budget)
        error = f"{100 * found.error:.2g} % of its range, rms over {NUM_HELD_OUT:,} random states"
        if found.error > MAX_ERROR:
            notes.append(f"{name} has no map: the best train is off by {error}")
            continue
        layers.append(Layer(f"{name} (rms error {100 * found.error:.2g} %)", found.cores, solution.order, is_diverging=True))
        notes.append(f"{name} is shown as a train of rank {max(train.ranks(found.cores))}, off by {error}")
    if shown < count:
        notes.append(f"actuators {shown + 1} to {count} are not shown")
    return layers, notes


def _facts(run: Run) -> Facts:
    config, summary = run.config, run.summary
    grid = summary["grid"]
    states = as_count(math.prod(grid["points"]), ",")
    spent = [f"{summary[name]:,} {word}" for name, word in COSTS.items() if summary[name]]
    return [
        ("Result", f"{run.result}." if run.converged else f"Not converged: {run.result}."),
        ("Problem", described(config["problem"])),
        ("Size", f"{states} states × {as_count(summary['num_actions'])} actions, {len(grid['points'])} dimensions"),
        ("Law", summary["law"]),
        ("Sampler", _called(config["sampler"]["kind"], config["sampler"])),
        ("Ranks", ", ".join(map(str, summary["ranks"]))),
        ("Order of the axes", ", ".join(f"s{axis + 1}" for axis in summary["order"])),
        ("Residual", f"{run.residual:.2%} of V, rms over held-out states"),
        ("Backups", f"{summary['reads']:,}"),
        ("Cost", ", ".join(spent) or "exact sums: nothing was drawn"),
        ("Time", f"{summary['seconds']:.1f} s, {summary['iterations']} iterations, seed {config['seed']}"),
        ("Written with", ", ".join(f"{package} {version}" for package, version in run.manifest.versions.items())),
    ]


def described(problem: dict[str, Any]) -> str:
    """`spring_chain(num_masses=2, …)`; of a user's file the name alone, without its folder."""
    source, colon, function = problem["name"].rpartition(":")
    return _called(f"{Path(source).name}{colon}{function}", problem["options"])


def _called(name: str, fields: dict[str, Any]) -> str:
    given = [f"{key}={value}" for key, value in fields.items() if key != "kind" and value is not None]
    return f"{name}({', '.join(given)})"
