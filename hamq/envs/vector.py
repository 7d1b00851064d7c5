"""A batch of environments of one Problem: one compiled step for all of them."""

from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Bool, Float, UInt8

from hamq.control.next_state import Model
from hamq.envs.dynamics import Dynamics
from hamq.envs.environment import RENDER_FPS, checked_rendering, first_states
from hamq.envs.rendering import SIZE, draw, scene_of
from hamq.problem.problem import Problem
from hamq.sampling.draws import require_count
from hamq.types import HamqError

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
