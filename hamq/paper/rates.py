"""How the error falls with |Ω| and |H|, and which exponent of the samples that gives, against Theorem 3's −(d_s + d_a + 2).

A family of smooth problems, one for every dimension d: damped coordinates that one action pushes together, each with noise
of its own, and a reward with one smooth hill. Two errors are measured in the sup norm of Q:

grid       with m points on every axis and m actions, |Ω| = m^(d+1) pairs. Q* of m is compared with Q* of 2m − 1 points at
           the nodes they share: if the error is C·h^p, then so is the difference, but for a factor 1 − 2^(−p).
sampling   `solve` with n = |H| draws for each pair of a fixed grid (HMC, drawn once and reused; even weights and trajectory
           length 2, as in the paper), against `solve_exact` on the same grid.

With ε ~ h^p, so that |Ω| ~ ε^(−(d+1)/p), and ε ~ |H|^(−β), an error of ε takes |Ω|·|H| ~ ε^(−(d+1)/p − 1/β) samples. The
theorem has p = 1, which is what can be said of functions that are Lipschitz and no more, and β = 1/2. p is fitted against
the spacing h = 2/(m − 1) and not against |Ω|: m and 2/h differ on coarse grids.
"""

import itertools
import time
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from hamq.certificates import theory
from hamq.control.statistics import bootstrap_interval, interquartile_mean
from hamq.exact.value_iteration import solve_exact
from hamq.learning.q_iteration import solve
from hamq.paper.drawing import FONT, Figure, canvas
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.types import Law

DISCOUNT = 0.9
NOISE = 0.4
"""Standard deviation on every axis of the box [−1, 1]^d."""
ITERATIONS = 80
"""0.9^80 of the first table is left: less than a hundredth of the smallest sampling error."""
NUM_LEAPFROG, STEP_SIZE = 5, 0.4
HALVINGS = {1: 6, 2: 5, 3: 4, 4: 3}
QUICK_HALVINGS = {1: 5, 2: 4, 3: 3, 4: 3}
SAMPLED_POINTS = {1: 17, 2: 9, 3: 5, 4: 5}
SAMPLED_ACTIONS = 5
NUM_SAMPLES = (30, 100, 300, 1000)
QUICK_NUM_SAMPLES = (30, 1000)
LEAST_SEEDS = 5
"""Runs cost little beside compiling, and an interval of fewer says nothing."""
LAWS: tuple[Law, ...] = ("cell", "linear")

COLOURS = {1: "#0072B2", 2: "#D55E00", 3: "#009E73", 4: "#CC79A7"}
MARKERS = {1: "o", 2: "s", 3: "^", 4: "D"}


def pushed(dimension: int, points: int, num_actions: int, law: Law = "cell") -> Problem:
    """s' ~ N(0.8·s + 0.3·a, 0.4²·I) in [−1, 1]^d, r = exp(−|s − 0.3|²/d) − 0.1·a², a ∈ [−1, 1]."""

    def mean(state, action):
        return 0.8 * state + 0.3 * action

    def reward(state, action):
        return jnp.exp(-jnp.mean((state - 0.3) ** 2)) - 0.1 * action**2

    return Problem(
        Grid([-1.0] * dimension, [1.0] * dimension, [points] * dimension),
        np.linspace(-1, 1, num_actions),
        GaussianKernel(mean, [NOISE**2] * dimension),
        reward,
        DISCOUNT,
        law=law,
        name=f"pushed in {dimension}-D",
    )


def measure(seeds: int, quick: bool) -> dict[str, Any]:
    start = time.perf_counter()
    halvings, replicates = QUICK_HALVINGS if quick else HALVINGS, max(seeds, LEAST_SEEDS)
    grids = [measure_grid(d, halvings[d], law) for law in (LAWS[:1] if quick else LAWS) for d in halvings]
    sampled = [measure_sampling(d, replicates, QUICK_NUM_SAMPLES if quick else NUM_SAMPLES) for d in halvings]
    by_cell = {row["dimension"]: row for row in grids if row["law"] == "cell"}
    return {
        "settings": {
            "discount": DISCOUNT,
            "noise": NOISE,
            "iterations": ITERATIONS,
            "sampler": "HMC, 5 leapfrog, even weights",
        },
        "seeds": seeds,
        "replicates": replicates,
        "quick": quick,
        "grid": grids,
        "sampling": sampled,
        "summary": [combine(by_cell[row["dimension"]], row) for row in sampled],
        "seconds": time.perf_counter() - start,
    }


def measure_grid(dimension: int, halvings: int, law: Law) -> dict[str, Any]:
    """sup |Q*_m − Q*_{2m−1}| at the nodes of m = 3, 5, 9, …, actions included."""
    points = [2**k + 1 for k in range(1, halvings + 2)]
    tables = []
    for m in points:
        q = solve_exact(pushed(dimension, m, m, law), tolerance=1e-7).q
        tables.append(q.reshape([m] * (dimension + 1)))
    shared = (slice(None, None, 2),) * (dimension + 1)
    errors = [float(np.abs(fine[shared] - coarse).max()) for coarse, fine in itertools.pairwise(tables)]
    pairs = [m ** (dimension + 1) for m in points[:-1]]
    order = -float(_slopes([m - 1 for m in points[:-1]], np.array(errors)))
    return {
        "dimension": dimension,
        "law": law,
        "points": points[:-1],
        "pairs": pairs,
        "error": errors,
        "order": order,
        "slope": float(_slopes(pairs, np.array(errors))),
    }


def measure_sampling(dimension: int, seeds: int, num_samples: tuple[int, ...]) -> dict[str, Any]:
    """sup |Q − Q*| of every seed, the slope of its interquartile mean, and what theory allows for independent draws."""
    problem = pushed(dimension, SAMPLED_POINTS[dimension], SAMPLED_ACTIONS)
    exact = solve_exact(problem, tolerance=1e-6)
    errors, gradients = np.zeros((seeds, len(num_samples))), []
    for j, n in enumerate(num_samples):
        for seed in range(seeds):
            sampler = HMC(n, NUM_LEAPFROG, STEP_SIZE, calibrate=False)
            found = solve(problem, sampler=sampler, completion=None, iterations=ITERATIONS, key=seed)
            errors[seed, j] = np.abs(found.q - exact.q).max()
        gradients.append(int(found.history[-1]["gradient_evaluations"]))
    span, num_pairs = theory.value_span(-0.1, 1.0, DISCOUNT), exact.q.size
    widths = [theory.half_width(n, DISCOUNT, span, num_backups=num_pairs) for n in num_samples]
    low, high = _intervals(errors, interquartile_mean)
    slope_low, slope_high = _intervals(errors, lambda runs, axis: _slopes(num_samples, interquartile_mean(runs, axis=axis)))
    return {
        "dimension": dimension,
        "points": SAMPLED_POINTS[dimension],
        "num_actions": SAMPLED_ACTIONS,
        "num_samples": list(num_samples),
        "errors": errors.tolist(),
        "error": interquartile_mean(errors).tolist(),
        "low": low,
        "high": high,
        "slope": float(_slopes(num_samples, interquartile_mean(errors))),
        "slope_low": slope_low,
        "slope_high": slope_high,
        "bound": [theory.error_bound(ITERATIONS, DISCOUNT, span, width) for width in widths],
        "samples": [n * num_pairs for n in num_samples],
        "gradient_evaluations": gradients,
    }


def combine(grid: dict[str, Any], sampled: dict[str, Any]) -> dict[str, Any]:
    """Exponent of 1/ε in the number of samples, with the interval that seeds give; the grid's part is not random."""
    d = grid["dimension"]

    def exponent(slope: float) -> float:
        return (d + 1) / grid["order"] - 1 / slope

    return {
        "dimension": d,
        "exponent": exponent(sampled["slope"]),
        "low": exponent(sampled["slope_low"]),
        "high": exponent(sampled["slope_high"]),
        "theorem": -theory.printed_exponent(d, 1),
        "second_order": -theory.exponent(d, 1, order=2),
        "lemmas": -theory.exponent_of_printed_lemmas(d, 1),
    }


def draw(record: dict[str, Any]) -> Figure:
    note = f"quick run: {record['replicates']} runs, {len(record['sampling'][0]['num_samples'])} numbers of draws"
    figure, ((left, middle, right),) = canvas(1, 3, 3.1, note if record["quick"] else "")
    for row in record["grid"]:
        d, is_cell = row["dimension"], row["law"] == "cell"
        look = {"color": COLOURS[d], "marker": MARKERS[d], "markersize": 4, "linewidth": 1}
        filled = {} if is_cell else {"markerfacecolor": "white", "linestyle": ":"}
        label = f"d = {d}: order {row['order']:.2f}" if is_cell else None
        left.loglog(row["pairs"], row["error"], label=label, **look, **filled)
    for row in record["sampling"]:
        d, middle_error = row["dimension"], np.array(row["error"])
        bars = [middle_error - row["low"], row["high"] - middle_error]
        look = {"color": COLOURS[d], "marker": MARKERS[d], "markersize": 4, "linewidth": 1, "capsize": 2}
        # A little apart, so that the bars of the four can be told from each other.
        n = np.array(row["num_samples"]) * 1.06 ** (d - 2.5)
        middle.errorbar(n, middle_error, bars, label=f"d = {d}: slope {_signed(row['slope'])}", **look)
    middle.set(xscale="log", yscale="log")
    _draw_exponents(right, record["summary"])
    left.set(xlabel="pairs of states and actions |Ω|", ylabel="sup error of Q*")
    left.set_title("(a) grid" if record["quick"] else "(a) grid: cell law (open: linear)", fontsize=FONT)
    middle.set(xlabel="draws per pair |H|", ylabel="sup error of Q")
    middle.set_title("(b) sampling, HMC", fontsize=FONT)
    for panel in (left, middle):
        low, high = panel.get_ylim()
        panel.set_ylim(low / (30 if panel is left else 4), high)  # room for the legend
        panel.legend(fontsize=FONT - 1, frameon=False, loc="lower left", handlelength=1.6, borderaxespad=0.2)
    return figure


def _draw_exponents(panel: Any, rows: list[dict[str, Any]]) -> None:
    d, found = [row["dimension"] for row in rows], np.array([row["exponent"] for row in rows])
    panel.plot(
        d, [row["theorem"] for row in rows], "s--", color="#D55E00", markersize=4, linewidth=1, label="Theorem 3: d + 3"
    )
    panel.plot(d, [row["second_order"] for row in rows], ":", color="0.4", linewidth=1, label="second order: (d + 1)/2 + 2")
    bars = [found - [row["low"] for row in rows], [row["high"] for row in rows] - found]
    panel.errorbar(d, found, bars, fmt="o", color="#0072B2", markersize=4, capsize=2, label="measured")
    panel.set(xlabel="dimension of the state d", ylabel="exponent of 1/ε in samples", xticks=d)
    top = max(row["theorem"] for row in rows)
    panel.set_ylim(0, top + 2.5)
    panel.legend(fontsize=FONT - 1, frameon=False, loc="upper left", handlelength=1.8, borderaxespad=0.2)
    panel.set_title("(c) samples for an error ε", fontsize=FONT)


def caption(record: dict[str, Any]) -> str:
    rows, cells = record["summary"], [row for row in record["grid"] if row["law"] == "cell"]
    orders = [row["order"] for row in cells]
    slopes = [row["slope"] for row in record["sampling"]]
    listed = ", ".join(f"{row['exponent']:.1f}{_interval(row)} at d = {row['dimension']} ({row['theorem']})" for row in rows)
    return (
        f"The grid's error falls with the power {min(orders):.1f} to {max(orders):.1f} of the spacing, the sampling error "
        f"with the power {_signed(max(slopes))} to {_signed(min(slopes))} of the draws per pair (sup norms; bars and "
        f"brackets: 95 % bootstrap intervals over {record['replicates']} runs). So the samples for an error of ε grow with "
        f"the power {listed} of 1/ε, in parentheses Theorem 3's: that is for a Q* that is Lipschitz and no more, and this "
        "one is smooth."
    )


def _intervals(errors: np.ndarray, statistic: Any) -> tuple[Any, Any]:
    """Floats or lists, as JSON has them."""
    low, high = bootstrap_interval(errors, statistic)
    return np.asarray(low).tolist(), np.asarray(high).tolist()


def _slopes(x: Sequence[int], y: np.ndarray) -> Any:
    """Least-squares slope of log y against log x along the last axis."""
    centred = np.log(x) - np.mean(np.log(x))
    return np.log(y) @ centred / (centred @ centred)


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _interval(row: dict[str, Any]) -> str:
    return f" [{row['low']:.1f}, {row['high']:.1f}]"
