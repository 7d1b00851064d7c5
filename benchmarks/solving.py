"""`solve` with its defaults against what else one could choose, at equal gradients: the table of docs/solving.md.

Every variant gets the default budget of gradients of its problem (IID, which needs none, gets the draws that this buys HMC
in a full sweep); five seeds; medians, and the worst seed's policy loss. `literal` is the paper's algorithm, which spends 2.5
billion gradients on each of the small problems (minutes each).

    python benchmarks/solving.py --out solving.json                    # half an hour on 2 cores
    python benchmarks/solving.py --problems cartpole --variants default full
    python benchmarks/solving.py --variants default literal --seeds 1
"""

import argparse
import json
import os
import platform
import resource
import time
import warnings
from importlib.metadata import version

import numpy as np
from rich.console import Console
from rich.table import Table

import hamq
from hamq.exact.bellman import make_operator
from hamq.learning.budget import default_budget

SMALL = ("pendulum", "double_integrator", "cartpole", "acrobot", "repelling_agents")
MANY = ("pendulum-1000", "double_integrator-1000")
LARGE = "cart_double_pendulum"


def variants(problem) -> dict[str, dict]:
    """Arguments of `solve` by name."""
    budget = default_budget(problem)
    plain = {"sampler": hamq.HMC(100, calibrate=False), "max_gradients": budget}
    per_pair = budget // (problem.num_states * problem.num_actions * 5)
    return {
        "default": {},
        "uncalibrated": plain,
        "table": {"completion": hamq.Anchors(completes="table")},
        "full": {"completion": None},
        "full, uncalibrated": {"completion": None, **plain},
        "full, independent": {"completion": None, "passes": hamq.Passes(coupled=False)},
        "nuclear norm": {"completion": hamq.NuclearNorm()},
        "soft impute": {"completion": hamq.SoftImpute()},
        "fresh, averaged": {"passes": hamq.Passes(draws="fresh", step_decay=20.0)},
        "full, IID": {"completion": None, "sampler": hamq.IID(max(per_pair, 1))},
        "literal": hamq.paper_literal(problem),
    }


def pose(name: str, **size):
    """`pendulum-1000` has a thousand actions; `size` goes to the zoo."""
    zoo_name, _, num_actions = name.partition("-")
    return getattr(hamq.problems, zoo_name)(**({"num_actions": int(num_actions)} if num_actions else {}), **size)


def measure(problem, exact, operator, options: dict, seeds: int) -> dict:
    rows = []
    for seed in range(seeds):
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            solution = hamq.solve(problem, exact=exact, key=seed, **options)
        row = {"seed": seed, "seconds": time.perf_counter() - began, "result": solution.result}
        row |= {"warnings": sorted({str(w.message) for w in caught}), "converged": bool(solution.converged)}
        last = solution.history[len(solution.history) - 1]
        row |= {name: last[name] for name in ("samples", "density_evaluations", "gradient_evaluations", "rank")}
        row |= vars(hamq.compare(solution, exact, operator))
        rows.append(row)
    return {"runs": rows, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


def summary(runs: list[dict]) -> list[str]:
    middle = {name: float(np.median([run[name] for run in runs])) for name in runs[0] if name not in ("result", "warnings")}
    worst = max(run["policy_loss"] for run in runs)
    return [
        f"{middle['frobenius']:.4f}",
        f"{middle['advantage']:.3f}",
        f"{middle['agreement']:.0%}",
        f"{middle['policy_loss']:.2g} [{worst:.2g}]",
        f"{middle['gradient_evaluations'] / 1e6:.1f} M",
        f"{middle['density_evaluations'] / 1e6:.1f} M",
        f"{runs[0]['seconds']:.0f} / {min(run['seconds'] for run in runs):.1f}",
    ]


def main():
    import jax

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=[*SMALL, *MANY, LARGE])
    parser.add_argument("--variants", nargs="+", help="default: all but literal, fewer on the large problems")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--points", type=int, help="per axis; default: the zoo's")
    parser.add_argument("--out", help="write a JSON record here, after every row")
    arguments = parser.parse_args()
    console, record = Console(width=150), []
    columns = (
        "relative error",
        "advantages",
        "agreement",
        "policy loss [worst]",
        "gradients",
        "densities",
        "s, first / warm",
    )
    for name in arguments.problems:
        problem = pose(name, **({} if arguments.points is None else {"points": arguments.points}))
        exact, operator = hamq.solve_exact(problem), make_operator(problem)
        chosen = variants(problem)
        names = arguments.variants or [key for key in chosen if key != "literal"]
        if not arguments.variants and name not in SMALL:
            names = ["default", "full"]
        scale = hamq.compare(exact, exact, operator)
        constant, random = scale.constant_action_loss, scale.random_policy_loss
        table = Table(title=f"{name}; for scale: best constant action {constant:.2g}, greedy on random Q {random:.2g}")
        table.add_column("variant")
        for column in columns:
            table.add_column(column, justify="right")
        for key in names:
            found = measure(problem, exact, operator, chosen[key], arguments.seeds)
            table.add_row(key, *summary(found["runs"]))
            record.append({"problem": name, "variant": key, **found})
            if arguments.out:
                versions = {package: version(package) for package in ("jax", "numpy", "scipy")}
                machine = {"device": str(jax.devices()[0].device_kind), "cores": os.cpu_count()}
                whole = {
                    "versions": versions | {"hamq": hamq.__version__, "python": platform.python_version()},
                    "machine": machine,
                    "rows": record,
                }
                with open(arguments.out, "w") as file:
                    json.dump(whole, file, indent=1)
        console.print(table)


if __name__ == "__main__":
    main()
