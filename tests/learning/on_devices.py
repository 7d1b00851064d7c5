"""A script for 5 devices: solves some problems on 1, 2 and 5 of them and prints what came out as JSON.

    JAX_NUM_CPU_DEVICES=5 python -m tests.learning.on_devices [CASE ...]

For each case and number of devices a hash of Q and one of the history without its seconds.
"""

import hashlib
import json
import sys

import numpy as np

import hamq
from hamq.learning import layout
from hamq.learning.devices import choose_devices
from hamq.learning.record import COLUMNS

# 25 states are 7 tiles then: two for each of 5 devices, one for the fourth, whose last rows are padding, and none for the
# fifth.
layout.TILE = layout.STATES_PER_TILE = 4
NUMS = (1, 2, 5)

FEW = {"points": 5, "num_actions": 5}
MANY = {"points": 5, "num_actions": 9}  # in two groups of pieces for each state
HMC = hamq.HMC(4, num_leapfrog=2, num_warmup=1)
IID = hamq.IID(3)
ANCHORS = hamq.Anchors(num_columns=2, num_states=6)
CASES = {
    "anchors": (FEW, HMC, ANCHORS, {}),
    "linear": (MANY | {"law": "linear"}, IID, None, {"coupled": False}),
    "pieces": (MANY, IID, None, {}),
    "regenerated": (MANY, IID, None, {"draws": "regenerate"}),
    "fresh": (MANY, IID, hamq.NuclearNorm(max_iterations=20), {"draws": "fresh"}),
}


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def outcome(problem, sampler, completion, others: dict, devices: int) -> dict[str, str]:
    solution = hamq.solve(problem, sampler, completion, iterations=4, key=5, passes=hamq.Passes(devices=devices, **others))
    rows = [getattr(solution.history, name).tobytes() for name in COLUMNS if name != "seconds"]
    return {"q": digest(solution.q.tobytes()), "history": digest(*rows)}


def num_used(problem, completion, devices: int) -> int:
    """Devices that hold states, and not only what pads the last tile."""
    width = problem.num_actions if completion is None else 2
    actions = np.zeros((problem.num_states, width), int)
    rows = layout.lay_out(np.arange(problem.num_states), actions, choose_devices(devices))
    return -(-rows.num // rows.states_per_device)


def main(names: list[str]) -> None:
    found: dict[str, dict] = {}
    problems: dict[str, hamq.Problem] = {}  # each is compiled once
    for name in names or CASES:
        options, sampler, completion, others = CASES[name]
        problem = problems.setdefault(str(options), hamq.problems.pendulum(**options))
        found[name] = {n: outcome(problem, sampler, completion, others, n) for n in NUMS}
        found[name]["used"] = num_used(problem, completion, NUMS[-1])
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
