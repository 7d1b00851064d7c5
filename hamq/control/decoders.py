"""An action for any state, from a table Q that knows the nodes of a grid only.

nearest       argmax_a Q(node nearest to s, a)
interpolate   argmax_a Q(s, a), Q multilinear between the nodes
lookahead     argmax_a r(s, a) + γ E[V(s')], V = max_a Q, s' by the model from s itself

`lookahead` asks the model what each action does from where the state really is, and needs only V between the nodes, which is
smoother than Q's differences between actions: on a coarse grid it is the best of the three, often by far
(docs/environments.md). Its expectation is exact for product Gaussian kernels: the masses of the law on each axis in closed
form, over the nodes within 8 σ of the mean. Other Gaussian kernels have weighted draws whose random numbers all states and
actions share (`tensor/gaussian.py`), densities without a normaliser have masses by quadrature, or chains
(`expected_values.py`). It can also look at more actions than the table has.

States are worked on in tiles of one size, so that the action of a state never depends on which others are asked for.
`value_at`, `q_at` and `act` are what a solution is asked.
"""

import dataclasses
import functools
import math
import warnings
import weakref
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.control.expected_values import ExpectedValues
from hamq.control.next_state import NUM_CORRELATED
from hamq.control.rollouts import Policy
from hamq.problem.actions import ProductActions, check_actions, is_same_set
from hamq.problem.evaluation import numbers
from hamq.problem.grid import Grid
from hamq.problem.normal import axis_log_masses
from hamq.problem.problem import Problem, listed_actions, value_under_law
from hamq.problem.programs import program
from hamq.solution import Solution
from hamq.tensor.gaussian import cut_draws, shared_normals
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqError, HamqWarning, require_count

Decoder = Literal["nearest", "interpolate", "lookahead"]
DECODERS = get_args(Decoder)
TILE = 32
REACH = 8.0
"""Standard deviations about the mean whose nodes count: what lies beyond has a mass below 1e-15."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TablePolicy:
    """A decoder and its table; a function of states `[B, d]`. `scores` are what it compares, one per action.

    How `lookahead` knows E[V]: from `normals` that all pairs share, from `expected`, or in closed form where both are None.
    """

    problem: Problem
    decoder: Decoder
    q: Float[np.ndarray, "S A"]
    actions: Float[np.ndarray, "C"] | Float[np.ndarray, "C k"]
    normals: Float[Array, "d n"] | None
    expected: ExpectedValues | None

    def __call__(self, states: Any) -> Float[np.ndarray, "B *k"]:
        return self.actions[np.argmax(self.scores(states), axis=1)]

    def scores(self, states: Any) -> Float[np.ndarray, "B C"]:
        """Refuses a score that is no number."""
        states = self._checked(states)
        if self.expected is None:
            found = self._in_tiles(self.decoder, states)
        else:
            expected = self.expected(states, np.asarray(self.actions, np.float64))
            found = self._in_tiles("rewards", states) + self.problem.discount * expected
        if np.any(np.isnan(found)):
            row, column = np.argwhere(np.isnan(found))[0]
            raise HamqError(
                f"{self.decoder} on {self.problem.name}: the score of action {numbers(self.actions[column])} in state "
                f"{numbers(states[row])} is nan; look at the reward, the mean and the covariance there."
            )
        return found

    def _in_tiles(self, what: str, states: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B C"]:
        """`_scores` of all states."""
        tiles = np.resize(states, (math.ceil(len(states) / TILE), TILE, states.shape[1]))
        # The tensor trains' draws are written for float32; sums over a table are cheap, and sure, in float64.
        with jax.enable_x64(self.normals is None):
            table, dtype = self.q, jnp.result_type(float)
            if self.decoder == "lookahead":
                table = self.q.max(axis=1)
            shared = jax.device_put((self.normals, np.asarray(table, dtype), np.asarray(self.actions, dtype)))
            tiles = tiles.astype(dtype)
            trace = functools.partial(_scores, what, self.problem)
            problem, given = self.problem, (*shared, tiles[0])
            job = ("scores", what, problem.constants, problem.discount, len(problem.functions))
            run = program(job, problem.functions, trace, *given)
            # One call per tile: XLA rounds a loop over tiles differently when there is only one.
            found = np.concatenate([np.asarray(run(*shared, tile), np.float64) for tile in tiles])
        return found[: len(states)]

    def __repr__(self) -> str:
        more = "" if len(self.actions) == self.q.shape[1] else f" over {len(self.actions)} actions"
        return f"TablePolicy({self.problem.name!r}: {self.decoder}{more})"

    def _checked(self, states: Any) -> Float[np.ndarray, "B d"]:
        states, d = np.asarray(states, np.float64), self.problem.grid.dimension
        if states.ndim != 2 or states.shape[1] != d or not len(states):
            raise HamqError(f"states must have the shape [B, {d}], got {list(states.shape)}; one state s is s[None].")
        if not np.all(np.isfinite(states)):
            raise HamqError(f"state {int(np.argwhere(~np.isfinite(states))[0][0])} is not finite.")
        return states


def make_policy(
    solution: Solution | TensorSolution | Float[np.ndarray, "S A"],
    decoder: str = "lookahead",
    problem: Problem | None = None,
    *,
    actions: Any = None,
    num_draws: int | None = None,
) -> Policy:
    """A function of states `[B, d]` that gives the decoder's actions.

    problem     whose model `lookahead` uses: the solution's own by default, needed with a bare table
    actions     a list of actions that `lookahead` compares instead of the table's, as `[C]` or `[C, k]`
    num_draws   of an expectation by draws; None: 64 for Gaussian kernels, and as many as a few pairs need for
                chains
    """
    if decoder not in DECODERS:
        raise HamqError(f"make_policy: decoder must be one of {', '.join(DECODERS)}, got {decoder!r}.")
    if isinstance(solution, TensorSolution):
        return _tensor_policy(solution, decoder, problem, actions)
    q, problem = _table(solution, problem)
    compared = np.asarray(listed_actions(problem), np.float64)
    if actions is not None:
        compared = _other_actions(problem, decoder, actions)
    if num_draws is not None:
        require_count("make_policy: num_draws", num_draws)
    normals, expected = None, None
    if decoder == "lookahead" and problem.kernel.normal is None:
        expected = ExpectedValues(problem, q.max(axis=1), num_draws)
    elif decoder == "lookahead" and not problem.is_product:
        normals = _normals(problem, num_draws)
    return TablePolicy(problem, decoder, q, compared, normals, expected)  # type: ignore[arg-type]


def table_policy(problem: Problem, q: Float[np.ndarray, "S A"]) -> TablePolicy:
    """What the law of a problem reads off its table, without the model: `nearest`, or `interpolate` (law="linear")."""
    q, _ = _table(q, problem)
    decoder: Decoder = "interpolate" if problem.law == "linear" else "nearest"
    return TablePolicy(problem, decoder, q, np.asarray(listed_actions(problem), np.float64), None, None)


def _table(solution: Any, problem: Problem | None) -> tuple[np.ndarray, Problem]:
    if isinstance(solution, Solution):
        q, own = solution.q, solution.problem
        if problem is not None and (problem.grid != own.grid or not is_same_set(problem.actions, own.actions)):
            raise HamqError(
                f"make_policy: the table is of {own.name} and problem is {problem.name} with another grid or other actions; "
                "give a problem with the same ones."
            )
        problem = own if problem is None else problem
    else:
        q = np.asarray(solution, np.float64)
        if problem is None:
            raise HamqError("make_policy: a bare table needs its problem; give problem=, or a Solution, which has it.")
    problem.require_enumerable("make_policy")
    shape = (problem.num_states, problem.num_actions)
    if q.shape != shape:
        raise HamqError(f"make_policy: the table of {problem.name} must have the shape {list(shape)}, got {list(q.shape)}.")
    if not np.all(np.isfinite(q)):
        raise HamqError(
            f"make_policy: the table of {problem.name} has {int(np.sum(~np.isfinite(q)))} entries that are not finite; "
            "no action can be chosen from it."
        )
    return np.asarray(q, np.float64), problem


def _other_actions(problem: Problem, decoder: str, actions: Any) -> np.ndarray:
    if decoder != "lookahead":
        raise HamqError(f"make_policy: decoder {decoder!r} knows the table's actions only; actions= needs 'lookahead'.")
    given = check_actions(actions)
    listed = np.asarray(given.enumerate() if isinstance(given, ProductActions) else given, np.float64)
    if listed.shape[1:] != problem.action_shape:
        raise HamqError(
            f"make_policy: actions must have the shape {['C', *problem.action_shape]}, got {list(listed.shape)}."
        )
    return listed


def _tensor_policy(solution: TensorSolution, decoder: str, problem: Problem | None, actions: Any) -> Policy:
    if decoder != "lookahead" or problem is not None or actions is not None:
        raise HamqError(
            "make_policy: a TensorSolution has V and no table: its actions come from one backup through its own model; use "
            "decoder='lookahead' without problem= and actions=."
        )
    return solution.actions


def _normals(problem: Problem, num_draws: int | None) -> Float[Array, "d n"]:
    if problem.law == "point":
        raise HamqError(
            f"lookahead: {problem.name} has law='point', masses at grid points that no continuous density has; use 'linear'."
        )
    return jnp.asarray(shared_normals(num_draws or NUM_CORRELATED, problem.grid.dimension, 0), jnp.float32)


def _scores(what: str, problem: Problem, normals: Array | None, table: Array, actions: Array, tile: Array) -> Array:
    """Scores `[TILE, C]`, or the rewards that are part of them; `table` is V for lookahead and Q for the others."""
    grid = problem.grid

    def of_state(state):
        if what == "nearest":
            return table[grid.locate(state)]
        if what == "interpolate":
            return jax.vmap(lambda column: grid.interpolate(column, state), in_axes=1)(table)
        if what == "rewards":
            return jax.vmap(lambda action: jnp.asarray(problem.reward(state, action)))(actions)
        return jax.vmap(lambda action: _ahead(problem, normals, table, state, action))(actions)

    return jax.vmap(of_state)(tile)


def _ahead(problem: Problem, normals: Array | None, values: Float[Array, " S"], state: Array, action: Array) -> Array:
    """r(s, a) + γ E[V(s')] of a Gaussian kernel."""
    expected = (
        _exact_mean(problem, values, state, action)
        if normals is None
        else _sampled_mean(problem, normals, values, state, action)
    )
    return jnp.asarray(problem.reward(state, action)) + problem.discount * expected


def _exact_mean(problem: Problem, values: Float[Array, " S"], state: Array, action: Array) -> Array:
    """Σ of masses × values over the nodes about the mean, the masses a product over the axes."""
    grid, normal = problem.grid, problem.density(state, action).normal
    assert normal is not None
    index, weights = jnp.zeros(1, jnp.int32), jnp.ones(1, state.dtype)
    for axis, width in enumerate(_windows(problem)):
        nodes, masses = _axis_masses(problem, axis, width, normal.mean[axis], normal.factor[axis])
        index = (index[:, None] * grid.points[axis] + nodes[None, :]).ravel()
        weights = (weights[:, None] * masses[None, :]).ravel()
    return jnp.sum(weights * values[index])


def _windows(problem: Problem) -> tuple[int, ...]:
    """How many nodes of each axis can have mass: those within 8 σ and one more at each end, or all of them."""
    normal, points = problem.kernel.normal, problem.grid.points
    assert normal is not None
    if callable(normal.covariance):
        return points
    reach = REACH * np.sqrt(np.asarray(normal.covariance)) / np.asarray(problem.grid.spacing)
    return tuple(min(n, 2 * math.ceil(far) + 3) for n, far in zip(points, reach.tolist(), strict=True))


def _axis_masses(problem: Problem, axis: int, width: int, mean: Float[Array, ""], std: Float[Array, ""]):
    """(`width` neighbouring nodes about the mean, or at the wall where it is outside the box; their masses).

    The window is an axis of its own, without images round the circle: at its ends there is a wall of the box, or no mass.
    """
    grid, n = problem.grid, problem.grid.points[axis]
    if width == n:
        return jnp.arange(n, dtype=jnp.int32), jnp.exp(axis_log_masses(grid, axis, problem.law, mean, std))
    spacing, offset = grid.spacing[axis], mean - grid.lower[axis]
    if grid.periodic[axis]:
        offset = offset % grid.widths[axis]
        first = jnp.round(offset / spacing).astype(jnp.int32) - width // 2
    else:
        nearest = jnp.round(jnp.clip(offset / spacing, 0, n - 1)).astype(jnp.int32)
        first = jnp.clip(nearest - width // 2, 0, n - width)
    window = Grid([0.0], [spacing * (width - 1)], width)
    masses = jnp.exp(axis_log_masses(window, 0, problem.law, offset - spacing * first.astype(mean.dtype), std))
    return (first + jnp.arange(width, dtype=jnp.int32)) % n, masses


def _sampled_mean(
    problem: Problem, normals: Float[Array, "d n"], values: Float[Array, " S"], state: Array, action: Array
) -> Array:
    """Weighted mean of V over the draws."""
    normal = problem.density(state, action).normal
    assert normal is not None
    points, log_weights = cut_draws(normal, problem.grid, normals)
    found = jax.vmap(lambda point: value_under_law(problem, values, point), in_axes=1)(points)
    return jnp.sum(jax.nn.softmax(log_weights) * found)


_POLICIES: "weakref.WeakKeyDictionary[Solution, Policy]" = weakref.WeakKeyDictionary()
"""One per solution: what a policy compiles and looks up once serves all calls."""


def value_at(solution: Solution, states: Any) -> Float[np.ndarray, " B"]:
    """max_a Q at the nearest node, or that of the nodes around interpolated (law="linear")."""
    read = dataclasses.replace(table_policy(solution.problem, solution.q), q=solution.value[:, None])
    return read.scores(states)[:, 0]


def q_at(solution: Solution, states: Any) -> Float[np.ndarray, "B A"]:
    """Q of all actions, read as `value_at` reads V."""
    return table_policy(solution.problem, solution.q).scores(states)


def act(solution: Solution, states: Any) -> Float[np.ndarray, "B *k"]:
    """The actions of the decoder that measured best (docs/environments.md)."""
    if solution not in _POLICIES:
        _POLICIES[solution] = best_policy(solution)
    return _POLICIES[solution](states)


def best_policy(solution: Solution) -> Policy:
    """`lookahead`, or `interpolate`, with a warning, where the model cannot be asked."""
    simpler = make_policy(solution, "interpolate")  # refuses what is wrong with the table itself
    try:
        return make_policy(solution, "lookahead")
    except HamqError as error:
        warnings.warn(f"actions are read off Q between the nodes, because of this: {error}", HamqWarning, stacklevel=5)
        return simpler
