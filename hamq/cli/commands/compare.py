"""`hamq compare`: runs of one problem against the exact answer and against each other."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import hamq
from hamq.cli.messages import PrintOptions, make_console, make_table, print_json, say
from hamq.cli.parsing import Command, Request
from hamq.errors import HamqError

COMMAND = Command("RUN [RUN ...]", "runs against the exact answer and each other", 4, {"output": PrintOptions()})
MEASURES = ("frobenius", "sup", "advantage", "agreement", "policy_loss")
MEANING = """\
frobenius: ‖Q − Q*‖/‖Q*‖ · sup: max |Q − Q*| · advantage: the first of Q minus its mean over the actions
agreement: states whose greedy action is a best one · policy loss: mean of V* − V of the greedy policy"""


def run(request: Request) -> int:
    from hamq.exact.bellman import make_operator
    from hamq.runs.loading import problem_of, solution_of

    hamq.use_compilation_cache()
    runs = {name: hamq.read_run(name) for name in request.words}
    _require_comparable(runs)
    problem = problem_of(*next(iter(runs.items())))
    solutions = {name: solution_of(run, problem) for name, run in runs.items()}
    exact, tables = _exact(solutions, problem), {name: solution.table() for name, solution in solutions.items()}
    operator = make_operator(problem)
    found = {name: hamq.compare(table, exact, operator) for name, table in tables.items()}
    between = [_between(first, second) for first, second in itertools.combinations(tables.items(), 2)]
    if request.options["output"].json:
        described = {
            name: dataclasses.asdict(row) | _spent(runs[name]) | _certified(runs[name]) for name, row in found.items()
        }
        print_json({"problem": problem.name, "exact": exact.result, "runs": described, "between": between})
        return 0
    console = make_console()
    console.print(str(problem), style="bold")
    console.print(f"Exact answer: {exact.result}.")
    console.print(comparison_table({name: (row, _spent(runs[name])) for name, row in found.items()}))
    if certificates := {name: run.certificate for name, run in runs.items() if run.certificate is not None}:
        console.print(_certified_table(found, certificates))
    if len(runs) > 1:
        console.print(_between_table(between))
    console.print(MEANING, style="dim")
    return 0


def _require_comparable(runs: "dict[str, hamq.Run]") -> None:
    """Finished, and of one problem."""
    from hamq.runs.loading import require_finished

    (first, reference), *_ = runs.items()
    for name, run in runs.items():
        require_finished(name, run)
        if run.manifest.problem != reference.manifest.problem:
            raise HamqError(f"{name} is of another problem than {first}; compare runs of one problem.")


def _exact(solutions: "dict[str, hamq.Solution | hamq.TensorSolution]", problem: "hamq.Problem") -> "hamq.Solution":
    for solution in solutions.values():
        if isinstance(solution, hamq.Solution) and solution.lower is not None:
            return solution
    say(f"solving {problem.name} exactly, because no run of hamq exact is given")
    return hamq.solve_exact(problem, progress=False)


def _spent(run: "hamq.Run") -> dict[str, Any]:
    return {"gradients": run.outcome.last.get("gradient_evaluations"), "seconds": run.outcome.last.get("seconds")}


def _certified(run: "hamq.Run") -> dict[str, Any]:
    """The bound of `sup` and of the loss in any state and on average, where the run was certified."""
    names = ("sentence", "is_vacuous", "method", "confidence", "error", "worst_loss", "mean_loss")
    found = run.certificate
    return {"certificate": None if found is None else {name: getattr(found, name) for name in names}}


def comparison_table(rows: "dict[str, tuple[hamq.Comparison, dict[str, Any]]]") -> Any:
    """One row per table of action values, and two for scale."""
    table = make_table(("run", *MEASURES, "gradients", "seconds"), ("run",))
    for name, (row, spent) in rows.items():
        losses = f"{row.policy_loss:.2g}"
        measured = (f"{row.frobenius:.2g}", f"{row.sup:.2g}", f"{row.advantage:.2g}", f"{row.agreement:.0%}", losses)
        gradients = "" if spent["gradients"] is None else f"{spent['gradients']:,}"
        table.add_row(name, *measured, gradients, "" if spent["seconds"] is None else f"{spent['seconds']:.1f}")
    row, _ = next(iter(rows.values()))
    table.add_section()
    for name, loss in (
        ("best constant action", row.constant_action_loss),
        ("greedy on the random policy's Q", row.random_policy_loss),
    ):
        table.add_row(name, *[""] * 4, f"{loss:.2g}", "", "", style="dim")
    return table


def _certified_table(found: "dict[str, hamq.Comparison]", certificates: dict[str, Any]) -> Any:
    """What was certified beside what is true; a bound that says nothing stays away."""
    from hamq.certificates.certificate import rounded_down, rounded_up

    columns = ("run", "sup", "certified", "policy loss", "certified", "confidence", "method")
    table = make_table(columns, ("run", "method"), "Certified by hamq certify, with its confidence")
    for name, certificate in certificates.items():
        sup, loss = f"{found[name].sup:.2g}", f"{found[name].policy_loss:.2g}"
        bounds = ["no bound", "no bound"]
        if certificate.is_bound:
            bounds = [f"≤ {rounded_up(certificate.error)}", f"≤ {rounded_up(certificate.mean_loss)}"]
        table.add_row(name, sup, bounds[0], loss, bounds[1], rounded_down(certificate.confidence), certificate.method)
    return table


def _between(first: tuple[str, Any], second: tuple[str, Any]) -> dict[str, Any]:
    import numpy as np

    (name, q), (other_name, other_q) = first, second
    return {
        "runs": [name, other_name],
        "frobenius": float(np.linalg.norm(q - other_q) / (np.linalg.norm(other_q) or 1)),
        "agreement": float(np.mean(q.argmax(axis=1) == other_q.argmax(axis=1))),
    }


def _between_table(between: Sequence[dict[str, Any]]) -> Any:
    table = make_table(("run", "and", "frobenius", "same greedy action"), ("run", "and"), "Between the runs")
    for pair in between:
        table.add_row(*pair["runs"], f"{pair['frobenius']:.2g}", f"{pair['agreement']:.0%}")
    return table
