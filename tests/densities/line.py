"""One dimension: tails, skew, modes, jumps, forbidden intervals, plateaus, spikes, noise of all sizes, circles."""

import math

from tests.densities.record import Density, mixture, normal, where

LOWER, UPPER, POINTS = -2.0, 2.0, 13
SPACING = (UPPER - LOWER) / (POINTS - 1)


def centre(state, action):
    return (0.55 * state[0] + 0.37 * action,)


def shift(next_state, state, action):
    """u = s' − centre."""
    return next_state[0] - centre(state, action)[0]


def line(name, log, scale, *traits, offsets=(), points=POINTS, **more):
    """A density of u alone; `offsets`: where u has a jump or a kink."""

    def logdensity(xp, next_state, state, action):
        return log(xp, shift(next_state, state, action))

    breaks = (lambda state, action: ([centre(state, action)[0] + offset for offset in offsets],)) if offsets else None
    given = {"centre": centre, "breaks": breaks, **more}
    return Density(name, (LOWER,), (UPPER,), (points,), logdensity, scale=scale, traits=traits, **given)


def _lognormal(xp, u):
    log = xp.log(xp.where(u > -0.62, u + 0.62, 1.0))
    return where(xp, u > -0.62, -log - 0.5 * ((log + 0.41) / 0.63) ** 2)


def _gamma(shape, rate, start):
    def log(xp, u):
        above = xp.where(u > start, u - start, 1.0)
        return where(xp, u > start, (shape - 1.0) * xp.log(above) - rate * above)

    return log


def _graded(start):
    """Panels that shrink towards a pole, where a power of the distance is no polynomial."""
    return (start, *(start + 0.4 * 0.2**k for k in range(1, 18)))


TAILS = [
    line("normal", lambda xp, u: normal(u, 0.43), 0.3, "benign", "log-concave", reach=2.8),
    line("logistic", lambda xp, u: -u / 0.22 - 2.0 * xp.logaddexp(0.0, -u / 0.22), 0.2, "log-concave"),
    line("laplace", lambda xp, u: -xp.abs(u) / 0.31, 0.3, "kink", "log-concave", offsets=(0.0,)),
    line("student", lambda xp, u: -2.0 * xp.log(1.0 + (u / 0.29) ** 2 / 3.0), 0.15, "heavy tail", law="linear"),
    line("cauchy", lambda xp, u: -xp.log(1.0 + (u / 0.17) ** 2), 0.1, "heavy tail"),
    line("lognormal", _lognormal, 0.1, "one-sided", "skew", offsets=_graded(-0.62)),
    line("gamma", _gamma(1.7, 2.3, -0.58), 0.2, "one-sided", "skew", offsets=_graded(-0.58)),
    line("gamma_pole", _gamma(0.7, 1.9, -0.31), 0.2, "one-sided", "pole", offsets=_graded(-0.31), order=8),
    line("exponential", lambda xp, u: where(xp, u > -0.37, -u / 0.41), 0.3, "jump", "one-sided", offsets=(-0.37,)),
    line("half_normal", lambda xp, u: where(xp, u < 0.23, normal(u, 0.57)), 0.3, "jump", "one-sided", offsets=(0.23,)),
    line("gumbel", lambda xp, u: -u / 0.34 - xp.exp(-u / 0.34), 0.15, "skew", "log-concave", law="linear"),
    line(
        "pareto",
        lambda xp, u: where(xp, u > -0.27, -2.4 * xp.log(1.0 + xp.maximum(u + 0.27, 0.0) / 0.33)),
        0.2,
        "jump",
        "one-sided",
        "heavy tail",
        offsets=(-0.27,),
    ),
    line("skew_normal", lambda xp, u: normal(u, 0.61) - xp.logaddexp(0.0, -9.3 * u), 0.1, "skew", "log-concave"),
    line("triangular", lambda xp, u: where(xp, xp.abs(u) < 0.83, xp.log(xp.maximum(0.83 - xp.abs(u), 1e-30))), 0.1,
         "kink", "bounded", "log-concave", offsets=(-0.83, 0.0, 0.83)),
]  # fmt: skip


def _two(weight, first, second):
    """A broad mode at the centre, and one with `weight` of the mass at a distance: pairs (place, std)."""

    def log(xp, u):
        parts = ((1.0 - weight, normal(u - first[0], first[1])), (weight, normal(u - second[0], second[1])))
        return mixture(xp, *parts)

    return log


def _three(xp, u):
    return mixture(xp, (0.5, normal(u + 0.9, 0.11)), (0.3, normal(u - 0.07, 0.16)), (0.2, normal(u - 1.03, 0.09)))


MODES = [
    line("bimodal", _two(0.45, (-0.46, 0.19), (0.53, 0.23)), 0.12, "bimodal"),
    line("bimodal_far", _two(0.4, (-0.91, 0.07), (0.88, 0.05)), 0.03, "bimodal", "narrow"),
    line("trimodal", _three, 0.05, "trimodal"),
    line("mode_5_narrow", _two(0.05, (-0.31, 0.27), (1.13, 0.04)), 0.03, "small mode", "bimodal"),
    line("mode_5_broad", _two(0.05, (-0.31, 0.08), (0.87, 0.47)), 0.06, "small mode", "bimodal"),
    line("mode_half_narrow", _two(0.005, (-0.41, 0.23), (1.21, 0.03)), 0.02, "small mode", "bimodal"),
    line("mode_half_broad", _two(0.005, (-0.41, 0.09), (1.07, 0.51)), 0.06, "small mode", "bimodal"),
    line("wells", lambda xp, u: -(((u**2 - 0.31) / 0.17) ** 2), 0.08, "bimodal", "polynomial"),
    line("ripples", lambda xp, u: normal(u, 0.71) + 3.1 * xp.cos(17.3 * u), 0.06, "many modes"),
]


def _moving(xp, next_state, state, action):
    low, high = _interval(state, action)
    return where(xp, (next_state[0] > low) & (next_state[0] < high), 0.0 * next_state[0])


def _interval(state, action):
    return -1.13 + 0.41 * state[0], 0.57 + 0.33 * state[0] + 0.29 * action


def _gap(xp, next_state, state, action):
    """The normal law of the issue with nothing in (−.1, .5)."""
    x = next_state[0]
    return where(xp, (x < -0.1) | (x > 0.5), normal(shift(next_state, state, action), 0.6))


def _spikes(xp, u):
    return mixture(xp, (0.6, normal(u - 0.05, 0.011)), (0.4, normal(u, 0.93)))


def _near(width):
    """Offsets that put panels on a narrow peak."""
    return tuple(width * k for k in (-9, -6, -4, -2.5, -1.2, 0, 1.2, 2.5, 4, 6, 9))


JUMPS = [
    line("uniform", lambda xp, u: where(xp, xp.abs(u) < 0.71, 0.0 * u), 0.5, "jump", "bounded", offsets=(-0.71, 0.71)),
    Density(
        "uniform_moving", (LOWER,), (UPPER,), (POINTS,), _moving, centre, 0.5, ("jump", "bounded"),
        note="the interval and its length move with state and action", breaks=lambda s, a: (_interval(s, a),),
    ),
    Density(
        "gap", (LOWER,), (UPPER,), (21,), _gap, centre, 0.3, ("jump", "forbidden"),
        note="the gap of the issue; it does not move with the state", breaks=lambda s, a: ((-0.1, 0.5),),
    ),
    line("step", lambda xp, u: normal(u, 0.66) - xp.where(u < 0.13, 0.0, 1.7), 0.3, "jump", offsets=(0.13,)),
    line("plateau", lambda xp, u: -((u / 0.79) ** 8), 0.1, "plateau", "log-concave"),
    line("spike", _spikes, 0.2, "almost an atom", offsets=tuple(0.05 + v for v in _near(0.011))),
    line("noise_twentieth", lambda xp, u: normal(u, SPACING / 20), 0.3, "narrow", offsets=_near(SPACING / 20)),
    line("noise_ten_boxes", lambda xp, u: normal(u, 40.0), 0.5, "broad", "log-concave"),
    line("near_deterministic", lambda xp, u: normal(u, 0.0011), 0.3, "narrow", offsets=_near(0.0011), law="linear"),
]  # fmt: skip


def _income(xp, next_state, state, action):
    """Lognormal income as one writes it: the branch that is not taken has a logarithm of a negative number."""
    rest = next_state[0] - 0.7 * state[0] - 0.23 * action
    return xp.where(rest > 0, -xp.log(rest) - 0.5 * ((xp.log(rest) + 0.29) / 0.52) ** 2, -xp.inf)


def _need(xp, state, action):
    return -((state[0] - 3.1) ** 2) / 4.0 - 0.3 * action


def _rest(state, action):
    return 0.7 * state[0] + 0.23 * action


INCOME = Density(
    "income", (0.0,), (8.0,), (17,), _income, lambda s, a: (_rest(s, a),), 0.15, ("one-sided", "skew", "nan gradient"),
    note="written with one where(): its gradient is NaN where there is no mass", actions=(0.0, 1.0, 2.0), reward=_need,
    breaks=lambda s, a: ([_rest(s, a) + v for v in _graded(0.0)],), law="linear",
)  # fmt: skip


def _turn(state, action):
    return (0.83 * state[0] + 0.47 * action + 0.11,)


def _circle(name, log, scale, *traits, breaks=None):
    def logdensity(xp, next_state, state, action):
        return log(xp, next_state[0] - _turn(state, action)[0])

    return Density(
        name,
        (-math.pi,),
        (math.pi,),
        (12,),
        logdensity,
        _turn,
        scale,
        ("periodic", *traits),
        breaks=breaks,
        periodic=(True,),
    )


CIRCLES = [
    _circle("von_mises", lambda xp, u: 3.1 * xp.cos(u), 0.3),
    _circle("von_mises_bimodal", lambda xp, u: 4.3 * xp.cos(2.0 * u) + 0.7 * xp.cos(u - 0.4), 0.2, "bimodal"),
    _circle(
        "arc", lambda xp, u: where(xp, xp.cos(u - 0.21) > 0.37, 0.9 * xp.sin(u)), 0.3, "jump", "bounded",
        breaks=lambda s, a: ([_turn(s, a)[0] + 0.21 + sign * math.acos(0.37) for sign in (-1, 1)],),
    ),
]  # fmt: skip

LINES = (*TAILS, *MODES, *JUMPS, INCOME, *CIRCLES)
