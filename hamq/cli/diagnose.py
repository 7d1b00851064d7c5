"""`hamq diagnose`: whether fresh chains agree on the value that a run found."""

from typing import Any

import numpy as np
from rich.table import Table

from hamq.certificates.chain_diagnosis import ChainDiagnosis
from hamq.certificates.diagnostics import diagnose
from hamq.cli.diagnose_options import DiagnoseOptions
from hamq.cli.finished import read_finished
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Request
from hamq.cli.tables import make_console, make_table
from hamq.errors import HamqError
from hamq.problem.cache import use_compilation_cache
from hamq.runs.loading import problem_of, solution_of
from hamq.runs.progress import Progress
from hamq.runs.reading import Run
from hamq.sampling.hmc import HMC

KEPT = ("num_leapfrog", "step_size", "walls", "sharpness", "num_warmup")
"""Settings of the run's own chains that the fresh ones have as well."""


def run(request: Request) -> int:
    use_compilation_cache()
    (name,), asked = request.words, request.options["output"]
    found = read_finished(request.words)[name]
    _require_sense(name, found, asked)
    problem = problem_of(name, found)
    sampler = _sampler(found, asked)
    say(f"{problem.name}: {sampler.chains} fresh chains of {sampler.num_samples // sampler.chains} draws per pair")
    with Progress() as progress:
        solution = solution_of(found, problem)
        told = diagnose(solution, sampler=sampler, num_pairs=asked.num_pairs, key=asked.seed, progress=progress.draws)
    if asked.json:
        print_json({"run": name, "problem": problem.name, **described(told)})
        return 0
    make_console().print(diagnosis_table(told))
    tell(told.sentence)
    return 0


def _require_sense(name: str, found: Run, asked: DiagnoseOptions) -> None:
    if found.cores is not None:
        raise HamqError(f"{name} holds a tensor train, and hamq diagnose needs a table of Q; hamq show has its residual.")
    if asked.num_pairs is not None and asked.num_pairs < 1:
        raise HamqError(f"--num-pairs must be at least 1, got {asked.num_pairs}.")
    if asked.seed < 0:
        raise HamqError(f"--seed must be at least 0, got {asked.seed}.")


def _sampler(found: Run, asked: DiagnoseOptions) -> HMC:
    """Chains with the run's settings, where it had chains, and as many draws as asked for."""
    own = found.setup.sampler or {}
    kept = {field: own[field] for field in KEPT} if own.get("kind") == "HMC" else {}
    return HMC(asked.num_samples, num_chains=asked.num_chains, **kept)


def diagnosis_table(told: ChainDiagnosis) -> Table:
    """One row per number: its middle and its worst, the limit, how many pairs are beyond it."""
    table = make_table(("number", "median", "worst", "limit", "pairs_beyond", "worst_at"), ("number", "worst_at"))
    for name, row in described(told)["numbers"].items():
        limit = "" if row["limit"] is None else f"{row['limit']:.4g}"
        beyond = "" if row["pairs_beyond"] is None else f"{row['pairs_beyond']:,}"
        where = row["worst_at"] or ""
        table.add_row(name.replace("_", " "), f"{row['median']:.4g}", f"{row['worst']:.4g}", limit, beyond, where)
    return table


def described(told: ChainDiagnosis) -> dict[str, Any]:
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
