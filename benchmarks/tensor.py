"""`solve_tensor` measured: the tables and the picture of docs/high_dimension.md.

    python benchmarks/tensor.py dense                      # 2 to 4 dimensions against value iteration on all nodes
    python benchmarks/tensor.py chain --sizes 6            # springs: residual, seconds, return against clipped LQR
    python benchmarks/tensor.py agents --sizes 4 6         # densities without a normaliser; repulsion left out as baseline
    python benchmarks/tensor.py samplers                   # repelling agents: importance draws against trajectories
    python benchmarks/tensor.py laws                       # how even the weights are, and what an effective draw costs
    python benchmarks/tensor.py scaling --picture P.png    # reads and seconds against d, rank, points and draws
    python benchmarks/tensor.py memory                     # peak of one process, 40 dimensions

Every part is solved with each of `--seeds` seeds, the first once more before: compile time is apart. Records are merged
into `--out` by part, size and device.
"""

import argparse
import functools
import json
import platform
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import hamq
from benchmarks.suite.smallest import add_smallest, shrink
from hamq.certificates.tensor_residual import tensor_residuals
from hamq.control.linear_quadratic import lqr_policy
from hamq.control.rollouts import random_starts, rollouts
from hamq.tensor.choice import make_choices
from hamq.tensor.expectation import Cloud, make_expectation

RECORD = Path(__file__).parent / "records" / "tensor.json"
SIZE: dict = {}
"""Of the chains, where it is not their own."""
DENSE = ("spring_chain(1)", "spring_chain(2)", "pendulum_chain(2)", "cartpole")
AGENTS, FIRST_RANK, EFFORT = 4, 12, 256
"""Of the comparison of samplers; the rank that agents begin with; evaluations per pair."""
AGENT_SIZE: dict = {}
"""Of the agents, where it is not their own."""
STUDIES = {
    "dimensions": ("masses", (4, 6, 8, 12, 16)),
    "rank": ("rank", (6, 8, 12, 16)),
    "points per axis": ("points", (5, 9, 17)),
    "draws": ("draws", (8, 32, 128)),
}
MASSES, RANK = 20, 12
"""Of the process whose memory is measured."""
SMALLEST = {"SIZE": {"points": 5, "num_actions": 3}, "DENSE": ("spring_chain(1)",), "AGENTS": 2, "MASSES": 1, "RANK": 2}
SMALLEST |= {"FIRST_RANK": 2, "EFFORT": 16, "AGENT_SIZE": {"points": 4}}
SMALLEST |= {"STUDIES": {"draws": ("draws", (8, 16))}}


def solved(problem, seeds: int, *, warm: bool = True, **options):
    """(seconds of the first solve, compile included; [(solution, seconds)] per seed)."""
    began = time.perf_counter()
    if warm:
        hamq.solve_tensor(problem, key=0, **options)
    first = time.perf_counter() - began
    runs = []
    for seed in range(seeds):
        began = time.perf_counter()
        runs.append((hamq.solve_tensor(problem, key=seed, **options), time.perf_counter() - began))
    return first, runs


def facts(solution, seconds: float) -> dict:
    last = solution.history[len(solution.history) - 1]
    names = ("reads", "samples", "density_evaluations", "gradient_evaluations")
    return {
        "seconds": round(seconds, 2),
        "residual": solution.residual,
        "rank": max(solution.ranks),
        "iterations": len(solution.history),
        "result": solution.result,
        **{name: int(last[name]) for name in names},
    }


def on_fresh(solution, seed: int, visited=None) -> dict:
    """Residuals on states that the solver has not seen, with its own draws and with four times as many others."""
    cost = solution.engine.bellman.expectation.cost
    kind = hamq.IID if cost.density_evaluations == 0 else hamq.Importance
    more = {"fresh draws": kind(4 * cost.samples)} if cost.samples else {}
    done = {}
    for name, sampler in {"solver's draws": None, **more}.items():
        found = tensor_residuals(solution, visited=visited, sampler=sampler, key=1000 + seed)
        done[name] = {
            kind: round(getattr(found, kind).rms, 5) for kind in ("nodes", "between", "visited") if getattr(found, kind)
        } | {"searched": round(found.searched.largest, 4), "95 % of the nodes below": found.nodes.bound}
    return done


def difference(result, first: str, second: str) -> list[float]:
    return [round(v, 4) for v in result.difference(first, second)]


def dense(arguments) -> dict:
    """Relative error of V over all nodes, and the return of the policy beside the dense one's."""
    posed = {
        "spring_chain(1)": functools.partial(hamq.problems.spring_chain, 1),
        "spring_chain(2)": functools.partial(hamq.problems.spring_chain, 2),
        "pendulum_chain(2)": functools.partial(hamq.problems.pendulum_chain, 2),
        "cartpole": functools.partial(hamq.problems.cartpole, law="linear"),
    }
    done = {}
    for name in DENSE:
        problem = posed[name](**SIZE)
        _, runs = solved(problem, arguments.seeds, warm=False, tolerance=1e-3)
        rows = []
        for seed, (solution, seconds) in enumerate(runs):
            value, policy = dense_answer(solution)
            error = np.linalg.norm(solution.value(problem.grid.states()) - value) / np.linalg.norm(value)
            starts = random_starts(problem, 512, key=seed)
            result = rollouts(problem, {"tensor": solution.actions, "dense": policy}, starts=starts, steps=60, key=seed)
            means = {key: float(values.mean()) for key, values in result.returns.items()}
            lost = (means["dense"] - means["tensor"]) / abs(means["dense"])
            row = {"error": float(error), "returns": means, "return_lost": lost}
            rows.append(row | {"difference": difference(result, "tensor", "dense")} | facts(solution, seconds))
            print(name, seed, f"error {error:.4f}, return lost {lost:.4f}, residual {solution.residual:.4f}", flush=True)
        done[name] = rows
    return done


def dense_answer(solution):
    """(V on all nodes by value iteration with the solver's own draws, its greedy policy between the nodes)."""
    problem, bellman = solution.problem, solution.engine.bellman
    actions = jax.vmap(bellman.choices.action)(jnp.arange(problem.num_actions, dtype=jnp.int32)[:, None])
    inverse = np.argsort(bellman.order)
    prepare = bellman.expectation.prepare

    def backed_up(value, state):
        def pair(action):
            prepared = prepare(state, action)
            if isinstance(prepared, Cloud):
                points = prepared.points[inverse]
                values = jax.vmap(lambda point: problem.grid.interpolate(value, point), 1)(points)
                return problem.reward(state, action) + problem.discount * jnp.sum(prepared.weights * values)
            rest = value.reshape(problem.grid.points)
            for axis, n in enumerate(problem.grid.points):
                rest = jnp.tensordot(prepared.weights[inverse[axis], :n], rest, 1)
            return problem.reward(state, action) + problem.discount * rest

        return jax.vmap(pair)(actions)

    table = jax.jit(lambda value, states: jax.lax.map(lambda s: backed_up(value, s), states, batch_size=32))
    states = jnp.asarray(problem.grid.states(), jnp.float32)
    value = jnp.zeros(problem.num_states)
    for _ in range(400):
        new = jnp.max(table(value, states), axis=1)
        change = new - value
        value = new + problem.discount / (1 - problem.discount) * jnp.mean(change)
        if float(jnp.max(jnp.abs(change - jnp.mean(change)))) < 1e-4 * float(jnp.max(jnp.abs(value))):
            break

    def policy(at):
        best = np.asarray(jnp.argmax(table(value, jnp.asarray(at)), axis=1))
        return np.asarray(problem.actions)[best]

    return np.asarray(value, np.float64), policy


def chain(arguments) -> dict:
    done = {}
    for size in arguments.sizes or [6]:
        problem = hamq.problems.spring_chain(size, **SIZE)
        first, runs = solved(problem, arguments.seeds, warm=not arguments.cold, tolerance=arguments.tolerance)
        rows = []
        for seed, (solution, seconds) in enumerate(runs):
            row, visited = facts(solution, seconds), None
            if arguments.rollouts:
                policies = {
                    "tensor": solution.actions,
                    "LQR": lqr_policy(problem),
                    "LQR, rounded": lqr_policy(problem, rounded=True),
                    "zero": lambda states: np.zeros(len(states)),
                }
                starts = random_starts(problem, arguments.rollouts, key=seed)
                result = rollouts(problem, policies, starts=starts, steps=60, key=seed)
                row["returns"] = {name: float(values.mean()) for name, values in result.returns.items()}
                row["beyond"] = {name: difference(result, "tensor", name) for name in policies if name != "tensor"}
                visited = result.visited("tensor")
            row["residuals"] = on_fresh(solution, seed, visited)
            rows.append(row)
            print(f"chain {size}, seed {seed}:", json.dumps(row), flush=True)
        done[f"spring_chain({size})"] = {"first_seconds": round(first, 1), "runs": rows}
    return done


def agents(arguments) -> dict:
    done = {}
    for size in arguments.sizes or [4, 6]:
        options = {"tolerance": arguments.tolerance, "rank": FIRST_RANK, "max_rank": arguments.max_rank}
        if arguments.draws:
            options["sampler"] = hamq.Importance(arguments.draws)
        problem, alone = (
            hamq.problems.repelling_agents(size, strength=strength, per_agent=True, law="linear", **AGENT_SIZE)
            for strength in (3.0, 0.0)
        )
        first, runs = solved(problem, arguments.seeds, warm=not arguments.cold, **options)
        _, without = solved(alone, arguments.seeds, warm=False, tolerance=0.01, sampler=hamq.Importance(64))
        rows = []
        for seed, ((solution, seconds), (blind, _)) in enumerate(zip(runs, without, strict=True)):
            row = facts(solution, seconds) | {"residuals": on_fresh(solution, seed), "without": facts(blind, 0.0)}
            if problem.num_actions <= 1000:
                states = random_starts(problem, 64, key=seed)
                row["action_gap"] = float(np.max(solution.action_gap(states)))
            if arguments.rollouts:
                starts = random_starts(problem, arguments.rollouts, key=seed)
                policies = {"tensor": solution.actions, "without repulsion": blind.actions}
                result = rollouts(problem, policies, starts=starts, steps=40, num_draws=arguments.rollout_draws, key=seed)
                row["returns"] = {name: float(values.mean()) for name, values in result.returns.items()}
                row["beyond"] = {"without repulsion": difference(result, "tensor", "without repulsion")}
                row["effective_draws"] = result.effective
            rows.append(row)
            print(f"agents {size}, seed {seed}:", json.dumps(row), flush=True)
        done[f"repelling_agents({size})"] = {"first_seconds": round(first, 1), "runs": rows}
    return done


def samplers(arguments) -> dict:
    """Equal numbers of evaluations: importance draws alone, or carried by trajectories."""
    problem = hamq.problems.repelling_agents(AGENTS, per_agent=True, law="linear", **AGENT_SIZE)
    done = {}
    for name, sampler in {
        f"importance {EFFORT}": hamq.Importance(EFFORT),
        f"trajectories {EFFORT // 4} × 4": hamq.HMC(EFFORT // 4, num_leapfrog=4),
        f"importance {EFFORT // 4}": hamq.Importance(EFFORT // 4),
    }.items():
        _, runs = solved(
            problem, arguments.seeds, sampler=sampler, rank=FIRST_RANK, max_rank=FIRST_RANK, tolerance=1e-3, iterations=6
        )
        done[name] = [facts(*run) | {"residuals": on_fresh(run[0], seed)} for seed, run in enumerate(runs)]
        print(name, json.dumps(done[name]), flush=True)
    return done


def laws(arguments) -> dict:
    """Repelling agents: effective share of the weights of one pair (median, lower tenth) and its price, random nodes."""
    done = {}
    for size in arguments.sizes or [4, 6, 12]:
        problem = hamq.problems.repelling_agents(size, per_agent=True, law="linear")
        choices, generator = make_choices(problem), np.random.default_rng(0)
        states = jnp.asarray(generator.choice(problem.grid.axis_nodes(0), (256, size)), jnp.float32)
        actions = jax.vmap(choices.action)(jnp.asarray(choices.random(generator, 256)))
        for sampler in (
            hamq.Importance(64),
            hamq.Importance(256),
            hamq.HMC(64, num_leapfrog=4),
            hamq.HMC(64, num_leapfrog=16),
        ):
            expectation = make_expectation(problem, sampler, choices, tuple(range(size)), 0)
            prepare = jax.jit(jax.vmap(expectation.prepare))
            jax.block_until_ready(prepare(states, actions))
            began = time.perf_counter()
            weights = np.asarray(jax.block_until_ready(prepare(states, actions)).weights)
            seconds = time.perf_counter() - began
            shares = 1 / np.sum(weights**2, axis=1) / weights.shape[1]
            name = f"{type(sampler).__name__} {sampler.num_samples}" + (
                f" × {sampler.num_leapfrog} steps" if isinstance(sampler, hamq.HMC) else ""
            )
            middle, low = np.quantile(shares, [0.5, 0.1])
            per_effective = seconds / 256 / (middle * sampler.num_samples)
            row = {"median": round(float(middle), 3), "tenth": round(float(low), 3)}
            done[f"{size} agents, {name}"] = row | {"microseconds_per_effective_draw": round(1e6 * float(per_effective), 2)}
            print(size, name, done[f"{size} agents, {name}"], flush=True)
    return done


def scaling(arguments) -> dict:
    """Two sweeps and one fitted improvement at a fixed rank; exponents are slopes of log(reads) and log(seconds)."""

    def cost(masses=4, rank=8, points=9, draws=8):
        problem = hamq.problems.spring_chain(masses, points=points)
        options = {"rank": rank, "max_rank": rank, "iterations": 3, "tolerance": 1e-9, "sampler": hamq.IID(draws)}
        _, runs = solved(problem, 1, **options)
        return facts(*runs[0])

    done = {}
    for name, (argument, values) in STUDIES.items():
        rows = [cost(**{argument: value}) for value in values]
        sizes = [2 * value if argument == "masses" else value for value in values]
        slopes = {
            of: float(np.polyfit(np.log(sizes), np.log([row[of] for row in rows]), 1)[0]) for of in ("reads", "seconds")
        }
        done[name] = {"sizes": sizes, "rows": rows, "exponents": slopes}
        print(name, json.dumps(slopes), flush=True)
    if arguments.picture:
        draw(done, arguments.picture)
    return done


def draw(studies: dict, path: Path) -> None:
    """Reads and seconds against each size, with the fitted exponents."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for panel, (name, study) in zip(figure.subplots(1, len(studies)), studies.items(), strict=True):
        for of, colour in (("reads", "#0072B2"), ("seconds", "#D55E00")):
            values = np.asarray([row[of] for row in study["rows"]]) / study["rows"][0][of]
            panel.loglog(study["sizes"], values, "o-", color=colour, label=f"{of}: {study['exponents'][of]:.2f}")
        panel.set_xlabel(name)
        panel.set_xticks(study["sizes"], [str(size) for size in study["sizes"]])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.legend(title="fitted exponent", fontsize=8, title_fontsize=8)
    figure.axes[0].set_ylabel("relative to the smallest")
    figure.savefig(path, dpi=150)


def memory(arguments) -> dict:
    """Peak resident size of a process that fits 40 dimensions at rank 12 once (few draws: they do not matter for the peak),
    and of one that only imports."""
    script = "import resource, hamq, jax.numpy; {}; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    solve = f"hamq.solve_tensor(hamq.problems.spring_chain({MASSES}), rank={RANK}, max_rank={RANK}, "
    solve += "iterations=3, sampler=hamq.IID(8))"
    peaks = {}
    for name, what in {"import": "jax.numpy.zeros(1)", "40 dimensions": solve}.items():
        done = subprocess.run([sys.executable, "-c", script.format(what)], capture_output=True, text=True, check=True)
        peaks[name] = round(float(done.stdout.split()[-1]))
        print(name, peaks[name], "MB", flush=True)
    return {"peak_mb": peaks}


PARTS = {
    "dense": dense, "chain": chain, "agents": agents, "samplers": samplers, "laws": laws, "scaling": scaling,
    "memory": memory,
}  # fmt: skip


def device() -> str:
    kind = jax.devices()[0]
    return f"{kind.device_kind}" if kind.platform != "cpu" else f"CPU, {len(jax.devices())} device"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", choices=PARTS, nargs="+", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--sizes", type=int, nargs="*", help="masses or agents")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=0.009)
    parser.add_argument("--max-rank", type=int, default=24)
    parser.add_argument("--draws", type=int, help="of Importance; default: the solver's")
    parser.add_argument("--rollouts", type=int, default=512, help="0: none")
    parser.add_argument("--rollout-draws", type=int, help="weighted draws of which a next state is picked")
    parser.add_argument("--picture", type=Path, help="of the scaling study, such as docs/images/tensor_scaling.png")
    parser.add_argument("--cold", action="store_true", help="no first solve to compile")
    parser.add_argument("--out", type=Path, default=RECORD)
    add_smallest(parser)
    arguments = parser.parse_args()
    if arguments.smallest:
        shrink(globals(), SMALLEST)
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    where = record.setdefault(device(), {})
    for part in arguments.parts:
        where[part] = where.get(part, {}) | PARTS[part](arguments)
    where["versions"] = {name: version(name) for name in ("jax", "jaxlib", "numpy")} | {"python": platform.python_version()}
    where["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
