"""`solve_exact` of densities of one's own against plain NumPy: Gauss points in every cell, and value iteration.

`tests/exact/plain.py` has the two problems (Gumbel noise in the plane, 17² × 9; lognormal income, 540 × 40) and the plain
code. It doubles its points until the rows settle, as somebody must who does not know how many are enough; the last rows
alone are the time of somebody who knows. Both sides have the same tolerance and take turns in CPU seconds.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.own_densities
"""

import dataclasses

import numpy as np

import hamq
from benchmarks.suite.part import command
from benchmarks.suite.record import claim, table
from benchmarks.suite.turns import compare, here, take_turns, timed
from tests.exact import plain

TOLERANCE = 1e-6
MOST = 3.0
"""Times the plain code that ours may take, compilation included."""
REPEATS = (3, 5)
"""Turns, without and with --full."""
POSED = (plain.GUMBEL, plain.INCOME)


def coarse(posed: plain.Posed) -> plain.Posed:
    return dataclasses.replace(posed, axes=tuple(axis[::8] for axis in posed.axes), actions=posed.actions[:2])


SMALLEST = {"REPEATS": (1, 1), "POSED": tuple(map(coarse, POSED))}


def measure(is_full: bool) -> dict:
    comparisons, lines, claims = [], [], []
    for posed in POSED:
        print(f"  own densities, {posed.name}", flush=True)
        answer = plain.solve(posed, TOLERANCE)
        solution = hamq.solve_exact(posed.pose(), tolerance=TOLERANCE)
        away = float(np.abs(solution.q - answer.q).max())
        times = take_turns(
            {
                "hamq": here(lambda posed=posed: hamq.solve_exact(posed.pose(), tolerance=TOLERANCE)),
                "NumPy": here(lambda posed=posed: plain.solve(posed, TOLERANCE)),
            },
            REPEATS[is_full],
        )
        size = f"{posed.name}, {len(posed.states)} × {len(posed.actions)}"
        known = timed(lambda posed=posed, num=answer.points[-1]: plain.rows(posed, num))[0].cpu
        ours, theirs = times["hamq"].median("cpu"), times["NumPy"].median("cpu")
        comparisons.append(compare(f"exact, {size}", "plain NumPy", times["hamq"], times["NumPy"], "cpu"))
        lines.append([size, solution.error, away, ours, theirs, ours / theirs, known, ours / known])
        text = f"{size}: {ours / theirs:.1f} times the CPU seconds of plain NumPy to {TOLERANCE:g} (asked for: {MOST:g})"
        claims.append(claim(text, ours <= MOST * theirs and away <= 2 * TOLERANCE))
    head = ["problem", "error said", "distance", "CPU s", "NumPy CPU s", "ratio", "NumPy, points known", "ratio"]
    note = "every call of ours has a new problem and compiles; distance: between the two answers, each within its tolerance."
    return {
        "comparisons": comparisons,
        "tables": [table(f"Densities of one's own to {TOLERANCE:g}", head, lines, note)],
        "claims": claims,
        "notes": [],
        "versions": {},
    }


if __name__ == "__main__":
    command(measure, __doc__, globals(), SMALLEST)
