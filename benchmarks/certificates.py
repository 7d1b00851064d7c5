"""What certificates are worth: coverage, width, the gain of each reduction of variance, and the zoo.

    python benchmarks/certificates.py coverage --jobs 2      200 seeds × 4 problems × 3 methods against the exact answer
    python benchmarks/certificates.py width --jobs 2         sup bound over true error at 1,000 draws per pair, and ablations
    python benchmarks/certificates.py jumps --jobs 2         200 seeds × 5 densities with jumps × 3 methods (`jumps.py`)
    python benchmarks/certificates.py zoo                    default solutions with their bounds
    python benchmarks/certificates.py page                   the record's tables into docs/certificates.md

Each part is written to benchmarks/records/certificates.json with versions and seeds.
"""

import argparse
import concurrent.futures
import datetime
import functools
import json
import math
import multiprocessing
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.jumps import CUTS, brackets, cells, counted
from benchmarks.suite.smallest import add_smallest, shrink

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "certificates.json"
PAGE = ROOT / "docs" / "certificates.md"
CONFIDENCE, ITERATIONS, NUM_DRAWS = 0.95, 300, 1000
METHODS = ("exact", "guaranteed", "asymptotic")
SEEDS = {"coverage": 200, "width": 160, "jumps": 200}
CHAIN_SEEDS = 60
"""At most, of the width of chains, which take much longer."""
DRAWS = {"correlated": 1000, "repelling_agents": 600, "pendulum": 600, "cartpole": 600}
ZOO = (
    "pendulum",
    "double_integrator",
    "cartpole",
    "acrobot",
    "cart_double_pendulum",
    "repelling_agents",
    "spring_chain",
    "pendulum_chain",
    "gym_pendulum",
    "gym_cartpole",
    "gym_acrobot",
    "gym_inverted_pendulum",
    "gym_inverted_double_pendulum",
)
WAYS: dict[str, tuple[tuple[Any, int | None], ...]] = {
    "repelling_agents": ((None, None), ("asymptotic", None)),
    "spring_chain": (("guaranteed", 300),),
}
"""(method, draws per pair) where the defaults are not all that is of interest; spring_chain has 59,049 pairs."""
SIZE: dict[str, int] = {}
"""Points and actions, where they are not those below."""
SMALLEST = {"SIZE": {"points": 3, "num_actions": 2}, "DRAWS": {"pendulum": 100}, "ITERATIONS": 5, "NUM_DRAWS": 100}


def correlated(points: int = 10, num_actions: int = 5):
    """10 × 10 states, 5 actions, γ 0.9, noise with correlation 0.6: a mass on a spring, pushed."""
    import jax.numpy as jnp

    import hamq

    def mean(state, action):
        return state + 0.3 * jnp.stack([0.5 * state[1], action - 0.3 * state[0]])

    return hamq.Problem(
        grid=hamq.Grid([-1, -1], [1, 1], points),
        actions=jnp.linspace(-1, 1, num_actions),
        kernel=hamq.GaussianKernel(mean, [[0.04, 0.024], [0.024, 0.04]]),
        reward=lambda state, action: -jnp.sum(state**2) - 0.1 * action**2,
        discount=0.9,
        name="correlated",
    )


@functools.cache
def posed(name: str) -> tuple[Any, Any, Any]:
    """(problem, its exact solution, its operator)."""
    import hamq
    from hamq.exact.bellman import make_operator

    makers = {
        "correlated": correlated,
        "repelling_agents": hamq.problems.repelling_agents,
        "pendulum": functools.partial(hamq.problems.pendulum, points=9, num_actions=5),
        "cartpole": functools.partial(hamq.problems.cartpole, points=5, num_actions=3),
    }
    problem = makers[name](**SIZE)
    return problem, hamq.solve_exact(problem, 1e-8), make_operator(problem, 1e-7)


def learnt(name: str, seed: int) -> tuple[Any, float, float]:
    """(Q of value iteration with 100 independent draws per pair, max |Q − Q*|, largest loss of its greedy policy)."""
    import numpy as np

    import hamq

    problem, exact, operator = posed(name)
    found = hamq.solve(problem, hamq.IID(100), None, iterations=ITERATIONS, key=seed)
    loss = (exact.value - operator.evaluate(found.policy, 1e-7).value).max()
    return found.q, float(np.abs(found.q - exact.q).max()), max(float(loss), 0.0)


def covers(name: str, method: Any, seed: int) -> dict[str, Any]:
    """Whether all backups were bounded at once, and all of Q*."""
    import jax.random as jr
    import numpy as np

    from hamq.certificates import sampled
    from hamq.certificates.bracket import make_certificate
    from hamq.certificates.certify import certify_by_sums
    from hamq.certificates.experiment import ALL_RULES, make_experiment

    problem, exact, operator = posed(name)
    q, error, loss = learnt(name, seed)
    if method == "exact":
        certificate, backup = certify_by_sums(operator, q, None), True
    else:
        judged = sampled.judge(problem, q)
        level = (1 - CONFIDENCE) / (2 * q.size + len(q))
        experiment, cost = make_experiment(problem, method, level, ALL_RULES, key=jr.key(10_000 + seed))
        proposal, prepared, draws = sampled.proposed(judged, experiment, DRAWS[name], None)
        verified, _ = sampled.verify(judged, experiment, proposal, prepared, None)
        bracket = sampled.bracket_of(judged, proposal, verified)
        slack = operator.slack(proposal.upper) + operator.slack(proposal.lower)
        backup = bool(
            np.all(verified.upper >= operator.backup(proposal.upper) - slack)
            and np.all(verified.lower <= operator.backup(proposal.lower) + slack)
            and np.all(verified.policy <= operator.backup(proposal.policy) + slack)
        )
        given = {"method": method, "confidence": CONFIDENCE, "draws": draws, "cost": cost, "began": time.perf_counter()}
        certificate = make_certificate(problem, q, judged.rewards, judged.ended, bracket, **given)
    inside = bool(np.all(certificate.lower <= exact.upper) and np.all(certificate.upper >= exact.lower))
    return {
        "backup": backup,
        "q": inside,
        "error": certificate.error >= error - 1e-9,
        "loss": certificate.worst_loss >= loss - 1e-6,
        "ratio": certificate.error / error,
    }


def plain(problem, q, method: str, seed: int) -> tuple[float, float]:
    """(bound of max |Q − Q*|, of the loss) by intervals of T̂Q in every pair and b±/(1−γ).

    It is what docs/certificates.md calls plain.
    """
    import jax.random as jr
    import numpy as np
    from scipy.stats import t as student

    import hamq
    from hamq.learning.draws import draw_each
    from hamq.problem.tables import reward_table

    value, n = q.max(axis=1), NUM_DRAWS
    chains = {"num_chains": 20, "calibrate": False}
    sampler = hamq.IID(n) if method == "guaranteed" else hamq.HMC(n, **chains)
    values = value[np.asarray(draw_each(problem, sampler, key=jr.key(20_000 + seed)).draws.locations)]
    level, span = (1 - CONFIDENCE) / (2 * q.size), float(np.ptp(value))
    if method == "guaranteed":  # empirical Bernstein (Maurer & Pontil 2009)
        log = math.log(2 / level)
        mean = values.mean(axis=2)
        width = np.sqrt(2 * values.var(axis=2, ddof=1) * log / n) + 7 * span * log / (3 * (n - 1))
    else:
        means = values.reshape(*q.shape, 20, -1).mean(axis=3)
        ends = np.broadcast_to(np.asarray([value.min(), value.max()]), (*q.shape, 2))
        seen = np.concatenate([means, ends], axis=2)
        mean, width = seen.mean(axis=2), student.isf(level, 21) * seen.std(axis=2, ddof=1) / math.sqrt(22)
    residual = reward_table(problem) + problem.discount * mean - q
    high, low = residual + problem.discount * width, residual - problem.discount * width
    largest, least = high.max() / (1 - problem.discount), low.min() / (1 - problem.discount)
    return float(max(largest, -least)), float(largest - least)


def wide(seed: int) -> dict[str, Any]:
    """Bounds over true errors on the 10 × 10 problem, with everything, without each reduction, and plain."""
    import jax.random as jr

    from hamq.certificates.certify import certify_by_sums
    from hamq.certificates.experiment import ALL_RULES
    from hamq.certificates.sampled import certify_by_draws

    problem, _, operator = posed("correlated")
    q, error, loss = learnt("correlated", seed)
    row: dict[str, Any] = {"error": error, "loss": loss}
    found = certify_by_sums(operator, q, None)
    row["exact"] = (found.error, found.worst_loss)
    rules = {"": ALL_RULES} | {f" without {name}": ALL_RULES._replace(**{name: False}) for name in ALL_RULES._fields}
    for method in METHODS[1:]:
        row[f"{method} plain"] = plain(problem, q, method, seed)
        if method == "asymptotic" and seed >= CHAIN_SEEDS:
            continue
        for name, rule in rules.items():
            key = jr.key(30_000 + seed)
            found = certify_by_draws(problem, q, method, CONFIDENCE, NUM_DRAWS, key=key, rules=rule)
            row[method + name] = (found.error, found.worst_loss)
    return row


def of_zoo(name: str) -> list[dict[str, Any]]:
    """The default solution of one problem, certified in the ways that are of interest, and how wrong it is."""
    import hamq

    problem = getattr(hamq.problems, name)(**SIZE)
    solution = hamq.solve(problem)
    true, size = truth(problem, solution), {"states": problem.num_states, "actions": problem.num_actions}
    rows = []
    for method, draws in WAYS.get(name, ((None, None),)):
        budget = None if draws is None else draws * solution.q.size  # an independent draw counts as one evaluation
        certificate = hamq.certify(solution, method=method, max_evaluations=budget, key=1)
        assert isinstance(certificate, hamq.Certificate)
        said = certificate.method if draws is None else f"{certificate.method}, {draws} draws"
        found = {"bound": certificate.error, "loss_bound": certificate.worst_loss, "seconds": certificate.seconds}
        rows.append({"problem": name, "method": said, "draws_needed": certificate.draws_needed} | found | size | true)
    print(json.dumps(rows), flush=True)
    return rows


def truth(problem, solution) -> dict[str, float | None]:
    """max |Q − Q*|, the largest loss and the range of V*; the range of V, and None, where Q* is too large to compute."""
    import numpy as np

    import hamq
    from hamq.problem.cells import DoesNotFit

    try:
        exact = hamq.solve_exact(problem)
    except DoesNotFit:
        return {"error": None, "loss": None, "span": float(np.ptp(solution.value))}
    loss = exact.value - hamq.evaluate_policy(problem, solution.policy).value
    error, span = np.abs(solution.q - exact.q).max(), np.ptp(exact.value)
    return {"error": float(error), "loss": max(float(loss.max()), 0.0), "span": float(span)}


def coverage(problems: tuple[str, ...], seeds: int, jobs: int) -> dict[str, Any]:
    tasks = [(name, method, seed) for name in problems for method in METHODS for seed in range(seeds)]
    found = _spread(covers, tasks, jobs)
    rows = []
    for name in problems:
        for method in METHODS:
            own = [row for task, row in zip(tasks, found, strict=True) if task[:2] == (name, method)]
            counts = {kind: sum(row[kind] for row in own) for kind in ("backup", "q", "error", "loss")}
            ratio = sorted(row["ratio"] for row in own)[len(own) // 2]
            rows.append({"problem": name, "method": method, "seeds": seeds, "draws": DRAWS[name], "ratio": ratio} | counts)
    return {"rows": rows}


def jumps(densities: tuple[str, ...], seeds: int, jobs: int, before: dict[str, Any]) -> dict[str, Any]:
    """With the rows of densities that were not asked for as they are in the record."""
    tasks = [(name, seed) for name in densities for seed in range(seeds)]
    found = _spread(brackets, tasks, jobs)
    rows = counted(densities, [(task[0], row) for task, row in zip(tasks, found, strict=True)])
    rows += [row for row in before.get("rows", []) if row["density"] not in densities]
    order = list(CUTS)
    return {"rows": sorted(rows, key=lambda row: order.index(row["density"]))}


def width(seeds: int, jobs: int) -> dict[str, Any]:
    found = _spread(wide, [(seed,) for seed in range(seeds)], jobs)
    names = [name for name in found[0] if name not in ("error", "loss")]

    def median(values):
        return sorted(values)[len(values) // 2]

    rows = []
    for name in names:
        own = [row for row in found if name in row]
        rows.append(
            {
                "method": name,
                "seeds": len(own),
                "ratio": median([row[name][0] / row["error"] for row in own]),
                "loss_bound": median([row[name][1] for row in own]),
                "loss_ratio": median([row[name][1] / max(row["loss"], 1e-9) for row in own]),
            }
        )
    true = {"error": median([row["error"] for row in found]), "loss": median([row["loss"] for row in found])}
    return {"seeds": seeds, "rows": rows} | true


def zoo(problems: tuple[str, ...], jobs: int) -> dict[str, Any]:
    return {"rows": [row for rows in _spread(of_zoo, [(name,) for name in problems], jobs) for row in rows]}


def _spread(work, tasks: list[tuple], jobs: int) -> list[Any]:
    """Side by side in processes of their own, each on one core where there are several."""
    if jobs == 1:
        return [_said(i, len(tasks), work(*task)) for i, task in enumerate(tasks)]
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        chunk = max(1, min(len(tasks) // (4 * jobs), 25))
        results = pool.map(work, *zip(*tasks, strict=True), chunksize=chunk)
        return [_said(i, len(tasks), row) for i, row in enumerate(results)]


def _said(i: int, total: int, row: Any) -> Any:
    if total < 30 or (i + 1) % (total // 20) == 0:
        print(f"  {i + 1} of {total}", flush=True)
    return row


def page(record: dict[str, Any], text: str) -> str:
    """The page with its tables written again, each between two comments."""
    tables = {"coverage": _coverage_table, "jumps": _jumps_table, "width": _width_table, "zoo": _zoo_table}
    for name, table in tables.items():
        if name in record:
            start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
            before, rest = text.split(start)
            _, after = rest.split(end)
            text = before + start + table(record[name]) + end + after
    return text


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _coverage_table(part: dict[str, Any]) -> str:
    counted_kinds = ["all backups", "all of Q*", "bound ≥ error", "bound ≥ loss"]
    header = ["problem", "method", "draws per pair", *counted_kinds, "bound / error"]
    rows = []
    for row in part["rows"]:
        counts = [f"{row[kind]} of {row['seeds']}" for kind in ("backup", "q", "error", "loss")]
        if row["method"] == "exact":
            counts[0] = "computed"
        draws = "" if row["method"] == "exact" else f"{row['draws']:,}"
        rows.append([row["problem"], row["method"], draws, *counts, f"{row['ratio']:.2f}"])
    return _markdown(header, rows)


def _jumps_table(part: dict[str, Any]) -> str:
    header, *rows = cells(part["rows"])
    return _markdown(header, rows)


def _width_table(part: dict[str, Any]) -> str:
    header = ["method", "bound of max abs(Q − Q*) / true", "bound of the loss", "bound of the loss / true"]
    rows = [[r["method"], f"{r['ratio']:.2f}", f"{r['loss_bound']:.2f}", f"{r['loss_ratio']:.3g}"] for r in part["rows"]]
    return _markdown(header, rows)


def _zoo_table(part: dict[str, Any]) -> str:
    header = [
        "problem",
        "pairs",
        "method",
        "range of V*",
        "max abs(Q − Q*)",
        "its bound",
        "largest loss",
        "its bound",
        "seconds",
    ]
    rows = []
    for r in part["rows"]:
        numbers = ["not known" if r[k] is None else f"{r[k]:.3g}" for k in ("span", "error", "bound", "loss", "loss_bound")]
        rows.append([r["problem"], f"{r['states']:,} × {r['actions']}", r["method"], *numbers, f"{r['seconds']:.1f}"])
    return _markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("coverage", "jumps", "width", "zoo", "page"))
    parser.add_argument("--seeds", type=int, help=f"by default {', '.join(f'{n} of {part}' for part, n in SEEDS.items())}")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--problems", nargs="+", help="of coverage, jumps or the zoo; fewer than all belong to another --out"
    )
    parser.add_argument("--out", type=Path, default=RECORD)
    add_smallest(parser)
    given = parser.parse_args()
    if given.smallest:
        shrink(globals(), SMALLEST)
    record = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    if given.part != "page":
        began = time.perf_counter()
        known = {"zoo": ZOO, "jumps": tuple(CUTS)}.get(given.part, tuple(DRAWS))
        problems, seeds = tuple(given.problems or known), given.seeds or SEEDS.get(given.part, 1)
        if unknown := set(problems) - set(known):
            parser.error(f"--problems {', '.join(unknown)}: {given.part} has {', '.join(known)}")
        parts = {
            "coverage": lambda: coverage(problems, seeds, given.jobs),
            "jumps": lambda: jumps(problems, seeds, given.jobs, record.get("jumps", {})),
            "width": lambda: width(seeds, given.jobs),
            "zoo": lambda: zoo(problems, given.jobs),
        }
        found = parts[given.part]()
        seconds, day = time.perf_counter() - began, datetime.datetime.now(datetime.UTC).date().isoformat()
        versions = {name: version(name) for name in ("jax", "numpy", "scipy")} | {"python": platform.python_version()}
        record[given.part] = found | {"seconds": round(seconds), "date": day, "versions": versions}
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(record[given.part], indent=1))
    elif PAGE.exists():
        PAGE.write_text(page(record, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
