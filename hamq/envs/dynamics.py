"""What one environment and a batch of them share: spaces, starts and steps of a problem.

A step is `hamq.control.next_state.step`: the density cut to the box, from the same object that solvers and certificates
use. Every step takes one JAX key from Gymnasium's generator, so that a seed decides the whole trajectory.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float, Int

from hamq.control.next_state import Account, Model, NormalModel, Step, make_model, run_model, step, take_step
from hamq.problem.actions import ProductActions
from hamq.problem.problem import Problem
from hamq.tensor.backup import ended
from hamq.types import HamqError

MOST_ROUNDS = 200
"""Of drawing starts again that are terminal."""
NUM_WATCHED = 100
"""Steps after which it is said, once, what their draws were worth."""


class Moved(NamedTuple):
    """One step of all environments of a batch."""

    states: Float[np.ndarray, "B d"]
    rewards: Float[np.ndarray, " B"]
    is_terminal: Bool[np.ndarray, " B"]


def _advance(model: NormalModel, states: Any, actions: Any, words: Any):
    """A step of a batch with the key of two random `words`, and what of it has ended."""
    moved = take_step(model, states, actions, jr.wrap_key_data(words))
    low, high = (jnp.asarray(end, states.dtype)[None, :] for end in (model.problem.grid.lower, model.problem.grid.upper))
    inside = jnp.clip(moved.states, low, high)  # of float32's rounding alone: the law has no mass beyond the walls
    return moved._replace(states=inside, effective=jnp.mean(moved.effective)[None]), ended(model.problem, inside)


class Dynamics:
    """Spaces, starts and steps of one problem. Actions are counted: see `action_space`.

    `action_space` is MultiDiscrete, one number of a level per actuator, where the actions are a product of levels
    (`problem.action_levels`), else Discrete(A), the number of an action in `problem.actions`.
    """

    def __init__(self, problem: Problem, starts: Any = None, model: Model | None = None):
        if not isinstance(problem, Problem):
            raise HamqError(f"ProblemEnv: problem must be a hamq.Problem, got {type(problem).__name__}.")
        self.problem = problem
        self.model = make_model(problem) if model is None else model
        self._tables = _action_tables(problem)
        self.low, self.high = (np.asarray(end, np.float32) for end in (problem.grid.lower, problem.grid.upper))
        self.observation_space = spaces.Box(self.low, self.high, dtype=np.float32)
        sizes = [len(table) for table in self._tables]
        is_product = _levels(problem) is not None
        self.action_space = spaces.MultiDiscrete(sizes) if is_product else spaces.Discrete(sizes[0])
        self._is_over = jax.jit(lambda states: ended(problem, states))
        self.starts = None if starts is None else self._checked(starts, "starts")
        if self.starts is not None and bool(np.all(self._is_over(self.starts))):
            raise HamqError(f"ProblemEnv: all {len(self.starts)} starts are terminal states of {problem.name}.")
        self._account, self._num_watched = Account(self.model), 0

    def actions(self, chosen: Any) -> Float[np.ndarray, "B *k"]:
        """The values of actions that are given by their numbers: `[B]` in a Discrete space, `[B, k]` in a MultiDiscrete."""
        chosen = np.asarray(chosen)
        if isinstance(self.action_space, spaces.Discrete):
            return self._tables[0][chosen]
        return np.stack([table[chosen[:, i]] for i, table in enumerate(self._tables)], axis=1)

    def nearest(self, actions: Any) -> Int[np.ndarray, "B *k"]:
        """The numbers, as `actions` takes them, of the actions that are nearest to these values `[B]` or `[B, k]`."""
        values = np.asarray(actions, np.float32)
        if isinstance(self.action_space, spaces.Discrete):
            gaps = (values[:, None] - self._tables[0][None]).reshape(len(values), len(self._tables[0]), -1)
            return np.argmin(np.sum(gaps**2, axis=2), axis=1)
        each = [np.abs(values[:, i, None] - table[None]) for i, table in enumerate(self._tables)]
        return np.stack([np.argmin(gaps, axis=1) for gaps in each], axis=1)

    def move(self, states: Float[np.ndarray, "B d"], actions: np.ndarray, generator: np.random.Generator) -> Moved:
        """Next states, the rewards of the states that are left, and whether the next ones end an episode."""
        words = generator.integers(2**32, size=2, dtype=np.uint32)
        if isinstance(self.model, NormalModel):
            moved, is_terminal = run_model("advance", self.model, _advance, states, actions, words)
        else:
            moved = step(self.model, states, actions, key=jr.wrap_key_data(jnp.asarray(words)))
            moved = moved._replace(states=np.clip(moved.states, self.low, self.high))
            is_terminal = self._is_over(moved.states)
        self._watch(moved)
        return Moved(np.array(moved.states), np.asarray(moved.rewards), np.asarray(is_terminal))

    def draw_starts(self, count: int, generator: np.random.Generator) -> Float[np.ndarray, "B d"]:
        """One of `starts`, or uniform over the box (law="cell": over the nodes); terminal ones are drawn again."""
        found = self._candidates(count, generator)
        if self.problem.terminal is None:
            return found
        for _ in range(MOST_ROUNDS):
            is_over = np.asarray(self._is_over(found))
            if not np.any(is_over):
                return found
            found = np.where(is_over[:, None], self._candidates(count, generator), found)
        raise HamqError(
            f"ProblemEnv: no start of {self.problem.name} that is not terminal found in {MOST_ROUNDS} draws; give starts."
        )

    def placed(self, states: Any, count: int) -> Float[np.ndarray, "B d"]:
        """The states of reset(options={"state": …}), one for all or one for each; law="cell": their nearest nodes."""
        given = self._checked(states, 'reset: options["state"]')
        if len(given) not in (1, count):
            raise HamqError(f'ProblemEnv: reset: options["state"] has {len(given)} states for {count} environments.')
        return np.array(np.broadcast_to(given, (count, given.shape[1])))

    def _candidates(self, count: int, generator: np.random.Generator) -> Float[np.ndarray, "B d"]:
        grid = self.problem.grid
        if self.starts is not None:
            return self.starts[generator.integers(len(self.starts), size=count)]
        if self.problem.law == "cell":
            chosen = generator.integers(grid.points, size=(count, grid.dimension))
            return self._nodes(chosen)
        drawn = generator.uniform(grid.lower, grid.upper, (count, grid.dimension))
        return np.clip(drawn.astype(np.float32), self.low, self.high)

    def _nodes(self, coordinates: np.ndarray) -> Float[np.ndarray, "B d"]:
        grid = self.problem.grid
        return np.stack([grid.axis_nodes(i)[c] for i, c in enumerate(coordinates.T)], axis=1).astype(np.float32)

    def _checked(self, states: Any, field: str) -> Float[np.ndarray, "n d"]:
        grid = self.problem.grid
        given = np.asarray(states, np.float64)
        given = given[None] if given.ndim == 1 else given
        if given.ndim != 2 or given.shape[1] != grid.dimension or not len(given):
            raise HamqError(
                f"ProblemEnv: {field} must have the shape [{grid.dimension}] or [n, {grid.dimension}], "
                f"got {list(np.shape(states))}."
            )
        states = given.astype(np.float32)
        for row in np.flatnonzero(~np.all((states >= self.low) & (states <= self.high), axis=1))[:1]:  # NaN too
            raise HamqError(
                f"ProblemEnv: {field} has the state {given[row].tolist()}, outside of the box from {list(grid.lower)} to "
                f"{list(grid.upper)}."
            )
        if self.problem.law == "cell":
            states = self._nodes(np.asarray(jax.vmap(grid.coordinates)(jnp.asarray(states))))
        return states

    def _watch(self, moved: Step) -> None:
        self._num_watched += 1
        if self._num_watched <= NUM_WATCHED:
            self._account.add(moved)
        if self._num_watched == NUM_WATCHED:
            self._account.warn("ProblemEnv", " in model=make_model(problem, …)", stacklevel=4)


def _levels(problem: Problem) -> Any:
    return problem.actions.levels if isinstance(problem.actions, ProductActions) else problem.action_levels


def _action_tables(problem: Problem) -> list[np.ndarray]:
    """The levels of each actuator, or one table of all actions."""
    levels = _levels(problem)
    return [np.asarray(table, np.float32) for table in ([problem.actions] if levels is None else levels)]
