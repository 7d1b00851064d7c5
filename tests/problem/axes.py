"""A problem of independent coordinates that no normal law resembles, and its masses by plain NumPy sums.

Lognormal income, a gamma clock, uniform noise with a gap that moves with the state, and an angle. Each axis depends on its
own coordinate, and on a few others.
"""

import functools
import itertools

import jax.numpy as jnp
import numpy as np

from hamq.problem.grid import Grid
from hamq.problem.kernels.axes import AxesKernel
from hamq.problem.problem import Problem

LOWER, UPPER = [0.0, 0.0, -1.0, -np.pi], [3.0, 4.0, 1.0, np.pi]
PERIODIC = [False, False, False, True]
DEPENDS_ON = [(0, 4), (1, 4), (2,), (2, 3, 4)]
"""Of each axis; 4 is the action."""


def lognormal(x, s, a, xp=jnp):
    x = xp.maximum(x, 1e-30)
    return -xp.log(x) - (xp.log(x) - 0.5 * xp.log(s[0] + 0.2) - 0.2 * a) ** 2 / 0.18


def gamma(x, s, a, xp=jnp):
    return (1 + s[1]) * xp.log(xp.maximum(x, 1e-30)) - x / (0.5 + 0.1 * a)


def gap(x, s, a, xp=jnp):
    """Two pieces, with nothing between them; `a` is given and not used."""
    is_there = (x < -0.1) | ((x > 0.5) & (x < 0.6 + 0.3 * s[2] ** 2))
    return xp.where(is_there, 0.0, -np.inf)


def angle(x, s, a, xp=jnp):
    return 3 * xp.cos(x - s[3] - 0.3 * a - 0.2 * s[2])


LOGS = [lognormal, gamma, gap, angle]


def reward(s, a, xp=jnp):
    return -((s[0] - 1) ** 2) - 0.3 * (s[1] - 1) ** 2 + s[2] + xp.cos(s[3]) - 0.1 * a**2


def pose(axes=(0, 1, 2, 3), points=(6, 5, 5, 6), law="cell", num_actions=3, kernel=None, discount=0.9) -> Problem:
    """Some of the axes, whose functions see the others at the middle of the box."""
    picked = list(axes)

    def whole(s):
        middle = [1.0, 1.0, 0.5, 0.0]
        return [s[picked.index(i)] if i in picked else jnp.asarray(middle[i], s.dtype) for i in range(4)]

    made = kernel or AxesKernel([lambda x, s, a, f=LOGS[i]: f(x, whole(s), a) for i in picked])
    grid = Grid([LOWER[i] for i in picked], [UPPER[i] for i in picked], list(points), [PERIODIC[i] for i in picked])
    return Problem(
        grid, np.linspace(-1, 1, num_actions), made, lambda s, a: reward(whole(s), a), discount, law=law, name="axes"
    )


def breaks(axis, state):
    """Where the log-density of an axis jumps."""
    return [-0.1, 0.5, 0.6 + 0.3 * state[2] ** 2] if axis == 2 else []


def reference(axis, state, action, num, law):
    """Masses of one axis on `num` nodes, by 100 Gauss points between each two of its edges, nodes and jumps."""
    seen = tuple(float(v) if i in DEPENDS_ON[axis] else 0.0 for i, v in enumerate((*state, action)))
    return _reference(axis, seen, num, law)


@functools.cache
def _reference(axis, seen, num, law):
    *state, action = seen
    grid = Grid([LOWER[axis]], [UPPER[axis]], [num], [PERIODIC[axis]])
    nodes, edges = grid.axis_nodes(0), grid.axis_edges(0)

    def density(x):
        low, width = LOWER[axis], UPPER[axis] - LOWER[axis]
        inside = low + (x - low) % width if PERIODIC[axis] else x
        return np.exp(LOGS[axis](inside, state, action, np))

    if law == "point":
        masses = density(nodes)
        return masses / masses.sum()
    ends = edges if law == "cell" else np.append(nodes, nodes[0] + UPPER[axis] - LOWER[axis]) if PERIODIC[axis] else nodes
    inner = [b for b in breaks(axis, state) if ends[0] < b < ends[-1]]
    ends, masses = np.unique(np.concatenate([ends, inner])), np.zeros(num)
    x, weights = np.polynomial.legendre.leggauss(100)
    for low, high in itertools.pairwise(ends):
        points = low + (high - low) * (x + 1) / 2
        values = weights * (high - low) / 2 * density(points)
        if law == "cell":
            masses[int(np.searchsorted(edges, (low + high) / 2)) - 1] += values.sum()
            continue
        left = int(np.searchsorted(nodes, (low + high) / 2)) - 1
        share = (points - nodes[left]) / grid.spacing[0]
        masses[left] += np.sum(values * (1 - share))
        masses[(left + 1) % num] += np.sum(values * share)
    return masses / masses.sum()
