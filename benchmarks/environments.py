"""Policies learned by `hamq.solve` with HMC, scored in Gymnasium's own environments: the tables of docs/environments.md.

Every model of the zoo with its default grid, noise and discount; ten draws per pair; 100 episodes with the seeds 0 to 99,
read by each of the three decoders. Other seeds of the solver show how much of a score is luck. A few minutes for each task;
with --from nothing is run, and the page is renewed from a record.

    python benchmarks/environments.py --out benchmarks/records/environments.json --page docs/environments.md
    python benchmarks/environments.py --tasks CartPole-v1 --seeds 1
    python benchmarks/environments.py --from benchmarks/records/environments.json --page docs/environments.md
"""

import argparse
import json
import os
import platform
import re
import resource
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import hamq
from benchmarks.suite.smallest import add_smallest, shrink
from hamq.control.decoders import DECODERS
from hamq.envs.known import KNOWN
from hamq.problem.problem import Problem

EPISODES = 100
NUM_SAMPLES = 10
SIZE: dict = {}
"""Of the models, where it is not their own."""
SMALLEST = {"EPISODES": 2, "SIZE": {"points": 5, "num_actions": 3}}


class Task(NamedTuple):
    """What is known of an environment: a published score with its source, and a linear controller where one makes sense."""

    published: str
    linear: Callable[[Problem], Any] | None = None
    how_linear: str = ""


def balancing(problem: Problem, weights: Sequence[float] = (1.0, 0.1, 10.0, 0.1), rounded: bool = True) -> Any:
    """LQR of a cart and pole for a quadratic reward, since its own is 1 everywhere; of two forces it takes the sign."""

    def reward(state, action):
        return -jnp.sum(jnp.asarray(weights, state.dtype) * state**2) - 0.01 * action**2

    grid, actions, kernel = problem.grid, problem.actions, problem.kernel
    posed = Problem(grid, actions, kernel, reward, 0.99, name="quadratic", law="linear", expected=problem.expected)
    return hamq.lqr_policy(posed, at=(np.zeros(4), np.asarray(0.0)), rounded=rounded)


def motor(problem: Problem) -> Any:
    return balancing(problem, (1.0, 10.0, 0.1, 0.1), rounded=False)


def upright(problem: Problem) -> Any:
    return hamq.lqr_policy(problem, at=(np.zeros(2), np.asarray(0.0)))


TASKS = {
    "Pendulum-v1": Task("−151 (rl-zoo3)", upright, "about upright, clipped to ±2: cannot swing up"),
    "CartPole-v1": Task(
        "500, the most there is",
        balancing,
        "−(x² + 0.1ẋ² + 10θ² + 0.1θ̇² + 0.01u²), the sign of the force as there are only two",
    ),
    "Acrobot-v1": Task("−69 to −83"),
    "InvertedPendulum-v5": Task("1000, the most there is", motor, "−(x² + 10θ² + 0.1ẋ² + 0.1θ̇² + 0.01u²), clipped to ±1"),
    "InvertedDoublePendulum-v5": Task("9359 (SAC)", hamq.lqr_policy, "the environment's own reward, clipped to ±1"),
}


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(env: str, seeds: int) -> list[dict[str, Any]]:
    """One row per seed of the solver and decoder, and one for the linear controller."""
    problem = getattr(hamq.problems, KNOWN[env].problem)(**SIZE)
    grid = "×".join(map(str, problem.grid.points)) + f"×{problem.num_actions}"
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        began = cpu_seconds()
        solution = hamq.solve(problem, sampler=hamq.HMC(NUM_SAMPLES), key=seed)
        spent = {"cpu_seconds": cpu_seconds() - began} | {
            name: int(solution.history[name][-1]) for name in ("gradient_evaluations", "samples")
        }
        for decoder in DECODERS:
            found = hamq.evaluate(solution, env, EPISODES, decoder=decoder)
            about = {"task": env, "grid": grid, "discount": problem.discount, "sampler": f"HMC({NUM_SAMPLES})", "key": seed}
            rows.append(about | spent | {"result": solution.result} | found.summary())
            print(found, flush=True)
    linear = TASKS[env].linear
    if linear is not None:
        found = hamq.evaluate(linear(problem), env, EPISODES)
        rows.append({"task": env, "sampler": "LQR", "key": 0, "how": TASKS[env].how_linear} | found.summary())
        print(found, flush=True)
    return rows


HEAD = ("task", "grid × actions", "sampler", "gradients", "decoder", "mean", "IQM [95 %]", "worst episode", "other seeds")


def number(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


def cells(row: dict[str, Any], others: list[dict[str, Any]]) -> list[str]:
    low, high = map(number, row["interval"])
    scores = [number(row["mean"]), f"{number(row['interquartile_mean'])} [{low}, {high}]", number(row["least"])]
    if row["sampler"] == "LQR":
        return [row["task"], "", "", "", "LQR", *scores, ""]
    spent = f"{row['gradient_evaluations'] / 1e6:.2f} M"
    luck = ", ".join(number(one["mean"]) for one in others)
    return [row["task"], row["grid"], row["sampler"], spent, row["decoder"], *scores, luck]


def scores_table(rows: list[dict[str, Any]]) -> str:
    """Of every task: one row per decoder with the means of the solver's other seeds, the LQR, and what is published."""
    lines = [list(HEAD), ["---"] * 5 + ["---:"] * 4]
    for env in dict.fromkeys(row["task"] for row in rows):
        of_task = [row for row in rows if row["task"] == env]
        for row in (row for row in of_task if row["key"] == 0):
            others = [one for one in of_task if one["key"] and one["decoder"] == row["decoder"]]
            lines.append(cells(row, others))
        lines.append([env, "", "", "", "best published", TASKS[env].published, "", "", ""])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def renew(page: Path, name: str, text: str) -> None:
    """Replaces what is between the markers of this name."""
    pattern = re.compile(rf"(<!-- made by benchmarks/environments.py: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    old = page.read_text(encoding="utf-8")
    if not pattern.search(old):
        raise SystemExit(f"{page} has no markers for {name}.")
    page.write_text(pattern.sub(lambda found: f"{found[1]}{text}\n{found[2]}", old), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3, help="of the solver")
    parser.add_argument("--out", help="write a JSON record here; tasks that are not run keep their rows")
    parser.add_argument("--from", dest="source", help="do not run anything, read this record")
    parser.add_argument("--page", help="renew the table between the markers of this page")
    add_smallest(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        shrink(globals(), SMALLEST)
    source = Path(arguments.source or arguments.out or "")
    kept = json.loads(source.read_text(encoding="utf-8"))["rows"] if source.is_file() else []
    if not arguments.source:
        for env in arguments.tasks:
            kept = [row for row in kept if row["task"] != env] + measure(env, arguments.seeds)
    rows = sorted(kept, key=lambda row: list(TASKS).index(row["task"]))
    if arguments.out:
        versions = {package: version(package) for package in ("jax", "numpy", "gymnasium")}
        whole = {
            "versions": versions | {"hamq": hamq.__version__, "python": platform.python_version()},
            "machine": {"cores": os.cpu_count()},
            "rows": rows,
        }
        Path(arguments.out).write_text(json.dumps(whole, indent=1), encoding="utf-8")
    if arguments.page:
        renew(Path(arguments.page), "scores", scores_table(rows))
    print(scores_table(rows))


if __name__ == "__main__":
    main()
