"""Densities that nobody can normalise: Hamiltonian draws against importance sampling as the dimension grows.

For repelling agents of strength 3 and 10, on random states: mean squared error of HMC (default settings, adapted step,
mode search and pilot counted), of `Importance`, and of self-normalised importance sampling from the Gaussian factor
(which a user of the library would have to know) at an EQUAL number of evaluations, densities and gradients counted alike.
States are random points of the box.
Errors are relative to what the same number of independent draws would give, averaged over two functions of the next
state: the reward there, and the position of the first agent (which tells the orders of the agents apart).
The reference is a tempered particle sampler with 20,000 particles that shares no code with the library's samplers.

    python benchmarks/unnormalized.py --agents 2 4 6 --strengths 3 10 --samples 400 --out record.json
"""

import argparse
import json
import platform
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import ndtr, ndtri
from rich.console import Console
from rich.table import Table

import hamq
from benchmarks.suite.smallest import add_smallest, shrink
from hamq.learning.draws import prepare
from hamq.sampling.draws import Target
from hamq.sampling.hmc import HMC
from hamq.sampling.importance import Importance
from hamq.types import as_key

SIGMA, NUM_STATES, NUM_PARTICLES, NUM_TEMPERATURES, NUM_MOVES = 0.2, 24, 20_000, 24, 8
SMALLEST = {"NUM_STATES": 2, "NUM_PARTICLES": 200, "NUM_TEMPERATURES": 4, "NUM_MOVES": 1}


def functions(problem, points):
    """The reward at the next state and the first coordinate, [..., 2]."""
    action = jnp.zeros(problem.actions.shape[1:])
    rewards = jax.vmap(lambda x: problem.reward(x, action))(points)
    return jnp.stack([rewards, points[:, 0]], axis=-1)


def gaussian_draws(key, mean, num):
    """Truncated normals around the mean, one axis at a time."""
    low, high = ndtr((-1 - mean) / SIGMA), ndtr((1 - mean) / SIGMA)
    u = jr.uniform(key, (num, len(mean)), minval=1e-6, maxval=1 - 1e-6)
    return jnp.clip(mean + SIGMA * ndtri(low + u * (high - low)), -1, 1)


def repulsion(problem, points, mean, state, action):
    """−log p minus its Gaussian part: what importance sampling from the Gaussian factor weighs by."""
    gaussian = -0.5 * jnp.sum(((points - mean) / SIGMA) ** 2, axis=-1)
    return gaussian - jax.vmap(lambda x: problem.kernel.logdensity(x, state, action))(points)


def reference(problem, state, action, key):
    """E and Var of the functions by tempering the repulsion: weights, resampling, random-walk Metropolis."""
    mean = state + 0.1 * action
    start_key, loop_key = jr.split(key)
    particles = gaussian_draws(start_key, mean, NUM_PARTICLES)
    ladder = jnp.linspace(0, 1, NUM_TEMPERATURES + 1) ** 1.5

    def energy(x, share):
        gaussian = 0.5 * jnp.sum(((x - mean) / SIGMA) ** 2, axis=-1)
        inside = jnp.all(jnp.abs(x) <= 1, axis=-1)
        return jnp.where(inside, gaussian + share * repulsion(problem, x, mean, state, action), jnp.inf)

    def temper(k, x):
        resample_key, move_key = jr.split(jr.fold_in(loop_key, k))
        weights = jax.nn.softmax(-(ladder[k + 1] - ladder[k]) * repulsion(problem, x, mean, state, action))
        positions = (jnp.arange(NUM_PARTICLES) + jr.uniform(resample_key)) / NUM_PARTICLES
        x = x[jnp.searchsorted(jnp.cumsum(weights), positions).clip(0, NUM_PARTICLES - 1)]

        def move(i, carry):
            x, current = carry
            step_key, accept_key = jr.split(jr.fold_in(move_key, i))
            # One coordinate moves at a time, a short or a long way.
            axis = jax.nn.one_hot(jr.randint(jr.fold_in(step_key, 1), (NUM_PARTICLES,), 0, len(mean)), len(mean))
            size = jnp.where(i % 2 == 0, 0.1, 0.4)
            proposal = x + size * axis * jr.normal(step_key, x.shape)
            new = energy(proposal, ladder[k + 1])
            accepted = jnp.log(jr.uniform(accept_key, (NUM_PARTICLES,))) < current - new
            return jnp.where(accepted[:, None], proposal, x), jnp.where(accepted, new, current)

        return jax.lax.fori_loop(0, NUM_MOVES * len(mean), move, (x, energy(x, ladder[k + 1])))[0]

    particles = jax.lax.fori_loop(0, NUM_TEMPERATURES, temper, particles)
    values = functions(problem, particles)
    return values.mean(axis=0), values.var(axis=0)


def gaussian_importance(problem, state, action, num, key):
    mean = state + 0.1 * action
    points = gaussian_draws(key, mean, num)
    weights = jax.nn.softmax(-repulsion(problem, points, mean, state, action))
    return weights @ functions(problem, points), 1 / jnp.sum(weights**2) / num


def measure(num_agents, strength, samples, replicates, seed):
    problem = hamq.problems.repelling_agents(num_agents, strength=strength)
    key = as_key(seed)
    states = jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, (NUM_STATES, num_agents)), jnp.float32)
    actions = jnp.asarray(problem.actions[np.random.default_rng(seed + 1).integers(0, problem.num_actions, NUM_STATES)])
    actions = actions.astype(jnp.float32)
    start = time.perf_counter()
    refs, variances = jax.jit(lambda s, a, k: jax.lax.map(lambda t: reference(problem, *t), (s, a, k)))(
        states, actions, jr.split(jr.fold_in(key, 1), NUM_STATES)
    )
    row = {"agents": num_agents, "strength": strength, "samples": samples}
    row["seconds_reference"] = time.perf_counter() - start
    hmc, pilot = prepare(problem, HMC(samples), key=jr.fold_in(key, 2))
    keys = jr.split(jr.fold_in(key, 3), (NUM_STATES, replicates))

    def error(estimates, count):
        """Mean squared error over Var/count, averaged over functions and states, per state first."""
        return float(jnp.mean(jnp.mean((estimates - refs[:, None]) ** 2, axis=1) / (variances / count)))

    def run(sampler):
        def one(state, action, key):
            draws, info = sampler.draw(Target(problem, state, action), key=key)
            return jnp.exp(draws.log_weights) @ functions(problem, draws.points.T), info

        over = jax.jit(lambda s, a, k: jax.lax.map(lambda t: jax.vmap(lambda key: one(t[0], t[1], key))(t[2]), (s, a, k)))
        start = time.perf_counter()
        result = jax.block_until_ready(over(states, actions, keys))
        row[f"seconds_{type(sampler).__name__}"] = time.perf_counter() - start
        return result

    estimates, info = run(hmc)
    spent = int(info.density_evaluations.max() + info.gradient_evaluations.max())
    row |= {
        "step_size": float(hmc.step_size),
        "acceptance": float(info.acceptance.mean()),
        "crossings": float(info.num_crossings.mean()) / samples,
        "modes": float(info.num_modes.mean()),
        "evaluations": spent,
        "pilot_evaluations": int(pilot.density_evaluations + pilot.gradient_evaluations),
        "hmc": error(estimates, samples),
    }
    search = spent - 6 * samples  # what `Importance` spends on its modes is about what HMC does
    estimates, info = run(Importance(max(100, spent - max(search, 0))))
    row |= {"importance": error(estimates, samples), "importance_share": float(info.weight_share.mean())}
    plain = jax.jit(
        lambda s, a, k: jax.lax.map(
            lambda t: jax.vmap(lambda key: gaussian_importance(problem, t[0], t[1], spent, key))(t[2]), (s, a, k)
        )
    )
    estimates, share = plain(states, actions, keys)
    row |= {"gaussian_importance": error(estimates, samples), "gaussian_share": float(share.mean())}
    row["ratio"] = row["hmc"] / row["gaussian_importance"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, nargs="+", default=[2, 3, 4, 6, 8, 12])
    parser.add_argument("--strengths", type=float, nargs="+", default=[3.0, 10.0])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="write a JSON record here")
    add_smallest(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        shrink(globals(), SMALLEST)
    table = Table(title=f"Repelling agents, {arguments.samples} draws; errors relative to independent draws")
    for name in (
        "strength",
        "d",
        "step",
        "acceptance",
        "modes",
        "jumps",
        "evaluations",
        "HMC",
        "Importance",
        "Gaussian factor",
        "HMC / Gaussian factor",
    ):
        table.add_column(name, justify="right")
    rows = []
    for strength in arguments.strengths:
        for agents in arguments.agents:
            r = measure(agents, strength, arguments.samples, arguments.replicates, arguments.seed)
            rows.append(r)
            cells = (
                f"{strength:g}",
                f"{agents}",
                f"{r['step_size']:.3f}",
                f"{r['acceptance']:.2f}",
                f"{r['modes']:.1f}",
                f"{r['crossings']:.2f}",
            )
            cells += (
                f"{r['evaluations']}",
                f"{r['hmc']:.2f}",
                f"{r['importance']:.2f}",
                f"{r['gaussian_importance']:.2f}",
                f"{r['ratio']:.2f}",
            )
            table.add_row(*cells)
            print(r, flush=True)
    Console().print(table)
    if arguments.out:
        versions = {"jax": jax.__version__, "hamq": hamq.__version__, "python": platform.python_version()}
        given = {name: value for name, value in vars(arguments).items() if name != "out"}
        with open(arguments.out, "w") as file:
            json.dump({"versions": versions, "arguments": given, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
