"""Pictures of states, for animations and rendered frames: one maker per kind of machine, from which axes and lengths it has.

A maker returns the same Scene for the same arguments, so that two problems that are built alike are alike for jit. Axes
are numbers of coordinates of the state. `strongest` is the largest action: its arrow has the full length. An angle of 0 is
upright and grows clockwise, to the right, unless a maker says otherwise.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hamq.problem.scene import Box, Disc, Line, Point, Scene, Shape, Tone

FULL_TURN = 1.7
"""Radians of the arc that shows the strongest torque."""
NUM_ARC = 14


@functools.cache
def pendulum_scene(angle: int = 0, length: float = 1.0, strongest: float = 1.0, is_clockwise: bool = True) -> Scene:
    """One pendulum on a pivot; the torque is an arc about it."""
    side = 1 if is_clockwise else -1

    def shapes(state, action) -> list[Shape]:
        lean = side * float(state[angle])
        bob = _tip((0.0, 0.0), lean, length)
        return [
            Disc((0.0, 0.0), 0.16 * length, "ground"),
            Line((0.0, 0.0), bob, 0.09 * length),
            Disc((0.0, 0.0), 0.07 * length),
            Disc(bob, 0.17 * length, "accent"),
            *_torque((0.0, 0.0), 0.42 * length, lean, side * _numbers(action)[0] / strongest),
        ]

    reach = 1.35 * length
    return Scene((-reach, reach, -reach, reach), shapes)


@functools.cache
def cart_scene(
    position: int,
    angles: tuple[int, ...],
    lengths: tuple[float, ...],
    strongest: float,
    reach: float,
    is_relative: bool = False,
) -> Scene:
    """A cart on a rail from −reach to reach with one pole, or several on top of each other; the force is an arrow.

    Angles are from upright; with `is_relative` those after the first are from the pole before. A rail that is long beside
    the poles is drawn shorter, and positions with it.
    """
    tall = sum(lengths)
    rail = min(reach, 1.2 * tall)
    wide, high, wheel, pole = 0.46 * tall, 0.2 * tall, 0.07 * tall, 0.075 * tall
    middle, pivot_height = wheel + high / 2, wheel + 0.8 * high

    def shapes(state, action) -> list[Shape]:
        place, share = rail / reach * float(state[position]), _numbers(action)[0] / strongest
        wheels = [(place + side * wide / 3.2, wheel) for side in (-1, 1)]
        drawn: list[Shape] = [
            Line((-rail - wide / 2, 0.0), (rail + wide / 2, 0.0), 0.03 * tall, "ground"),
            *(Box((side * (rail + wide / 2), 0.06 * tall), 0.05 * tall, 0.15 * tall, "ground") for side in (-1, 1)),
            Line((0.0, 0.0), (0.0, -0.08 * tall), 0.02 * tall, "ground"),
            Box((place, middle), wide, high),
            *(Disc(centre, wheel) for centre in wheels),
            *(Disc(centre, 0.45 * wheel, "ground") for centre in wheels),
        ]
        pivot, total = (place, pivot_height), 0.0
        for axis, length in zip(angles, lengths, strict=True):
            total = total + float(state[axis]) if is_relative else float(state[axis])
            tip = _tip(pivot, total, length)
            drawn += [Line(pivot, tip, pole, "accent"), Disc(pivot, 0.6 * pole, "ground")]
            pivot = tip
        start = place + math.copysign(wide / 2, share)
        return [*drawn, *_arrow((start, middle), (start + 0.5 * tall * share, middle), 0.055 * tall)]

    side = rail + 0.9 * tall
    return Scene((-side, side, -tall, 1.3 * tall), shapes)


@functools.cache
def acrobot_scene(
    angles: tuple[int, int] = (0, 2),
    lengths: tuple[float, float] = (1.0, 1.0),
    strongest: float = 1.0,
    goal: float | None = None,
) -> Scene:
    """Two links that hang from a pivot at angle 0; the second angle is from the first link, the torque between them.

    `goal` is the height above the pivot that the tip should reach, if there is one.
    """
    reach = 1.2 * sum(lengths)
    thick = 0.05 * sum(lengths)

    def shapes(state, action) -> list[Shape]:
        first = math.pi - float(state[angles[0]])  # angles grow to the right of hanging
        second = first - float(state[angles[1]])
        joint = _tip((0.0, 0.0), first, lengths[0])
        tip = _tip(joint, second, lengths[1])
        line = [] if goal is None else [Line((-reach, goal), (reach, goal), 0.2 * thick, "ground")]
        return [
            *line,
            Disc((0.0, 0.0), 1.6 * thick, "ground"),
            Line((0.0, 0.0), joint, thick),
            Disc((0.0, 0.0), 0.8 * thick),
            Line(joint, tip, thick, "accent"),
            Disc(joint, 0.8 * thick),
            Disc(tip, thick, "accent"),
            *_torque(joint, 0.2 * sum(lengths), second, -_numbers(action)[0] / strongest, 0.6 * thick),
        ]

    return Scene((-reach, reach, -reach, reach), shapes)


@functools.cache
def slider_scene(position: int = 0, reach: float = 1.0, strongest: float = 1.0) -> Scene:
    """A block on a rail from −reach to reach with a mark at 0; the force is an arrow."""
    size = 0.2 * reach

    def shapes(state, action) -> list[Shape]:
        middle, share = float(state[position]), _numbers(action)[0] / strongest
        start = middle + math.copysign(size, share)
        return [
            Line((-reach - size, 0.0), (reach + size, 0.0), 0.1 * size, "ground"),
            *(Box((side * (reach + size), 0.5 * size), 0.3 * size, 1.2 * size, "ground") for side in (-1, 1)),
            Line((0.0, 0.0), (0.0, -size), 0.2 * size, "accent"),
            Box((middle, size), 2 * size, 1.7 * size),
            Disc((middle, size), 0.3 * size, "accent"),
            *_arrow((start, size), (start + 0.5 * reach * share, size), 0.25 * size),
        ]

    side = reach + 1.8 * size
    return Scene((-side, side, -side / 2, side / 2), shapes)


@functools.cache
def springs_scene(positions: tuple[int, ...], pushed: tuple[int, ...], reach: float, strongest: float) -> Scene:
    """Masses in a row between two walls, springs between them; `pushed` are the masses with an actuator.

    A position of ±reach, from rest, is drawn as 0.35 of the distance at rest: neighbours touch at most.
    """
    num, size = len(positions), 0.3

    def shapes(state, action) -> list[Shape]:
        middles = [i + 1 + 0.35 * float(state[axis]) / reach for i, axis in enumerate(positions)]
        ends = [0.06 - size / 2, *middles, num + 0.94 + size / 2]
        drawn: list[Shape] = [
            Line((0.0, -0.25), (num + 1.0, -0.25), 0.03, "ground"),
            *(Box((wall, 0.0), 0.12, 0.56, "ground") for wall in (0.0, num + 1.0)),
            *(Line((float(i + 1), -0.25), (float(i + 1), -0.34), 0.03, "ground") for i in range(num)),
        ]
        for left, right in itertools.pairwise(ends):
            drawn += _spring((left + size / 2, 0.0), (right - size / 2, 0.0), 0.1, 0.03)
        for i, middle in enumerate(middles):
            drawn += [Box((middle, -0.05), size, 0.38, "accent" if i in pushed else "body")]
        for i, push in zip(pushed, _numbers(action), strict=True):
            drawn += _arrow((middles[i], 0.26), (middles[i] + 0.45 * push / strongest, 0.26), 0.05)
        return drawn

    half = max(0.7, (num + 1.4) / 6)
    return Scene((-0.2, num + 1.2, -half, half), shapes)


@functools.cache
def pendulums_scene(angles: tuple[int, ...], motors: tuple[int, ...], strongest: float) -> Scene:
    """Pendulums side by side, springs between neighbouring bobs; `motors` are the pendulums that have one."""
    length = 0.8

    def shapes(state, action) -> list[Shape]:
        leans = [float(state[axis]) for axis in angles]
        pivots = [(float(i), 0.0) for i in range(len(angles))]
        bobs = [_tip(pivot, lean, length) for pivot, lean in zip(pivots, leans, strict=True)]
        drawn: list[Shape] = [Line((-0.45, 0.0), (len(angles) - 0.55, 0.0), 0.03, "ground")]
        for left, right in itertools.pairwise(bobs):
            drawn += _spring(left, right, 0.05, 0.02)
        for i, (pivot, bob) in enumerate(zip(pivots, bobs, strict=True)):
            drawn += [Disc(pivot, 0.1, "ground"), Line(pivot, bob, 0.06), Disc(pivot, 0.05)]
            drawn += [Disc(bob, 0.12, "accent" if i in motors else "body")]
        for i, torque in zip(motors, _numbers(action), strict=True):
            drawn += _torque(pivots[i], 0.34, leans[i], torque / strongest, 0.035)
        return drawn

    return Scene((-1.1, len(angles) + 0.1, -1.05, 1.05), shapes)


@functools.cache
def agents_scene(positions: tuple[int, ...], targets: tuple[float, ...], strongest: float = 1.0) -> Scene:
    """Agents on a rail from −1 to 1, each tied to its target by a thin line; one action for all, or one for each."""
    size = min(0.09, 0.5 / len(positions))

    def shapes(state, action) -> list[Shape]:
        places = [float(state[axis]) for axis in positions]
        pushes = np.broadcast_to(_numbers(action), len(places)).tolist()
        drawn: list[Shape] = [Line((-1.0, 0.0), (1.0, 0.0), 0.02, "ground")]
        drawn += [Box((side, 0.0), 0.03, 0.16, "ground") for side in (-1.0, 1.0)]
        for place, target in zip(places, targets, strict=True):
            drawn += [Line((place, 0.0), (target, -0.3), 0.008, "ground"), Disc((target, -0.3), 0.35 * size, "accent")]
        for place, push in zip(places, pushes, strict=True):
            drawn += [Disc((place, 0.0), size)]
            drawn += _arrow((place, 1.6 * size), (place + 0.22 * push / strongest, 1.6 * size), 0.25 * size)
        return drawn

    return Scene((-1.15, 1.15, -0.6, 0.6), shapes)


@functools.cache
def plane_scene(lower: tuple[float, ...], upper: tuple[float, ...]) -> Scene:
    """Of any state: a dot in the plane of its first two axes, and a bar for each of the others."""
    others = range(2, len(lower))
    bar = min(0.2, 1.2 / max(1, len(others)))
    right = 1.0 + bar * (len(others) + 1.5 if others else 0)

    def shapes(state, action) -> list[Shape]:
        del action  # nobody knows what it does
        low, high = np.asarray(lower), np.asarray(upper)
        parts = (2 * (np.asarray(state, np.float64) - low) / (high - low) - 1).tolist()
        dot = (parts[0], parts[1] if len(parts) > 1 else 0.0)
        drawn: list[Shape] = [
            *_path([(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0)], 0.015, "ground"),
            Line((-1.0, dot[1]), (1.0, dot[1]), 0.008, "ground"),
            Line((dot[0], -1.0), (dot[0], 1.0), 0.008, "ground"),
            Disc(dot, 0.07, "accent"),
        ]
        for i in others:
            middle = 1.0 + bar * (i - 0.5)
            drawn += [Line((middle, -1.0), (middle, 1.0), 0.01, "ground")]
            drawn += [Box((middle, (parts[i] - 1) / 2), 0.6 * bar, max(1e-6, 1 + parts[i]))]
        return drawn

    return Scene((-1.15, right + 0.15, -1.15, 1.15), shapes)


def _numbers(action: Any) -> list[float]:
    return np.atleast_1d(np.asarray(action, np.float64)).tolist()


def _tip(start: Point, lean: float, length: float) -> Point:
    """The end of a rod that leans to the right of upright."""
    return start[0] + length * math.sin(lean), start[1] + length * math.cos(lean)


def _arrow(start: Point, end: Point, width: float, tone: Tone = "force") -> list[Shape]:
    """A line with a head; nothing where it has no length."""
    across, up = end[0] - start[0], end[1] - start[1]
    length = math.hypot(across, up)
    if length < 0.5 * width:
        return []
    return [Line(start, end, width, tone), *_head(end, (across / length, up / length), min(3 * width, length), width, tone)]


def _head(end: Point, direction: Point, size: float, width: float, tone: Tone) -> list[Shape]:
    across, up = direction
    ends = ((end[0] - size * (across - side * 0.7 * up), end[1] - size * (up + side * 0.7 * across)) for side in (-1, 1))
    return [Line(end, back, width, tone) for back in ends]


def _torque(centre: Point, radius: float, start: float, share: float, width: float | None = None) -> list[Shape]:
    """An arc about `centre` from the angle `start` on, clockwise where `share` of the strongest is positive."""
    width = 0.13 * radius if width is None else width
    if abs(share) * FULL_TURN * radius < 0.5 * width:
        return []
    angles = [start + FULL_TURN * share * i / NUM_ARC for i in range(NUM_ARC + 1)]
    points = [_tip(centre, angle, radius) for angle in angles]
    turn = math.copysign(1, share)
    direction = (turn * math.cos(angles[-1]), -turn * math.sin(angles[-1]))
    size = min(3 * width, abs(share) * FULL_TURN * radius)
    return [*_path(points, width, "force"), *_head(points[-1], direction, size, width, "force")]


def _spring(start: Point, end: Point, height: float, width: float) -> list[Shape]:
    """A zigzag from `start` to `end`, straight at both ends."""
    across, up = end[0] - start[0], end[1] - start[1]
    length = max(math.hypot(across, up), 1e-9)
    shares = [0.0, 0.12, *(0.16 + 0.68 * (i + 0.5) / 8 for i in range(8)), 0.88, 1.0]
    sides = [0, 0, *(1 if i % 2 else -1 for i in range(8)), 0, 0]
    points = [
        (start[0] + s * across - side * height * up / length, start[1] + s * up + side * height * across / length)
        for s, side in zip(shares, sides, strict=True)
    ]
    return _path(points, width, "ground")


def _path(points: Sequence[Point], width: float, tone: Tone) -> list[Shape]:
    return [Line(start, end, width, tone) for start, end in itertools.pairwise(points)]
