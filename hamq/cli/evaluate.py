"""`hamq evaluate`: the policy of a run, scored in an environment."""

from hamq.cli.finished import read_finished
from hamq.cli.gym_options import EvaluateOptions
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Request
from hamq.envs.evaluation import evaluate
from hamq.errors import HamqError
from hamq.problem.cache import use_compilation_cache
from hamq.runs.loading import problem_of, solution_of
from hamq.runs.progress import Progress


def run(request: Request) -> int:
    use_compilation_cache()
    (name,), output = request.words, request.options["output"]
    env = _checked(output)
    found = read_finished(request.words)[name]
    solution = solution_of(found, problem_of(name, found))
    say(f"{solution.problem.name} in {env}: {output.episodes:,} episodes")
    with Progress() as progress:
        scored = evaluate(solution, env, output.episodes, output.seed, output.decoder, progress=progress.draws)
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
