"""`solve_exact` against QuantEcon's DiscreteDP and mdpsolver: one sweep, the solve, accuracy, memory.

The peers need the dense rows, S² × A numbers; hamq needs one small table per axis. All get the same problem and the
tolerance 1e-6 and take turns, BLAS on one thread. Set-up is apart: our tables (compilation included), and the rows,
which our code makes for the peers too. A *solve* is everything after it: all sweeps until the tolerance is met. Of the
peers' methods the one that needs the fewest CPU seconds counts. No peer prints a bound: its error is the distance to
the certified answer.

mdpsolver gets an environment of its own (`suite/peers.py`) and 625 × 10 only: it takes nested Python lists, which need
13 GB at 6,400 × 10. At 15,625 × 10 and 9⁶ × 10 hamq is alone: the table says what the rows would take.

    python -m benchmarks.exact
"""

import functools
import json
import math
import resource
import subprocess
import sys

import numpy as np

from benchmarks.suite.part import command
from benchmarks.suite.peers import MissingPeer, Worker, one_thread
from benchmarks.suite.record import ROOT, claim, table, versions
from benchmarks.suite.turns import Times, compare, here, spread, take_turns, timed
from hamq.exact.bellman import make_operator
from hamq.exact.fixed_point import Record
from hamq.exact.value_iteration import solve_exact
from hamq.problem import cells, tables, zoo

TOLERANCE = 1e-6
PROBLEMS = {"pendulum": None, "cartpole": None, "cart_double_pendulum": [4, 4, 5, 4, 5, 4]}
"""With their points per axis. At 4⁶ the reward of the cart double pendulum is constant, hence 5 points on two axes."""
ALONE = ([5] * 6, [9] * 6)
SMALL = 1000
HAS_WORKERS = True
"""Whether peers that need an environment of their own are asked."""
FEW = [2, 2, 3, 2, 3, 2]
SMALLEST = {"PROBLEMS": {"cart_double_pendulum": FEW}, "ALONE": (FEW, FEW), "HAS_WORKERS": False}
SWEEPS = 5
METHODS = {"modified_policy_iteration": 1000, "policy_iteration": 250, "value_iteration": 1000}
"""QuantEcon's, with the most iterations: its default of 250 ends value iteration too early."""
SETTINGS = {
    f"mpi, {n} evaluations, {'all cores' if is_parallel else 'one core'}": {
        "algorithm": "mpi",
        "parIterLim": n,
        "parallel": is_parallel,
    }
    for n in (20, 100)
    for is_parallel in (True, False)
}
"""mdpsolver's: 100 on all cores is its default. Its policy iteration takes 8 s at 625 × 10, Gauss-Seidel three times mpi."""
LEAST = 60.0


def pose(name: str, points: list[int] | None):
    return getattr(zoo, name)(**({} if points is None else {"points": points}))


def row_gb(num_states: int, num_actions: int = 10) -> float:
    return 8 * num_states**2 * num_actions / 1e9


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def alone(points: list[int]) -> dict:
    """hamq without peers."""
    problem = pose("cart_double_pendulum", points)
    setup, operator = timed(lambda: make_operator(problem))
    took, solved = timed(lambda: operator.solve(lambda q: q.max(axis=1), TOLERANCE, 1000, Record()))
    found = {"states": problem.num_states, "setup_s": setup.wall, "solve_s": took.wall, "cpu_s": took.cpu}
    return found | {"error": solved.bounds.error, "peak_mb": peak_mb()}


def with_peers(name: str, points: list[int] | None, is_full: bool, has_workers: bool) -> dict:
    """One size: set-up, sweeps and solves in turns, errors and memory."""
    import quantecon

    problem = pose(name, points)
    is_small, repeats = problem.num_states < SMALL, 9 if is_full else 5
    size = f"{name} {problem.num_states:,} × {problem.num_actions}"
    setup, operator = timed(lambda: make_operator(problem))

    def solve():
        return operator.solve(lambda q: q.max(axis=1), TOLERANCE, 1000, Record())

    certified = solve_exact(problem, 1e-9).q.max(axis=1)
    solved, our_peak = solve(), peak_mb()
    rows_took, rows = timed(lambda: cells.all_rows(problem, 1e-12).masses)
    rewards = tables.reward_table(problem)
    process = quantecon.markov.DiscreteDP(rewards, rows, problem.discount)
    methods = {  # where the rows are large the others take from minutes to over half an hour: S × S systems, 300 sweeps
        method: functools.partial(process.solve, method=method, epsilon=TOLERANCE, max_iter=most)
        for method, most in list(METHODS.items())[: None if is_small else 1]
    }
    tried = take_turns({method: here(call) for method, call in methods.items()}, 1)
    best = min(tried, key=lambda method: tried[method].median("cpu"))
    value = solved.image
    found = take_turns(
        {
            "sweep": here(lambda: [operator.backup(value).max(axis=1) for _ in range(SWEEPS)]),
            "QuantEcon sweep": here(lambda: [process.bellman_operator(value) for _ in range(SWEEPS)]),
            "solve": here(solve),
            "QuantEcon solve": here(methods[best]),
        },
        repeats,
    )
    found["QuantEcon solve"] = found["QuantEcon solve"]._replace(first=tried[best].first)
    method = best.replace("_", " ")
    error = float(np.abs(methods[best]().v - certified).max())
    result = {
        "comparisons": [
            compare(f"{SWEEPS} sweeps, {size}", "QuantEcon", found["sweep"], found["QuantEcon sweep"], "cpu"),
            compare(f"solve, {size}", "QuantEcon", found["solve"], found["QuantEcon solve"], "cpu", method),
        ],
        "rows": [
            [size, "hamq", setup.wall, *cost(found["solve"]), solved.bounds.error, our_peak],
            ["", f"QuantEcon, {method}", rows_took.wall, *cost(found["QuantEcon solve"]), error, peak_mb()],
        ],
        "methods": {method: times.median("cpu") for method, times in tried.items()},
        "versions": {},
        "notes": [],
    }
    if is_small and has_workers:
        against_mdpsolver(result, size, solve, certified, repeats, rows=rows, rewards=rewards, discount=problem.discount)
    return result


def cost(times: Times) -> tuple[float, float]:
    return times.median("wall"), times.median("cpu")


def against_mdpsolver(result: dict, size: str, solve, certified: np.ndarray, repeats: int, **model) -> None:
    try:
        with Worker("mdpsolver", ["mdpsolver", "numpy"], "worker_mdpsolver.py", **model) as worker:
            sides = {name: functools.partial(worker.run, tolerance=TOLERANCE, **how) for name, how in SETTINGS.items()}
            tried = take_turns(sides, 1)
            best = min(tried, key=lambda name: tried[name].median("cpu"))
            found = take_turns({"solve": here(solve), "mdpsolver": sides[best]}, repeats)
            error = float(np.abs(worker.ask(tolerance=TOLERANCE, **SETTINGS[best])[1] - certified).max())
    except MissingPeer as missing:
        result["notes"].append(f"No comparison with {missing}.")
        return
    result["comparisons"].append(compare(f"solve, {size}", "mdpsolver", found["solve"], found["mdpsolver"], "cpu", best))
    result["rows"].append(["", f"mdpsolver, {best}", worker.ready["setup_s"], *cost(found["mdpsolver"]), error, None])
    result["versions"] |= worker.ready["versions"]


def child(kind: str, *arguments) -> dict:
    """One size in a process of its own, so that its peak memory is its own."""
    call = [sys.executable, "-m", "benchmarks.exact", "--child", kind, *map(json.dumps, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env=one_thread(), cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(call)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(is_full: bool) -> dict:
    found = []
    for name, points in PROBLEMS.items():
        print(f"  exact, {name}", flush=True)
        found.append(child("peers", name, points, is_full, HAS_WORKERS))
    comparisons = [row for one in found for row in one["comparisons"]]
    single = []
    for points in ALONE:
        print(f"  exact, {math.prod(points):,} × 10", flush=True)
        runs = [child("alone", points) for _ in range(3)]
        low, median, high = spread([run["cpu_s"] for run in runs])
        middle = min(runs, key=lambda run: abs(run["cpu_s"] - median))
        figures = (
            middle["setup_s"],
            middle["solve_s"],
            median,
            f"{low:.3g} to {high:.3g}",
            middle["error"],
            middle["peak_mb"],
        )
        single.append([f"{middle['states']:,} × 10", *figures, f"{row_gb(middle['states']):,.1f} GB"])
    head = ["problem", "solver", "set-up s", "solve s", "solve CPU s", "error", "process peak MB"]
    note = "set-up: our tables with compilation, the dense rows of QuantEcon, mdpsolver's reading of its lists. The peak of "
    note += "QuantEcon's line is that of a process that holds our tables, too (they are small). Our error is certified."
    columns = [
        "states × actions",
        "set-up s",
        "solve s",
        "solve CPU s",
        "of three",
        "error",
        "process peak MB",
        "dense rows",
    ]
    large = next(
        row for row in comparisons if row["name"].startswith("5 sweeps, cart_double") and row["peer"] == "QuantEcon"
    )
    text = (
        f"sweeps alone at 6,400 × 10 are {large['cpu'][1]:.0f} times as fast as QuantEcon's best method in CPU seconds "
        f"(quartiles {large['cpu'][0]:.0f} to {large['cpu'][2]:.0f}; asked for: {LEAST:.0f})"
    )
    beyond = (
        f"15,625 × 10 and 9⁶ × 10, whose dense rows take {row_gb(5**6):.1f} GB and {row_gb(9**6) / 1000:.1f} TB, are "
        f"certified to {single[0][5]:.1e} and {single[1][5]:.1e}"
    )
    return {
        "comparisons": comparisons,
        "tables": [
            table(f"The same problem to {TOLERANCE:g}", head, [row for one in found for row in one["rows"]], note),
            table("Beyond the peers' reach: hamq alone", columns, single, "dense rows: what they would take."),
        ],
        "claims": [
            claim(text, large["cpu"][1] >= LEAST),
            claim(beyond, all(row[5] <= TOLERANCE for row in single)),
        ],
        "notes": sorted({note for one in found for note in one["notes"]}),
        "methods": {row["rows"][0][0]: row["methods"] for row in found},
        "versions": versions("quantecon", "numba") | {k: v for one in found for k, v in one["versions"].items()},
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        kind, *given = sys.argv[2:]
        parsed = [json.loads(word) for word in given]
        print(json.dumps({"alone": alone, "peers": with_peers}[kind](*parsed)))
    else:
        command(measure, __doc__, globals(), SMALLEST)
