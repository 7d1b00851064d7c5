"""Policies as maps: which action in which state, on a slice of two axes of the grid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.exact.solution import Solution
from hamq.problem.problem import is_same

try:
    import matplotlib.figure
except ImportError as error:
    raise ImportError("hamq.plot needs matplotlib: pip install 'hamq[plot]'.") from error

COLOURS = "RdYlBu_r"


def plot(
    *solutions: Solution,
    titles: Sequence[str] | None = None,
    axes: tuple[int, int] = (0, 1),
    at: Sequence[float | int] | None = None,
) -> matplotlib.figure.Figure:
    """One map per solution: the greedy action in every state of a slice, and beside each map but the first what it gives up.

    The first solution is the reference: what an action gives up is max_a q − q(chosen action) in the reference's table, so
    the exact solution belongs there. `axes` are the two axes shown; the others are held at the nodes nearest to `at` (a full
    state; by default the middle of the box). Actions of several coordinates are shown by their number.
    """
    problem = _checked(solutions, titles, axes)
    rows = [_slice_of(solution, axes, at) for solution in solutions]
    titles = titles or [solution.problem.name for solution in solutions]
    num = 2 * len(solutions) - 1
    figure = matplotlib.figure.Figure(figsize=(3.4 * num + 0.6, 3.4), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, num, sharex=True, sharey=True))
    shown = problem.actions if problem.actions.ndim == 1 else np.arange(problem.num_actions)
    reference = rows[0]
    losses = [reference.max(axis=-1) - _at(reference, q.argmax(axis=-1)) for q in rows[1:]]
    highest = max([float(loss.max()) for loss in losses], default=0.0) or 1.0
    extent = _extent(problem, axes)
    for i, (q, title) in enumerate(zip(rows, titles, strict=True)):
        panel = panels[max(2 * i - 1, 0)]
        limits = {"vmin": shown.min(), "vmax": shown.max(), "cmap": COLOURS}
        image = panel.imshow(shown[q.argmax(axis=-1)].T, origin="lower", aspect="auto", extent=extent, **limits)
        panel.set_title(title)
        if i > 0:
            lost = panels[2 * i]
            share = lost.imshow(
                losses[i - 1].T, origin="lower", aspect="auto", extent=extent, vmin=0, vmax=highest, cmap="Greys"
            )
            lost.set_title(f"given up, mean {losses[i - 1].mean():.2g}")
    figure.colorbar(image, ax=panels[0], label="action" if problem.actions.ndim == 1 else "action number", location="left")
    if losses:
        figure.colorbar(share, ax=panels[-1], label="value given up")
    for panel in panels:
        panel.set_xlabel(f"coordinate {axes[0] + 1}")
    panels[0].set_ylabel(f"coordinate {axes[1] + 1}")
    return figure


def _checked(solutions: Sequence[Solution], titles: Sequence[str] | None, axes: tuple[int, int]) -> Any:
    if not solutions:
        raise ValueError("plot: at least one solution is needed, got none.")
    problem = solutions[0].problem
    if not all(isinstance(other, Solution) for other in solutions):
        raise ValueError(f"plot: only solutions can be drawn, got {[type(other).__name__ for other in solutions]}.")
    if not all(is_same(problem, other.problem) for other in solutions):
        raise ValueError(f"plot: the solutions must be of one problem, got {[other.problem for other in solutions]}.")
    if titles is not None and len(titles) != len(solutions):
        raise ValueError(f"plot: titles must have one entry per solution, got {len(titles)} for {len(solutions)}.")
    d = problem.grid.dimension
    if d < 2 or len(set(axes)) != 2 or not all(0 <= axis < d for axis in axes):
        raise ValueError(f"plot: axes must be two different ones of 0 to {d - 1}, got {axes}; a map needs two dimensions.")
    return problem


def _slice_of(solution: Solution, axes: tuple[int, int], at: Sequence[float | int] | None) -> Float[np.ndarray, "x y A"]:
    """q on the slice, the first of the axes first."""
    grid = solution.problem.grid
    lower, upper, points = np.asarray(grid.lower), np.asarray(grid.upper), np.asarray(grid.points)
    centre = (lower + upper) / 2 if at is None else np.asarray(at, float)
    if centre.shape != lower.shape:
        raise ValueError(f"plot: at must be a state of {len(lower)} coordinates, got {at!r}.")
    steps = points - np.where(np.asarray(grid.periodic), 0, 1)
    nodes = np.rint((centre - lower) / (upper - lower) * steps).astype(int)
    nodes = np.where(np.asarray(grid.periodic), nodes % points, np.clip(nodes, 0, points - 1))
    table = solution.q.reshape(*points, -1)
    index = tuple(slice(None) if axis in axes else int(nodes[axis]) for axis in range(len(points)))
    part = table[index]
    return part if axes[0] < axes[1] else np.swapaxes(part, 0, 1)


def _at(q: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return np.take_along_axis(q, actions[..., None], axis=-1)[..., 0]


def _extent(problem, axes: tuple[int, int]) -> tuple[float, float, float, float]:
    """Cells are centred at their nodes, so the picture reaches half a cell beyond the box."""
    grid, ends = problem.grid, []
    for axis in axes:
        first, step = grid.lower[axis], grid.spacing[axis]
        ends += [first - step / 2, first + (grid.points[axis] - 0.5) * step]
    return tuple(ends)  # type: ignore[return-value]
