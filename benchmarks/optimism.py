"""The level error of V on an inventory problem with fixed costs, before and after its optimism is taken off.

python benchmarks/optimism.py
"""

import argparse
import time
import warnings

import jax.numpy as jnp
import numpy as np

import hamq
from hamq.learning import q_iteration


def inventory(points: int = 25, levels: int = 6) -> hamq.Problem:
    """Two products, Gumbel demand, a fixed cost for every order."""
    orders = np.linspace(0, 5, levels)

    def logdensity(next_state, state, action):
        mean = jnp.minimum(state + action, 10.0) - jnp.array([2.0, 1.5])
        z = (next_state - mean) / jnp.array([1.1, 0.9])
        return jnp.sum(-z - jnp.exp(-z))

    def reward(state, action):
        sales = jnp.minimum(state + action, jnp.array([2.5, 2.0]))
        return 3 * jnp.sum(sales) - 0.3 * jnp.sum(state) - jnp.sum(action) - 1.5 * jnp.sum(action > 0)

    actions = np.array([[first, second] for first in orders for second in orders])
    grid = hamq.Grid([-2, -2], [10, 10], [points, points])
    return hamq.Problem(grid, actions, hamq.UnnormalizedKernel(logdensity), reward, 0.95, name="inventory")


def level(problem: hamq.Problem, exact: np.ndarray, sampler, seed: int) -> float:
    return float(np.mean(hamq.solve(problem, sampler, key=seed).value - exact))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=25, help="of each product")
    parser.add_argument("--levels", type=int, default=6, help="sizes of an order")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", hamq.HamqWarning)
    problem = inventory(options.points, options.levels)
    exact = hamq.solve_exact(problem, tolerance=1e-2).value
    began = time.perf_counter()
    solution = hamq.solve(problem)
    seconds = time.perf_counter() - began
    print(f"range of V {np.ptp(exact):.3g}; default {np.mean(solution.value - exact):+.4f} in {seconds:.1f} s")
    print(solution.result)
    corrected = q_iteration.without_optimism
    for sampler in (hamq.IID(60), hamq.HMC(40, calibrate=False)):
        for seed in range(options.seeds):
            q_iteration.without_optimism = lambda run, q: None
            before = level(problem, exact, sampler, seed)
            q_iteration.without_optimism = corrected
            print(
                f"{sampler}, seed {seed}: {before:+.3f} before, {level(problem, exact, sampler, seed):+.3f} after",
                flush=True,
            )


if __name__ == "__main__":
    main()
