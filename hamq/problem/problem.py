"""A stochastic control problem on a grid: who moves where, with what density, for what reward."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem import actions as action_sets
from hamq.problem import checks
from hamq.problem.actions import Levels, ProductActions
from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import AbstractDensity, AbstractKernel
from hamq.problem.scene import Scene
from hamq.types import HamqError, Law, UserFunction, as_count

LAWS = ("cell", "linear", "point")


class Problem(eqx.Module):
    """Markov decision process whose next state has a density known up to a constant.

    User functions take ONE state `[d]` and ONE action (a scalar when `actions` is `[A]`, a vector `[k]` when it is
    `[A, k]`) and return one value; the library batches. `actions` may be a `ProductActions`: it is listed as `[A, k]`
    up to 10⁶ actions, and kept as it is beyond. `action_levels` are its levels, also where an array `[A, k]` is found to
    be such a product, in its order and with at least two coordinates that vary; otherwise None.

    `law` says how the continuous next state becomes a grid state: `cell` (nearest grid point: the mass of the
    truncated density in each cell), `linear` (V is interpolated multilinearly between grid points) or `point` (the
    paper's point masses at grid points; no sampler of the continuous density follows it).
    `terminal(state) -> bool` marks states whose value is 0 from there on, reward included.
    `expected` names the warnings (`aliasing`, `noise`, `outside`) that are known and wanted: they become notes.
    `axis_names` (s1, s2, … by default) and `scene` are for pictures only, see scene.py.
    """

    grid: Grid
    actions: Float[np.ndarray, "A"] | Float[np.ndarray, "A k"] | ProductActions
    kernel: AbstractKernel
    reward: UserFunction = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    terminal: UserFunction | None = eqx.field(static=True)
    name: str = eqx.field(static=True)
    law: Law = eqx.field(static=True)
    expected: tuple[str, ...] = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True)
    is_product: bool = eqx.field(static=True)
    action_levels: Levels | None = eqx.field(static=True)
    axis_names: tuple[str, ...] = eqx.field(static=True)
    scene: Scene | None = eqx.field(static=True)

    def __init__(
        self,
        grid: Grid,
        actions: Any,
        kernel: AbstractKernel,
        reward: UserFunction,
        discount: float,
        terminal: UserFunction | None = None,
        name: str = "problem",
        law: Law = "cell",
        expected: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        axis_names: Sequence[str] | None = None,
        scene: Scene | None = None,
    ):
        if not isinstance(grid, Grid):
            raise HamqError(f"Problem: grid must be a hamq.Grid, got {type(grid).__name__}.")
        if not isinstance(kernel, AbstractKernel):
            raise HamqError(
                "Problem: kernel must be a hamq.AbstractKernel, such as a hamq.GaussianKernel or a hamq.UnnormalizedKernel, "
                f"got {type(kernel).__name__}."
            )
        if law not in LAWS:
            raise HamqError(f"Problem: law must be one of {', '.join(LAWS)}, got {law!r}.")
        if not callable(reward):
            raise HamqError(f"Problem: reward must be a function of (state, action), got {reward!r}.")
        if terminal is not None and not callable(terminal):
            raise HamqError(f"Problem: terminal must be None or a function of the state, got {terminal!r}.")
        if scene is not None and not isinstance(scene, Scene):
            raise HamqError(f"Problem: scene must be None or a hamq.Scene, got {scene!r}.")
        self.grid = grid
        self.axis_names = _checked_names(axis_names, grid.dimension)
        self.scene = scene
        self.actions = action_sets.check_actions(actions)
        self.action_levels = action_sets.find_levels(actions if isinstance(actions, ProductActions) else self.actions)
        self.kernel = kernel
        self.reward = reward
        self.discount = checks.check_discount(discount)
        self.terminal = terminal
        self.name = str(name)
        self.law = law
        self.expected = (expected,) if isinstance(expected, str) else tuple(expected)
        self.is_product = checks.check_functions(grid, self.actions, kernel, reward, terminal)
        found = checks.look_for_surprises(grid, self.actions, kernel, reward, law)
        self.notes = (*notes, *checks.warn_unless_expected(found, self.expected, self.name))

    @property
    def num_states(self) -> int:
        return self.grid.num_states

    @property
    def num_actions(self) -> int:
        """A Python int, so that 9²⁰ is 9²⁰."""
        return action_sets.count(self.actions)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """() where actions are numbers, (k,) where they are vectors."""
        return action_sets.action_shape(self.actions)

    def require_enumerable(self, what: str) -> None:
        """Refuses, on behalf of what lists all states or all actions, a problem that has too many of either."""
        self.grid.require_enumerable(what)
        if isinstance(self.actions, ProductActions):
            self.actions.require_enumerable(what)

    def density(self, state: Float[Array, " d"], action: Array) -> AbstractDensity:
        """The density of the next state of one pair, before it is cut to the box."""
        return self.kernel.at(self.grid, state, action)

    @property
    def has_closed_masses(self) -> bool:
        """Whether the masses of a row are products of closed forms."""
        return self.is_product and self.kernel.has_closed_masses

    @property
    def functions(self) -> tuple[Any, ...]:
        """All functions of the user: what is compiled for them is kept as long as they are."""
        return (*self.kernel.functions, self.reward, *(() if self.terminal is None else (self.terminal,)))

    @property
    def constants(self) -> Hashable:
        """What a compiled program of the kernel depends on beside its functions and arrays that it is given."""
        return self.kernel.constants, self.grid, self.law, self.is_product

    def __repr__(self) -> str:
        num_states, num_actions = as_count(self.num_states), as_count(self.num_actions)
        return (
            f"Problem({self.name!r}: {num_states} states in {self.grid.dimension} dimensions × {num_actions} actions, "
            f"{type(self.kernel).__name__}, law {self.law!r}, discount {self.discount:g})"
        )


def _checked_names(names: Sequence[str] | None, dimension: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"s{i + 1}" for i in range(dimension))
    given = (names,) if isinstance(names, str) else tuple(str(name) for name in names)
    if len(given) != dimension or len(set(given)) != dimension or not all(name.strip() for name in given):
        raise HamqError(f"Problem: axis_names must have {dimension} different names, one per axis, got {given}.")
    return given


def is_same(problem: Problem, other: Problem) -> bool:
    """Whether grid, actions, discount and law are the same: a table of one may then be of the other."""
    return (
        problem.grid == other.grid
        and action_sets.is_same_set(problem.actions, other.actions)
        and (problem.discount, problem.law) == (other.discount, other.law)
    )


def listed_actions(problem: Problem) -> Any:
    """The array of all actions, `[A]` or `[A, k]`; a product that is too large to be listed is refused."""
    if isinstance(problem.actions, ProductActions):
        problem.actions.require_enumerable(f"{problem.name}: an array of all actions")
    return problem.actions


def value_under_law(problem: Problem, value: Float[Array, " S"], point: Float[Array, " d"]) -> Float[Array, ""]:
    """V at the cell of a point, or interpolated between the nodes around it (law="linear")."""
    grid = problem.grid
    return grid.interpolate(value, point) if problem.law == "linear" else value[grid.locate(point)]


def action_values(problem: Problem) -> jax.Array:
    """`listed_actions` in the precision that is on."""
    return jnp.asarray(listed_actions(problem), jnp.result_type(float))


def pair_name(problem: Problem, state_index: int, action_index: int) -> str:
    """`state 3 (0.5, -1), action 2 (0.1)`: how messages name a pair."""
    state = problem.grid.states_at(np.asarray([state_index]))[0]
    action = np.atleast_1d(action_sets.action_at(problem.actions, action_index))
    return f"state {state_index} ({_numbers(state)}), action {action_index} ({_numbers(action)})"


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{v:.6g}" if math.isfinite(v) else str(v) for v in values)
