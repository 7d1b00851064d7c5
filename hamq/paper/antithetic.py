"""How the length of the trajectory makes HMC better or worse than IID: the antithetic effect.

On a Gaussian the Hamiltonian flow of length T turns (position, momentum) by the angle T, so that successive draws of a
linear function have the correlation ρ = cos T, and of a quadratic one cos² T. The mean of many draws then has
(1 + ρ)/(1 − ρ) times the variance of as many independent ones: the efficiency against IID is (1 − ρ)/(1 + ρ), 2.4 and 0.7 at
the paper's T = 2, 1 and 1 at π/2; at π a quadratic function does not move at all.

Measured here: the mean squared error of 100 draws, warm-up and start at the mode included, as the variance of IID (exact)
over the mean squared error of HMC (the paper's sampler: leapfrog steps of 0.02, sigmoid walls, κ = 80, even weights), for
both functions of a Gaussian whose box is far away, and for V* of the paper's four tasks on random pairs.
"""

import time
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int

from hamq.control.statistics import bootstrap_interval
from hamq.learning.backup import expected_values
from hamq.learning.draws import draw_pairs
from hamq.learning.literal import literal_provenance
from hamq.paper.drawing import FONT, TASK_WORDS, Figure, canvas
from hamq.paper.tasks import LOW, reference
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem, action_values
from hamq.sampling.draws import AbstractSampler, Draws, Info, Target, even_weights, make_info
from hamq.sampling.leapfrog import apply, leapfrog
from hamq.sampling.modes import find_modes
from hamq.sampling.noise import make_noise
from hamq.sampling.walls import make_potential
from hamq.types import HamqWarning, Key

BLOCK = 5
"""Leapfrog steps that are compiled; lengths are multiples of it."""
LENGTHS = (25, 50, 65, 80, 100, 115, 130, 150, 160, 180, 215, 250)
PAPER_LENGTH = 100
STEP_SIZE = 0.02
NUM_DRAWS = 100
NUM_PAIRS = 256
CHAINS_PER_SEED = 2
FAR = 8.0
"""Standard deviations between the mean of the plain Gaussian and its box."""

LOOKS = {
    "linear": ("#0072B2", "o", "linear"),
    "quadratic": ("#D55E00", "s", "quadratic"),
    "pendulum": ("#0072B2", "o", TASK_WORDS["pendulum"]),
    "double_integrator": ("#D55E00", "s", TASK_WORDS["double_integrator"]),
    "cartpole": ("#009E73", "D", TASK_WORDS["cartpole"]),
    "acrobot": ("#CC79A7", "^", TASK_WORDS["acrobot"]),
}


class LiteralHMC(AbstractSampler):
    """`HMC` as in `paper_literal`, but for a number of leapfrog steps that is traced: all lengths share one compilation.

    A trajectory is `num_blocks` times BLOCK steps; half kicks meet, so that this is the same trajectory. One chain of one
    mode, for Gaussian kernels. Its draws are those of `HMC` but for rounding (`test_antithetic.py`).
    """

    num_blocks: Int[Array, ""]
    sharpness: float
    num_samples: int = eqx.field(static=True, default=NUM_DRAWS)
    num_warmup: int = eqx.field(static=True, default=5)

    def prepare(self, problem: Problem, *, key: Key) -> tuple["LiteralHMC", Info]:
        return self, make_info()

    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        potential = make_potential("sigmoid", target.density, target.problem.grid, self.sharpness)
        modes = find_modes(potential, target.state)
        factor, inverse, kick = modes.factors[0], modes.inverse_factors[0], STEP_SIZE**2 * modes.covariances[0]
        num = self.num_warmup + self.num_samples

        def transition(state, noise):
            momentum, log_uniform = noise
            y, energy, g = state
            start = (y, STEP_SIZE * apply(factor, momentum), g)
            end, w, end_gradient = jax.lax.fori_loop(
                0, self.num_blocks, lambda _, now: leapfrog(potential, now[0], now[1], now[2], kick, BLOCK), start
            )
            end_energy = potential.energy(end)
            end_momentum = apply(inverse, w) / STEP_SIZE
            gain = energy - end_energy + 0.5 * (jnp.sum(momentum**2) - jnp.sum(end_momentum**2))
            is_accepted = log_uniform < gain
            old, new = state, (end, end_energy, end_gradient)
            state = jax.tree.map(lambda a, b: jnp.where(is_accepted, a, b), new, old)
            return state, (state[0], is_accepted)

        y = modes.positions[0]
        first = (y, potential.energy(y), potential.gradient(y))
        # The random numbers of `HMC`, and so its draws.
        _, noise = make_noise(num, y.shape[0], False, key=jr.fold_in(key, 0))
        _, (points, accepted) = jax.lax.scan(transition, first, (noise.momentum, noise.log_uniform))
        info = make_info(
            acceptance=jnp.mean(accepted, dtype=points.dtype),
            has_failed=~jnp.all(jnp.isfinite(points)),
            gradient_evaluations=num * BLOCK * self.num_blocks,
        )
        return Draws(points[self.num_warmup :].T, even_weights(self.num_samples)), info


def measure(seeds: int, quick: bool) -> dict[str, Any]:
    start = time.perf_counter()
    num_chains = CHAINS_PER_SEED * seeds
    functions = measure_gaussian(num_chains)
    tasks = {task.name: measure_task(task.name, num_chains) for task in LOW}
    at = LENGTHS.index(PAPER_LENGTH)
    return {
        "settings": {"step_size": STEP_SIZE, "num_draws": NUM_DRAWS, "num_pairs": NUM_PAIRS, "num_chains": num_chains},
        "seeds": seeds,
        "quick": quick,
        "num_leapfrog": list(LENGTHS),
        "length": [STEP_SIZE * steps for steps in LENGTHS],
        "paper_length": STEP_SIZE * PAPER_LENGTH,
        "functions": functions,
        "tasks": tasks,
        "efficiency_at_paper": {name: row["efficiency"][at] for name, row in tasks.items()},
        "interval_at_paper": {name: [row["low"][at], row["high"][at]] for name, row in tasks.items()},
        "seconds": time.perf_counter() - start,
    }


def measure_gaussian(num_chains: int) -> dict[str, Any]:
    """s and s² of N(0, 1); every node of the grid is a pair of its own, with the same law."""
    kernel = GaussianKernel(lambda s, a: 0.0 * s, [1.0])
    grid = Grid([-FAR], [FAR], [NUM_PAIRS])
    problem = Problem(grid, np.zeros(1), kernel, lambda s, a: 0.0 * s[0], 0.5, law="linear", name="plain Gaussian")
    pairs = np.arange(NUM_PAIRS), np.zeros(NUM_PAIRS, int)
    errors = {"linear": [], "quadratic": []}
    for steps in LENGTHS:
        found = [_drawn(problem, steps, *pairs, seed)[0].locations[:, 0, 0] for seed in range(num_chains)]
        points = np.stack([np.asarray(one, np.float64) for one in found])
        errors["linear"].append(np.mean(points.mean(axis=-1) ** 2, axis=0))
        errors["quadratic"].append(np.mean(((points**2).mean(axis=-1) - 1) ** 2, axis=0))
    variances = {"linear": 1 / NUM_DRAWS, "quadratic": 2 / NUM_DRAWS}
    rows = {name: _efficiency(np.full(NUM_PAIRS, variances[name]), np.stack(errors[name])) for name in errors}
    return {
        name: row | {"theory": [theoretical(name, STEP_SIZE * steps) for steps in LENGTHS]} for name, row in rows.items()
    }


def measure_task(name: str, num_chains: int) -> dict[str, Any]:
    """E[V*(s')] on random pairs; the variance of independent draws is exact."""
    exact, operator = reference(name)
    problem = exact.problem
    pairs = np.random.default_rng(0).choice(exact.q.size, NUM_PAIRS, replace=False)
    states, actions = np.divmod(pairs, problem.num_actions)
    value = (exact.value - exact.value.mean()).astype(np.float32).astype(np.float64)  # as backups have it

    def expectation(of):
        return ((operator.backup(of) - operator.rewards) / problem.discount)[states, actions]

    mean = expectation(value)
    variance = (expectation(value**2) - mean**2) / NUM_DRAWS
    errors, acceptance = [], []
    for steps in LENGTHS:
        squared, accepted = np.zeros(NUM_PAIRS), 0.0
        for seed in range(num_chains):
            draws, info = _drawn(problem, steps, states, actions, seed)
            squared += (expected_values(problem, draws, value)[:, 0] - mean) ** 2 / num_chains
            accepted += float(np.mean(info.acceptance)) / num_chains
        errors.append(squared)
        acceptance.append(accepted)
    is_outside = _is_outside(problem, states, actions)
    row = _efficiency(variance, np.stack(errors)) | {"acceptance": acceptance, "outside": float(is_outside.mean())}
    at = LENGTHS.index(PAPER_LENGTH)
    for where, chosen in (("inside", ~is_outside), ("outside", is_outside)):
        row[f"{where}_at_paper"] = float(variance[chosen].sum() / errors[at][chosen].sum()) if chosen.any() else None
    return row


def theoretical(function: str, length: float) -> float:
    """(1 − ρ)/(1 + ρ), many draws of an unbounded Gaussian."""
    correlation = np.cos(length) if function == "linear" else np.cos(length) ** 2
    return float((1 - correlation) / (1 + correlation))


def _drawn(problem: Problem, steps: int, states: np.ndarray, actions: np.ndarray, seed: int) -> tuple[Any, Info]:
    """Independent chains of the pairs (state, action), one each."""
    sampler = LiteralHMC(jnp.asarray(steps // BLOCK), float(literal_provenance(problem)["sharpness"].value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HamqWarning)
        drawn = draw_pairs(problem, sampler, states, actions[:, None], key=jr.key(seed), coupled=False)
    return drawn.draws, drawn.info


def _efficiency(variance: np.ndarray, errors: np.ndarray) -> dict[str, Any]:
    """Variance over mean squared error, both summed over pairs, with an interval over the pairs."""
    both = np.concatenate([variance[None], errors]).T

    def ratio(values, axis):
        total = values.sum(axis=axis)
        return total[..., :1] / total[..., 1:]

    low, high = bootstrap_interval(both, ratio, num=500)
    return {"efficiency": ratio(both, 0).tolist(), "low": low.tolist(), "high": high.tolist()}


def _is_outside(problem: Problem, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Where the mean of the next state lies outside the box."""
    normal = problem.kernel.normal
    assert normal is not None
    points = jnp.asarray(problem.grid.states_at(states), jnp.float32)
    means = jax.vmap(normal.mean)(points, action_values(problem)[actions])
    return ~np.asarray(jax.vmap(problem.grid.contains)(means))


def draw(record: dict[str, Any]) -> Figure:
    note = f"quick run: {record['settings']['num_chains']} chains per pair" if record["quick"] else ""
    figure, ((left, right),) = canvas(1, 2, 3.2, note)
    fine = np.linspace(record["length"][0], record["length"][-1], 400)
    for panel, rows in ((left, record["functions"]), (right, record["tasks"])):
        for name, row in rows.items():
            colour, marker, label = LOOKS[name]
            middle = np.array(row["efficiency"])
            bars = [middle - row["low"], row["high"] - middle]
            is_task = "theory" not in row
            style = {"color": colour, "marker": marker, "markersize": 4, "capsize": 2, "linewidth": 1}
            panel.errorbar(record["length"], middle, bars, label=label, linestyle="-" if is_task else "none", **style)
            if not is_task:
                theory = [theoretical(name, length) for length in fine]
                panel.plot(fine, theory, color=colour, linewidth=1, linestyle="-" if name == "linear" else "--")
        panel.axhline(1, color="0.4", linewidth=0.9, linestyle=(0, (6, 3)))
        panel.axvline(record["paper_length"], color="0.4", linewidth=0.9, linestyle=":")
        panel.set(yscale="log", xlabel="length of the trajectory (leapfrog steps · 0.02)")
        panel.legend(fontsize=FONT, frameon=False, loc="upper left" if panel is left else "upper right")
        words: dict[str, Any] = {"fontsize": FONT, "color": "0.3", "va": "bottom"}
        panel.text(record["paper_length"] + 0.04, 0.02, "paper: 2", transform=panel.get_xaxis_transform(), **words)
        panel.text(record["length"][0], 1.03, "IID", **words)
    left.set_ylim(0.01, 3000)
    right.set_ylim(0.04, 8)
    right.yaxis.set_major_formatter("{x:g}")
    left.set_ylabel("efficiency against IID (mean squared error,\n100 draws, IID over HMC)")
    left.set_title("(a) Gaussian far from the walls; lines: theory", fontsize=FONT)
    right.set_title("(b) V* of the paper's tasks", fontsize=FONT)
    return figure


def caption(record: dict[str, Any]) -> str:
    at = record["length"].index(record["paper_length"])
    functions = record["functions"]
    intervals, rows = record["interval_at_paper"], record["tasks"]
    listed = ", ".join(
        f"{value:.2g} [{intervals[name][0]:.2g}, {intervals[name][1]:.2g}] on {TASK_WORDS[name]}"
        for name, value in record["efficiency_at_paper"].items()
    )
    outside = ", ".join(f"{rows[name]['outside']:.0%}" for name in record["efficiency_at_paper"])
    return (
        f"At the paper's trajectory length of {record['paper_length']:g}, 100 HMC draws are worth "
        f"{100 * functions['linear']['efficiency'][at]:.0f} independent ones for a linear function of a Gaussian and "
        f"{100 * functions['quadratic']['efficiency'][at]:.0f} for a quadratic one. For V* their efficiency is {listed}, "
        f"where the mean of {outside} of the pairs lies outside the box; brackets and bars are 95 % bootstrap intervals "
        f"over {record['settings']['num_pairs']} pairs."
    )
