"""What the maps must show, computed from the table of a run and not from the page."""

from typing import Any

import numpy as np

from hamq.problem.grid import Grid
from hamq.runs.reading import Run

VALUES = """440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219
fde725"""
DIVERGING = "123a78 2463ad 5e97cf a3c6e6 d8e6f2 f7f6f4 f6ddd0 eeb297 da7458 b93632 7a1226"

HEALTH = {"Acceptance": "acceptance", "Stuck chains": "stuck", "Effective draws": "effective"}
"""Layers of the sampler's health, and their names in a run."""


def layer(run: Run, name: str, exact: Run | None = None) -> np.ndarray:
    """One number per node, [points of axis 1, points of axis 2, …]."""
    assert run.q is not None
    if name == "Value":
        values = run.q.max(axis=1)
    elif name == "Greedy action":
        values = np.asarray(run.summary["actions"])[run.q.argmax(axis=1)]
    elif name == "Action gap":
        ordered = np.sort(run.q, axis=1)
        values = ordered[:, -1] - ordered[:, -2]
    elif name in HEALTH:
        assert run.health is not None
        values = run.health[HEALTH[name]]
    elif name == "Error bound":
        assert run.certificate is not None and run.certificate.lower is not None and run.certificate.upper is not None
        values = np.max([run.certificate.upper - run.q, run.q - run.certificate.lower], axis=(0, 2))
    elif name == "Loss bound":
        assert run.certificate is not None and run.certificate.policy_loss is not None
        values = run.certificate.policy_loss
    else:
        assert name == "Error of the value" and exact is not None and exact.q is not None
        values = run.q.max(axis=1) - exact.q.max(axis=1)
    return values.reshape(run.summary["grid"]["points"])


def weights(grid: Grid, axis: int, x: float, smooth: bool) -> np.ndarray:
    """Of the nodes of one axis at x: hat functions, or all on the nearest."""
    distance = np.abs(x - grid.axis_nodes(axis))
    if grid.periodic[axis]:
        distance = np.minimum(distance % grid.widths[axis], -distance % grid.widths[axis])
    if smooth:
        return np.maximum(0.0, 1 - distance / grid.spacing[axis])
    return np.eye(len(distance))[np.argmin(distance)]


def slice_of(
    table: np.ndarray, grid: Grid, axes: tuple[int, int], point: Any, xs: Any, ys: Any, smooth: bool = False
) -> np.ndarray:
    """values[j, i] at xs[i] across and ys[j] up, the other axes at `point`."""
    x, y = axes
    for axis in reversed(range(grid.dimension)):
        if axis not in axes:
            table = np.tensordot(table, weights(grid, axis, point[axis], smooth), (axis, 0))
    if x < y:
        table = table.T
    across = np.array([weights(grid, x, at, smooth) for at in xs])
    up = np.array([weights(grid, y, at, smooth) for at in ys])
    return up @ table @ across.T


def colours(values: Any, low: float, high: float, stops: str = VALUES) -> np.ndarray:
    """[…, 3] between 0 and 255: linear between the stops."""
    table = np.array([[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in stops.split()])
    shares = np.clip((np.asarray(values) - low) / (high - low), 0, 1) * (len(table) - 1)
    return np.stack([np.interp(shares, np.arange(len(table)), channel) for channel in table.T], axis=-1)
