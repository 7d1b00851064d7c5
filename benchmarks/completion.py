"""`NuclearNorm` and `SoftImpute`: time and certified gap, against CVXPY and against the public codes that still run.

Tables are Q* of the pendulum (625 × 10) and the cart double pendulum (15,625 × 10) on the way up, (1 − 0.95ᵗ)·Q*, with
noise of 1 % of their size or none, observed with probability 0.2. `cold` starts from nothing, `warm, same Ω` from the
completion of the table before on the same entries, `warm, new Ω` on other ones, as in successive iterations of
Algorithm 1.

CVXPY (with SCS) minimises the nuclear norm of 125 × 10. The public soft-impute codes minimise the penalised objective,
λ a share of λ_max, each in an environment of its own (`suite/peers.py`), each at the loosest setting whose objective is
within 1e-4 of the best; one BLAS thread; ours and theirs take turns. `classical` is soft-impute as published, in ten
lines here.

    python -m benchmarks.completion
"""

import functools
import os
import statistics

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import hamq
from benchmarks.suite.part import command
from benchmarks.suite.peers import MissingPeer, Worker
from benchmarks.suite.record import table, versions
from benchmarks.suite.turns import compare, here, take_turns, timed
from hamq.completion.completion import Observed
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.completion.soft_impute import SoftImpute, lambda_max

FRACTION = 0.2
EXCESS = 1e-4
QUICK = {"pendulum": (0.01,), "cart_double_pendulum": (0.01,)}
FULL = {"pendulum": (0.1, 0.01, 0.001), "cart_double_pendulum": (0.1, 0.01)}
"""The penalties of the comparison, as shares of λ_max."""
MAX_ITERATIONS = 20_000
REPEATS = (5, 9)
"""Turns, without and with --full."""
SMALLEST = {"QUICK": {"pendulum": (0.1,)}, "CODES": {}, "REPEATS": (1, 1), "THRESHOLDS": (1e-3,), "MAX_ITERATIONS": 500}
THRESHOLDS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Stopping rules to try for the codes that stop when the iterate moves little, loosest first."""
CODES = {
    "causaltensor": ["causaltensor"],
    "fancyimpute": ["fancyimpute", "scikit-learn<1.6"],
}
LEFT_OUT = [
    "fancyimpute fails with current scikit-learn (check_array has no force_all_finite): measured with scikit-learn < 1.6.",
    "matrix-completion (PyPI) only calls CVXPY with SCS, 26 to 49 s at 625 × 10; hyperimpute wants optuna; soft-impute "
    "and softimpute are not on PyPI, and softImpute is an R package: not measured.",
]


@functools.cache
def optimal(name: str) -> np.ndarray:
    return hamq.solve_exact(getattr(hamq.problems, name)()).q


def observe(name: str, iteration: int, noise: float, mask_seed: int) -> Observed:
    q = optimal(name) * (1 - 0.95**iteration)
    mask = np.random.default_rng(mask_seed).random(q.shape) < FRACTION
    error = noise * np.sqrt(np.mean(q**2)) * np.random.default_rng([iteration, mask_seed]).normal(size=q.shape)
    return Observed(np.where(mask, q + error, np.nan), mask)


def speed_of_nuclear_norm(name: str, noise: float, tolerance: float, repeats: int) -> list[list]:
    method = NuclearNorm(tolerance=tolerance, unidentified="zero")
    before = observe(name, 20, noise, mask_seed=1)
    blank = np.zeros(before.mask.shape)
    first, memory = timed(lambda: method.complete(before, blank).memory)
    rows = []
    for start, mask_seed in {"cold": 1, "warm, same Ω": 1, "warm, new Ω": 2}.items():
        data = observe(name, 21, noise, mask_seed)
        runs = [timed(method.complete, data, blank, () if start == "cold" else memory) for _ in range(repeats)]
        seconds, done = [took.wall for took, _ in runs], runs[0][1]
        figures = [int(done.iterations), float(done.gap), 1e3 * statistics.median(seconds), 1e3 * max(seconds), first.wall]
        rows.append([size_of(blank), f"{noise:g}", start, f"{tolerance:g}", *figures])
    return rows


def size_of(array: np.ndarray) -> str:
    return f"{array.shape[0]:,} × {array.shape[1]}"


def against_cvxpy(repeats: int) -> tuple[dict, str]:
    """The nuclear norm itself, and how far the two answers differ."""
    import cvxpy

    whole = observe("pendulum", 21, 0.01, mask_seed=1)
    data = Observed(whole.values[::5], whole.mask[::5])
    x = cvxpy.Variable(data.mask.shape)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(x)), [x[data.mask] == data.values[data.mask]])
    method, blank = NuclearNorm(unidentified="zero"), np.zeros(data.mask.shape)
    found = take_turns(
        {
            "hamq": here(lambda: method.complete(data, blank)),
            "CVXPY": here(lambda: problem.solve(solver=cvxpy.SCS, eps=1e-8, max_iters=100_000, warm_start=False)),
        },
        repeats,
    )
    theirs = np.asarray(x.value)
    entries = float(np.abs(method.complete(data, blank).q - theirs).max() / np.abs(theirs).max())
    note = f"CVXPY with SCS at eps = 1e-8: the entries of the two answers differ by {entries:.1e} of the largest."
    return compare(f"NuclearNorm, {size_of(blank)}", "CVXPY + SCS", found["hamq"], found["CVXPY"], "cpu"), note


def classical(values: np.ndarray, mask: np.ndarray, penalty: float, threshold: float) -> np.ndarray:
    """Soft-impute as published: a full decomposition per iteration, no acceleration."""
    x = np.zeros(mask.shape)
    for _ in range(MAX_ITERATIONS):
        u, s, v = np.linalg.svd(np.where(mask, values, x), full_matrices=False)
        before, x = x, (u * np.maximum(s - penalty, 0)) @ v
        if np.linalg.norm(x - before) <= threshold * np.linalg.norm(before):
            break
    return x


def objective(data: Observed, q: np.ndarray, penalty: float) -> float:
    return float(0.5 * np.sum((q - data.values)[data.mask] ** 2) + penalty * np.linalg.norm(q, "nuc"))


def against_soft_impute(name: str, share: float, repeats: int) -> dict:
    """Ours and each of the public codes, in turns."""
    data = observe(name, 21, 0.01, mask_seed=1)
    values, blank = np.where(data.mask, data.values, 0.0), np.zeros(data.mask.shape)
    penalty = share * lambda_max(data)
    about = f"SoftImpute, {size_of(blank)}, λ = {share:g} λ_max"

    def complete(tolerance):
        method = SoftImpute(penalty=penalty, tolerance=tolerance, max_iterations=MAX_ITERATIONS, unidentified="zero")
        return method.complete(data, blank).q

    best = objective(data, complete(1e-9), penalty)
    excess = objective(data, complete(EXCESS), penalty) / best - 1
    result: dict = {"comparisons": [], "rows": [[about, "hamq", f"{EXCESS:g}", excess]], "notes": [], "versions": {}}

    def judge(code: str, ask) -> None:
        """`ask(threshold)` gives (seconds, table)."""
        for threshold in THRESHOLDS:
            excess = objective(data, ask(threshold)[1], penalty) / best - 1
            if excess <= EXCESS:
                break
        found = take_turns({"hamq": here(lambda: complete(EXCESS)), code: lambda: ask(threshold)[0]}, repeats)
        note = "" if excess <= EXCESS else f"stopped {excess:.1e} above the best objective"
        result["comparisons"].append(compare(about, code, found["hamq"], found[code], "cpu", note))
        result["rows"].append(["", code, f"{threshold:g}", excess])

    judge("classical", lambda threshold: timed(classical, values, data.mask, penalty, threshold))
    for code, requirements in CODES.items():
        try:
            arrays = {"values": values, "mask": data.mask, "code": np.asarray(code)}
            with Worker(code, requirements, "worker_soft_impute.py", **arrays) as worker:
                judge(code, lambda threshold, worker=worker: worker.ask(penalty=penalty, threshold=threshold))
                result["versions"] |= worker.ready["versions"]
        except MissingPeer as missing:
            result["notes"].append(f"No comparison with {missing}.")
    return result


def measure(is_full: bool) -> dict:
    repeats = REPEATS[is_full]
    tolerances = (1e-3, 1e-7) if is_full else (1e-7,)
    print("  completion, NuclearNorm", flush=True)
    grid = [(name, noise, tolerance) for name in QUICK for noise in (0.01, 0.0) for tolerance in tolerances]
    speed = [row for case in grid for row in speed_of_nuclear_norm(*case, repeats)]
    print("  completion, CVXPY", flush=True)
    cvxpy, cvxpy_note = against_cvxpy(repeats)
    found = []
    for name, shares in (FULL if is_full else QUICK).items():
        for share in shares:
            print(f"  completion, soft-impute codes on {name}, λ = {share:g} λ_max", flush=True)
            found.append(against_soft_impute(name, share, repeats))
    head = ["table", "noise", "start", "tolerance", "iterations", "gap / norm", "median ms", "worst ms", "first call s"]
    note = f"of {repeats} runs; the first call compiles where the shape is new."
    return {
        "comparisons": [cvxpy, *(row for one in found for row in one["comparisons"])],
        "tables": [
            table(f"NuclearNorm, p = {FRACTION}", head, speed, note),
            table(
                "Penalised objective above the best",
                ["table", "code", "tolerance or threshold", "excess"],
                [row for one in found for row in one["rows"]],
                f"each code at the loosest of its settings that is within {EXCESS:g} of the best.",
            ),
        ],
        "notes": [cvxpy_note, *sorted({note for one in found for note in one["notes"]}), *LEFT_OUT],
        "versions": versions("cvxpy", "scs") | {k: v for one in found for k, v in one["versions"].items()},
    }


if __name__ == "__main__":
    command(measure, __doc__, globals(), SMALLEST)
