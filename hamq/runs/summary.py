"""What a run found, beside its arrays: the record that result.json holds.

result, converged, error or residual    from the solution
iterations, and the last row of the history
name, law, grid, axis_names, num_actions, actions    of the problem, so that a page need not make it again
ranks, order    of a tensor train
comparison      with the exact answer, where that was solved as well
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.certificates.comparison import Comparison
from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.runs.encoding import is_number
from hamq.runs.errors import damaged
from hamq.runs.storage import RESULT
from hamq.solution import AbstractSolution
from hamq.tensor.solution import TensorSolution

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
