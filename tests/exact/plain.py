"""Two problems with densities of one's own, and what one would write for them in plain NumPy: Gauss points in every cell,
the same number for all, doubled until the rows settle, and value iteration between MacQueen's bounds.

Nothing of the library is used for the answer; `pose` hands the same problem to it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import hamq

SHARE = 0.5
"""Part of the tolerance that the rows may take."""


@dataclasses.dataclass(frozen=True)
class Posed:
    """`logdensity` and `reward` take the module (NumPy or jax.numpy) first, then coordinates one by one, which broadcast."""

    name: str
    axes: tuple[np.ndarray, ...]
    actions: np.ndarray
    logdensity: Callable[..., Any]
    reward: Callable[..., Any]
    discount: float = 0.95

    def pose(self) -> hamq.Problem:
        """For the library."""
        grid = hamq.Grid([a[0] for a in self.axes], [a[-1] for a in self.axes], [len(a) for a in self.axes])
        kernel = hamq.UnnormalizedKernel(lambda n, s, a: self.logdensity(jnp, list(n), list(s), a))
        return hamq.Problem(
            grid, self.actions, kernel, lambda s, a: self.reward(jnp, list(s), a), self.discount, name=self.name
        )

    @property
    def states(self) -> np.ndarray:
        return np.stack([axis.ravel() for axis in np.meshgrid(*self.axes, indexing="ij")], axis=1)


class Answer(NamedTuple):
    """Q, the Gauss points per cell and axis that were tried, and the evaluations that the last of them took."""

    q: np.ndarray
    points: list[int]
    evaluations: int


def rows(posed: Posed, num: int) -> np.ndarray:
    """Masses `[S, A, S]` with `num` Gauss points per cell and axis."""
    d, states = len(posed.axes), posed.states
    found = np.empty((len(states), len(posed.actions), len(states)))
    nodes, weights = zip(*(_gauss(axis, num) for axis in posed.axes), strict=True)
    where = [x.reshape([-1 if i == j else 1 for j in range(d)]) for i, x in enumerate(nodes)]
    shape = [size for axis in posed.axes for size in (len(axis), num)]
    for s, state in enumerate(states):
        for a, action in enumerate(posed.actions):
            with np.errstate(all="ignore"):
                log = np.broadcast_to(posed.logdensity(np, where, state, action), [len(x) for x in nodes])
            if not np.isfinite(log.max()):  # no point of so few has a density: the next doubling may
                found[s, a] = 1 / len(states)
                continue
            mass = np.exp(log - log.max())
            for i, weight in enumerate(weights):
                mass = mass * weight.reshape([-1 if i == j else 1 for j in range(d)])
            mass = mass.reshape(shape).sum(axis=tuple(range(1, 2 * d, 2))).ravel()
            found[s, a] = mass / mass.sum()
    return found


def _gauss(axis: np.ndarray, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of all cells of one axis: a cell ends half way to the next node, and at the walls."""
    edges = np.concatenate([axis[:1], (axis[1:] + axis[:-1]) / 2, axis[-1:]])
    x, w = np.polynomial.legendre.leggauss(num)
    widths = np.diff(edges)[:, None]
    return (edges[:-1, None] + widths * (x + 1) / 2).ravel(), (widths * w / 2).ravel()


def value_iteration(masses: np.ndarray, reward: np.ndarray, discount: float, tolerance: float) -> np.ndarray:
    """Q within ± tolerance of the fixed point of these rows."""
    flat, value, factor = masses.reshape(-1, masses.shape[-1]), np.zeros(len(masses)), discount / (1 - discount)
    while True:
        q = reward + discount * (flat @ value).reshape(reward.shape)
        change = q.max(axis=1) - value
        if factor * np.ptp(change) / 2 <= tolerance:
            return q + factor * (change.max() + change.min()) / 2
        value = q.max(axis=1)


def rewards(posed: Posed) -> np.ndarray:
    states = posed.states
    return np.stack([posed.reward(np, list(states.T), action) for action in posed.actions], axis=1)


def solve(posed: Posed, tolerance: float) -> Answer:
    """Q*, with rows that move by no more than the tolerance allows when their points are doubled."""
    tried = [2]
    before = rows(posed, tried[0])
    while True:
        tried.append(2 * tried[-1])
        masses = rows(posed, tried[-1])
        q = value_iteration(masses, rewards(posed), posed.discount, (1 - SHARE) * tolerance)
        allowed = SHARE * tolerance * (1 - posed.discount) / (posed.discount * np.ptp(q.max(axis=1)))
        if 0.5 * np.abs(masses - before).sum(axis=2).max() <= allowed:
            return Answer(q, tried, masses.size * tried[-1] ** len(posed.axes))
        before = masses


def _gumbel(xp, n, s, a):
    """Gumbel noise on both axes: skew, smooth and log-concave."""
    z0 = (n[0] - 0.8 * s[0] - 0.3 * a - 0.1 * xp.sin(s[1])) / 0.35
    z1 = (n[1] - 0.8 * s[1] + 0.2 * a - 0.1 * xp.sin(s[0])) / 0.35
    return -(z0 + xp.exp(-z0) + z1 + xp.exp(-z1))


def _income(xp, n, s, a):
    """What is not spent, with interest, and a lognormal income."""
    income = n[0] - 1.02 * s[0] * (1 - a)
    log = xp.log(xp.maximum(income, 1e-12))
    return xp.where(income > 0, -2 * log**2 - log, -xp.inf)


GUMBEL = Posed(
    "gumbel",
    (np.linspace(-2, 2, 17), np.linspace(-2, 2, 17)),
    np.linspace(-1, 1, 9),
    _gumbel,
    lambda xp, s, a: xp.sin(2 * s[0]) - 0.5 * s[1] ** 2 - 0.1 * a**2,
)
INCOME = Posed(
    "income",
    (np.linspace(0.05, 12, 540),),
    np.linspace(0.02, 0.98, 40),
    _income,
    lambda xp, s, a: xp.log(s[0] * a),
)
SMALL_INCOME = dataclasses.replace(
    INCOME, name="small_income", axes=(np.linspace(0.05, 12, 60),), actions=np.linspace(0.02, 0.98, 6)
)
SMALL_GUMBEL = dataclasses.replace(
    GUMBEL, name="small_gumbel", axes=(np.linspace(-2, 2, 7), np.linspace(-2, 2, 6)), actions=np.linspace(-1, 1, 3)
)
