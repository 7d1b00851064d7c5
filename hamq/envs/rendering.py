"""Frames of a Scene as arrays of pixels: lines, discs and boxes with soft edges, in NumPy alone.

The share of a pixel that a shape covers is taken from the distance d, in pixels, of the pixel's centre to its edge:
½ − d between 0 and 1. Shapes are painted in their order, each within the pixels that it can reach.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from hamq.problem.problem import Problem
from hamq.problem.scene import Box, Disc, Line, Scene, Shape
from hamq.problem.zoo.scenes import plane_scene

SIZE = (400, 400)
"""Width and height of a frame."""
BACKGROUND = (250, 250, 248)
COLOURS = {"body": (45, 55, 72), "accent": (221, 107, 32), "ground": (188, 194, 204), "force": (43, 108, 176)}


def scene_of(problem: Problem) -> Scene:
    """The problem's scene, or a dot in the plane of its first two axes and bars for the others."""
    return problem.scene if problem.scene is not None else plane_scene(problem.grid.lower, problem.grid.upper)


def draw(scene: Scene, state: Any, action: Any, size: tuple[int, int] = SIZE) -> UInt8[np.ndarray, "height width 3"]:
    """What the scene shows of one state and one action; the whole view, as large as the frame allows."""
    width, height = size
    left, right, bottom, top = scene.view
    scale = min(width / (right - left), height / (top - bottom))
    across = width / 2 - scale * (left + right) / 2
    down = height / 2 + scale * (bottom + top) / 2
    frame = np.empty((height, width, 3))
    frame[:] = BACKGROUND
    for shape in scene.shapes(np.asarray(state), np.asarray(action)):
        _paint(frame, shape, scale, across, down)
    return np.rint(frame).astype(np.uint8)


def _paint(frame: Float[np.ndarray, "height width 3"], shape: Shape, scale: float, across: float, down: float) -> None:
    """One shape, into the frame."""
    left, right, low, high = _ends(shape)
    height, width = frame.shape[:2]
    columns = slice(*_pixels(across + scale * left, across + scale * right, width))
    rows = slice(*_pixels(down - scale * high, down - scale * low, height))
    x = (np.arange(columns.start, columns.stop) + 0.5 - across)[None, :] / scale
    y = (down - np.arange(rows.start, rows.stop) - 0.5)[:, None] / scale
    cover = np.clip(0.5 - scale * _distance(shape, x, y), 0, 1)[:, :, None]
    frame[rows, columns] += cover * (np.asarray(COLOURS[shape.tone]) - frame[rows, columns])


def _pixels(first: float, last: float, count: int) -> tuple[int, int]:
    """The pixels between two places, one more on either side, within the frame."""
    ends = (math.floor(first) - 1, math.ceil(last) + 1)
    return min(max(ends[0], 0), count), min(max(ends[1], 0), count)


def _ends(shape: Shape) -> tuple[float, float, float, float]:
    """(left, right, low, high) of what the shape covers."""
    if isinstance(shape, Line):
        (x0, y0), (x1, y1), half = shape.start, shape.end, shape.width / 2
        return min(x0, x1) - half, max(x0, x1) + half, min(y0, y1) - half, max(y0, y1) + half
    half_width, half_height = (
        (shape.radius, shape.radius) if isinstance(shape, Disc) else (shape.width / 2, shape.height / 2)
    )
    x, y = shape.centre
    return x - half_width, x + half_width, y - half_height, y + half_height


def _distance(shape: Shape, x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "rows columns"]:
    """From the points to the shape's edge; negative inside."""
    if isinstance(shape, Line):
        (x0, y0), (x1, y1) = shape.start, shape.end
        along, up = x1 - x0, y1 - y0
        share = np.clip(((x - x0) * along + (y - y0) * up) / max(along**2 + up**2, 1e-30), 0, 1)
        return np.hypot(x - x0 - share * along, y - y0 - share * up) - shape.width / 2
    if isinstance(shape, Disc):
        return np.hypot(x - shape.centre[0], y - shape.centre[1]) - shape.radius
    assert isinstance(shape, Box)
    beside, above = abs(x - shape.centre[0]) - shape.width / 2, abs(y - shape.centre[1]) - shape.height / 2
    return np.hypot(np.maximum(beside, 0), np.maximum(above, 0)) + np.minimum(np.maximum(beside, above), 0)
