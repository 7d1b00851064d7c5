"""`solve` end to end: its defaults, full sweeps, and the paper's algorithm to the letter, with what each of them costs.

Errors against Q* of the same law: ‖Q − Q*‖_F/‖Q*‖_F, the same of the advantages Q − row mean, and the loss V* − V^π of the
greedy policy, averaged over the states. Ours gets five seeds, the literal algorithm, with its 2.6 billion gradients, one
(--full: three). Seconds are of whole runs. What compiles is apart: a first run (of one iteration for the literal algorithm).
A later seed may compile again, because the number of anchors differs by seed: the medians do not see it.

    python -m benchmarks.end_to_end
"""

import math
import statistics

import hamq
from benchmarks.solving import LARGE, SMALL, pose, variants
from benchmarks.suite.part import command
from benchmarks.suite.record import claim, table, versions
from benchmarks.suite.turns import Times, compare, timed
from hamq.exact.bellman import make_operator

QUICK = ("pendulum", "cartpole")
VARIANTS = ("default", "full", "literal")
TITLES = {"default": "defaults", "full": "full sweeps", "literal": "the paper's algorithm"}
NO_LITERAL = (LARGE, "repelling_agents")
"""Too long on a CPU (131 billion gradients), and no problem of the paper."""
SEEDS = 5
SIZE: dict = {}
SMALLEST = {"QUICK": ("pendulum",), "SEEDS": 1, "SIZE": {"points": 4, "num_actions": 3}}


def runs_of(problem, exact, operator, options: dict, seeds: int) -> tuple[Times, list[dict]]:
    """A first run that compiles, and one for each seed."""
    took, facts = [], []
    brief: dict = options | ({"iterations": 1} if "iterations" in options else {})
    first = timed(lambda: hamq.solve(problem, exact=exact, key=seeds, **brief))[0]
    for seed in range(seeds):
        seconds, solution = timed(lambda seed=seed: hamq.solve(problem, exact=exact, key=seed, **options))
        last, found = solution.history[len(solution.history) - 1], hamq.compare(solution, exact, operator)
        took.append(seconds)
        facts.append(
            {
                "error": float(found.frobenius),
                "advantages": float(found.advantage),
                "loss": float(found.policy_loss),
                "gradients": int(last["gradient_evaluations"]),
                "samples": int(last["samples"]),
            }
        )
    return Times(first, took), facts


def median(facts: list[dict], name: str) -> float:
    return float(statistics.median(row[name] for row in facts))


def against_literal(name: str, ours: Times, literal: Times, errors: tuple[float, float]) -> dict:
    """Every run of ours against every run of the literal algorithm, taken round and round."""
    turns = [literal.turns[index % len(literal.turns)] for index in range(len(ours.turns))]
    note = f"errors {errors[0]:.2g} and {errors[1]:.2g}; runs of the paper's algorithm: {len(literal.turns)}"
    return compare(f"solve to the end, {name}", "the paper's algorithm", ours, literal._replace(turns=turns), note=note)


def measure(is_full: bool) -> dict:
    comparisons, rows, better = [], [], []
    for name in (*SMALL, LARGE) if is_full else QUICK:
        problem = pose(name, **SIZE)
        exact, operator = hamq.solve_exact(problem), make_operator(problem)
        options, times, facts = variants(problem), {}, {}
        for variant in VARIANTS:
            if variant == "literal" and name in NO_LITERAL:
                continue
            print(f"  solving, {name}, {TITLES[variant]}", flush=True)
            seeds = (3 if is_full else 1) if variant == "literal" else SEEDS
            times[variant], facts[variant] = runs_of(problem, exact, operator, options[variant], seeds)
            of = facts[variant]
            cost = [times[variant].first.wall, times[variant].median("wall"), times[variant].median("cpu")]
            spent = [median(of, "gradients") / 1e6, median(of, "samples") / 1e6]
            errors = [median(of, key) for key in ("error", "advantages", "loss")]
            rows.append([name, TITLES[variant], *errors, max(row["loss"] for row in of), *spent, *cost])
        if "literal" in times:
            errors = median(facts["default"], "error"), median(facts["literal"], "error")
            comparisons.append(against_literal(name, times["default"], times["literal"], errors))
            better.append(errors[1] / errors[0])
    head = [
        "problem",
        "variant",
        "relative error",
        "advantages' error",
        "policy loss",
        "worst loss",
        "gradients, millions",
    ]
    head += ["samples, millions", "first run s", "run s", "CPU s"]
    text = f"the relative error of the defaults is at most 1/{math.floor(min(better))} of that of the paper's algorithm"
    return {
        "comparisons": comparisons,
        "tables": [table("End to end", head, rows, "medians over the seeds.")],
        "claims": [claim(text, min(better) > 1)],
        "versions": versions(),
    }


if __name__ == "__main__":
    command(measure, __doc__, globals(), SMALLEST)
