"""Densities with jumps: do the brackets of their certificates hold Q*?

Five laws of the next state that are cut: a normal law with a gap, exponential, uniform and half-normal noise, and a normal
law in two dimensions that must not enter a rectangle. For every seed a table is learnt from few draws and certified by each
method; `python benchmarks/certificates.py jumps` counts the brackets that hold Q*. Q* is computed in NumPy: value iteration
with masses from Gauss-Legendre rules on pieces between the edges of the cells and the jumps, where the density is smooth.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

DISCOUNT, ACTIONS = 0.7, (-1.0, 1.0)
NUM_NODES = 16
"""Of the rule on each piece."""
METHODS = ("exact", "asymptotic", "guaranteed")
NUM_DRAWS = 50
"""Per pair that a table is learnt from: its error is not small beside the brackets."""
ROUNDING = 1e-9
"""Of the range of V*, by which the reference may be off."""


class Cut(NamedTuple):
    """A density: `log_noise(u, xp)` of noise u `[..., d]`, and where it jumps on each axis, as noise or as next state."""

    points: tuple[int, ...]
    log_noise: Callable[..., Any]
    jumps: tuple[float, ...] = ()
    forbidden: tuple[tuple[float, float], ...] = ()


def _normal(u, std, xp):
    return -0.5 * xp.sum((u / xp.asarray(std, dtype=u.dtype)) ** 2, axis=-1)


CUTS = {
    "normal with a gap": Cut(
        (15,), lambda u, xp: xp.where((u[..., 0] > -0.1) & (u[..., 0] < 0.5), -xp.inf, _normal(u, [0.4], xp)), (-0.1, 0.5)
    ),
    "exponential": Cut((15,), lambda u, xp: xp.where(u[..., 0] > 0, -u[..., 0] / 0.3, -xp.inf), (0.0,)),
    "uniform": Cut((15,), lambda u, xp: xp.where(xp.abs(u[..., 0]) < 0.3, 0.0, -xp.inf), (-0.3, 0.3)),
    "half-normal": Cut((15,), lambda u, xp: xp.where(u[..., 0] > 0, _normal(u, [0.3], xp), -xp.inf), (0.0,)),
    "forbidden rectangle": Cut((4, 4), lambda u, xp: _normal(u, [0.35, 0.45], xp), forbidden=((-0.2, 0.3), (-0.1, 0.4))),
}


def log_density(name: str, next_state, state, action, xp):
    """Up to a constant, for one next state `[d]` or many `[..., d]`; −inf where it must not go."""
    cut = CUTS[name]
    logs = cut.log_noise(next_state - _mean(state, action), xp)
    if cut.forbidden:
        low, high = (xp.asarray(ends, dtype=next_state.dtype) for ends in zip(*cut.forbidden, strict=True))
        logs = xp.where(xp.all((next_state > low) & (next_state < high), axis=-1), -xp.inf, logs)
    return logs


def _mean(state, action):
    return 0.6 * state + 0.2 * action


def _reward(state, action, xp):
    return xp.cos(3 * state[..., 0]) - 0.1 * action**2


@functools.cache
def posed(name: str, law: str = "cell") -> Any:
    import jax.numpy as jnp

    import hamq

    d = len(CUTS[name].points)
    return hamq.Problem(
        hamq.Grid([-1.0] * d, [1.0] * d, CUTS[name].points),
        ACTIONS,
        hamq.UnnormalizedKernel(lambda next_state, state, action: log_density(name, next_state, state, action, jnp)),
        lambda state, action: _reward(state, action, jnp),
        DISCOUNT,
        law=law,
        name=name,
    )


@functools.cache
def optimal_q(name: str, law: str = "cell") -> np.ndarray:
    """Q* `[S, A]`, without hamq."""
    cut = CUTS[name]
    axes = [np.linspace(-1, 1, n) for n in cut.points]
    states = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
    rewards = np.stack([_reward(states, action, np) for action in ACTIONS], axis=1)
    masses = np.stack([[_masses(name, axes, s, a, law) for a in ACTIONS] for s in states])
    q = rewards
    for _ in range(120):  # 0.7^120 is 3·10⁻¹⁹
        q = rewards + DISCOUNT * masses @ q.max(axis=1)
    return q


def _masses(name: str, axes: list[np.ndarray], state, action: float, law: str) -> np.ndarray:
    """Of the nodes: of their cells, or with law "point" the density at them."""
    mean = np.broadcast_to(_mean(state, action), (len(axes),))
    rules = [_rule(CUTS[name], k, axis, mean[k], law) for k, axis in enumerate(axes)]
    mesh = np.stack(np.meshgrid(*(rule[0] for rule in rules), indexing="ij"), axis=-1)
    with np.errstate(divide="ignore"):
        density = np.exp(log_density(name, mesh, state, action, np))
    for k, (_, weights, cells) in enumerate(rules):
        parts = np.zeros((len(axes[k]), len(weights)))
        parts[cells, np.arange(len(weights))] = weights
        density = np.moveaxis(np.tensordot(parts, density, (1, k)), 0, k)
    return density.ravel() / density.sum()


def _rule(cut: Cut, k: int, axis: np.ndarray, mean: float, law: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(points, weights, the cell of each) on one axis: no piece holds an edge of a cell or a jump."""
    if law == "point":
        return axis, np.ones(len(axis)), np.arange(len(axis))
    edges = (axis[1:] + axis[:-1]) / 2
    jumps = [mean + jump for jump in cut.jumps] + list(cut.forbidden[k] if cut.forbidden else ())
    ends = np.unique(np.clip([-1.0, *edges, *jumps, 1.0], -1, 1))
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    points = (middle[:, None] + half[:, None] * nodes).ravel()
    return points, (half[:, None] * weights).ravel(), np.searchsorted(edges, np.repeat(middle, NUM_NODES))


def brackets(name: str, seed: int, methods: tuple[str, ...] = METHODS) -> dict[str, Any]:
    """For each method: whether its bracket holds all of Q*, how wide it is at most, and the true error; or its refusal."""
    import hamq

    found = {}
    for method in methods:
        law = "point" if method == "guaranteed" else "cell"  # independent draws of a density can be had there
        problem, exact = posed(name, law), optimal_q(name, law)
        span = float(np.ptp(exact.max(axis=1)))
        q = _solved(name, law, seed)
        try:
            made = hamq.certify(q, problem, method=method, key=seed)
        except ValueError as refusal:
            found[method] = {"refused": str(refusal)}
            continue
        assert isinstance(made, hamq.Certificate)
        room = ROUNDING * span
        inside = (made.lower <= exact + room) & (exact <= made.upper + room)
        error = np.abs(q - exact).max()
        found[method] = {
            "covered": bool(inside.all()),
            "outside": int((~inside).sum()),
            "bounded": bool(made.error >= error - room),
            "width": float((made.upper - made.lower).max()) / span,
            "error": float(error) / span,
        }
    return found


@functools.lru_cache(maxsize=4)
def _solved(name: str, law: str, seed: int) -> np.ndarray:
    import hamq

    # The default would sum over masses, with no error that a certificate could miss.
    sampler = hamq.IID(NUM_DRAWS) if law == "point" else hamq.HMC(NUM_DRAWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hamq.HamqWarning)
        return hamq.solve(posed(name, law), sampler, key=seed).q


def counted(names: tuple[str, ...], runs: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row for each density and method."""

    def median(values: list[float]) -> float:
        return sorted(values)[len(values) // 2]

    rows = []
    for name in names:
        for method in METHODS:
            own = [found[method] for of, found in runs if of == name]
            made = [one for one in own if "refused" not in one]
            row = {"density": name, "method": method, "runs": len(own), "refused": len(own) - len(made)}
            row |= {kind: sum(one[kind] for one in made) for kind in ("covered", "bounded")}
            if made:
                row |= {kind: median([one[kind] for one in made]) for kind in ("width", "error")}
            rows.append(row)
    return rows


def cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Of the table on the page, with its head."""
    found = [["density", "method", "all of Q*", "bound ≥ error", "refused", "error of Q", "widest bracket"]]
    for row in rows:
        made = row["runs"] - row["refused"]
        counts = [f"{row[kind]} of {made}" for kind in ("covered", "bounded")]
        sizes = [f"{row[kind]:.2g}" if made else "" for kind in ("error", "width")]
        found.append([row["density"], row["method"], *counts, str(row["refused"]), *sizes])
    return found
