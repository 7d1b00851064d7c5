"""`hamq diagnose`: whether fresh chains agree on the value that a run found."""

import dataclasses
from typing import Any

import hamq
from hamq.cli.messages import make_console, make_table, print_json, say, tell
from hamq.cli.parsing import Command, Request
from hamq.errors import HamqError


@dataclasses.dataclass(frozen=True)
class DiagnoseOptions:
    """Which chains are drawn, and what is printed; see docs/diagnostics.md."""

    num_pairs: int | None = None
    """Pairs of a state and an action that are looked at, at random; None: all, and 2,000 of more than that."""
    num_samples: int = 4000
    """Draws per pair, all chains together."""
    num_chains: int = 4
    """Chains per pair."""
    seed: int = 0
    """Of the pairs and of the chains; they are others than those that solved."""
    json: bool = False
    """Print one JSON object on stdout."""


COMMAND = Command("RUN", "whether fresh chains agree on the value that a run found", 9, {"output": DiagnoseOptions()})
KEPT = ("num_leapfrog", "step_size", "walls", "sharpness", "num_warmup")
"""Settings of the run's own chains that the fresh ones have as well."""


def run(request: Request) -> int:
    from hamq.runs.loading import problem_of, read_finished, solution_of
    from hamq.runs.progress import Progress

    hamq.use_compilation_cache()
    (name,), asked = request.words, request.options["output"]
    _require_sense(asked)
    found = read_finished(request.words)[name]
    problem = problem_of(name, found)
    sampler = _sampler(found, asked)
    say(f"{problem.name}: {sampler.chains} fresh chains of {sampler.num_samples // sampler.chains} draws per pair")
    with Progress() as progress:
        given = {"sampler": sampler, "num_pairs": asked.num_pairs, "key": asked.seed, "progress": progress.draws}
        told = hamq.diagnose(solution_of(found, problem), **given)
    if asked.json:
        print_json({"run": name, "problem": problem.name, **described(told)})
        return 0
    make_console().print(diagnosis_table(told))
    tell(told.sentence)
    return 0


def _require_sense(asked: DiagnoseOptions) -> None:
    if asked.num_pairs is not None and asked.num_pairs < 1:
        raise HamqError(f"--num-pairs must be at least 1, got {asked.num_pairs}.")
    if asked.seed < 0:
        raise HamqError(f"--seed must be at least 0, got {asked.seed}.")


def _sampler(found: "hamq.Run", asked: DiagnoseOptions) -> "hamq.HMC":
    """Chains with the run's settings, where it had chains, and as many draws as asked for."""
    own = found.setup.sampler or {}
    kept = {field: own[field] for field in KEPT} if own.get("kind") == "HMC" else {}
    return hamq.HMC(asked.num_samples, num_chains=asked.num_chains, **kept)


def diagnosis_table(told: "hamq.ChainDiagnosis") -> Any:
    """One row per number: its middle and its worst, the limit, how many pairs are beyond it."""
    table = make_table(("number", "median", "worst", "limit", "pairs_beyond", "worst_at"), ("number", "worst_at"))
    for name, row in described(told)["numbers"].items():
        limit = "" if row["limit"] is None else f"{row['limit']:.4g}"
        beyond = "" if row["pairs_beyond"] is None else f"{row['pairs_beyond']:,}"
        where = row["worst_at"] or ""
        table.add_row(name.replace("_", " "), f"{row['median']:.4g}", f"{row['worst']:.4g}", limit, beyond, where)
    return table


def described(told: "hamq.ChainDiagnosis") -> dict[str, Any]:
    import numpy as np

    limits, flags = told.limits, told.flags
    numbers = {}
    for name, values in told.by_pair._asdict().items():
        worst = told.worst(name)
        numbers[name] = {
            "median": float(np.median(values)),
            "worst": float(values[worst]),
            "limit": limits.get(name),
            "pairs_beyond": int(flags[name].sum()) if name in flags else None,
            "worst_at": told.pair_name(worst) if np.any(values != values[0]) else None,  # R̂ may be inf everywhere
        }
    return {
        "sentence": told.sentence,
        "is_healthy": told.is_healthy,
        "num_pairs": told.num_pairs,
        "num_chains": told.num_chains,
        "num_draws": told.num_draws,
        "pairs_flagged": int(told.is_flagged.sum()),
        "numbers": numbers,
        "cost": told.cost._asdict(),
    }
