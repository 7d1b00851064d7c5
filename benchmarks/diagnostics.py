"""What fresh chains say of the problems of the zoo: the table of docs/diagnostics.md.

`hamq.diagnose` with its default chains (4 of 1,000 draws for each pair), V of the exact answer, 2,000 random pairs or all of
them where there are fewer.

    python -m benchmarks.diagnostics            # measures (five minutes of CPU), writes the record and the table
    python -m benchmarks.diagnostics page       # the record's table again
"""

import argparse
import datetime
import functools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import hamq
from benchmarks.suite.page import markdown
from benchmarks.suite.record import ROOT, machine, save, versions
from benchmarks.suite.smallest import add_smallest, shrink

RECORD = ROOT / "benchmarks" / "records" / "diagnostics.json"
PAGE = ROOT / "docs" / "diagnostics.md"
START, END = "<!-- zoo -->\n", "<!-- end of zoo -->"
NUM_PAIRS, SEED, TOLERANCE = 2000, 0, 1e-3
SMALLEST = {
    "NUM_PAIRS": 5,
    "CASES": {"pendulum": functools.partial(hamq.problems.pendulum, points=3, num_actions=3)},
}
AGENTS = functools.partial(hamq.problems.repelling_agents, strength=10.0)
CASES = {
    "double_integrator": hamq.problems.double_integrator,
    'pendulum, `law="linear"`': functools.partial(hamq.problems.pendulum, law="linear"),
    "cartpole": hamq.problems.cartpole,
    "acrobot": hamq.problems.acrobot,
    "cart_double_pendulum": hamq.problems.cart_double_pendulum,
    "gym_acrobot": hamq.problems.gym_acrobot,
    "gym_pendulum": hamq.problems.gym_pendulum,
    "gym_inverted_pendulum": hamq.problems.gym_inverted_pendulum,
    "repelling_agents, strength 10": AGENTS,
    "repelling_agents, strength 10, 3 agents, 5 points": functools.partial(AGENTS, num_agents=3, points=5),
}


def measure(name: str) -> dict[str, Any]:
    """One line of the table, and what its worst pair looks like."""
    problem = CASES[name]()
    exact, began = hamq.solve_exact(problem, TOLERANCE), time.process_time()
    found = hamq.diagnose(exact, num_pairs=NUM_PAIRS, key=SEED)
    numbers, worst = found.by_pair, found.worst("rhat")
    row = {
        "problem": name,
        "pairs": found.num_pairs,
        "all_pairs": problem.num_states * problem.num_actions,
        "median_rhat": float(np.median(numbers.rhat)),
        "largest_rhat": float(numbers.rhat.max()),
        "rhat_limit": found.rhat_limit,
        "bulk_ess": float(numbers.bulk_ess.min()),
        "tail_ess": float(numbers.tail_ess.min()),
        "suspect": int(found.is_flagged.sum()),
        "causes": {cause: int(flag.sum()) for cause, flag in found.flags.items() if flag.any()},
        "worst_pair": {kind: float(values[worst]) for kind, values in numbers._asdict().items()},
        "cost": found.cost._asdict(),
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    print(f"{found.sentence} {row['cpu_seconds']} CPU s", flush=True)
    return row


def page(record: dict[str, Any], text: str) -> str:
    """The page with its table written again, between two comments; bold where pairs are suspect by more than tail ESS."""
    head = ["problem", "pairs", "largest R-hat", "smallest bulk ESS", "smallest tail ESS", "suspect pairs"]
    rows = []
    for row in record["rows"]:
        pairs = f"{row['pairs']:,}" + ("" if row["pairs"] == row["all_pairs"] else f" of {row['all_pairs']:,}")
        numbers = [f"{row['largest_rhat']:.3f}", f"{row['bulk_ess']:,.0f}", f"{row['tail_ess']:,.0f}", f"{row['suspect']:,}"]
        if set(row["causes"]) - {"tail_ess"}:
            numbers = [f"**{number}**" for number in numbers]
        rows.append([row["problem"], pairs, *numbers])
    before, rest = text.split(START)
    return before + START + markdown(head, rows) + "\n" + END + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("all", "page"), default="all")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--page", type=Path, default=PAGE)
    add_smallest(parser)
    given = parser.parse_args()
    if given.smallest:
        shrink(globals(), SMALLEST)
    if given.part == "all":
        about = {"date": datetime.date.today().isoformat(), "seed": SEED, "versions": versions(), "machine": machine()}
        save(given.out, about | {"rows": [measure(name) for name in CASES]})
    record = json.loads(given.out.read_text(encoding="utf-8"))
    given.page.write_text(page(record, given.page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
