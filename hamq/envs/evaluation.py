"""Scores of a policy in an environment: episodes with seeds of their own, the mean, the interquartile mean, an interval.

Episode i is reset with seed + i and runs until the environment ends it. Episodes of an environment given by its id run side
by side, so that the policy is asked once for all of them; that changes nothing about any episode.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float, Int

from hamq.control.decoders import DECODERS, make_policy
from hamq.control.rollouts import Policy
from hamq.control.statistics import bootstrap_interval, interquartile_mean
from hamq.envs.environment import ProblemEnv
from hamq.envs.known import KNOWN, ActionMap, Known, StateMap, same_state
from hamq.errors import MissingExtraError
from hamq.problem.problem import Problem
from hamq.solution import Solution
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqError, HamqWarning, require_count

SIDE_BY_SIDE = 100
"""Episodes at once, each in an environment of its own."""
MAX_STEPS = 100_000
"""After which an episode that the environment does not end is refused."""
Progress = Callable[[str, int, int], None]
"""Told (what is being done, how many parts are done, of how many)."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What a policy got in an environment: `returns` and `lengths` of the episodes, in the order of their seeds."""

    env: str
    policy: str
    decoder: str | None
    seed: int
    returns: Float[np.ndarray, " episodes"]
    lengths: Int[np.ndarray, " episodes"]

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def interquartile_mean(self) -> float:
        """Mean of the middle half of the returns."""
        return interquartile_mean(self.returns)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Bootstrap interval of 95 % for the interquartile mean; None for one episode, which says nothing about others."""
        return bootstrap_interval(self.returns) if len(self.returns) > 1 else None

    def summary(self) -> dict[str, Any]:
        """All of it as plain numbers."""
        return {
            "env": self.env,
            "policy": self.policy,
            "decoder": self.decoder,
            "seed": self.seed,
            "episodes": len(self.returns),
            "mean": self.mean,
            "interquartile_mean": self.interquartile_mean,
            "interval": None if self.interval is None else list(self.interval),
            "least": float(self.returns.min()),
            "most": float(self.returns.max()),
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
        }

    def __repr__(self) -> str:
        how = self.policy if self.decoder is None else f"{self.policy}, decoder {self.decoder}"
        one = f"{self.env}, {how}: mean return {self.mean:.5g}"
        if self.interval is None:
            return f"{one} (one episode, seed {self.seed})."
        low, high = self.interval
        return (
            f"{one}, interquartile mean {self.interquartile_mean:.5g} [{low:.5g}, {high:.5g}] (95 % bootstrap), "
            f"from {self.returns.min():.5g} to {self.returns.max():.5g} over {len(self.returns)} episodes "
            f"(seeds {self.seed} to {self.seed + len(self.returns) - 1}) of {self.lengths.mean():.4g} steps on average."
        )


def evaluate(
    policy: Any,
    env: Any,
    episodes: int = 100,
    seed: int = 0,
    decoder: str = "lookahead",
    *,
    actions: Any = None,
    state_map: StateMap | None = None,
    action_map: ActionMap | None = None,
    max_steps: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Returns of a policy in an environment, over episodes with the seeds seed, seed + 1, …

    policy      a Solution (read by `decoder`, see decoders.py), a TensorSolution, or a function of states `[B, d]`
    env         an id of Gymnasium ("Pendulum-v1") or an environment
    actions     more actions for the decoder `lookahead` than the table has
    state_map   observations `[B, o]` → states `[B, d]`; known for the environments of known.py and those of hamq
    action_map  actions `[B]` or `[B, k]` of the policy → one action of the environment for each
    max_steps   end episodes after so many steps; None: when the environment says so
    progress    told (what is being done, episodes done, episodes in all)
    """
    require_count("evaluate: episodes", episodes)
    require_count("evaluate: seed", seed, 0, "episode i has seed + i")
    if max_steps is not None:
        require_count("evaluate: max_steps", max_steps)
    if decoder not in DECODERS:
        raise HamqError(f"evaluate: decoder must be one of {', '.join(DECODERS)}, got {decoder!r}.")
    name, make, is_own = _environment(env)
    first = make()
    try:
        given = _maps(name, first, policy, state_map, action_map)
        decide, said = _policy(policy, decoder, actions)
        player = _Player(name, decide, *given, MAX_STEPS if max_steps is None else max_steps, max_steps is not None)
        returns, lengths = _play(player, first, make, 1 if not is_own else SIDE_BY_SIDE, episodes, int(seed), progress)
    finally:
        if is_own:
            first.close()
    is_table = isinstance(policy, Solution)
    return Evaluation(name, said, decoder if is_table else None, int(seed), returns, lengths)


def _environment(env: Any) -> tuple[str, Callable[[], Any], bool]:
    """(name, how one is made, whether it is made here)."""
    if isinstance(env, str):
        try:
            gymnasium.spec(env)
        except gymnasium.error.Error as error:
            raise HamqError(f"evaluate: Gymnasium has no environment {env!r}: {str(error).strip()}") from error
        return env, lambda: _made(env), True
    if not isinstance(env, gymnasium.Env):
        raise HamqError(
            f"evaluate: env must be an id such as 'Pendulum-v1' or a gymnasium.Env, one and not a vector, got {env!r}."
        )
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__, lambda: env, False


def _made(name: str) -> Any:
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except (ImportError, gymnasium.error.Error) as error:
        raise MissingExtraError(f"evaluate: {name} cannot be made here: {str(error).strip()}") from error


def _maps(
    name: str, env: Any, policy: Any, state_map: StateMap | None, action_map: ActionMap | None
) -> tuple[StateMap, ActionMap]:
    known = _known(name, env)
    if known is None and (state_map is None or action_map is None):
        raise HamqError(
            f"evaluate: nobody has said how observations of {name} become states and actions become its actions (known are "
            f"{', '.join(KNOWN)} and those of hamq); give hamq.evaluate, in Python, a state_map= and an action_map=."
        )
    if not isinstance(env.observation_space, gymnasium.spaces.Box):
        raise HamqError(
            f"evaluate: observations of {name} are {env.observation_space}, and state maps take arrays; wrap it in "
            "gymnasium.wrappers.FlattenObservation."
        )
    if known is not None and state_map is None and isinstance(policy, (Solution, TensorSolution)):
        _require_axes(name, known, policy.problem)
    if known is None:
        assert state_map is not None and action_map is not None
        return state_map, action_map
    return state_map or known.state_map, action_map or known.action_map


def _known(name: str, env: Any) -> Known | None:
    inside = env.unwrapped
    if isinstance(inside, ProblemEnv):  # observations are states, actions are counted
        return Known(inside.problem.name, inside.problem.axis_names, same_state, inside.dynamics.nearest)
    return KNOWN.get(name)


def _require_axes(name: str, known: Known, problem: Problem) -> None:
    axes = ", ".join(known.axis_names)
    if problem.grid.dimension != len(known.axis_names):
        raise HamqError(
            f"evaluate: the states of {name} are ({axes}), and {problem.name} has {problem.grid.dimension} axes; solve "
            f"{known.problem}, or give hamq.evaluate, in Python, a state_map=."
        )
    if problem.axis_names != known.axis_names:
        warnings.warn(
            f"evaluate: the states of {name} are ({axes}), the axes of {known.problem}, and {problem.name} calls its axes "
            f"({', '.join(problem.axis_names)}); if they are others, give hamq.evaluate, in Python, a "
            "state_map=, if not, the same axis_names.",
            HamqWarning,
            stacklevel=4,
        )


def _policy(policy: Any, decoder: str, actions: Any) -> tuple[Policy, str]:
    if isinstance(policy, (Solution, TensorSolution)):
        return make_policy(policy, decoder, actions=actions), policy.problem.name
    if not callable(policy):
        raise HamqError(f"evaluate: policy must be a Solution, a TensorSolution or a function of states, got {policy!r}.")
    if actions is not None:
        raise HamqError("evaluate: actions= belongs to the decoder of a Solution; a function has its own actions.")
    return policy, getattr(policy, "__name__", type(policy).__name__)


@dataclasses.dataclass(frozen=True)
class _Player:
    """What turns observations into actions of the environment, and says when to stop."""

    name: str
    decide: Policy
    state_map: StateMap
    action_map: ActionMap
    max_steps: int
    may_stop: bool

    def actions(self, observations: list[np.ndarray], env: Any) -> list[Any]:
        states = np.asarray(self.state_map(np.stack(observations)))
        if states.ndim != 2 or len(states) != len(observations):
            raise HamqError(
                f"evaluate: state_map must give states of the shape [{len(observations)}, d], got {list(states.shape)}."
            )
        found = list(self.action_map(np.asarray(self.decide(states))))
        foreign = [action for action in found if not env.action_space.contains(action)]
        if len(found) != len(observations) or foreign:
            raise HamqError(
                f"evaluate: {self.name} takes one action of {env.action_space} for each of {len(observations)} states, and "
                f"the policy with its action_map gave {len(found)}, such as {(foreign or found)[0]!r}; mend action_map."
            )
        return found


def _play(
    player: _Player, first: Any, make: Callable[[], Any], together: int, episodes: int, seed: int, progress: Progress | None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns and lengths of all episodes, a block of them at a time."""
    envs = [first, *(make() for _ in range(min(together, episodes) - 1))]
    returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
    try:
        for start in range(0, episodes, len(envs)):
            block = range(start, min(start + len(envs), episodes))
            _play_block(player, envs, block, seed, returns, lengths, progress)
    finally:
        for env in envs[1:]:
            env.close()
    return returns, lengths


def _play_block(player: _Player, envs, block: range, seed: int, returns, lengths, progress: Progress | None) -> None:
    """One episode in each environment, in lockstep; those that have ended keep their last state in the batch."""
    seen = [env.reset(seed=seed + i)[0] for env, i in zip(envs, block, strict=False)]
    going = dict(zip(block, envs, strict=False))
    while going:
        actions = player.actions(seen, envs[0])
        for i, env in list(going.items()):
            observation, reward, is_ended, is_cut, _ = env.step(actions[i - block.start])
            returns[i] += float(reward)
            lengths[i] += 1
            where = f"step {lengths[i]} of episode {i} (seed {seed + i})"
            if not np.isfinite(returns[i]):
                raise HamqError(f"evaluate: {player.name} paid {reward} in {where}.")
            if is_ended or is_cut or (player.may_stop and lengths[i] >= player.max_steps):
                del going[i]
                continue
            if lengths[i] >= player.max_steps:
                raise HamqError(
                    f"evaluate: {player.name} has not ended by {where}; give max_steps=, or wrap it in "
                    "gymnasium.wrappers.TimeLimit."
                )
            seen[i - block.start] = observation
        if progress is not None:
            progress(f"episodes of {player.name}", block.stop - len(going), len(returns))
