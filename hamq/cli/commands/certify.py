"""`hamq certify`: how far the table of a run is from Q*, and what its policy loses, with stated confidence."""

import dataclasses
from typing import Any

import hamq
from hamq.certificates.methods import Method, strength
from hamq.cli.messages import make_console, make_table, print_json, say, tell
from hamq.cli.parsing import Command, Request
from hamq.errors import HamqError


@dataclasses.dataclass(frozen=True)
class CertifyOptions:
    """How surely, at what cost, and what is printed; see docs/certificates.md."""

    confidence: float = 0.95
    """Probability, over the draws that certify, with which all bounds hold at once."""
    max_evaluations: int | None = None
    """Of the density and its gradient, a draw as one; None: 1,000 draws per pair. Too few: a statement about most pairs."""
    method: Method | None = None
    """By sums without a draw, by independent draws, or by chains; None: the strongest that applies."""
    seed: int = 0
    """Of the draws that certify; they are others than those that solved."""
    json: bool = False
    """Print one JSON object on stdout."""


COMMAND = Command(
    "RUN", "how far a run is from Q*, and what its policy loses, with stated confidence", 8, {"output": CertifyOptions()}
)


def run(request: Request) -> int:
    from hamq.runs.folder import RunFolder
    from hamq.runs.loading import problem_of, read_finished, solution_of
    from hamq.runs.progress import Progress

    hamq.use_compilation_cache()
    (name,), asked = request.words, request.options["output"]
    _require_sense(asked)
    found = read_finished(request.words)[name]
    problem = problem_of(name, found)
    with RunFolder.open(name) as folder:  # refuses now if somebody writes there
        say(f"{problem.name}: certifying the table of {name}")
        with Progress(beats=True) as progress:
            certificate = hamq.certify(solution_of(found, problem), **_arguments(asked), progress=progress.draws)
        is_saved = found.q is not None and (found.certificate is None or not _says_more(found.certificate, certificate))
        if is_saved and found.q is not None:
            folder.save_certificate(certificate, found.q)
    kept = hamq.read_run(name).certificate
    if asked.json:
        told = {"found": certificate.sentence, "is_saved": is_saved}
        print_json({"run": name, "problem": problem.name, **told, **({} if kept is None else kept.facts())})
        return 0
    tell(certificate.sentence)
    if kept is None:
        tell(f"Not saved: {name} holds a tensor train, and this is about one backup of it in every state.")
    elif not is_saved:
        tell(f"Not saved: {name} has a certificate that says more. {kept.sentence}")
    else:
        make_console().print(certificate_table(kept))
        tell(f"Saved in {name}; hamq show, hamq compare and hamq report show it.")
    return 0


def _says_more(kept: Any, new: Any) -> bool:
    """Whether it is a bound where the new one is none, or a smaller one by a method as strong, as surely."""
    if not kept.is_bound or kept.error is None:
        return False
    if isinstance(new, hamq.PartialCertificate) or new.is_vacuous:
        return True
    is_as_strong = strength(kept.method) <= strength(new.method) and kept.confidence >= new.confidence
    return is_as_strong and kept.error < new.error


def _require_sense(asked: CertifyOptions) -> None:
    if not 0 < asked.confidence < 1:
        raise HamqError(f"--confidence must be between 0 and 1, such as 0.95, got {asked.confidence}.")
    if asked.max_evaluations is not None and asked.max_evaluations < 1:
        raise HamqError(f"--max-evaluations must be at least 1, got {asked.max_evaluations}.")
    if asked.seed < 0:
        raise HamqError(f"--seed must be at least 0, got {asked.seed}.")


def _arguments(asked: CertifyOptions) -> dict[str, Any]:
    named = ("confidence", "max_evaluations", "method")
    return {name: getattr(asked, name) for name in named} | {"key": asked.seed}


def certificate_table(kept: Any) -> Any:
    """One row of numbers: what is bounded, how surely, and what that took."""
    from hamq.certificates.certificate import rounded_down, rounded_up

    if kept.error is None:
        assert kept.share is not None and kept.residual is not None and kept.num_pairs is not None
        said = {
            "pairs seen": f"{kept.num_pairs:,}",
            "share above": f"{kept.share:.2g}",
            "residual": f"{rounded_up(kept.residual)}",
        }
    else:
        said = {
            "|Q − Q*| ≤": f"{rounded_up(kept.error)}",
            "loss ≤": f"{rounded_up(kept.worst_loss)}",
            "mean loss ≤": f"{rounded_up(kept.mean_loss)}",
        }
    evaluations = kept.cost.density_evaluations + kept.cost.gradient_evaluations
    spent = {"draws per pair": f"{kept.draws:,.0f}", "evaluations": f"{evaluations:,}", "seconds": f"{kept.seconds:.1f}"}
    row = {"method": kept.method, "confidence": rounded_down(kept.confidence)} | said | spent
    table = make_table(list(row), ("method",))
    table.add_row(*row.values())
    return table
