"""Two dimensions: correlation, curves, rings, tails, forbidden regions, corners, modes, repulsion, a cylinder."""

import math

from tests.densities.record import Density, mixture, normal, where

LOWER, UPPER, POINTS = (-2.0, -2.0), (2.0, 2.0), (7, 7)


def centre(state, action):
    return 0.57 * state[0] + 0.31 * action, 0.48 * state[1] - 0.19 * action


def plane(name, log, scale, *traits, offsets=None, **more):
    """A density of u = s' − centre; `offsets`: for each axis, where u jumps."""

    def logdensity(xp, next_state, state, action):
        m = centre(state, action)
        return log(xp, next_state[0] - m[0], next_state[1] - m[1])

    def breaks(state, action):
        return tuple([m + v for v in axis] for m, axis in zip(centre(state, action), offsets, strict=True))

    given = {"centre": centre, "breaks": None if offsets is None else breaks, **more}
    return Density(name, LOWER, UPPER, POINTS, logdensity, scale=scale, traits=traits, **given)


def _correlated(xp, u, v):
    rho = 0.99
    return -((u / 0.6) ** 2 - 2.0 * rho * u * v / 0.6 / 0.5 + (v / 0.5) ** 2) / (2.0 * (1.0 - rho**2))


def _radius(xp, *parts):
    """|u|, with a gradient at 0."""
    return xp.sqrt(sum(part**2 for part in parts) + 1e-12)


def _gumbel(scale):
    return lambda xp, u, v: -u / scale - xp.exp(-u / scale) - v / scale - xp.exp(-v / scale)


def _student(xp, u, v):
    return -2.5 * xp.log(1.0 + ((u / 0.33) ** 2 + ((v - 0.4 * u) / 0.27) ** 2) / 3.0)


def _funnel(xp, u, v):
    width = 0.8 * u - 0.9
    return normal(u, 0.55) - 0.5 * (v * xp.exp(-width)) ** 2 - width


def _cross(xp, u, v):
    along, across = 0.8 * u + 0.6 * v, 0.8 * v - 0.6 * u
    first, second = normal(along, 0.7) + normal(across, 0.09), normal(across, 0.7) + normal(along, 0.09)
    return mixture(xp, (0.6, first), (0.4, second))


def _trimodal(xp, u, v):
    return mixture(
        xp,
        (0.5, normal(u + 0.7, 0.17) + normal(v + 0.4, 0.21)),
        (0.3, normal(u - 0.9, 0.14) + normal(v + 0.3, 0.18)),
        (0.2, normal(u - 0.05, 0.15) + normal(v - 0.9, 0.13)),
    )


def _small_mode(xp, u, v):
    return mixture(
        xp, (0.95, normal(u + 0.2, 0.31) + normal(v, 0.28)), (0.05, normal(u - 1.1, 0.09) + normal(v - 0.6, 0.08))
    )


CURVES = [
    plane("normal_2d", lambda xp, u, v: normal(u, 0.41) + normal(v, 0.37), 0.35, "benign", "log-concave", law="linear"),
    plane("correlated", _correlated, 0.07, "correlated", "log-concave"),
    plane("banana", lambda xp, u, v: normal(u, 0.62) + normal(v - 0.9 * u**2 + 0.35, 0.13), 0.15, "curved", law="linear"),
    plane("ring", lambda xp, u, v: normal(_radius(xp, u, v) - 0.83, 0.09), 0.1, "ring"),
    plane("ring_tilted", lambda xp, u, v: normal(_radius(xp, u, v) - 0.91, 0.12) + 1.7 * u, 0.12, "ring", "skew"),
    plane("gumbel_2d", _gumbel(0.5), 0.2, "skew", "log-concave", law="linear"),
    plane("student_2d", _student, 0.2, "heavy tail", "correlated", law="linear"),
    plane("funnel", _funnel, 0.08, "funnel", "curved"),
    plane("cross", _cross, 0.1, "ridges", law="linear"),
    plane("trimodal_2d", _trimodal, 0.12, "trimodal", law="linear"),
    plane("mode_5_2d", _small_mode, 0.09, "small mode", "bimodal"),
    plane("plateau_2d", lambda xp, u, v: -(((u / 0.87) ** 2 + (v / 0.69) ** 2) ** 4), 0.12, "plateau", "log-concave"),
]
NARROW = UPPER[0] * 2 / 6 / 20
"""A twentieth of a cell."""


def _near(width):
    return tuple(width * k for k in (-7, -4, -2, 0, 2, 4, 7))


def _disc(xp, next_state, state, action):
    """A normal law that may not enter a disc; the disc stays where it is."""
    m = centre(state, action)
    log = normal(next_state[0] - m[0], 0.52) + normal(next_state[1] - m[1], 0.47)
    return where(xp, (next_state[0] - 0.27) ** 2 + (next_state[1] + 0.19) ** 2 > 0.71**2, log)


def _half_plane(xp, next_state, state, action):
    """Skewed: the boundary is no axis, and moves with the action."""
    m = centre(state, action)
    log = normal(next_state[0] - m[0], 0.61) + normal(next_state[1] - m[1], 0.55)
    return where(xp, next_state[0] + 0.7 * next_state[1] < 0.87 + 0.2 * action, log)


def _wall(xp, next_state, state, action):
    """A wall on the axis 0 with a gate in it."""
    m = centre(state, action)
    log = normal(next_state[0] - m[0], 0.58) + normal(next_state[1] - m[1], 0.51)
    is_open = (xp.abs(next_state[0] - 0.35) > 0.14) | (xp.abs(next_state[1] + 0.23) < 0.41)
    return where(xp, is_open, log)


def _posed(name, logdensity, scale, *traits, **more):
    return Density(name, LOWER, UPPER, POINTS, logdensity, centre, scale, traits, **more)


FORBIDDEN = [
    _posed("disc", _disc, 0.008, "jump", "forbidden", order=2, note="integrated by brute force: the disc is no panel"),
    _posed("half_plane", _half_plane, 0.008, "jump", "forbidden", order=2, note="integrated by brute force"),
    _posed(
        "wall_with_gate", _wall, 0.3, "jump", "forbidden", order=6,
        breaks=lambda s, a: ((0.35 - 0.14, 0.35 + 0.14), (-0.23 - 0.41, -0.23 + 0.41)),
    ),
    plane(
        "uniform_2d", lambda xp, u, v: where(xp, (xp.abs(u) < 0.77) & (xp.abs(v) < 0.53), 0.0 * (u + v)), 0.7, "jump",
        "bounded", offsets=((-0.77, 0.77), (-0.53, 0.53)),
    ),
    plane(
        "ellipse", lambda xp, u, v: where(xp, (u / 0.93) ** 2 + ((v - 0.6 * u) / 0.47) ** 2 < 1, 0.5 * u), 0.008, "jump",
        "bounded", order=2, note="tilted, integrated by brute force",
    ),
    plane(
        "exponential_2d", lambda xp, u, v: where(xp, (u > -0.33) & (v > -0.41), -u / 0.37 - v / 0.45), 0.3, "jump",
        "one-sided", offsets=((-0.33,), (-0.41,)), order=6, law="linear",
    ),
    plane(
        "noise_twentieth_2d", lambda xp, u, v: normal(u, NARROW) + normal(v, NARROW), 0.7, "narrow", order=6,
        offsets=(_near(NARROW), _near(NARROW)),
    ),
]  # fmt: skip


def _repelling(xp, u, v, gap):
    return normal(u, 0.53) + normal(v, 0.53) - 4.1 * xp.exp(-0.5 * (gap / 0.24) ** 2)


def _pair(xp, next_state, state, action):
    """Two agents on a line, each pushed by the action, that do not like to meet."""
    m = centre(state, action)
    return _repelling(xp, next_state[0] - m[0], next_state[1] - m[1], next_state[0] - next_state[1])


def _cylinder_centre(state, action):
    return 0.81 * state[0] + 0.43 * action + 0.13, 0.52 * state[1] - 0.2 * action


def _cylinder(xp, next_state, state, action):
    """An angle and a height that leans on it."""
    angle, height = _cylinder_centre(state, action)
    u = next_state[0] - angle
    return 2.7 * xp.cos(u) + normal(next_state[1] - height - 0.4 * xp.sin(u), 0.31)


PAIRS = [
    _posed("repelling_pair", _pair, 0.2, "repulsion", "bimodal", law="linear"),
    Density(
        "cylinder", (-math.pi, -1.5), (math.pi, 1.5), (8, 5), _cylinder, _cylinder_centre, 0.3,
        ("periodic", "curved"), periodic=(True, False),
    ),
]  # fmt: skip

PLANES = (*CURVES, *FORBIDDEN, *PAIRS)
