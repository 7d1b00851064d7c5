"""Estimates of memory against what solves really take, and refusal where it is not allowed.

A process solves a small problem first, so that JAX and all that is compiled are there; what its peak grows by afterwards, in
the large one, is held against the estimate that `solve` and `solve_exact` refuse by.
"""

import json
import re
import resource
import subprocess
import sys
import time
from typing import Any

from faults.progress import say

FACTOR = 1.3
SOLVES = {
    "IID, drawn once": {"kind": "iid", "points": 100, "draws": 1000},
    "HMC, drawn once": {"kind": "hmc", "points": 100, "draws": 500},
    "exact, table of all masses": {"kind": "dense", "points": 70, "draws": 0},
    "exact, axis by axis": {"kind": "exact", "points": 400, "draws": 0},
}


def main(is_quick: bool = False) -> dict:
    began, found = time.monotonic(), {}
    for name, solve in SOLVES.items():
        if is_quick and solve["kind"] != "dense":
            continue
        command = [sys.executable, "-m", "faults.memory", json.dumps(solve)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout.splitlines()[-1])
        one = found[name]
        one["ratio"] = one["measured"] / one["estimate"]
        one["holds"] = 1 / FACTOR <= one["ratio"] <= FACTOR
        assert one["refused"] and one["refused_grown"] < 0.1 * one["estimate"], one
        say(f"{name}: {one['estimate'] / 1e6:.0f} MB estimated, {one['measured'] / 1e6:.0f} MB taken ({one['ratio']:.2f})")
    return {"factor": FACTOR, "solves": found, "seconds": time.monotonic() - began}


def measure(kind: str, points: int, draws: int) -> dict[str, Any]:
    """Bytes that were estimated and taken; whether half of them was refused, and what that took."""
    problem, small = _problem(kind, points), _problem(kind, 5)
    _solve(kind, small, min(draws, 5), None)
    estimate = _estimate(kind, problem, draws)
    if kind == "exact":  # the first refusal is that of the tables, the second one of all
        estimate = _estimate(kind, problem, draws, estimate)
    start = _peak()
    refused = ""
    try:
        _solve(kind, problem, draws, estimate // 2)
    except ValueError as error:
        refused = str(error)
    after = _peak()
    _solve(kind, problem, draws, None)
    is_refused = " bytes" in refused and " are allowed; " in refused
    return {"estimate": estimate, "measured": _peak() - after, "refused": is_refused, "refused_grown": after - start}


def _problem(kind: str, points: int):
    import jax.numpy as jnp

    import hamq

    if kind != "dense":
        return hamq.problems.double_integrator(points=points, num_actions=10)

    def logdensity(next_state, state, action):
        return -jnp.sum((next_state - 0.9 * state - 0.1 * action) ** 2)

    return hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [points, points]),
        actions=jnp.linspace(-1, 1, 3),
        kernel=hamq.UnnormalizedKernel(logdensity),
        reward=lambda state, action: -jnp.sum(state**2),
        discount=0.9,
        law="point",
    )


def _solve(kind: str, problem, draws: int, max_bytes: int | None) -> None:
    import hamq

    if kind in ("exact", "dense"):
        hamq.solve_exact(problem, tolerance=0.1, max_bytes=max_bytes)
        return
    hamq.solve(problem, _sampler(kind, draws), completion=None, iterations=3, passes=hamq.Passes(max_bytes=max_bytes))


def _sampler(kind: str, draws: int):
    import hamq

    return hamq.IID(draws) if kind == "iid" else hamq.HMC(num_samples=draws, num_leapfrog=1)


def _estimate(kind: str, problem, draws: int, allowed: int = 2**20) -> int:
    """What the refusal says of a solve that is allowed too little."""
    from hamq.learning.budget import memory_needed
    from hamq.learning.layout import pairs_at_once

    if kind in ("iid", "hmc"):  # the first refusal of `solve` itself knows of the states alone
        return memory_needed(problem, _sampler(kind, draws), problem.num_states * problem.num_actions, pairs_at_once())
    try:
        _solve(kind, problem, draws, allowed)
    except ValueError as error:
        found = re.search(r"needs (?:about )?([\d.]+(?:e[+-]?\d+)?|[\d.,]+)(?: · 10([⁰¹²³⁴⁵⁶⁷⁸⁹]+))? bytes", str(error))
        assert found, error
        power = found[2].translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")) if found[2] else "0"
        return round(float(found[1].replace(",", "")) * 10 ** int(power))
    raise AssertionError("nothing was refused")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
