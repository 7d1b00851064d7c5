"""How good are 100 Hamiltonian draws? Mean squared error of E[V*] against 100 independent ones, and what coupling gives.

For each problem of the zoo, on random states and all actions, with the library's defaults:
  error       mean squared error of E[V*(s')] with 100 draws, over Var[V*(s')]/100, which independent draws have;
  coupling    variance of the difference of two actions' backups with independent over that with coupled draws, median
              over states, for neighbouring and for the extreme actions.

    python benchmarks/efficiency.py --problems pendulum acrobot --out record.json
"""

import argparse
import json
import math
import platform

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import hamq
from benchmarks.suite.smallest import add_smallest, shrink
from hamq.exact.bellman import make_operator

PAPER = ("pendulum", "double_integrator", "cartpole", "acrobot", "cart_double_pendulum")
NUM_STATES, REPLICATES, NUM_DRAWS = 128, 24, 100
SMALLEST = {"NUM_STATES": 4, "REPLICATES": 3}

SAMPLERS = {
    "IID": hamq.IID(NUM_DRAWS),
    "HMC": hamq.HMC(NUM_DRAWS),
    "even HMC": hamq.HMC(NUM_DRAWS, calibrate=False),
    "Importance": hamq.Importance(NUM_DRAWS),
}


def mixture():
    """A narrow and a broad Gaussian of equal weight: two modes of very different width."""

    def logdensity(point, state, action):
        centre = jnp.stack([0.5 * state[0] + 0.1 * action, 0.5 * state[1]])
        narrow = -0.5 * jnp.sum(((point - centre - 0.3) / 0.05) ** 2) - 2 * math.log(0.05)
        broad = -0.5 * jnp.sum(((point - centre) / 0.3) ** 2) - 2 * math.log(0.3)
        return jnp.logaddexp(narrow, broad)

    kernel, grid = hamq.UnnormalizedKernel(logdensity), hamq.Grid([-1, -1], [1, 1], [9, 9])
    return hamq.Problem(grid, np.linspace(-1, 1, 3), kernel, lambda s, a: -jnp.sum((s - 0.3) ** 2), 0.95, name="mixture")


def pose(name):
    if name == "mixture":
        return mixture()
    if name == "repelling_agents strength 10":
        return hamq.problems.repelling_agents(2, strength=10.0)
    return getattr(hamq.problems, name)()


def expectation(problem, operator_value, states):
    """E[V] of these states, exactly: the backup without reward and discount."""
    operator = make_operator(problem, law_error=1e-7)
    return ((operator.backup(operator_value) - operator.rewards) / problem.discount)[states]


def backups(problem, sampler, states, value, seed, coupled=True):
    found, infos = [], []
    for k in range(REPLICATES):
        drawn = hamq.draw_each(problem, sampler, states, key=seed + k, coupled=coupled)
        found.append(hamq.expected_values(problem, drawn.draws, value))
        infos.append(drawn)
    return np.stack(found), infos


def spread(found, first, second):
    return (found[:, :, first] - found[:, :, second]).var(axis=0, ddof=1)


def measure(name, seed=0):
    problem = pose(name)
    exact = hamq.solve_exact(problem)
    value = exact.value.astype(np.float32).astype(np.float64)
    size = min(NUM_STATES, problem.num_states)
    states = np.sort(np.random.default_rng(seed).choice(problem.num_states, size, replace=False))
    mean, square = expectation(problem, value, states), expectation(problem, value**2, states)
    variance = (square - mean**2) / NUM_DRAWS
    row = {"problem": name, "num_states": problem.num_states, "num_actions": problem.num_actions}
    for kind, sampler in SAMPLERS.items():
        found, drawn = backups(problem, sampler, states, value, seed)
        # Replicates are independent, states nearly so; actions of a state are not: they are averaged first.
        per_state = ((found - mean) ** 2).mean(axis=(0, 2)) / variance.mean(axis=1)
        weight = variance.mean(axis=1) / variance.mean()
        row[kind] = float(np.mean(per_state * weight))
        row[f"{kind}_se"] = float(np.std(per_state * weight, ddof=1) / np.sqrt(size))
        if kind == "even HMC":
            row["acceptance"] = float(np.mean([d.info.acceptance.mean() for d in drawn]))
            coupled = found
    # Coupling by itself: calibrated draws differ so little that less is left for it to cancel.
    independent, _ = backups(problem, SAMPLERS["even HMC"], states, value, seed + 1000, coupled=False)
    last = problem.num_actions - 1
    neighbours = [spread(independent, a, a + 1) / spread(coupled, a, a + 1) for a in range(last)]
    row["neighbours"] = float(np.median(np.mean(neighbours, axis=0) if last > 20 else np.median(neighbours, axis=0)))
    row["extremes"] = float(np.median(spread(independent, 0, last) / spread(coupled, 0, last)))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", nargs="+", default=[*PAPER, "repelling_agents", "repelling_agents strength 10", "mixture"]
    )
    parser.add_argument("--out", help="write a JSON record here")
    add_smallest(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        shrink(globals(), SMALLEST)
    table = Table(title=f"{NUM_DRAWS} draws, {REPLICATES} replicates; error 1 = independent draws")
    for column in ("problem", "HMC acceptance", *SAMPLERS, "coupling, neighbours", "coupling, extremes"):
        table.add_column(column, justify="left" if column == "problem" else "right")
    rows = []
    for name in arguments.problems:
        row = measure(name)
        rows.append(row)
        errors = [f"{row[k]:.2f} ± {row[k + '_se']:.2f}" for k in SAMPLERS]
        table.add_row(name, f"{row['acceptance']:.3f}", *errors, f"{row['neighbours']:.0f}", f"{row['extremes']:.1f}")
    Console(width=130).print(table)
    if arguments.out:
        versions = {"jax": jax.__version__, "hamq": hamq.__version__, "python": platform.python_version()}
        with open(arguments.out, "w") as file:
            json.dump({"versions": versions, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
