"""A table of 5.3 million pairs by HMC: the cart double pendulum with 9 points per axis, 531,441 states × 10 actions.

Time, peak memory and errors against the exact answer, in a process of its own; `--draws regenerate` keeps no draws, and with
`--iterations 3` shows what that costs in time and saves in memory.

    python benchmarks/large.py --out benchmarks/records/large.json
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version


def measure(points: int, draws: str, iterations: int, compared: bool) -> dict:
    import jax

    import hamq
    from hamq.problem import zoo
    from hamq.runs.progress import Progress

    problem = zoo.cart_double_pendulum(points=points)
    began = time.perf_counter()
    with Progress() as progress:
        solution = hamq.solve(
            problem,
            passes=hamq.Passes(draws=draws),
            iterations=iterations,
            callback=progress.iteration,
            progress=progress.draws,
        )
    seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    row = {
        "states": problem.num_states,
        "actions": problem.num_actions,
        "draws": draws,
        "iterations": len(solution.history),
        "seconds": seconds,
        "peak_gb": peak,
        "samples": int(solution.history.samples[-1]),
        "gradients": int(solution.history.gradient_evaluations[-1]),
        "device": jax.devices()[0].device_kind,
    }
    if compared:
        found = hamq.compare(solution, hamq.solve_exact(problem))
        row |= {
            "error": found.frobenius,
            "advantage": found.advantage,
            "agreement": found.agreement,
            "loss": found.policy_loss,
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=9)
    parser.add_argument("--draws", choices=("reuse", "regenerate"), default="reuse")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--no-comparison", action="store_true", help="do not solve exactly")
    parser.add_argument("--out", help="add the row to this JSON record")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.points, options.draws, options.iterations, not options.no_comparison)))
        return
    done = subprocess.run(
        [sys.executable, __file__, "--child", *sys.argv[1:]], stdout=subprocess.PIPE, text=True, check=True
    )
    row = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(row, indent=1))
    if options.out:
        record = {"rows": []}
        if os.path.exists(options.out):
            with open(options.out) as file:
                record = json.load(file)
        versions = {name: version(name) for name in ("jax", "numpy")} | {"python": platform.python_version()}
        row |= {"versions": versions, "cores": os.cpu_count(), "date": datetime.date.today().isoformat()}
        record["rows"].append(row)
        with open(options.out, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
