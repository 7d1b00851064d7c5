"""Leapfrog gradients per second of `hamq.HMC` and of BlackJAX, on the same target with the same settings, in one run.

The paper's settings: sigmoid walls (κ = 80), step 0.02, 100 leapfrog steps, mass = inverse covariance; d = 2, 4, 6.
Ours goes through the public path (`hamq.draw_each`: tiles, indices written out, all cores); BlackJAX is given its best of
two batchings (one vmap over all chains, or a map over blocks of 160). All four take turns, so that a busy machine hits
them alike, and the best of their turns counts. Gaussian kernels use our hand-written gradient; the
same density as an `UnnormalizedKernel` uses autodiff, searches modes and makes jumps besides, which BlackJAX does not.

    python benchmarks/sampling.py --out record.json
"""

import argparse
import json
import platform
import time
import warnings

import blackjax
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from rich.console import Console
from rich.table import Table

import hamq
from benchmarks.suite.smallest import add_smallest, shrink

STEP, NUM_LEAPFROG, SHARPNESS, NUM_DRAWS, NUM_STATES, REPEATS = 0.02, 100, 80.0, 100, 625, 5
POINTS = {2: 25, 4: 5, 6: 3}
SMALLEST = {"POINTS": {2: 3}, "NUM_DRAWS": 5, "NUM_LEAPFROG": 5, "REPEATS": 1}


def pose(d, kernel):
    grid = hamq.Grid([-3.0] * d, [3.0] * d, [POINTS[d]] * d)
    return hamq.Problem(grid, np.linspace(-1, 1, 10), kernel, lambda s, a: -jnp.sum(s**2), 0.95, name=f"gaussian{d}")


def seconds(*functions):
    """(first call, best of the others) of each; they take turns."""
    times = [[] for _ in functions]
    for _ in range(1 + REPEATS):
        for function, own in zip(functions, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(function())
            own.append(time.perf_counter() - start)
    return [(first, min(others)) for first, *others in times]


def blackjax_chains(problem, mean, variances, states):
    lower, upper = jnp.asarray(problem.grid.lower), jnp.asarray(problem.grid.upper)

    def chain(state, action, key):
        centre = mean(state, action)

        def logdensity(x):
            walls = jax.nn.softplus(SHARPNESS * (x - upper)) + jax.nn.softplus(SHARPNESS * (lower - x))
            return -0.5 * jnp.sum((x - centre) ** 2 / variances) - jnp.sum(walls)

        kernel = blackjax.hmc(logdensity, STEP, variances, NUM_LEAPFROG)

        def step(carry, step_key):
            carry, _ = kernel.step(step_key, carry)
            return carry, problem.grid.locate(carry.position)

        return jax.lax.scan(step, kernel.init(jnp.clip(centre, lower, upper)), jr.split(key, NUM_DRAWS))[1]

    pair_states = jnp.repeat(states, problem.num_actions, axis=0)
    pair_actions = jnp.tile(jnp.asarray(problem.actions, jnp.float32), len(states))
    arguments = (pair_states, pair_actions, jr.split(jr.key(0), len(pair_states)))
    whole = jax.jit(jax.vmap(chain))
    blocks = jax.jit(lambda *given: jax.lax.map(lambda one: chain(*one), given, batch_size=160))
    return (lambda: whole(*arguments)), (lambda: blocks(*arguments))


def measure(d):
    variances = np.linspace(0.6, 1.2, d)
    inverse = jnp.asarray(1 / variances, jnp.float32)

    def mean(state, action):
        return 0.9 * state + 0.1 * action

    def logdensity(point, state, action):
        return -0.5 * jnp.sum((point - mean(state, action)) ** 2 * inverse.astype(point.dtype))

    sampler = hamq.HMC(NUM_DRAWS, NUM_LEAPFROG, STEP, "sigmoid", SHARPNESS, num_warmup=0)
    gaussian = pose(d, hamq.GaussianKernel(mean, variances))
    user = pose(d, hamq.UnnormalizedKernel(logdensity))
    indices = np.arange(min(NUM_STATES, gaussian.num_states))
    states = jnp.asarray(gaussian.grid.states_at(indices), jnp.float32)
    gradients = len(indices) * gaussian.num_actions * NUM_DRAWS * NUM_LEAPFROG
    row = {"d": d, "chains": len(indices) * gaussian.num_actions, "gradients": gradients}
    mine = [
        lambda problem=problem: hamq.draw_each(problem, sampler, indices, key=0).draws.locations
        for problem in (gaussian, user)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, autodiff, *theirs = seconds(
            *mine, *blackjax_chains(gaussian, mean, jnp.asarray(variances, jnp.float32), states)
        )
    best = min(t for _, t in theirs)
    rates = {"ours": gradients / ours[1], "ours_autodiff": gradients / autodiff[1], "blackjax": gradients / best}
    row |= {f"{name}_per_second": rate for name, rate in rates.items()}
    row |= {"compile_ours": ours[0] - ours[1], "compile_blackjax": theirs[0][0] - theirs[0][1]}
    row |= {"ratio": best / ours[1], "ratio_autodiff": best / autodiff[1]}
    row["ratio_to_one_vmap"] = theirs[0][1] / ours[1]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write a JSON record here")
    add_smallest(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        shrink(globals(), SMALLEST)
    table = Table(
        title=f"Million leapfrog gradients per second ({NUM_LEAPFROG} steps of {STEP}, sigmoid walls, κ = {SHARPNESS:g})"
    )
    for column in (
        "d",
        "chains",
        "hamq",
        "hamq, autodiff",
        "BlackJAX, best",
        "hamq / BlackJAX",
        "autodiff / BlackJAX",
        "hamq / one vmap",
    ):
        table.add_column(column, justify="right")
    rows = [measure(d) for d in POINTS]
    for r in rows:
        rates = (f"{r[f'{name}_per_second'] / 1e6:.0f}" for name in ("ours", "ours_autodiff", "blackjax"))
        ratios = (f"{r[name]:.1f}" for name in ("ratio", "ratio_autodiff", "ratio_to_one_vmap"))
        table.add_row(str(r["d"]), str(r["chains"]), *rates, *ratios)
    Console(width=130).print(table)
    if arguments.out:
        versions = {"jax": jax.__version__, "blackjax": blackjax.__version__, "python": platform.python_version()}
        with open(arguments.out, "w") as file:
            json.dump({"versions": versions, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
