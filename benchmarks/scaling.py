"""How cost grows with the dimension, the points per axis, the actions and the draws: CPU seconds and fitted exponents.

*Draws* is `draw_each` with HMC for all pairs, *iteration* one full sweep of `solve` on draws that are kept; both after
compilation, best of several. Where nothing else is said: d = 2 with 27 points per axis, 10 actions, 100 draws. The
dimension varies at 729 states (729, 27², 9³, 3⁶), so that it alone counts; the points vary at d = 2, where the states
are their square.

    python -m benchmarks.scaling
"""

import time

import jax.numpy as jnp
import numpy as np

import hamq
from benchmarks.suite.exponents import exponent
from benchmarks.suite.part import command
from benchmarks.suite.record import table
from benchmarks.suite.turns import timed

POINTS = {1: 729, 2: 27, 3: 9, 6: 3}
QUICK = {
    "dimension, 729 states": ("d", (1, 2, 3, 6)),
    "points per axis, d = 2": ("points", (27, 45, 75)),
    "actions": ("num_actions", (10, 30, 90)),
    "draws per pair": ("num_draws", (100, 300, 900)),
}
FULL = {
    **QUICK,
    "points per axis, d = 2": ("points", (27, 40, 60, 90, 130)),
    "actions": ("num_actions", (10, 20, 40, 80, 160, 320)),
    "draws per pair": ("num_draws", (100, 200, 400, 800, 1600)),
}
ITERATIONS = 30
SMALLEST = {
    "POINTS": {1: 9, 2: 3},
    "QUICK": {"dimension": ("d", (1, 2)), "draws per pair": ("num_draws", (100, 200))},
    "ITERATIONS": 4,
}


def pose(d: int, points: int, num_actions: int) -> hamq.Problem:
    return hamq.Problem(
        hamq.Grid([-3.0] * d, [3.0] * d, [points] * d),
        np.linspace(-1, 1, num_actions),
        hamq.GaussianKernel(lambda state, action: 0.9 * state + 0.1 * action, np.linspace(0.6, 1.2, d)),
        lambda state, action: -jnp.sum(state**2),
        0.95,
        name=f"gaussian{d}",
    )


def cost(d: int = 2, points: int | None = None, num_actions: int = 10, num_draws: int = 100, repeats: int = 3) -> dict:
    """CPU and wall seconds of the draws and of one iteration."""
    problem, sampler = pose(d, points or POINTS[d], num_actions), hamq.HMC(num_draws)
    draws = [timed(lambda: hamq.draw_each(problem, sampler, key=0).draws.locations)[0] for _ in range(1 + repeats)]
    clocks: list[tuple[float, float]] = []
    hamq.solve(
        problem,
        sampler,
        None,
        iterations=ITERATIONS,
        callback=lambda _: clocks.append((time.process_time(), time.perf_counter())),
    )
    cpu, wall = np.diff(np.asarray(clocks), axis=0)[1:].min(axis=0)
    return {
        "draws": min(took.cpu for took in draws[1:]),
        "draws_wall": min(took.wall for took in draws[1:]),
        "draws_first": draws[0].wall,
        "iteration": float(cpu),
        "iteration_wall": float(wall),
    }


def measure(is_full: bool) -> dict:
    studies, rows = {}, []
    for name, (argument, sizes) in (FULL if is_full else QUICK).items():
        print(f"  scaling, {name}", flush=True)
        costs = [cost(**{argument: size}) for size in sizes]
        slopes = {of: exponent(list(sizes), [one[of] for one in costs]) for of in ("draws", "iteration")}
        studies[name] = {"sizes": list(sizes), "costs": costs, "exponents": slopes}
        rows.append([name, f"{sizes[0]} to {sizes[-1]}", slopes["draws"], slopes["iteration"]])
        rows[-1] += [f"{costs[0][of]:.2g} to {costs[-1][of]:.2g}" for of in ("draws", "iteration")]
    head = ["what grows", "from, to", "exponent of the draws", "of an iteration", "draws, CPU s", "iteration, CPU s"]
    return {"studies": studies, "tables": [table("CPU seconds and fitted exponents", head, rows)]}


if __name__ == "__main__":
    command(measure, __doc__, globals(), SMALLEST)
