"""The policy and the value of a solution on a slice: two axes of the grid, the others held at one node."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hamq.control.action_range import action_table
from hamq.problem.grid import Grid
from hamq.solution import Solution
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqError


class Slice(NamedTuple):
    """What a solution says at the nodes of a slice, the first of the axes first."""

    actions: Float[np.ndarray, "x y k"]
    numbers: Int[np.ndarray, "x y"] | None
    """Of the actions among those of the problem; None where they have no numbers."""
    value: Float[np.ndarray, "x y"]


def held_nodes(grid: Grid, at: Sequence[float | int] | None) -> Int[np.ndarray, " d"]:
    """The node nearest to a state, by its number on every axis."""
    lower, upper, points = np.asarray(grid.lower), np.asarray(grid.upper), np.asarray(grid.points)
    periodic = np.asarray(grid.periodic)
    state = (lower + upper) / 2 if at is None else np.asarray(at, float)
    if state.shape != lower.shape:
        raise HamqError(f"plot: at must be a state of {len(lower)} coordinates, got {at!r}.")
    is_out = ~np.isfinite(state) | (~periodic & ((state < lower) | (state > upper)))
    if is_out.any():
        i = int(np.flatnonzero(is_out)[0])
        raise HamqError(
            f"plot: at must lie in the box, and on axis {i} it is {state[i]:g}; choose one from {lower[i]:g} to "
            f"{upper[i]:g}."
        )
    nodes = np.rint((state - lower) / np.asarray(grid.spacing)).astype(int)
    return np.where(periodic, nodes % points, np.clip(nodes, 0, points - 1))


def slice_of(solution: Solution | TensorSolution, axes: tuple[int, int], held: Int[np.ndarray, " d"]) -> Slice:
    """Of a table by looking it up, of a tensor train by one backup at every node of the slice."""
    grid = solution.problem.grid
    if isinstance(solution, Solution):
        solution.policy  # noqa: B018 (refuses NaN)
        part = table_slice(solution, axes, held)
        numbers = part.argmax(axis=-1)
        actions = action_table(solution.problem)
        return Slice(actions[numbers], numbers, part.max(axis=-1))
    shape = grid.points[axes[0]], grid.points[axes[1]]
    states = np.tile([grid.axis_nodes(i)[node] for i, node in enumerate(held)], (*shape, 1))
    states[:, :, axes[0]] = grid.axis_nodes(axes[0])[:, None]
    states[:, :, axes[1]] = grid.axis_nodes(axes[1])[None, :]
    states = states.reshape(-1, grid.dimension)
    numbers = solution.policy(states).reshape(shape) if solution.problem.num_actions < 2**63 else None
    actions = solution.actions(states).reshape(*shape, -1)
    return Slice(actions, numbers, np.asarray(solution.value(states), np.float64).reshape(shape))


def table_slice(solution: Solution, axes: tuple[int, int], held: Int[np.ndarray, " d"]) -> Float[np.ndarray, "x y A"]:
    """q on the slice, the first of the axes first."""
    points = solution.problem.grid.points
    index = tuple(slice(None) if axis in axes else int(held[axis]) for axis in range(len(points)))
    part = solution.q.reshape(*points, -1)[index]
    return part if axes[0] < axes[1] else np.swapaxes(part, 0, 1)
