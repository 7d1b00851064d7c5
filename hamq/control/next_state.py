"""How the next state of a pair is drawn on the problem's own model: always from the density cut to the box.

normal      Gaussian kernels: n weighted draws with fresh normals (`tensor/gaussian.py`), one of which is picked with the
            probability of its weight. n → ∞ gives the law itself; what is missing is of the order of one over the
            effective number of draws 1/Σw². Product laws have even weights and need one draw, which is exact.
masses      other densities: quadrature that adapts to each pair (`problem/quadrature.py`), axis by axis where coordinates
            are independent. With law="cell" a node is picked from its row, with law="linear" a point from the part that
            the quadrature ended with (`problem/point_draws.py`).
chains      where quadrature is too dear: the last draw of a chain of its own for each pair (`chain_draws.py`), with the
            number of independent draws that the chain is worth.

A number of a rollout never depends on how many others there are, for masses and chains.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.control.chain_draws import FEW_SHARE, FEWEST, PairChains
from hamq.problem.cells import all_axis_rows_of, evaluations_per_pair, rows_of
from hamq.problem.grid import Grid
from hamq.problem.point_draws import draw_points, num_uniforms, pick_by_axis
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.tensor.backup import ended
from hamq.tensor.gaussian import cut_draws
from hamq.types import HamqError, HamqWarning, Key, np_generator

Method = Literal["masses", "chains"]
METHODS = get_args(Method)
NUM_CORRELATED = 64
"""Draws of a correlated normal law of which one is picked by weight."""
ROW_TOLERANCE, POINT_TOLERANCE = 1e-3, 5e-3
"""Estimated total variation that the masses of nodes, which are kept, and of points, which are not, may miss. The estimate
is 10 to 50 times what is missing where a density jumps, and more where it is smooth."""
FAR = 0.03
"""Total variation from which on it is said."""
MAX_DIMENSION, MAX_POINTS = 3, 2 * 10**5
"""Up to where masses are cheap: dimensions, and evaluations of the density that a pair needs before it is refined."""
MAX_KEPT = 2**24
"""Masses that are kept for pairs that come again."""
ROLLOUTS_PER_TILE = 64


class NormalModel(eqx.Module):
    """Next states of a Gaussian kernel."""

    problem: Problem
    num_draws: int = eqx.field(static=True)

    @property
    def how(self) -> str:
        return "normal law" if self.num_draws == 1 else f"one of {self.num_draws} weighted draws of a normal law"

    def next_state(
        self, state: Float[Array, " d"], action: Array, normals: Float[Array, "d n"], uniform: Float[Array, ""]
    ) -> tuple[Float[Array, " d"], Float[Array, ""]]:
        """(s', effective number of the draws it was picked from)."""
        normal = self.problem.density(state, action).normal
        assert normal is not None
        points, log_weights = cut_draws(normal, self.problem.grid, normals)
        weights = jax.nn.softmax(log_weights)
        reached = jnp.cumsum(weights)
        picked = jnp.searchsorted(reached, uniform * reached[-1], side="right").clip(0, self.num_draws - 1)
        return self._placed(points[:, picked]), 1 / jnp.sum(weights**2)

    def _placed(self, point: Float[Array, " d"]) -> Float[Array, " d"]:
        grid = self.problem.grid
        if self.problem.law == "linear":
            return grid.wrap(point)
        lower, spacing = (jnp.asarray(v, point.dtype) for v in (grid.lower, grid.spacing))
        return lower + spacing * grid.coordinates(point).astype(point.dtype)


class Drawn(NamedTuple):
    """Next states; what the draw of each is worth; the error of the masses that it was picked from."""

    states: Float[np.ndarray, "B d"]
    effective: Float[np.ndarray, " B"]
    error: Float[np.ndarray, " B"]
    is_stuck: Bool[np.ndarray, " B"]
    is_uncrossed: Bool[np.ndarray, " B"]


class DensityModel:
    """Next states of a density without a normaliser, drawn on the host."""

    def __init__(self, problem: Problem, method: Method, num_draws: int | None = None):
        self.problem, self.method = problem, method
        self._chains = PairChains(problem, num_draws) if method == "chains" else None
        self._kept: dict[bytes, tuple[np.ndarray, float]] = {}

    @property
    def num_draws(self) -> int | None:
        """1 for masses; None for chains whose length is not known yet."""
        return 1 if self._chains is None else self._chains.num_draws

    @property
    def how(self) -> str:
        if self.method == "masses":
            tolerance = ROW_TOLERANCE if self.problem.law == "cell" else POINT_TOLERANCE
            return f"masses by quadrature, to an estimated {tolerance:g} in total variation"
        return f"last of {self.num_draws} draws of chains"

    def draw(self, states: np.ndarray, actions: np.ndarray, which: np.ndarray, *, key: Key) -> Drawn:
        """Next states of the pairs; `which` are the numbers of their rollouts, whose random numbers they have."""
        if self._chains is not None:
            made = self._chains.draw(states, actions, which, key=key)
            placed = self._placed(made.points[:, :, -1].astype(np.float64))
            return Drawn(placed, made.effective, np.zeros(len(states)), made.is_stuck, made.is_uncrossed)
        d = self.problem.grid.dimension
        num = d * num_uniforms(1) if self.problem.is_product else num_uniforms(d)
        rows = np_generator(key).random((int(which.max()) + 1, num))
        given = np.asarray(states, np.float64), np.asarray(actions, np.float64), rows[which]
        found, errors = (self._nodes if self.problem.law == "cell" else self._points)(*given)
        no = np.zeros(len(states), bool)
        return Drawn(found.astype(np.float32), np.ones(len(states)), errors, no, no)

    def _points(self, states: np.ndarray, actions: np.ndarray, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.problem.is_product:
            return self._points_by_axis(states, actions, uniforms)
        found = draw_points(self.problem, states, actions, uniforms, POINT_TOLERANCE, 2 * MAX_POINTS)
        return found.points, found.errors

    def _points_by_axis(self, states: np.ndarray, actions: np.ndarray, uniforms: np.ndarray) -> tuple[Any, Any]:
        """Independent coordinates, each with uniforms of its own."""
        d = self.problem.grid.dimension
        own = np.split(uniforms, d, axis=1)
        given = POINT_TOLERANCE / d, 2 * MAX_POINTS / d
        found = [draw_points(self.problem, states, actions, own[axis], *given, axis) for axis in range(d)]
        return np.concatenate([each.points for each in found], axis=1), np.sum([each.errors for each in found], axis=0)

    def _nodes(self, states: np.ndarray, actions: np.ndarray, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of pairs that come again are kept."""
        grid, d = self.problem.grid, self.problem.grid.dimension
        masses, errors, own = self._rows(states, actions)
        if not self.problem.is_product:
            return _at_nodes(grid, pick_by_axis(masses, grid.points, uniforms[:, :d], own)), errors
        each = np.split(masses, np.cumsum(grid.points)[:-1], axis=1)
        chosen = [pick_by_axis(row, row.shape[1:], uniforms[:, [i]], own) for i, row in enumerate(each)]
        return _at_nodes(grid, np.concatenate(chosen, axis=1)), errors

    def _rows(self, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows of masses, or of the masses of all axes; errors of the pairs; which row each of them has)."""
        pairs = np.concatenate([states, actions.reshape(len(states), -1)], axis=1)
        names = [pair.tobytes() for pair in pairs]
        new = {name: i for i, name in enumerate(names) if name not in self._kept}
        size = sum(self.problem.grid.points) if self.problem.is_product else self.problem.num_states
        if (len(self._kept) + len(new)) * size > MAX_KEPT:
            self._kept = {}
            new = {name: i for i, name in enumerate(names)}
        if new:
            first = np.fromiter(new.values(), np.int64)
            masses, errors = self._new_rows(states[first], actions[first])
            self._kept |= {name: (masses[i], float(errors[i])) for i, name in enumerate(new)}
        places = {name: i for i, name in enumerate(dict.fromkeys(names))}
        masses, errors = zip(*(self._kept[name] for name in places), strict=True)
        own = np.asarray([places[name] for name in names])
        return np.stack(masses), np.asarray(errors)[own], own

    def _new_rows(self, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self.problem.is_product:
            rows = rows_of(self.problem, states, actions, ROW_TOLERANCE, 2 * MAX_POINTS)
            return rows.masses, rows.errors
        each = all_axis_rows_of(self.problem, states, actions, ROW_TOLERANCE, 2 * MAX_POINTS)
        return np.concatenate([rows.masses for rows in each], axis=1), np.sum([rows.errors for rows in each], axis=0)

    def _placed(self, points: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        grid = self.problem.grid
        return (points if self.problem.law == "linear" else _at_nodes(grid, nearest_nodes(grid, points))).astype(np.float32)


def nearest_nodes(grid: Grid, points: Float[np.ndarray, "B d"]) -> Int[np.ndarray, "B d"]:
    """Coordinates of the nearest nodes; `Grid.coordinates` on the host."""
    nearest = np.round((points - np.asarray(grid.lower)) / np.asarray(grid.spacing)).astype(np.int64)
    n = np.asarray(grid.points)
    return np.where(np.asarray(grid.periodic), nearest % n, np.clip(nearest, 0, n - 1))


def _at_nodes(grid: Grid, coordinates: Int[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
    return np.stack([grid.axis_nodes(i)[c] for i, c in enumerate(coordinates.T)], axis=1)


Model = NormalModel | DensityModel


def make_model(problem: Problem, num_draws: int | None = None, method: Method | None = None) -> Model:
    """What draws next states of the problem.

    num_draws   of which one is taken (weighted draws, or those of a chain); None: 1 for product laws, 64 for other Gaussian
                kernels, and for chains as many as a few pairs need (128 to 2048). Masses need none.
    method      of densities without a normaliser; None: masses up to 3 dimensions, or of independent coordinates,
                where a pair costs at most 2e5 evaluations; else chains
    """
    if problem.law == "point":
        raise HamqError(
            f"rollouts: {problem.name} has law='point', masses at grid points that no continuous density has; use 'linear'."
        )
    if method not in (None, *METHODS):
        raise HamqError(f"rollouts: method must be None or one of {', '.join(METHODS)}, got {method!r}.")
    if problem.kernel.normal is not None:
        if method is not None:
            raise HamqError(f"rollouts: {problem.name} has a Gaussian kernel, which needs no method; use method=None.")
        return NormalModel(problem, num_draws or (1 if problem.is_product else NUM_CORRELATED))
    return DensityModel(problem, method or choose_method(problem), num_draws)


def choose_method(problem: Problem) -> Method:
    """Of a density without a normaliser."""
    is_flat = problem.is_product or problem.grid.dimension <= MAX_DIMENSION
    return "masses" if is_flat and evaluations_per_pair(problem) <= MAX_POINTS else "chains"


class Step(NamedTuple):
    """One step of all rollouts."""

    states: Float[Any, "B d"]
    rewards: Float[Any, " B"]
    effective: Float[Any, " B"]
    error: Float[Any, " B"] | None = None
    is_stuck: Bool[Any, " B"] | None = None
    is_uncrossed: Bool[Any, " B"] | None = None


def step(model: Model, states: Float[Array | np.ndarray, "B d"], actions: Array | np.ndarray, *, key: Key) -> Step:
    """Rewards of this step and the next states; a rollout that has ended stays where it is and is paid nothing."""
    if isinstance(model, NormalModel):
        return run_model("step", model, take_step, states, actions, key)
    rewards, is_over = (np.asarray(a) for a in run_paid(model.problem, states, actions))
    found, going = np.array(states, np.float32), np.flatnonzero(~is_over)
    effective, error = np.ones(len(found)), np.zeros(len(found))
    is_stuck, is_uncrossed = np.zeros(len(found), bool), np.zeros(len(found), bool)
    if len(going):
        drawn = model.draw(found[going], np.asarray(actions, np.float32)[going], going, key=key)
        found[going], effective[going], error[going], is_stuck[going], is_uncrossed[going] = drawn
    return Step(found, rewards, effective, error, is_stuck, is_uncrossed)


def run_paid(problem: Problem, states: Any, actions: Any) -> tuple[Any, Any]:
    """(rewards, whether the states are terminal); those are paid nothing."""

    def trace(states, actions):
        is_over = ended(problem, states)
        rewards = jax.vmap(lambda state, action: jnp.asarray(problem.reward(state, action)))(states, actions)
        return jnp.where(is_over, 0, rewards), is_over

    given = np.asarray(states, np.float32), np.asarray(actions, np.float32)
    job = ("paid", problem.constants, problem.discount, len(problem.functions))
    return program(job, problem.functions, trace, *given)(*given)


def run_model(job: str, model: NormalModel, trace: Callable[..., Any], *given: Any) -> Any:
    """`trace` of the model and of arrays, compiled for the problem's functions and kept as long as they are."""
    problem, num_draws = model.problem, model.num_draws
    about = (job, problem.constants, problem.discount, len(problem.functions), num_draws)
    run = program(about, problem.functions, lambda *given: trace(NormalModel(problem, num_draws), *given), *given)
    return run(*given)


def take_step(model: NormalModel, states: Float[Array, "B d"], actions: Array, key: Key) -> Step:
    """`step`, traced."""
    normal_key, uniform_key = jr.split(key)
    size, d = states.shape
    normals = jr.normal(normal_key, (size, d, model.num_draws))
    uniforms = jr.uniform(uniform_key, (size,))
    found, effective = _in_tiles(
        lambda given: jax.vmap(model.next_state)(*given), (states, actions, normals, uniforms), size
    )
    is_over = ended(model.problem, states)
    rewards = jax.vmap(lambda state, action: jnp.asarray(model.problem.reward(state, action)))(states, actions)
    return Step(jnp.where(is_over[:, None], states, found), jnp.where(is_over, 0, rewards), effective)


def _in_tiles(function: Callable, given: tuple[Array, ...], size: int) -> tuple[Array, ...]:
    """`function` of all rows, tile by tile; the last one is filled up: what is left over would be a second program."""
    if size <= ROLLOUTS_PER_TILE:
        return function(given)
    rows = jnp.resize(jnp.arange(size), (-(-size // ROLLOUTS_PER_TILE), ROLLOUTS_PER_TILE))
    tiles = jax.lax.map(function, tuple(a[rows] for a in given))
    return tuple(a.reshape(-1, *a.shape[2:])[:size] for a in tiles)


class Account:
    """What the draws of many steps were worth, and the sentences about it."""

    def __init__(self, model: Model):
        self.model, self.num = model, 0
        self._means: list[float] = []
        self.num_few, self.num_far, self.num_stuck, self.num_uncrossed, self.worst = 0, 0, 0, 0, 0.0

    def add(self, taken: Step) -> None:
        mean = float(np.mean(taken.effective))
        self.num += len(taken.effective)
        self._means.append(mean if np.isfinite(mean) else 0.0)
        self.num_few += int(np.sum(~(np.asarray(taken.effective) >= FEWEST)))
        if taken.error is not None:
            self.num_far += int(np.sum(~(taken.error <= FAR)))
            self.worst = max(self.worst, float(np.max(taken.error)))
        if taken.is_stuck is not None:
            self.num_stuck += int(np.sum(taken.is_stuck))
        if taken.is_uncrossed is not None:
            self.num_uncrossed += int(np.sum(taken.is_uncrossed))

    @property
    def effective(self) -> float:
        """Mean number of draws that one next state was taken from, of all steps; never NaN."""
        return float(np.mean(self._means))

    def sentences(self) -> list[str]:
        """What may be wrong, and what to change."""
        model, name = self.model, self.model.problem.name
        found = []
        if isinstance(model, NormalModel):
            if model.num_draws > 1 and self.effective < FEWEST:
                found.append(
                    f"only {self.effective:.1f} of {model.num_draws} draws carry weight on {name}; the next states do not "
                    "follow its law; use a larger num_draws"
                )
            return found
        if self.num_far:
            found.append(
                f"the masses of {self.num_far} of {self.num} next states of {name} may be off by up to {self.worst:.2g} "
                "(total variation); use more grid points, or method='chains'"
            )
        if model.method == "chains" and self.num_few > FEW_SHARE * self.num:
            found.append(
                f"the chains of {self.num_few} of {self.num} next states of {name} are worth less than {FEWEST:.0f} "
                f"independent draws ({self.num_stuck} never moved; {self.effective:.1f} on average); their next states may "
                f"not follow its law; {self._remedy()}"
            )
        return found

    def _remedy(self) -> str:
        more = f"use a num_draws above {self.model.num_draws}"
        if self.num_uncrossed < 0.5 * self.num_few:
            return more
        return f"chains do not cross from mode to mode there: compare with method='masses', which is slower, or {more}"

    def warn(self, who: str, where: str, stacklevel: int) -> None:
        """`where` says to which call the remedies belong."""
        for sentence in self.sentences():
            warnings.warn(f"{who}: {sentence}{where}.", HamqWarning, stacklevel=stacklevel + 1)
