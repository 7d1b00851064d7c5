"""`solve_exact` against QuantEcon's DiscreteDP: time of one sweep, time to the answer, accuracy, peak memory.

QuantEcon needs the dense rows, S² × A numbers; hamq needs one small table per axis. On 625 × 10 and on the largest cart
double pendulum whose rows fit into 40 % of the free memory both solve the same problem to 1e-6 in one process, sweeps
taken in turns, BLAS on one thread (on a busy machine its threads wait for each other). Compilation is apart (QuantEcon:
a first solve; hamq: building its tables, which is where it compiles). Where the rows are large, only QuantEcon's
fastest method runs: policy iteration solves S × S systems. Peak memory is that of a process of its own. At 15,625 × 10
and 531,441 × 10 hamq is alone: the table says what the rows would take. QuantEcon prints no bound: its error is the
distance to the certified answer.

    python benchmarks/exact.py --out exact.json          # a few minutes; --quick leaves out the two largest
"""

import argparse
import functools
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version

import hamq

TOLERANCE = 1e-6
METHODS = {"modified_policy_iteration": 1000, "policy_iteration": 250, "value_iteration": 1000}
"""With the most iterations: the default of 250 ends value iteration too early; policy iteration may go in circles."""
LADDER = ([5, 5, 5, 5, 5, 4], [4, 5, 5, 5, 5, 4], [4, 4, 5, 4, 5, 4], [4, 4, 4, 4, 4, 4], [3, 4, 4, 4, 4, 3])
"""Cart double pendulums of 12,500, 10,000, 6,400, 4,096 and 2,304 states."""
ALONE = ([5] * 6, [9] * 6)


def pose(name: str, points: list[int] | None):
    from hamq.problem import zoo

    return getattr(zoo, name)(**({} if points is None else {"points": points}))


def row_bytes(num_states: int, num_actions: int = 10) -> int:
    return 8 * num_states**2 * num_actions


def free_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def timed(call, *arguments):
    began = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - began, result


def run_ours(name: str, points: list[int] | None) -> dict:
    """hamq alone, import included: what a user waits for."""
    began = time.perf_counter()
    from hamq.exact.value_iteration import solve_exact

    solution = solve_exact(pose(name, points), TOLERANCE)
    return {
        "states": len(solution.q),
        "total_s": time.perf_counter() - began,
        "error": solution.error,
        "sweeps": len(solution.history),
        "converged": solution.converged,
        "peak_mb": peak_mb(),
    }


def discrete_dp(problem):
    import quantecon

    from hamq.problem import cells, tables

    rows = cells.all_rows(problem, 1e-12).masses
    return quantecon.markov.DiscreteDP(tables.reward_table(problem), rows, problem.discount)


def run_theirs(name: str, points: list[int] | None) -> dict:
    """QuantEcon alone, for its peak memory."""
    process = discrete_dp(pose(name, points))
    process.solve(method="modified_policy_iteration", epsilon=TOLERANCE)
    return {"peak_mb": peak_mb()}


def run_both(name: str, points: list[int] | None) -> dict:
    """Both in one process: set-up, sweeps in turns, and each method to the answer."""
    import numpy as np

    from hamq.exact.bellman import make_operator
    from hamq.exact.fixed_point import Record

    problem = pose(name, points)
    is_small = problem.num_states < 1000
    our_setup, operator = timed(lambda: make_operator(problem))
    their_setup, process = timed(lambda: discrete_dp(problem))

    def our_sweep(value):
        return operator.backup(value).max(axis=1)

    def our_solve():
        return operator.solve(lambda q: q.max(axis=1), TOLERANCE, 1000, Record())

    value = process.bellman_operator(our_sweep(np.zeros(problem.num_states)))
    our_sweeps, their_sweeps = [], []
    for _ in range(20 if is_small else 3):
        our_sweeps.append(timed(our_sweep, value)[0])
        seconds, value = timed(process.bellman_operator, value)
        their_sweeps.append(seconds)

    ours, solved = fastest(our_solve, 5 if is_small else 2)
    best = solved.image + (solved.bounds.low + solved.bounds.high) / 2
    methods = {}
    for method, max_iter in list(METHODS.items())[: None if is_small else 1]:
        solve = functools.partial(process.solve, method=method, epsilon=TOLERANCE, max_iter=max_iter)
        first, _ = timed(solve)
        seconds, result = fastest(solve, 5 if is_small else 1)
        methods[method] = {
            "s": seconds,
            "compile_s": max(first - seconds, 0.0),
            "error": float(np.abs(result.v - best).max()),
            "iterations": int(result.num_iter),
        }
    return {
        "states": problem.num_states,
        "actions": problem.num_actions,
        "ours": {"setup_s": our_setup, "s": ours, "sweep_s": min(our_sweeps), "error": solved.bounds.error},
        "theirs": {"rows_s": their_setup, "sweep_s": min(their_sweeps), "methods": methods},
    }


def fastest(call, times: int):
    """(seconds, result) of the fastest of some calls."""
    return min((timed(call) for _ in range(times)), key=lambda pair: pair[0])


def child(kind: str, name: str, points: list[int] | None) -> dict:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--child", kind, name, json.dumps(points)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(name: str, points: list[int] | None) -> dict:
    record = {"problem": name, "points": points, **child("both", name, points)}
    record["ours"]["peak_mb"] = child("ours", name, points)["peak_mb"]
    record["theirs"]["peak_mb"] = child("theirs", name, points)["peak_mb"]
    best = min(found["s"] for found in record["theirs"]["methods"].values())
    record["sweep_ratio"] = record["theirs"]["sweep_s"] / record["ours"]["sweep_s"]
    record["solve_ratio"] = best / record["ours"]["s"]
    return record


def show(records: list[dict], alone: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=120)
    table = Table(title=f"the same problem to {TOLERANCE:g}", caption="set-up: tables with compilation (hamq), dense rows")
    for column in ("problem", "solver", "set-up s", "sweep ms", "solve s", "error", "peak MB", "compile s"):
        table.add_column(column, justify="left" if column in ("problem", "solver") else "right")
    for record in records:
        ours, theirs = record["ours"], record["theirs"]
        size = f"{record['problem']} {record['states']} × {record['actions']}"
        row = ["hamq", ours["setup_s"], 1e3 * ours["sweep_s"], ours["s"], ours["error"], ours["peak_mb"]]
        table.add_row(size, *cells_of(row), "in set-up")
        for method, found in theirs["methods"].items():
            row = [f"QuantEcon {method.replace('_', ' ')}", theirs["rows_s"], 1e3 * theirs["sweep_s"], found["s"]]
            table.add_row("", *cells_of([*row, found["error"], theirs["peak_mb"], found["compile_s"]]))
        table.add_row("", "times faster", "", f"{record['sweep_ratio']:.1f}", f"{record['solve_ratio']:.1f}")
        table.add_section()
    console.print(table)
    if alone:
        table = Table(title="beyond QuantEcon's reach: hamq alone, process from import to answer")
        for column in ("states × actions", "sweeps", "s", "certified error", "peak MB", "dense rows would take"):
            table.add_column(column, justify="right")
        for record in alone:
            row = [
                f"{record['states']} × 10",
                str(record["sweeps"]),
                record["total_s"],
                record["error"],
                record["peak_mb"],
            ]
            table.add_row(*cells_of(row), f"{row_bytes(record['states']) / 1e9:,.1f} GB")
        console.print(table)


def cells_of(values: list) -> list[str]:
    return [value if isinstance(value, str) else f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="write the record as JSON to this path")
    parser.add_argument("--quick", action="store_true", help="625 × 10 only")
    parser.add_argument("--child", nargs=3, metavar=("KIND", "NAME", "POINTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, name, points = options.child
        measure = {"ours": run_ours, "theirs": run_theirs, "both": run_both}[kind]
        print(json.dumps(measure(name, json.loads(points))))
        return

    records = [compared(name, None) for name in ("pendulum", "cartpole")]
    alone = []
    if not options.quick:
        allowed = 0.4 * free_bytes()
        largest = next((points for points in LADDER if row_bytes(math.prod(points)) <= allowed), LADDER[-1])
        records.append(compared("cart_double_pendulum", largest))
        alone = [child("ours", "cart_double_pendulum", points) for points in ALONE]
    show(records, alone)
    if options.out:
        packages = {"hamq": hamq.__version__} | {name: version(name) for name in ("quantecon", "numpy", "numba", "jax")}
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
        with open(options.out, "w") as file:
            json.dump({"versions": packages, **machine, "compared": records, "alone": alone}, file, indent=1)


if __name__ == "__main__":
    main()
