"""`hamq evaluate`: the policy of a run, scored in an environment."""

from hamq.cli import problems
from hamq.cli.cache import use_compilation_cache
from hamq.cli.gym_options import EvaluateOptions
from hamq.cli.messages import print_json, say
from hamq.cli.parsing import Request
from hamq.cli.progress import Progress
from hamq.envs.evaluation import evaluate
from hamq.exact.solution import Solution
from hamq.runs.loading import as_solution
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run
from hamq.tensor.solution import TensorSolution


def run(request: Request) -> int:
    use_compilation_cache()
    (name,), output = request.words, request.options["output"]
    env = _checked(output)
    solution = solution_of(name, read_run(name))
    say(f"{solution.problem.name} in {env}: {output.episodes:,} episodes")
    with Progress() as progress:
        found = evaluate(solution, env, output.episodes, output.seed, output.decoder, progress=progress.draws)
    if output.json:
        print_json({"run": name, **found.summary()})
    else:
        print(found)
    return 0


def solution_of(name: str, found: Run) -> Solution | TensorSolution:
    """The solution of a finished run, with its problem made again; refused if that is another one by now."""
    if not found.is_finished:
        raise ValueError(f"{name} is not finished: it has {len(found.history)} iterations; continue it with --resume.")
    problem = problems.build(problems.Named(**found.config["problem"]))
    if found.cores is not None:
        return as_solution(found, problem)
    if problem_hash(problem) != found.manifest.problem:
        raise ValueError(f"{found.config['problem']['name']} is no longer the problem that {name} solved; solve it again.")
    assert found.q is not None
    return Solution(problem, found.q, found.history, str(found.result), bool(found.converged))


def _checked(output: EvaluateOptions) -> str:
    if output.env is None:
        raise ValueError("hamq evaluate needs --env, the id of an environment such as Pendulum-v1.")
    if output.episodes < 1:
        raise ValueError(f"--episodes must be at least 1, got {output.episodes}.")
    if output.seed < 0:
        raise ValueError(f"--seed must be at least 0, got {output.seed}; episode i has seed + i.")
    return output.env
