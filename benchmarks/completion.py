"""`NuclearNorm` and `SoftImpute`: time and certified gap, against CVXPY and against the public codes that still run.

Tables are Q* of the pendulum (625 × 10) and the cart double pendulum (15,625 × 10) on the way up, (1 − 0.95ᵗ)·Q*, with
noise of 1 % of their size or none, observed with probability 0.2. `cold` starts from nothing, `warm, same Ω` from the
completion of the table before on the same entries, `warm, new Ω` on other ones, as in successive iterations of Algorithm 1.

The public codes solve the penalised problem with λ a share of λ_max. All run in one process with one BLAS thread, each at
the loosest setting whose objective is within 1e-4 of the best. They are no dependency of hamq: a line says what is missing.
Tried and left out: matrix-completion (calls CVXPY with SCS: 26 to 49 s at 625 × 10) and hyperimpute (wants optuna).

    pip install causaltensor fancyimpute
    python benchmarks/completion.py --out benchmarks/records/completion.json          # about two minutes; --quick: 625 × 10
"""

import argparse
import functools
import json
import os
import platform
import statistics
import time
from importlib.metadata import PackageNotFoundError, version

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import hamq
from hamq.completion.completion import Observed
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.completion.soft_impute import SoftImpute, lambda_max

FRACTION = 0.2
EXCESS = 1e-4
PROBLEMS = {"pendulum": (0.1, 0.01, 0.001), "cart_double_pendulum": (0.1, 0.01)}
"""With the penalties of the comparison, as shares of λ_max."""
REPEATS = 7
MAX_ITERATIONS = 20_000
THRESHOLDS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Stopping rules to try for the codes that stop when the iterate moves little, loosest first."""
PACKAGES = ("numpy", "jax", "cvxpy", "scs", "causaltensor", "fancyimpute", "scikit-learn")


@functools.cache
def optimal(name: str) -> np.ndarray:
    return hamq.solve_exact(getattr(hamq.problems, name)()).q


def observe(name: str, iteration: int, noise: float, mask_seed: int) -> Observed:
    q = optimal(name) * (1 - 0.95**iteration)
    mask = np.random.default_rng(mask_seed).random(q.shape) < FRACTION
    error = noise * np.sqrt(np.mean(q**2)) * np.random.default_rng([iteration, mask_seed]).normal(size=q.shape)
    return Observed(np.where(mask, q + error, np.nan), mask)


def timed(call, *arguments):
    began = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - began, result


def measure_nuclear_norm(name: str, noise: float, tolerance: float) -> list[dict]:
    method = NuclearNorm(tolerance=tolerance, unidentified="zero")
    before = observe(name, 20, noise, mask_seed=1)
    blank = np.zeros(before.mask.shape)
    first, memory = timed(lambda: method.complete(before, blank).memory)
    rows = []
    for start, mask_seed in {"cold": 1, "warm, same Ω": 1, "warm, new Ω": 2}.items():
        data = observe(name, 21, noise, mask_seed)
        runs = [timed(method.complete, data, blank, () if start == "cold" else memory) for _ in range(REPEATS)]
        seconds, done = [run[0] for run in runs], runs[0][1]
        rows.append(
            {
                "problem": name,
                "shape": list(blank.shape),
                "noise": noise,
                "start": start,
                "tolerance": tolerance,
                "iterations": done.iterations,
                "gap": done.gap,
                "converged": done.converged,
                "median_s": statistics.median(seconds),
                "worst_s": max(seconds),
                "first_call_s": first,
            }
        )
    return rows


def measure_cvxpy() -> dict | None:
    """125 × 10, the nuclear norm itself."""
    try:
        import cvxpy
    except ImportError:
        return None
    whole = observe("pendulum", 21, 0.01, mask_seed=1)
    data = Observed(whole.values[::5], whole.mask[::5])
    x = cvxpy.Variable(data.mask.shape)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(x)), [x[data.mask] == data.values[data.mask]])
    theirs, value = timed(lambda: problem.solve(solver=cvxpy.SCS, eps=1e-8, max_iters=100_000))
    method = NuclearNorm(unidentified="zero")
    blank = np.zeros(data.mask.shape)
    method.complete(data, blank)  # compiles
    ours, done = min((timed(method.complete, data, blank) for _ in range(REPEATS)), key=lambda pair: pair[0])
    return {
        "shape": list(blank.shape),
        "ours_s": ours,
        "theirs_s": theirs,
        "ratio": theirs / ours,
        "entry_difference": float(np.abs(done.q - x.value).max() / np.abs(x.value).max()),
        "norm_difference": float(np.linalg.norm(done.q, "nuc") / value - 1),
        "gap": done.gap,
    }


def classical(values: np.ndarray, mask: np.ndarray, penalty: float, threshold: float) -> np.ndarray:
    """Soft-impute as published: a full decomposition per iteration, no acceleration."""
    x = np.zeros(mask.shape)
    for _ in range(MAX_ITERATIONS):
        u, s, v = np.linalg.svd(np.where(mask, values, x), full_matrices=False)
        before, x = x, (u * np.maximum(s - penalty, 0)) @ v
        if np.linalg.norm(x - before) <= threshold * np.linalg.norm(before):
            break
    return x


def causaltensor(values: np.ndarray, mask: np.ndarray, penalty: float, threshold: float) -> np.ndarray:
    from causaltensor.cauest.MCNNM import soft_impute

    return soft_impute(values, mask.astype(float), penalty, eps=threshold, max_iter=MAX_ITERATIONS)


def fancyimpute(values: np.ndarray, mask: np.ndarray, penalty: float, threshold: float) -> np.ndarray:
    from fancyimpute import SoftImpute as Theirs

    code = Theirs(shrinkage_value=penalty, convergence_threshold=threshold, max_iters=MAX_ITERATIONS, verbose=False)
    return code.fit_transform(np.where(mask, values, np.nan))


CODES = (causaltensor, fancyimpute, classical)


def objective(data: Observed, q: np.ndarray, penalty: float) -> float:
    return 0.5 * np.sum((q - data.values)[data.mask] ** 2) + penalty * np.linalg.norm(q, "nuc")


def compare_codes(name: str, share: float) -> list[dict]:
    data = observe(name, 21, 0.01, mask_seed=1)
    values, blank = np.where(data.mask, data.values, 0.0), np.zeros(data.mask.shape)
    penalty = share * lambda_max(data)

    def ours(tolerance):
        return (
            SoftImpute(penalty=penalty, tolerance=tolerance, max_iterations=MAX_ITERATIONS, unidentified="zero")
            .complete(data, blank)
            .q
        )

    best = objective(data, ours(1e-9), penalty)  # compiles, too
    ours_s, q = min((timed(ours, EXCESS) for _ in range(3)), key=lambda pair: pair[0])
    rows = [{"code": "hamq SoftImpute", "s": ours_s, "excess": objective(data, q, penalty) / best - 1, "ratio": 1.0}]
    for code in CODES:
        row: dict = {"code": code.__name__}
        try:
            for threshold in THRESHOLDS:
                row["s"], q = timed(code, values, data.mask, penalty, threshold)
                row |= {"excess": objective(data, q, penalty) / best - 1, "ratio": row["s"] / ours_s}
                if row["excess"] <= EXCESS:
                    break
        except Exception as error:  # a missing package or a broken one: said, not fatal
            row["failed"] = f"{type(error).__name__}: {error}"[:120]
        rows.append(row)
    return [{"problem": name, "shape": list(blank.shape), "share": share, **row} for row in rows]


def make_table(title: str, caption: str, columns: tuple[str, ...]):
    from rich.table import Table

    table = Table(title=title, caption=caption)
    for column in columns:
        table.add_column(column, justify="left" if column in ("table", "start", "code") else "right")
    return table


def show(speed: list[dict], cvxpy: dict | None, codes: list[dict]) -> None:
    from rich.console import Console

    console = Console(width=120)
    columns = ("table", "noise", "start", "tolerance", "iterations", "gap / norm", "median ms", "worst ms", "first call s")
    caption = f"median and worst of {REPEATS}; first call: compiles where the shape is new"
    table = make_table(f"NuclearNorm, p = {FRACTION}", caption, columns)
    for row in speed:
        figures = [row["iterations"], row["gap"], 1e3 * row["median_s"], 1e3 * row["worst_s"], row["first_call_s"]]
        table.add_row(size(row), f"{row['noise']:g}", row["start"], f"{row['tolerance']:g}", *(f"{x:.3g}" for x in figures))
    console.print(table)
    if cvxpy is None:
        console.print("CVXPY is not installed: pip install cvxpy")
    else:
        ratio, entries, norms = (cvxpy[key] for key in ("ratio", "entry_difference", "norm_difference"))
        console.print(
            f"{size(cvxpy)}: NuclearNorm {1e3 * cvxpy['ours_s']:.1f} ms, CVXPY with SCS {cvxpy['theirs_s']:.1f} s, ratio",
            end="",
        )
        console.print(f" {ratio:.0f}; entries differ by {entries:.1e} of the largest, norms by {norms:.1e}")
    columns = ("table", "λ / λ_max", "code", "s", "excess", "times slower")
    table = make_table(f"objective within {EXCESS:g} of the best", "classical: the ten lines above", columns)
    for row in codes:
        figures = [row["failed"]] if "failed" in row else [f"{row[key]:.3g}" for key in ("s", "excess", "ratio")]
        if row.get("excess", 0) > EXCESS:
            figures[-1] = f"> {figures[-1]}"  # it stopped before it was as accurate
        table.add_row(size(row), f"{row['share']:g}", row["code"], *figures)
    console.print(table)


def size(row: dict) -> str:
    return "{} × {}".format(*row["shape"])


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="write the record as JSON to this path")
    parser.add_argument("--quick", action="store_true", help="625 × 10 only")
    options = parser.parse_args()
    problems = dict(list(PROBLEMS.items())[: 1 if options.quick else None])
    grid = [(name, noise, tolerance) for name in problems for noise in (0.01, 0.0) for tolerance in (1e-3, 1e-7)]
    speed = [row for case in grid for row in measure_nuclear_norm(*case)]
    cvxpy = measure_cvxpy()
    codes = [row for name, shares in problems.items() for share in shares for row in compare_codes(name, share)]
    show(speed, cvxpy, codes)
    if options.out:
        packages = {"hamq": hamq.__version__} | {name: found for name in PACKAGES if (found := installed(name))}
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
        with open(options.out, "w") as file:
            json.dump({"versions": packages, **machine, "speed": speed, "cvxpy": cvxpy, "codes": codes}, file, indent=1)


if __name__ == "__main__":
    main()
