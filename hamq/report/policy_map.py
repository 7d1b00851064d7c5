"""Policies and values as maps, on a slice of two axes of the grid; pictures for papers."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from hamq.control.action_range import action_range, action_table
from hamq.control.policy_slice import Slice, held_nodes, slice_of, table_slice
from hamq.errors import MissingExtraError
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem, is_same
from hamq.solution import Solution
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqError

try:
    import matplotlib
    import matplotlib.figure
    from matplotlib.axes import Axes
except ImportError as error:
    raise MissingExtraError("hamq.plot needs matplotlib: pip install 'hamq[plot]'.") from error

ACTIONS, VALUES, LOSSES, ERRORS = "RdYlBu_r", "viridis", "Greys", "PuOr_r"
"""Colour maps."""
MAX_ACTUATORS = 3
"""Coordinates of the action that get a map; the others are not shown."""
MAX_HELD = 6
"""Held coordinates that are written out."""
PANEL = 3.2, 2.7
"""Inches of one map."""
FORMATS = (".png", ".pdf", ".svg")
MAKER = "hamq plot"
"""By which a picture of ours is known."""
METADATA = {
    ".png": {"Software": MAKER},
    ".pdf": {"Creator": MAKER, "CreationDate": None},
    ".svg": {"Creator": MAKER, "Date": None},
}
"""Without dates: the same runs give the same bytes."""


Limits = tuple[float, float]


def plot(
    *solutions: Solution | TensorSolution,
    titles: Sequence[str] | None = None,
    axes: tuple[int, int] = (0, 1),
    at: Sequence[float | int] | None = None,
) -> matplotlib.figure.Figure:
    """Solutions side by side: above, the greedy action in every state of a slice; below, the value there.

    The first solution with a certificate, that of `solve_exact`, is the reference: every other one then gets a column with
    what its actions give up, max_a Q* − Q*(chosen action), above, and the error of its value, V − V*, below. `axes` are
    the two axes shown; the others are held at the nodes nearest to `at` (a full state; by default the middle of the box).
    Each coordinate of the action has a row, up to three. With one dimension there are lines instead of maps, one for each
    solution.
    """
    problem = _checked(solutions, titles, axes)
    if problem.grid.dimension == 1:
        return _lines(problem, solutions, titles)
    held = held_nodes(problem.grid, at)
    slices = [slice_of(solution, axes, held) for solution in solutions]
    certified = [i for i, one in enumerate(solutions) if isinstance(one, Solution) and one.error is not None]
    reference = certified[0] if certified and len(solutions) > 1 else None
    columns = [column for i in range(len(solutions)) for column in ((i, False), (i, True))[: 1 + _has_gap(i, reference)]]
    num_rows = 1 + min(slices[0].actions.shape[2], MAX_ACTUATORS)
    size = PANEL[0] * len(columns) + 1.2, PANEL[1] * num_rows + 0.5
    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    panels = figure.subplots(num_rows, len(columns), sharex=True, sharey=True, squeeze=False)
    names = list(titles or [solution.problem.name for solution in solutions])
    extent = _extent(problem.grid, axes)
    shown = {j: i for j, (i, is_gap) in enumerate(columns) if not is_gap}
    _draw_solutions(figure, panels, slices, shown, names, extent, list(zip(*action_range(problem), strict=True)))
    if reference is not None:
        exact = solutions[reference]
        assert isinstance(exact, Solution)
        gaps = {j: i for j, (i, is_gap) in enumerate(columns) if is_gap}
        _draw_gaps(figure, panels, slices, gaps, table_slice(exact, axes, held), extent)
    for panel in panels[-1]:
        panel.set_xlabel(plain(problem.axis_names[axes[0]]))
    for panel in panels[:, 0]:
        panel.set_ylabel(plain(problem.axis_names[axes[1]]))
    if problem.grid.dimension > 2:
        figure.suptitle(_held(problem, axes, held), fontsize="medium")
    return figure


def _lines(problem: Problem, solutions: Sequence[Any], titles: Sequence[str] | None) -> matplotlib.figure.Figure:
    """Greedy actions and values over the one axis; beside them, what is given up and the errors, where one is exact."""
    names = list(titles or [solution.problem.name for solution in solutions])
    actions = action_table(problem)[:, :MAX_ACTUATORS]
    reference = next((one for one in solutions if one.error is not None), None) if len(solutions) > 1 else None
    num_rows, num_columns = 1 + actions.shape[1], 1 if reference is None else 2
    size = 1.5 * PANEL[0] * num_columns + 0.6, PANEL[1] * num_rows + 0.5
    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    panels = figure.subplots(num_rows, num_columns, sharex=True, squeeze=False)
    nodes = problem.grid.axis_nodes(0)
    for name, one in zip(names, solutions, strict=True):
        for row, chosen in enumerate(actions[one.policy].T):
            panels[row, 0].step(nodes, chosen, where="mid", label=plain(name))
        panels[-1, 0].plot(nodes, one.value, label=plain(name))
        if reference is not None and one is not reference:
            lost = reference.value - _at(reference.q, one.policy)
            panels[0, 1].step(nodes, lost, where="mid", label=plain(name))
            panels[-1, 1].plot(nodes, one.value - reference.value, label=plain(name))
    labels = ["greedy action", *(f"coordinate {i + 1}" for i in range(1, num_rows - 1)), "value"]
    for panel, label in zip(panels[:, 0], labels, strict=True):
        panel.set_ylabel(label)
    if reference is not None:
        panels[0, 1].set_ylabel("value given up")
        panels[-1, 1].set_ylabel("value − exact value")
        for panel in panels[1:-1, 1]:
            panel.set_axis_off()
    for panel in panels[-1]:
        panel.set_xlabel(plain(problem.axis_names[0]))
    panels[0, 0].legend()
    return figure


def _has_gap(i: int, reference: int | None) -> bool:
    return reference is not None and i != reference


def _draw_solutions(
    figure, panels, slices: Sequence[Slice], shown: dict[int, int], names: Sequence[str], extent, ranges: Sequence[Limits]
) -> None:
    """Actions, on the scale of all there are, and values, on one scale for all solutions."""
    count = slices[0].actions.shape[2]
    for row in range(len(panels)):
        is_value = row == len(panels) - 1
        maps = [part.value if is_value else part.actions[:, :, row] for part in slices]
        limits = (np.min(maps).item(), np.max(maps).item()) if is_value else ranges[row]
        image = None
        for j, i in shown.items():
            image = _draw(panels[row, j], maps[i], extent, limits, VALUES if is_value else ACTIONS)
            if row == 0:
                panels[row, j].set_title(plain(names[i]))
        action = "greedy action" if count == 1 else f"greedy action, coordinate {row + 1}"
        figure.colorbar(image, ax=panels[row, 0], label="value" if is_value else action, location="left")


def _draw_gaps(
    figure, panels, slices: Sequence[Slice], gaps: dict[int, int], exact: Float[np.ndarray, "x y A"], extent
) -> None:
    """What the actions give up, and the error of the value, in the columns of these solutions."""
    best = exact.max(axis=-1)
    losses = {j: best - _at(exact, slices[i].numbers) for j, i in gaps.items()}
    errors = {j: slices[i].value - best for j, i in gaps.items()}
    most = max(float(loss.max()) for loss in losses.values()) or 1.0
    widest = max(float(np.abs(error).max()) for error in errors.values()) or 1.0
    lost = wrong = None
    for j in gaps:
        lost = _draw(panels[0, j], losses[j], extent, (0.0, most), LOSSES)
        wrong = _draw(panels[-1, j], errors[j], extent, (-widest, widest), ERRORS)
        panels[0, j].set_title(f"given up, mean {losses[j].mean():.2g}")
        panels[-1, j].set_title(f"error, rms {math.sqrt(np.mean(errors[j] ** 2)):.2g}")
        for panel in panels[1:-1, j]:
            panel.set_axis_off()
    figure.colorbar(lost, ax=panels[0, -1], label="value given up")
    figure.colorbar(wrong, ax=panels[-1, -1], label="value − exact value")


def _draw(panel: Axes, values: np.ndarray, extent, limits: Limits, colours: str) -> Any:
    low, high = limits
    return panel.imshow(values.T, origin="lower", aspect="auto", extent=extent, vmin=low, vmax=high, cmap=colours)


def _checked(solutions: Sequence[Any], titles: Sequence[str] | None, axes: tuple[int, int]) -> Problem:
    if not solutions:
        raise HamqError("plot: at least one solution is needed, got none.")
    if not all(isinstance(other, (Solution, TensorSolution)) for other in solutions):
        raise HamqError(f"plot: only solutions can be drawn, got {[type(other).__name__ for other in solutions]}.")
    problem = solutions[0].problem
    if not all(is_same(problem, other.problem) for other in solutions):
        raise HamqError(f"plot: the solutions must be of one problem, got {[other.problem for other in solutions]}.")
    if titles is not None and len(titles) != len(solutions):
        raise HamqError(f"plot: titles must have one entry per solution, got {len(titles)} for {len(solutions)}.")
    d = problem.grid.dimension
    if d == 1 and tuple(axes) in ((0,), (0, 1)):  # the default is what maps have
        return problem
    if d < 2 or len(axes) != 2 or len(set(axes)) != 2 or not all(0 <= axis < d for axis in axes):
        raise HamqError(f"plot: axes must be two different ones of 0 to {d - 1}, got {axes}.")
    return problem


def _at(q: np.ndarray, numbers: np.ndarray | None) -> np.ndarray:
    assert numbers is not None  # there is a table of all actions
    return np.take_along_axis(q, numbers[..., None], axis=-1)[..., 0]


def _extent(grid: Grid, axes: tuple[int, int]) -> tuple[float, float, float, float]:
    """Cells are centred at their nodes, so the picture reaches half a cell beyond the box."""
    ends = []
    for axis in axes:
        first, step = grid.lower[axis], grid.spacing[axis]
        ends += [first - step / 2, first + (grid.points[axis] - 0.5) * step]
    return tuple(ends)  # type: ignore[return-value]


def _held(problem: Problem, axes: tuple[int, int], held: Int[np.ndarray, " d"]) -> str:
    """Where the slice is."""
    grid = problem.grid
    others = [axis for axis in range(grid.dimension) if axis not in axes]
    values = [f"{grid.axis_nodes(axis)[held[axis]]:.3g}".replace("-", "−") for axis in others]
    texts = [f"{plain(problem.axis_names[axis])} = {value}" for axis, value in zip(others, values, strict=True)]
    more = f", and {len(texts) - MAX_HELD} others" if len(texts) > MAX_HELD else ""
    return f"{', '.join(texts[:MAX_HELD])}{more}"


def plain(text: str) -> str:
    """The text as it is: between dollars matplotlib would read mathematics."""
    return text.replace("$", r"\$")


def write_plot(path: Path, figure: matplotlib.figure.Figure) -> None:
    """The picture as a file of FORMATS that says who made it."""
    with matplotlib.rc_context({"svg.hashsalt": MAKER}):  # else its names are random
        figure.savefig(path, dpi=200, metadata=METADATA[path.suffix.lower()])


def is_plot(path: Path) -> bool:
    """Whether the file is a picture that `write_plot` wrote, or began to write."""
    content = path.read_bytes()
    return MAKER.encode() in content or not content
