"""Solves on two devices against those on one: seconds, and whether Q has the same bits.

A CPU is made to look like two devices (XLA's host platform). They are the same cores, so nothing is to be gained here
that one device does not have already: this measures what dividing the states costs, and that it changes no bit.

    python -m benchmarks.devices
"""

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2".strip()

import jax
import numpy as np

import hamq
from benchmarks.suite.part import command
from benchmarks.suite.record import claim
from benchmarks.suite.turns import compare, here, take_turns

CASES = {
    "cartpole": ("cartpole", {}),
    "cartpole, full sweeps": ("cartpole", {"completion": None}),
    "cart_double_pendulum": ("cart_double_pendulum", {"iterations": 50}),
}
"""The first one without --full."""
REPEATS = (5, 9)
"""Turns, without and with --full."""
SMALLEST = {"CASES": {"pendulum": ("pendulum", {"iterations": 3})}, "REPEATS": (1, 1)}


def measure(is_full: bool) -> dict:
    if len(jax.devices()) < 2:
        return {"notes": [f"{len(jax.devices())} device of kind {jax.devices()[0].device_kind}: not measured."]}
    comparisons, claims = [], []
    for case, (name, options) in list(CASES.items())[: None if is_full else 1]:
        print(f"  devices, {case}", flush=True)
        problem, kept = getattr(hamq.problems, name)(), {}

        def solve(devices, problem=problem, options=options, kept=kept):
            kept[devices] = hamq.solve(problem, key=0, passes=hamq.Passes(devices=devices), **options).q

        found = take_turns({str(n): here(lambda n=n, solve=solve: solve(n)) for n in (2, 1)}, REPEATS[is_full])
        about = f"{case}, {problem.num_states:,} × {problem.num_actions}"
        comparisons.append(compare(f"two devices on one CPU, {about}", "hamq on one device", found["2"], found["1"]))
        claims.append(claim(f"Q has the same bits on one and two devices ({about})", np.array_equal(kept[1], kept[2])))
    return {"comparisons": comparisons, "claims": claims}


if __name__ == "__main__":
    command(measure, __doc__, globals(), SMALLEST)
