"""Three and four dimensions: the ridge and the shell of the issue, tubes, corners, tails, modes, repulsion."""

from tests.densities.record import Density, mixture, normal, where


def centre(state, action):
    """Of the issue; a fourth axis drifts by itself."""
    return tuple(0.5 * s + drift * action for s, drift in zip(state, (0.3, -0.15, 0.1, 0.07), strict=False))


def space(name, log, scale, *traits, dimension=3, offsets=None, **more):
    """A density of u = s' − centre on the box and grid of the issue (±2, 5³ × 3), or on ±1.5, 3⁴ × 2."""

    def logdensity(xp, next_state, state, action):
        m = centre(state, action)
        return log(xp, *(next_state[i] - m[i] for i in range(dimension)))

    def breaks(state, action):
        return tuple([m + v for v in axis] for m, axis in zip(centre(state, action), offsets, strict=True))

    half, points, actions = (2.0, 5, (-1.0, 0.0, 1.0)) if dimension == 3 else (1.5, 3, (-0.8, 0.9))
    given = {"breaks": None if offsets is None else breaks, "actions": actions, **more}
    box = (-half,) * dimension, (half,) * dimension
    return Density(name, *box, (points,) * dimension, logdensity, centre, scale=scale, traits=traits, **given)


def _radius(xp, *parts):
    return xp.sqrt(sum(part**2 for part in parts) + 1e-12)


def _ridge(xp, u, v, w):
    return -0.5 * (u / 0.6) ** 2 - 0.5 * ((v - 1.2 * u**2 + 0.3) / 0.12) ** 2 - 0.5 * ((w - 0.5 * v) / 0.25) ** 2


def _shell(xp, u, v, w):
    return -0.5 * ((_radius(xp, u, v, w) - 0.8) / 0.08) ** 2 + 0.8 * u


def _torus(xp, u, v, w):
    return normal(_radius(xp, u, v) - 0.87, 0.16) + normal(w - 0.3 * u, 0.19)


def _corner(xp, u, v, w):
    inside = (u > -0.31) & (v > -0.27) & (w > -0.36)
    return where(xp, inside, -u / 0.42 - v / 0.37 - w / 0.49)


def _bimodal(xp, u, v, w):
    first = normal(u + 0.55, 0.27) + normal(v + 0.2, 0.31) + normal(w, 0.29)
    second = normal(u - 0.73, 0.25) + normal(v - 0.4, 0.27) + normal(w - 0.2, 0.33)
    return mixture(xp, (0.7, first), (0.3, second))


def _student(xp, u, v, w):
    return -3.0 * xp.log(1.0 + ((u / 0.37) ** 2 + ((v - 0.4 * u) / 0.33) ** 2 + (w / 0.41) ** 2) / 3.0)


def _agents(xp, next_state, state, action):
    """Three agents on a line that do not like to meet."""
    m, x = centre(state, action), next_state
    meet = sum(xp.exp(-0.5 * ((x[i] - x[j]) / 0.37) ** 2) for i, j in ((0, 1), (0, 2), (1, 2)))
    return sum(normal(x[i] - m[i], 0.61) for i in range(3)) - 2.9 * meet


SPACES = (
    space("ridge", _ridge, 0.17, "curved", "ridge", note="of the issue"),
    space("shell", _shell, 0.17, "shell", "curved", note="of the issue", reach=1.3),
    space("torus", _torus, 0.3, "tube", "ring", reach=1.8),
    space("corner", _corner, 0.7, "jump", "one-sided", offsets=((-0.31,), (-0.27,), (-0.36,)), note="of the issue"),
    space("bimodal_3d", _bimodal, 0.4, "bimodal", law="linear"),
    space("student_3d", _student, 0.25, "heavy tail", "correlated", law="linear"),
    Density("agents", (-2.0,) * 3, (2.0,) * 3, (5,) * 3, _agents, centre, 0.35, ("repulsion", "many modes"), law="linear"),
)


def _reward(xp, state, action):
    """Slow enough for three points per axis."""
    return xp.cos(1.1 * state[0] - 0.2) + 0.3 * xp.cos(state[1] * state[2]) + 0.2 * state[3] - 0.1 * action**2


def _normal(xp, u, v, w, x):
    return normal(u, 0.47) + normal(v - 0.3 * u, 0.43) + normal(w, 0.51) + normal(x + 0.2 * w, 0.45)


def _shell_4(xp, u, v, w, x):
    return normal(_radius(xp, u, v, w, x) - 0.79, 0.17) - 0.9 * v


def _tube(xp, u, v, w, x):
    """About a circle in the first two coordinates that climbs in the third and bends the fourth."""
    return normal(_radius(xp, u, v) - 0.71, 0.2) + normal(w - 0.6 * u, 0.23) + normal(x - 0.5 * v**2, 0.24)


def _half_space(xp, u, v, w, x):
    return where(xp, x > -0.17, normal(u, 0.49) + normal(v - 0.4 * u, 0.44) + normal(w, 0.52) + normal(x, 0.63))


HYPERSPACES = (
    space("normal_4d", _normal, 0.5, "benign", "log-concave", dimension=4, reward=_reward, law="linear"),
    space("shell_4d", _shell_4, 0.3, "shell", "curved", dimension=4, reward=_reward, reach=1.6),
    space("tube_4d", _tube, 0.34, "tube", "curved", dimension=4, reward=_reward),
    space(
        "half_space_4d", _half_space, 0.5, "jump", "one-sided", dimension=4, reward=_reward,
        offsets=((), (), (), (-0.17,)),
    ),
)  # fmt: skip
