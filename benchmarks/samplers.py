"""HMC against BlackJAX and NumPyro on the same target with the same settings, and against independent draws.

The paper's settings: sigmoid walls (κ = 80), 100 leapfrog steps of 0.02, mass = inverse covariance, 100 draws a chain,
d = 2, 4, 6. Ours goes through the public path (`hamq.draw_each`). Each peer has its best of two batchings (one vmap
over all chains, or a map over blocks of 160), everything in one jit; NumPyro's kernel has a fixed number of steps and
adapts nothing. *Autodiff* is our sampler on the same density as an `UnnormalizedKernel`, which searches modes and makes
jumps besides.

The last comparison is with ourselves: draws of HMC (logit walls, 4 leapfrog steps) against as many draws of `IID`.

    python -m benchmarks.samplers
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import hamq
from benchmarks.sampling import NUM_DRAWS, NUM_LEAPFROG, SHARPNESS, STEP, blackjax_chains, pose
from benchmarks.suite.part import command
from benchmarks.suite.record import versions
from benchmarks.suite.turns import compare, here, take_turns

DIMENSIONS = (2, 4, 6)
NUM_STATES = 192
FEW_LEAPFROG, MANY_DRAWS = 4, 400
BLOCK = 160
REPEATS = (5, 9)
"""Turns, without and with --full."""
SMALLEST = {"DIMENSIONS": (2,), "NUM_STATES": 2, "MANY_DRAWS": 8, "REPEATS": (1, 1)}


def numpyro_chains(problem, mean, variances, states):
    """The chains of `blackjax_chains`, by NumPyro's HMC kernel."""
    from numpyro.infer.hmc import hmc

    lower, upper = jnp.asarray(problem.grid.lower), jnp.asarray(problem.grid.upper)

    def chain(state, action, key):
        centre = mean(state, action)

        def potential(x):
            walls = jax.nn.softplus(SHARPNESS * (x - upper)) + jax.nn.softplus(SHARPNESS * (lower - x))
            return 0.5 * jnp.sum((x - centre) ** 2 / variances) + jnp.sum(walls)

        start, transition = hmc(potential, algo="HMC")
        fixed = {"adapt_step_size": False, "adapt_mass_matrix": False, "num_steps": NUM_LEAPFROG, "step_size": STEP}
        first = start(jnp.clip(centre, lower, upper), 0, inverse_mass_matrix=variances, rng_key=key, **fixed)

        def step(carry, _):
            carry = transition(carry)
            return carry, problem.grid.locate(carry.z)

        return jax.lax.scan(step, first, length=NUM_DRAWS)[1]

    pair_states = jnp.repeat(states, problem.num_actions, axis=0)
    pair_actions = jnp.tile(jnp.asarray(problem.actions, jnp.float32), len(states))
    arguments = (pair_states, pair_actions, jr.split(jr.key(0), len(pair_states)))
    whole = jax.jit(jax.vmap(chain))
    blocks = jax.jit(lambda *given: jax.lax.map(lambda one: chain(*one), given, batch_size=BLOCK))
    return (lambda: whole(*arguments)), (lambda: blocks(*arguments))


def against_peers(d: int, is_full: bool) -> tuple[list[dict], list[str]]:
    variances = np.linspace(0.6, 1.2, d)
    inverse, narrow = jnp.asarray(1 / variances, jnp.float32), jnp.asarray(variances, jnp.float32)

    def mean(state, action):
        return 0.9 * state + 0.1 * action

    def logdensity(point, state, action):
        return -0.5 * jnp.sum((point - mean(state, action)) ** 2 * inverse.astype(point.dtype))

    gaussian, user = pose(d, hamq.GaussianKernel(mean, variances)), pose(d, hamq.UnnormalizedKernel(logdensity))
    indices = np.arange(gaussian.num_states if is_full else NUM_STATES)
    states = jnp.asarray(gaussian.grid.states_at(indices), jnp.float32)
    sampler = hamq.HMC(NUM_DRAWS, NUM_LEAPFROG, STEP, "sigmoid", SHARPNESS, num_warmup=0)
    sides, firsts, notes = {}, {}, []
    for name, problem in {"hamq": gaussian, "autodiff": user}.items():
        sides[name] = here(lambda problem=problem: hamq.draw_each(problem, sampler, indices, key=0).draws.locations)
    for name, chains in {"BlackJAX": blackjax_chains, "NumPyro": numpyro_chains}.items():
        try:
            batchings = chains(gaussian, mean, narrow, states)
            tried = take_turns({str(place): here(call) for place, call in enumerate(batchings)}, 1)
        except ImportError as missing:
            notes.append(f"{name} is not installed ({missing}): pip install {name.lower()}.")
            continue
        best = min(tried, key=lambda place: tried[place].median())
        sides[name], firsts[name] = here(batchings[int(best)]), tried[best].first
    found = take_turns(sides, REPEATS[is_full])
    found |= {name: found[name]._replace(first=first) for name, first in firsts.items()}
    rows = []
    for peer in [name for name in ("BlackJAX", "NumPyro") if name in found]:
        rows.append(compare(f"HMC, sigmoid walls, d = {d}", peer, found["hamq"], found[peer]))
        rows.append(compare(f"HMC, sigmoid walls, autodiff, d = {d}", peer, found["autodiff"], found[peer]))
    return rows, notes


def against_independent_draws(d: int, is_full: bool) -> dict:
    variances = np.linspace(0.6, 1.2, d)
    problem = pose(d, hamq.GaussianKernel(lambda state, action: 0.9 * state + 0.1 * action, variances))
    samplers = {
        "hamq": hamq.HMC(MANY_DRAWS, FEW_LEAPFROG, walls="logit", calibrate=False),
        "IID": hamq.IID(MANY_DRAWS),
    }
    found = take_turns(
        {
            name: here(lambda sampler=sampler: hamq.draw_each(problem, sampler, key=0).draws.locations)
            for name, sampler in samplers.items()
        },
        REPEATS[is_full],
    )
    return compare(f"one draw of HMC, logit walls, {FEW_LEAPFROG} steps, d = {d}", "hamq.IID", found["hamq"], found["IID"])


def measure(is_full: bool) -> dict:
    comparisons, notes = [], []
    for d in DIMENSIONS:
        print(f"  sampling, d = {d}", flush=True)
        rows, missing = against_peers(d, is_full)
        comparisons += [*rows, against_independent_draws(d, is_full)]
        notes += [note for note in missing if note not in notes]
    return {"comparisons": comparisons, "notes": notes, "versions": versions("blackjax", "numpyro")}


if __name__ == "__main__":
    command(measure, __doc__, globals(), SMALLEST)
