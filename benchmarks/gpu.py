"""What a GPU makes of the paper's largest problem: draws, the literal run, the default solve, and 9⁶ states.

The cart double pendulum has 15,625 × 10 pairs; one iteration of the paper draws 200 samples of 100 leapfrog steps for a
fifth of them. "Compile apart" is the second of two calls in one process. The record is read by benchmarks/run.py.

    python benchmarks/gpu.py --out benchmarks/records/gpu.json          # about 4 minutes
"""

import argparse
import datetime
import json
import os
import platform
import time
import warnings
from importlib.metadata import version

import jax
import jax.random as jr
import numpy as np

import hamq
from benchmarks.suite.smallest import add_smallest, shrink
from hamq.completion import selection
from hamq.learning import draws
from hamq.learning.calls import Drawer
from hamq.learning.chunks import Call
from hamq.learning.devices import own_device
from hamq.learning.layout import lay_out
from hamq.problem import zoo

ROWS: list[dict] = []
SIZE: dict = {}
LARGE: dict = {"points": 9}
"""Of the cart double pendulum, where they are not its own."""
LITERAL: dict = {}
"""Changes of the paper's settings."""
SMALLEST = {"SIZE": {"points": 3, "num_actions": 3}, "LARGE": {"points": 3, "num_actions": 3}, "LITERAL": {"iterations": 2}}


def note(name: str, value: float, unit: str, text: str = "") -> None:
    ROWS.append({"name": name, "value": float(value), "unit": unit, "note": text})
    print(f"{name}: {value:.4g} {unit} {text}", flush=True)


def milliseconds(call, times: int = 7) -> tuple[float, float, float]:
    """(first, median, best) of some calls."""
    taken = []
    for _ in range(1 + times):
        began = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(1e3 * (time.perf_counter() - began))
    return taken[0], float(np.median(taken[1:])), min(taken[1:])


def one_iteration(problem: hamq.Problem, literal: dict) -> None:
    """The draws of one literal iteration: the sampler alone, and with pairs going in and diagnostics coming out."""
    sampler, _ = draws.prepare(problem, literal["sampler"], key=jr.key(0))
    pairs = selection.bernoulli(problem, literal["completion"].fraction, key=jr.key(1))

    def public():
        return draws.draw_pairs(problem, sampler, *pairs, key=jr.key(2), coupled=False).locations

    first, median, best = milliseconds(public)
    size = f"{pairs.num} pairs × {sampler.num_samples} samples × {sampler.num_leapfrog} leapfrog steps, median {median:.1f}"
    note("literal draws, all of it", best, "ms", size)
    note("literal draws, compile", first - best, "ms")
    rows = lay_out(*pairs, own_device())
    state, action = rows.states[0, 0], rows.actions[0, 0, 0]
    values = np.asarray(problem.grid.states(), np.float32)[state], np.asarray(problem.actions, np.float32)[action]
    call = Call(*jax.device_put((*values, state.astype(np.uint32))), is_shared=False)
    drawer = Drawer(problem, sampler)
    _, median, best = milliseconds(lambda: drawer.draw([call], key=jr.key(2))[0].locations)
    note("literal draws, on the device", best, "ms", f"{state.size} pairs with padding, median {median:.1f}")


def whole_runs(problem: hamq.Problem, literal: dict, exact: hamq.Solution) -> None:
    for name, options in (("default solve", {}), ("literal run", literal)):
        hamq.solve(problem, **{**options, **({"iterations": 2} if options else {})})
        began = time.perf_counter()
        solution = hamq.solve(problem, **options)
        seconds = time.perf_counter() - began
        found = hamq.compare(solution, exact)
        note(name, seconds, "s", f"{len(solution.history)} iterations, compile apart; {found}")


def large() -> None:
    problem = zoo.cart_double_pendulum(**LARGE)
    began = time.perf_counter()
    exact = hamq.solve_exact(problem)
    note("9⁶ × 10, exact, on the host", time.perf_counter() - began, "s")
    for name in ("with compilation", "compile apart"):
        began = time.perf_counter()
        solution = hamq.solve(problem)
        seconds = time.perf_counter() - began
        note(f"9⁶ × 10, default solve, {name}", seconds, "s", solution.result if name == "with compilation" else "")
    found = hamq.compare(solution, exact)
    note("9⁶ × 10, relative error", found.frobenius, "", str(found))


def same_bits(problem: hamq.Problem) -> None:
    """Draws of a quarter of the states, in calls of a quarter of the size, against those of all."""
    sampler, _ = draws.prepare(problem, hamq.HMC(50), key=jr.key(0))
    everything = selection.some_actions(problem, np.asarray([0, problem.num_actions - 1]))
    fewer = selection.Pairs(*(part[: len(part) // 4] for part in everything))
    all_of, part_of = (draws.draw_pairs(problem, sampler, *pairs, key=jr.key(1)).draws for pairs in (everything, fewer))
    for name in ("locations", "log_weights"):
        whole, part = (np.asarray(getattr(found, name)) for found in (all_of, part_of))
        share = float(np.mean(whole[: len(part)] == part))
        note(f"{name} with the same bits in batches of another size", 100 * share, "%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="write the record as JSON to this path")
    parser.add_argument("--quick", action="store_true", help="leave out 9⁶")
    add_smallest(parser)
    options = parser.parse_args()
    if options.smallest:
        shrink(globals(), SMALLEST)
    warnings.simplefilter("ignore", hamq.HamqWarning)
    problem = zoo.cart_double_pendulum(**SIZE)
    literal = hamq.paper_literal(problem) | LITERAL
    exact = hamq.solve_exact(problem)
    one_iteration(problem, literal)
    same_bits(problem)
    whole_runs(problem, literal, exact)
    if not options.quick:
        large()
    versions = {name: version(name) for name in ("jax", "jaxlib", "numpy")} | {"python": platform.python_version()}
    record = {
        "rows": ROWS,
        "versions": versions | {"hamq": hamq.__version__},
        "device": jax.devices()[0].device_kind,
        "cores": os.cpu_count(),
        "date": datetime.date.today().isoformat(),
    }
    if options.out:
        with open(options.out, "w") as file:
            json.dump(record, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
