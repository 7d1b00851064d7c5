"""What a run found, beside its arrays: the record that result.json holds.

result, converged, error or residual    from the solution
iterations, and the last row of the history
name, law, grid, axis_names, num_actions, actions    of the problem, so that a page need not make it again
ranks, order    of a tensor train
comparison      with the exact answer, where that was solved as well

What a finished run holds: a table of action values with its bounds, or the cores of a tensor train.

In result.npz a table is `q`, `lower`, `upper`, and where draws were reused `health/acceptance`, `health/stuck` and
`health/effective` (see `Health`); a train is `core/0`, `core/1`, … (float64) and `order`, their axes.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.certificates.comparison import Comparison
from hamq.errors import damaged
from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.runs.encoding import is_number
from hamq.runs.storage import RESULT, TABLES
from hamq.solution import AbstractSolution, Health, Solution
from hamq.tensor.solution import TensorSolution

CORE = "core/"
HEALTH = "health/"
HEALTH_NAMES = tuple(field.name for field in dataclasses.fields(Health))


def arrays_of(solution: Solution | TensorSolution) -> dict[str, np.ndarray]:
    """What result.npz holds."""
    if isinstance(solution, TensorSolution):
        cores = {f"{CORE}{k}": np.asarray(core, np.float64) for k, core in enumerate(solution.cores)}
        return cores | {"order": np.asarray(solution.order, np.int64)}
    tables = {"q": solution.q, "lower": solution.lower, "upper": solution.upper}
    held = {name: table for name, table in tables.items() if table is not None}
    return held | ({HEALTH + name: getattr(solution.health, name) for name in HEALTH_NAMES} if solution.health else {})


def outcome_of(solution: Solution | TensorSolution) -> dict[str, Any]:
    """What result.json says of the solution."""
    head = {"result": solution.result, "converged": solution.converged}
    if isinstance(solution, TensorSolution):
        return head | {"residual": solution.residual}
    return head | {"error": solution.error, "expected_error": solution.expected_error}


def outcome_names(is_train: bool) -> tuple[str, ...]:
    """The fields of result.json that come from the solution; the others are its writer's summary."""
    return ("result", "converged", *(("residual",) if is_train else ("error", "expected_error")))


def fields_of(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The fields of a Run; refuses arrays that are neither tables nor a train."""
    names = [f"{CORE}{k}" for k in range(len(arrays) - 1)]
    if "order" in arrays and arrays.keys() == {"order", *names}:
        cores, order = tuple(arrays[name] for name in names), arrays["order"]
        is_order = order.dtype.kind in "iu" and sorted(order.ravel().tolist()) == list(range(len(cores)))
        if not _is_train(cores) or not is_order:
            raise damaged(folder, TABLES, "its cores are not those of a tensor train")
        return {"cores": cores, "order": tuple(order.ravel().tolist())}
    health = {name.removeprefix(HEALTH): array for name, array in arrays.items() if name.startswith(HEALTH)}
    tables = {name: array for name, array in arrays.items() if not name.startswith(HEALTH)}
    if "q" not in tables or not tables.keys() <= {"q", "lower", "upper"}:
        raise damaged(folder, TABLES, f"its arrays {sorted(arrays)} are neither tables nor a tensor train")
    kinds = {(array.shape, array.dtype.type) for array in tables.values()}
    if len(kinds) > 1 or tables["q"].ndim != 2 or tables["q"].dtype.kind != "f" or not tables["q"].size:
        raise damaged(folder, TABLES, "its tables are not all of float numbers [states, actions]")
    if not health:  # nothing was reused, or an older version wrote it
        return tables
    kind, kinds = (tables["q"].shape[:1], np.float64), {(array.shape, array.dtype.type) for array in health.values()}
    if set(health) != set(HEALTH_NAMES) or kinds != {kind}:
        raise damaged(folder, TABLES, f"the health of its sampler is not {', '.join(HEALTH_NAMES)} of every state")
    return tables | {"health": health}


def _is_train(cores: tuple[np.ndarray, ...]) -> bool:
    if not cores or any(core.ndim != 3 or core.dtype != np.float64 or not np.all(np.isfinite(core)) for core in cores):
        return False
    return [core.shape[0] for core in cores] + [1] == [1] + [core.shape[2] for core in cores]


MAX_KEPT = 1000
"""Numbers in the list of actions that a summary keeps."""
OF_PROBLEM = ("name", "law", "grid", "axis_names", "num_actions", "actions")
OF_TRAIN = ("ranks", "order")


@dataclasses.dataclass(frozen=True, eq=False)
class RunSummary:
    """What is known of a finished run without its arrays; what an earlier version did not keep is None.

    last        the last row of the history: costs and seconds among others
    actions     `[A]` or `[A, k]`; None where there are too many to list
    """

    iterations: int
    last: dict[str, Any]
    grid: Grid
    num_actions: int
    name: str | None = None
    law: str | None = None
    axis_names: tuple[str, ...] | None = None
    actions: Float[np.ndarray, "A *k"] | None = None
    ranks: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None
    comparison: Comparison | None = None

    @property
    def seconds(self) -> float:
        return self.last.get("seconds", 0.0)

    def encode(self) -> dict[str, Any]:
        """What result.json says beside the outcome."""
        grid = self.grid
        box = {"lower": [*map(float, grid.lower)], "upper": [*map(float, grid.upper)], "periodic": list(grid.periodic)}
        given: dict[str, Any] = {"iterations": self.iterations, **self.last}
        if self.ranks is not None and self.order is not None:
            given |= {"ranks": list(self.ranks), "order": list(self.order)}
        given |= {"name": self.name, "law": self.law, "grid": {"points": list(grid.points), **box}}
        given |= {"axis_names": None if self.axis_names is None else list(self.axis_names), "num_actions": self.num_actions}
        if self.actions is not None:
            given["actions"] = self.actions.tolist()
        return given if self.comparison is None else given | {"comparison": dataclasses.asdict(self.comparison)}


def summarise(solution: AbstractSolution, comparison: Comparison | None = None) -> RunSummary:
    """Of what a solver returned: the last row of its history (but for what the solution says itself) and sizes."""
    is_train = isinstance(solution, TensorSolution)
    own = ("residual", "rank") if is_train else ("error",)
    last = {name: column[-1].item() for name, column in solution.history.columns.items() if name not in own and len(column)}
    train = {"ranks": tuple(solution.ranks), "order": tuple(solution.order)} if is_train else {}
    problem = solution.problem
    return RunSummary(
        iterations=len(solution.history),
        last=last,
        grid=problem.grid,
        num_actions=problem.num_actions,
        name=problem.name,
        law=problem.law,
        axis_names=tuple(problem.axis_names),
        actions=_kept_actions(problem),
        comparison=comparison,
        **train,
    )


def _kept_actions(problem: Problem) -> np.ndarray | None:
    """All of them, unless they are many."""
    actions = problem.actions
    is_long = isinstance(actions, ProductActions) or actions.size > MAX_KEPT
    return None if is_long else np.asarray(actions)


def summary_of(folder: Path, found: Mapping[str, Any]) -> RunSummary:
    """The record of what was read; DamagedError unless it is one."""
    try:
        grid = Grid(**found["grid"])
        named, actions, comparison = found.get("axis_names"), found.get("actions"), found.get("comparison")
        kept = {name: tuple(found[name]) for name in OF_TRAIN if found.get(name) is not None}
        others = (*OF_PROBLEM, *OF_TRAIN, "iterations", "comparison")
        summary = RunSummary(
            iterations=found["iterations"],
            last={name: value for name, value in found.items() if name not in others},
            grid=grid,
            num_actions=found["num_actions"],
            name=found.get("name"),
            law=found.get("law"),
            axis_names=None if named is None else tuple(named),
            actions=None if actions is None else np.asarray(actions, np.float64),
            comparison=None if comparison is None else Comparison(**comparison),
            **kept,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder, RESULT, f"it is not the summary of a run ({error!r:.80})") from error
    if not (is_number(summary.iterations) and is_number(summary.num_actions)):
        raise damaged(folder, RESULT, "its numbers of iterations and actions are no numbers")
    return summary
