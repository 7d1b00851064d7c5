"""`hamq certify`: how far the table of a run is from Q*, and what its policy loses, with stated confidence."""

from typing import Any

from rich.table import Table

from hamq.certificates.certificate import METHODS, Certificate, PartialCertificate, rounded_down, rounded_up
from hamq.certificates.certify import certify
from hamq.cli.certify_options import CertifyOptions
from hamq.cli.finished import read_finished
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Request
from hamq.cli.tables import make_console, make_table
from hamq.errors import HamqError
from hamq.problem.cache import use_compilation_cache
from hamq.runs.certificate import RunCertificate
from hamq.runs.folder import RunFolder
from hamq.runs.loading import problem_of, solution_of
from hamq.runs.progress import Progress
from hamq.runs.reading import Run, read_run


def run(request: Request) -> int:
    use_compilation_cache()
    (name,), asked = request.words, request.options["output"]
    _require_sense(asked)
    found = read_finished(request.words)[name]
    _require_table(name, found)
    problem = problem_of(name, found)
    with RunFolder.open(name) as folder:  # refuses now if somebody writes there
        say(f"{problem.name}: certifying the table of {name}")
        with Progress(beats=True) as progress:
            certificate = certify(solution_of(found, problem), **_arguments(asked), progress=progress.draws)
        assert found.q is not None
        is_saved = found.certificate is None or not _says_more(found.certificate, certificate)
        if is_saved:
            folder.save_certificate(certificate, found.q)
    kept = read_run(name).certificate
    assert kept is not None
    if asked.json:
        told = {"found": certificate.sentence, "is_saved": is_saved}
        print_json({"run": name, "problem": problem.name, **told, **kept.facts()})
        return 0
    tell(certificate.sentence)
    if not is_saved:
        tell(f"Not saved: {name} has a certificate that says more. {kept.sentence}")
        return 0
    make_console().print(certificate_table(kept))
    tell(f"Saved in {name}; hamq show, hamq compare and hamq report show it.")
    return 0


def _says_more(kept: RunCertificate, new: Certificate | PartialCertificate) -> bool:
    """Whether it is a bound where the new one is none, or a smaller one by a method as strong, as surely."""
    if not kept.is_bound or kept.error is None:
        return False
    if isinstance(new, PartialCertificate) or new.is_vacuous:
        return True
    is_as_strong = METHODS.index(kept.method) <= METHODS.index(new.method) and kept.confidence >= new.confidence
    return is_as_strong and kept.error < new.error


def _require_sense(asked: CertifyOptions) -> None:
    if not 0 < asked.confidence < 1:
        raise HamqError(f"--confidence must be between 0 and 1, such as 0.95, got {asked.confidence}.")
    if asked.max_evaluations is not None and asked.max_evaluations < 1:
        raise HamqError(f"--max-evaluations must be at least 1, got {asked.max_evaluations}.")
    if asked.seed < 0:
        raise HamqError(f"--seed must be at least 0, got {asked.seed}.")


def _require_table(name: str, found: Run) -> None:
    if found.cores is not None:
        raise HamqError(
            f"{name} holds a tensor train, and hamq certify needs a table of Q; hamq show has its residual, and "
            "hamq.tensor_residuals, in Python, a statement about it with stated confidence."
        )


def _arguments(asked: CertifyOptions) -> dict[str, Any]:
    named = ("confidence", "max_evaluations", "method")
    return {name: getattr(asked, name) for name in named} | {"key": asked.seed}


def certificate_table(kept: RunCertificate) -> Table:
    """One row of numbers: what is bounded, how surely, and what that took."""
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
