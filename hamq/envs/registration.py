"""Every function of the zoo as an environment of Gymnasium: `cartpole` is `hamq/CartPole-v0`.

Keyword arguments of gymnasium.make go to the function of the zoo (points, noise, preset, …), but for those of ProblemEnv
(render_mode, starts, render_size). States are continuous unless law="cell" is asked for.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from hamq.control.next_state import Model, make_model
from hamq.envs.environment import ProblemEnv, ProblemVectorEnv
from hamq.envs.rendering import SIZE
from hamq.problem import zoo
from hamq.problem.problem import Problem
from hamq.types import HamqError

MAX_EPISODE_STEPS = 200
WORDS = {"cartpole": "CartPole"}
"""Words of the zoo that are two."""


def zoo_functions() -> dict[str, Callable[..., Problem]]:
    """Everything in `hamq.problems` that returns a Problem, by name."""
    functions = {name: value for name, value in vars(zoo).items() if inspect.isfunction(value)}
    return {name: make for name, make in functions.items() if inspect.signature(make).return_annotation is Problem}


def environment_id(name: str) -> str:
    """`hamq/CartDoublePendulum-v0` of `cart_double_pendulum`."""
    return f"hamq/{''.join(WORDS.get(word, word.capitalize()) for word in name.split('_'))}-v0"


def register_zoo() -> tuple[str, ...]:
    """The ids of all problems of the zoo; each is registered once."""
    ids = {environment_id(name): name for name in zoo_functions()}
    for env_id, name in ids.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point="hamq.envs.registration:make_environment",
                vector_entry_point="hamq.envs.registration:make_vector_environment",
                max_episode_steps=MAX_EPISODE_STEPS,
                kwargs={"zoo_name": name},
            )
    return tuple(ids)


def make_environment(
    zoo_name: str,
    render_mode: str | None = None,
    starts: Any = None,
    render_size: tuple[int, int] = SIZE,
    **options: Any,
) -> ProblemEnv:
    model = zoo_model(zoo_name, options)
    return ProblemEnv(model.problem, render_mode, starts, render_size, model)


def make_vector_environment(
    zoo_name: str,
    num_envs: int = 1,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    starts: Any = None,
    render_size: tuple[int, int] = SIZE,
    **options: Any,
) -> ProblemVectorEnv:
    model = zoo_model(zoo_name, options)
    return ProblemVectorEnv(model.problem, num_envs, max_episode_steps, render_mode, starts, render_size, model)


def zoo_model(name: str, options: dict[str, Any]) -> Model:
    """The model of one problem of the zoo, law="linear" unless the options say otherwise; kept for the next call."""
    known = inspect.signature(zoo_functions()[name]).parameters
    for option in options:
        if option not in known:
            raise HamqError(f"{environment_id(name)}: there is no option {option!r}; its options are {', '.join(known)}.")
    given = {"law": "linear", **options} if "law" in known else options
    return _model(name, tuple((option, _frozen(value)) for option, value in sorted(given.items())))


@functools.lru_cache(maxsize=16)
def _model(name: str, options: tuple[tuple[str, Any], ...]) -> Model:
    return make_model(zoo_functions()[name](**dict(options)))


def _frozen(value: Any) -> Any:
    """Lists and arrays as tuples, which can be remembered."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
