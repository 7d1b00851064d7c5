"""The page of one or several runs: their maps, their convergence, and what is known of each.

Runs stand side by side if they are over the same box with the same axes; their grids may differ. Where the exact answer of a
run's problem is there, as a run of `hamq exact` among them or given apart, the run's errors are maps too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.problem.grid import Grid
from hamq.problem.problem import Problem, listed_actions
from hamq.report.animation import Animation
from hamq.report.cards import Table
from hamq.report.convergence import Member, convergence_charts
from hamq.report.facts import ORDER, Facts, dimensions, law_of, title_of
from hamq.report.layers import AnyLayer
from hamq.report.page import write_page
from hamq.report.table_page import certificate_card, certificate_layers, table_facts, table_layers
from hamq.report.tensor_page import tensor_facts, tensor_layers
from hamq.runs.reading import Run
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqError


@dataclass(frozen=True, eq=False)
class Shown:
    """A finished run and its name on the page.

    `problem`: made again, for what an older run does not keep (names of the axes, actions). `solution`: of a tensor train,
    for its policy; where there is none, `why_not` says why.
    """

    name: str
    run: Run
    problem: Problem | None = None
    solution: TensorSolution | None = None
    why_not: str = ""

    @property
    def grid(self) -> Grid:
        return self.run.outcome.grid

    @property
    def axis_names(self) -> list[str] | None:
        """None of an older run, which does not keep them, where the problem cannot be made again."""
        kept = self.run.outcome.axis_names or (None if self.problem is None else self.problem.axis_names)
        return None if kept is None else list(kept)

    def actions(self) -> np.ndarray | None:
        """[A] or [A, k]."""
        if (kept := self.run.outcome.actions) is not None:
            return np.asarray(kept, np.float64)
        return None if self.problem is None else np.asarray(listed_actions(self.problem), np.float64)


class Exact(NamedTuple):
    """Q* of the problem with this hash."""

    problem: str
    q: Float[np.ndarray, "S A"]


class Written(NamedTuple):
    """The page, the names of its layers, and what is said about those that are not there."""

    path: Path
    layers: tuple[str, ...]
    notes: tuple[str, ...]


def write_run_page(
    path: Path, shown: Sequence[Shown], exact: Exact | None = None, animations: Sequence[Animation] = ()
) -> Written:
    """One page of all runs; HamqError with one sentence if they cannot be on one."""
    require_same_axes(shown)
    answers = [exact] if exact else []
    answers += [Exact(one.run.manifest.problem, one.run.q) for one in shown if _is_exact(one) and one.run.q is not None]
    layers, notes, facts = [], [], []
    for number, one in enumerate(shown):
        exact_q = _answer(one.run, answers)
        found, said = _layers(one, number, exact_q)
        layers += found
        notes += said if len(shown) == 1 else [f"{one.name}: {note}" for note in said]
        of_one = table_facts(one.run, exact_q) if one.run.cores is None else tensor_facts(one.run)
        facts.append([*of_one, *(("Policy", note) for note in said)])
    members = [Member(one.name, one.run.config, one.run.manifest.problem, one.run.history) for one in shown]
    is_alone = len(shown) == 1
    write_page(
        path,
        ", ".join(dict.fromkeys(title_of(one.run) for one in shown)),
        layers,
        shown[0].grid,
        facts[0] if is_alone else (),
        convergence_charts(members),
        () if is_alone else [_runs_table(shown, facts)],
        next((one.axis_names for one in shown if one.axis_names), None),
        animations,
        runs=[one.name for one in shown],
        cards=[certificate_card(shown[0].run.certificate)] if is_alone and shown[0].run.certificate else (),
        is_smooth=all(law_of(one.run) == "linear" for one in shown),
    )
    return Written(path, tuple(dict.fromkeys(layer.name for layer in layers)), tuple(notes))


def require_same_axes(shown: Sequence[Shown]) -> None:
    """Refuses runs that no pair of axes can show together."""
    first = next((one for one in shown if one.axis_names), shown[0])
    grid = first.grid
    for one in shown:
        other = one.grid
        if other.dimension != grid.dimension:
            said = f"{one.name} has {dimensions(other.dimension)} and {first.name} has {dimensions(grid.dimension)}"
            raise HamqError(f"{said}; show them on two pages.")
        if first.axis_names and one.axis_names and one.axis_names != first.axis_names:
            axes, others = ", ".join(first.axis_names), ", ".join(one.axis_names)
            raise HamqError(f"{one.name} has the axes {others} and {first.name} has {axes}; show them on two pages.")
        for i, name in enumerate(first.axis_names or [f"s{i + 1}" for i in range(grid.dimension)]):
            ends, other_ends = ((g.lower[i], g.upper[i]) for g in (grid, other))
            is_near = all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(ends, other_ends, strict=True))
            if not is_near or other.periodic[i] != grid.periodic[i]:
                said = f"{name} is {_range(other, i)} in {one.name} and {_range(grid, i)} in {first.name}"
                raise HamqError(f"{said}; show them on two pages.")


def _range(grid: Grid, i: int) -> str:
    return f"[{grid.lower[i]:g}, {grid.upper[i]:g}]{', a circle,' if grid.periodic[i] else ''}"


def _is_exact(one: Shown) -> bool:
    return one.run.setup.command == "exact"


def _answer(run: Run, answers: Sequence[Exact]) -> Float[np.ndarray, "S A"] | None:
    """Q* of the run's problem, unless it is its own."""
    return next((one.q for one in answers if one.problem == run.manifest.problem and one.q is not run.q), None)


def _layers(one: Shown, number: int, exact: Float[np.ndarray, "S A"] | None) -> tuple[list[AnyLayer], list[str]]:
    """What is shown of a run, and what is said of it."""
    run = one.run
    if run.cores is not None:
        return tensor_layers(run, one.solution, one.why_not, exact, number)
    assert run.q is not None
    actions = one.actions()
    notes = [] if actions is not None else [f"actions are shown by their number: {one.why_not}"]
    bounds = certificate_layers(run.certificate, run.q, one.grid.points, number)
    return [*table_layers(run.q, one.grid.points, actions, exact, run.health, number), *bounds], notes


def _certified(run: Run) -> Facts:
    return [] if run.certificate is None else [("Certificate", run.certificate.sentence)]


def _runs_table(shown: Sequence[Shown], facts: Sequence[Facts]) -> Table:
    """A column for each run, a row for each fact that any of them has; of a certificate its sentence."""
    facts = [[*of_one, *_certified(one.run)] for one, of_one in zip(shown, facts, strict=True)]
    labels = sorted({label for of_one in facts for label, _ in of_one}, key=ORDER.index)
    rows = [[label, *("; ".join(text for name, text in of_one if name == label) for of_one in facts)] for label in labels]
    return Table("The runs", ["", *(one.name for one in shown)], rows, fills_width=True)
