"""`hamq evaluate`: the policy of a run, scored in an environment."""

import dataclasses
from typing import Literal

import hamq
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Command, Request
from hamq.errors import HamqError


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """The environment, how an action is read from Q, and what is printed; see docs/environments.md."""

    env: str | None = None
    """The id of the environment, such as Pendulum-v1."""
    episodes: int = 100
    """How many; episode i has seed + i."""
    decoder: Literal["nearest", "interpolate", "lookahead"] = "lookahead"
    """argmax of Q at the nearest node, of Q between the nodes, or of one step through the model."""
    seed: int = 0
    """Of the first episode."""
    json: bool = False
    """Print one JSON object on stdout."""


COMMAND = Command("RUN", "the policy of a run, scored in an environment of Gymnasium", 10, {"output": EvaluateOptions()})


def run(request: Request) -> int:
    from hamq.runs.progress import Progress

    hamq.use_compilation_cache()
    (name,), output = request.words, request.options["output"]
    env = _checked(output)
    solution = hamq.load(name)
    say(f"{solution.problem.name} in {env}: {output.episodes:,} episodes")
    with Progress() as progress:
        scored = hamq.evaluate(solution, env, output.episodes, output.seed, output.decoder, progress=progress.draws)
    if output.json:
        print_json({"run": name, **scored.summary()})
    else:
        tell(str(scored))
    return 0


def _checked(output: EvaluateOptions) -> str:
    if output.env is None:
        raise HamqError("hamq evaluate needs --env, the id of an environment such as Pendulum-v1.")
    if output.episodes < 1:
        raise HamqError(f"--episodes must be at least 1, got {output.episodes}.")
    if output.seed < 0:
        raise HamqError(f"--seed must be at least 0, got {output.seed}; episode i has seed + i.")
    return output.env
