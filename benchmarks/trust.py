"""Is the tensor's policy any good? Returns against LQR, MPC, no action and a neural V, and residuals where they hurt.

All policies have the same starts and the same random numbers; differences are over pairs, with 95 % intervals. The
network is given as many backups as the tensor used.

    python benchmarks/trust.py springs                         # 12 dimensions, starts all over the box
    python benchmarks/trust.py pendulums                       # 8 dimensions, starts up to 60° off upright, at rest
    python benchmarks/trust.py springs --size 2 --rollouts 64  # a minute
"""

import argparse
import dataclasses
import json
import math
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import hamq
from hamq.deep.value_network import fit_value_network

RECORD = Path(__file__).parent / "records" / "trust.json"
SIZES = {"springs": 6, "pendulums": 4}
HARDEST = math.radians(60)


def pose(part: str, size: int):
    return hamq.problems.spring_chain(size) if part == "springs" else hamq.problems.pendulum_chain(size)


def starts_of(part: str, problem, count: int, seed: int):
    if part == "springs":
        return hamq.random_starts(problem, count, key=seed)
    starts = np.zeros((count, problem.grid.dimension), np.float32)
    starts[:, ::2] = np.random.default_rng(seed).uniform(-HARDEST, HARDEST, (count, problem.grid.dimension // 2))
    return starts


def timed(function):
    began = time.perf_counter()
    done = function()
    return done, round(time.perf_counter() - began, 1)


def report(iterate) -> None:
    row = iterate.row
    print(f"{iterate.iteration}: rank {row.rank}, residual {row.residual:.2%}, {row.seconds:.0f} s", flush=True)


def measure(part: str, arguments) -> dict:
    problem = pose(part, arguments.size or SIZES[part])
    options = {"tolerance": arguments.tolerance, "key": arguments.seed, "callback": report}
    solution, seconds = timed(lambda: hamq.solve_tensor(problem, **options))
    print(solution, f"{seconds} s", flush=True)
    last = solution.history[len(solution.history) - 1]
    tensor = {"seconds": seconds, "residual": solution.residual, "rank": max(solution.ranks), "result": solution.result}
    row = {"problem": problem.name, "dimension": problem.grid.dimension, "tensor": tensor | {"backups": last["reads"]}}
    solved = {"tensor": solution}
    if arguments.network:
        network, seconds = timed(lambda: fit_value_network(problem, max_backups=last["reads"], key=arguments.seed))
        print(network, f"{seconds} s", flush=True)
        row["network"] = {"seconds": seconds, "backups": int(network.history.backups[-1])}
        solved["network"] = network
    policies = {name: each.actions for name, each in solved.items()} | {
        "lqr": hamq.lqr_policy(problem),
        "lqr, rounded": hamq.lqr_policy(problem, rounded=True),
        "mpc": hamq.mpc_policy(problem, rounded=True),
        "no action": lambda states: np.zeros((len(states), *problem.action_shape)),
    }
    starts = starts_of(part, problem, arguments.rollouts, arguments.seed)
    rolled, row["seconds_rollouts"] = timed(
        lambda: hamq.rollouts(problem, policies, starts=starts, steps=arguments.steps, key=arguments.seed)
    )
    row["returns"] = {name: float(values.mean()) for name, values in rolled.returns.items()}
    row["tensor_minus"] = {name: rolled.difference("tensor", name)._asdict() for name in policies if name != "tensor"}
    row["effective_draws"] = rolled.effective
    row["predicted"] = {name: float(each.value(starts).mean()) for name, each in solved.items()}
    row["residuals"] = {name: residuals(each, rolled.visited(name)) for name, each in solved.items()}
    if not problem.is_product:
        fresh = hamq.tensor_residuals(solution, sampler=hamq.IID(arguments.draws), key=arguments.seed + 1)
        row["residuals"]["tensor, fresh draws"] = summary(fresh)
    return row


def residuals(solution, visited) -> dict:
    return summary(hamq.tensor_residuals(solution, visited=visited))


def summary(found) -> dict:
    kinds = ("nodes", "between", "visited", "searched")
    of_each = {kind: dataclasses.asdict(getattr(found, kind)) for kind in kinds if getattr(found, kind) is not None}
    return of_each | {"scale": found.scale, "worst": found.worst.tolist(), "sentence": found.sentence}


def show(row: dict, console: Console) -> None:
    table = Table(title=f"{row['problem']}, {row['dimension']} dimensions: mean returns")
    for column in ("policy", "return", "predicted", "tensor's is larger by", "95 %"):
        table.add_column(column)
    for name, mean in row["returns"].items():
        predicted = f"{row['predicted'][name]:.3f}" if name in row["predicted"] else ""
        gap = row["tensor_minus"].get(name)
        cells = ("", "") if gap is None else (f"{gap['mean']:.3f}", f"{gap['low']:.3f} to {gap['high']:.3f}")
        table.add_row(name, f"{mean:.3f}", predicted, *cells)
    console.print(table)
    table = Table(title="Residuals, parts of the rms of V")
    for column in ("V", "states", "rms", "95 % below", "largest", "with 99 % at most 5 % above"):
        table.add_column(column)
    for name, found in row["residuals"].items():
        for kind in ("nodes", "between", "visited", "searched"):
            if (one := found.get(kind)) is not None:
                bound = "" if one["bound"] is None else f"{one['bound']:.2%}"
                table.add_row(name, kind, f"{one['rms']:.2%}", f"{one['quantile']:.2%}", f"{one['largest']:.2%}", bound)
    console.print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=list(SIZES))
    parser.add_argument("--size", type=int, help="masses or pendulums; default 6 and 4")
    parser.add_argument("--rollouts", type=int, default=512)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tolerance", type=float, default=0.0075)
    parser.add_argument("--draws", type=int, default=256, help="of the residual with fresh draws")
    parser.add_argument("--network", action=argparse.BooleanOptionalAction, default=None, help="default: for springs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RECORD, help="JSON record, merged by part and size")
    arguments = parser.parse_args()
    if arguments.network is None:
        arguments.network = arguments.part == "springs"
    row = measure(arguments.part, arguments)
    show(row, Console(width=120))
    packages = {package: version(package) for package in ("jax", "numpy", "scipy", "optax")}
    row |= {
        "arguments": {name: value for name, value in vars(arguments).items() if name != "out"},
        "versions": packages | {"hamq": hamq.__version__, "python": platform.python_version()},
        "machine": {"device": str(jax.devices()[0].device_kind), "cores": os.cpu_count()},
    }
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    record[f"{arguments.part} {row['dimension']}"] = row
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
