"""A Problem as a Gymnasium environment: the observation is the state, the law is the solver's.

A batch of environments of one Problem: one compiled step for all of them.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Float, UInt8

from hamq.control.next_state import Model
from hamq.envs.dynamics import Dynamics
from hamq.envs.rendering import SIZE, draw, scene_of
from hamq.problem.problem import Problem
from hamq.types import HamqError, require_count

RENDER_FPS = 10


class ProblemEnv(gymnasium.Env):
    """One environment.

    observation  the state, float32, in the box of the grid; with law="cell" always a node of the grid
    action       the number of an action in `problem.actions`, or one number of a level per actuator where the actions are
                 a product (`Dynamics.action_space`)
    reward       problem.reward(state, action) of the state that is left
    terminated   problem.terminal of the state that is reached; the time limit is a wrapper's business
    reset        options={"state": s} starts there; otherwise one of `starts` `[n, d]`, or uniform over the box

    `model`: what make_model(problem, num_draws, method) returns, where another way to draw next states is wanted.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": RENDER_FPS}

    def __init__(
        self,
        problem: Problem,
        render_mode: str | None = None,
        starts: Any = None,
        render_size: tuple[int, int] = SIZE,
        model: Model | None = None,
    ):
        self.render_mode, self.render_size = checked_rendering(render_mode, render_size)
        self.dynamics = Dynamics(problem, starts, model)
        self.problem = problem
        self.observation_space, self.action_space = self.dynamics.observation_space, self.dynamics.action_space
        self._states: Float[np.ndarray, "1 d"] | None = None
        self._actions = np.zeros((1, *problem.action_shape), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, " d"], dict[str, Any]]:
        super().reset(seed=seed)
        self._states = first_states(self.dynamics, 1, options, self.np_random)
        self._actions = np.zeros_like(self._actions)
        return self._states[0].copy(), {}

    def step(self, action: Any) -> tuple[Float[np.ndarray, " d"], float, bool, bool, dict[str, Any]]:
        if self._states is None:
            raise ResetNeeded("ProblemEnv: call reset() before step().")
        if not self.action_space.contains(action):
            raise HamqError(f"ProblemEnv: action must be in {self.action_space}, got {action!r}.")
        self._actions = self.dynamics.actions(np.asarray(action)[None])
        moved = self.dynamics.move(self._states, self._actions, self.np_random)
        self._states = moved.states
        return moved.states[0].copy(), float(moved.rewards[0]), bool(moved.is_terminal[0]), False, {}

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:  # type: ignore[override]
        """The frame of the state and of the action that led there; None without render_mode="rgb_array"."""
        if self.render_mode is None:
            return None
        if self._states is None:
            raise ResetNeeded("ProblemEnv: call reset() before render().")
        return draw(scene_of(self.problem), self._states[0], self._actions[0], self.render_size)


def first_states(
    dynamics: Dynamics, count: int, options: dict[str, Any] | None, generator: np.random.Generator
) -> Float[np.ndarray, "B d"]:
    """The states that reset(options=…) asks for."""
    options = options or {}
    for name in options:
        if name != "state":
            raise HamqError(f'ProblemEnv: reset: options has {name!r}; the only option is "state".')
    if options.get("state") is not None:
        return dynamics.placed(options["state"], count)
    return dynamics.draw_starts(count, generator)


def checked_rendering(render_mode: str | None, render_size: Any) -> tuple[str | None, tuple[int, int]]:
    if render_mode not in (None, "rgb_array"):
        raise HamqError(f'ProblemEnv: render_mode must be None or "rgb_array", got {render_mode!r}.')
    numbers = np.asarray(render_size)
    if numbers.shape != (2,) or numbers.dtype.kind not in "iu" or np.any(numbers < 1):
        raise HamqError(f"ProblemEnv: render_size must be (width, height) in pixels, got {render_size!r}.")
    return render_mode, (int(numbers[0]), int(numbers[1]))


Stepped = tuple[
    Float[np.ndarray, "B d"], Float[np.ndarray, " B"], Bool[np.ndarray, " B"], Bool[np.ndarray, " B"], dict[str, Any]
]


class ProblemVectorEnv(VectorEnv):
    """`num_envs` environments that share one generator; a batch of one goes the way of ProblemEnv with the same seed.

    An environment that has ended, by a terminal state or after `max_episode_steps` (None: never), ignores its next action:
    that step resets it and is paid 0 (autoreset mode NEXT_STEP). The other arguments are those of ProblemEnv, and
    reset(options={"state": …}) takes one state for all or one for each.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["rgb_array"],
        "render_fps": RENDER_FPS,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        problem: Problem,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        starts: Any = None,
        render_size: tuple[int, int] = SIZE,
        model: Model | None = None,
    ):
        require_count("ProblemVectorEnv: num_envs", num_envs)
        if max_episode_steps is not None:
            require_count("ProblemVectorEnv: max_episode_steps", max_episode_steps)
        self.render_mode, self.render_size = checked_rendering(render_mode, render_size)
        self.dynamics = Dynamics(problem, starts, model)
        self.problem, self.num_envs, self.max_episode_steps = problem, num_envs, max_episode_steps
        self.single_observation_space = self.dynamics.observation_space
        self.single_action_space = self.dynamics.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._states: Float[np.ndarray, "B d"] | None = None
        self._actions = np.zeros((num_envs, *problem.action_shape), np.float32)
        self._ages, self._has_ended = np.zeros(num_envs, np.int64), np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float[np.ndarray, "B d"], dict[str, Any]]:
        super().reset(seed=seed)
        self._states = first_states(self.dynamics, self.num_envs, options, self.np_random)
        self._actions = np.zeros_like(self._actions)
        self._ages, self._has_ended = np.zeros_like(self._ages), np.zeros_like(self._has_ended)
        return self._states.copy(), {}

    def step(self, actions: Any) -> Stepped:
        if self._states is None:
            raise ResetNeeded("ProblemVectorEnv: call reset() before step().")
        if not self.action_space.contains(np.asarray(actions)):
            raise HamqError(f"ProblemVectorEnv: actions must be in {self.action_space}, got {actions!r}.")
        was_over = self._has_ended
        self._actions = self.dynamics.actions(actions)
        states, rewards, is_terminal = self.dynamics.move(self._states, self._actions, self.np_random)
        self._ages = np.where(was_over, 0, self._ages + 1)
        if np.any(was_over):
            self._actions[was_over] = 0
            states[was_over] = self.dynamics.draw_starts(self.num_envs, self.np_random)[was_over]
        terminated = is_terminal & ~was_over
        limit = np.inf if self.max_episode_steps is None else self.max_episode_steps
        truncated = self._ages >= limit
        self._states, self._has_ended = states, terminated | truncated
        return states.copy(), np.where(was_over, 0, rewards), terminated, truncated, {}

    def render(self) -> tuple[UInt8[np.ndarray, "height width 3"], ...] | None:  # type: ignore[override]
        """One frame per environment; None without render_mode="rgb_array"."""
        if self.render_mode is None:
            return None
        if self._states is None:
            raise ResetNeeded("ProblemVectorEnv: call reset() before render().")
        scene = scene_of(self.problem)
        pairs = zip(self._states, self._actions, strict=True)
        return tuple(draw(scene, state, action, self.render_size) for state, action in pairs)
