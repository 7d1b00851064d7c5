"""`hamq paper`: the figures and claims of the paper, as printed, corrected and improved."""

import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hamq
from hamq import paper
from hamq.cli.messages import make_console, make_table, say, tell
from hamq.cli.parsing import Command, Request
from hamq.errors import HamqError, suggestion

FIGURES = paper.FIGURES | paper.STUDIES
"""What `hamq paper` can draw."""


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """What is run, and where it goes."""

    quick: bool = False
    """Minutes instead of hours: fewer seeds and iterations, said on every picture."""
    seeds: int | None = None
    """Seeds of every group; None: 10, of networks 5 (quick: 2; the dear runs of the 6-D problem: 1)."""
    out: str | None = None
    """Folder of records and pictures; what it has is not run again. None: ./paper, or ./paper-quick."""
    processes: int | None = None
    """That work side by side; None: one per core, at most 4, and one on an accelerator."""
    page: str | None = None
    """A page whose parts between `<!-- made by `hamq paper`: ... -->` and `<!-- end -->` are renewed as well."""


def _check(words: Sequence[str]) -> None:
    known = [*FIGURES, "all"]
    for word in words:
        if word not in (*known, "list"):
            raise HamqError(f"there is no figure {word!r} among {', '.join(known)}{suggestion(word, known)}")


COMMAND = Command(
    "FIGURE [FIGURE ...]",
    "the paper's figures and claims, as printed, corrected and improved",
    11,
    {"study": StudyOptions()},
    check=_check,
    is_long=lambda words: "list" not in words,
)


def run(request: Request) -> int:
    if "list" not in request.words:
        return reproduce(request)
    table = make_table(("figure", "shows"), ("figure", "shows"))
    for name, title in FIGURES.items():
        table.add_row(name, title)
    make_console().print(table)
    print("hamq paper all --quick takes minutes; hamq paper --help shows the options.")
    return 0


def reproduce(request: Request) -> int:
    """Makes the runs that the figures need, the pictures, the tables and the verdict on every claim."""
    from hamq.paper import page, plan, tables

    hamq.use_compilation_cache()
    options = request.options["study"]
    names = list(FIGURES) if "all" in request.words else list(dict.fromkeys(request.words))
    scale = plan.QUICK if options.quick else plan.FULL
    for name in ("seeds", "processes"):
        if (given := getattr(options, name)) is not None and given < 1:
            raise HamqError(f"--{name} must be at least 1, got {given}.")
    if options.seeds is not None:
        scale = dataclasses.replace(scale, seeds=options.seeds, deep_seeds=options.seeds, high_seeds=options.seeds)
    folder = Path(options.out or ("paper-quick" if options.quick else "paper"))
    records = folder / "records"
    _require_writable(records, options.page)
    plan.require_scale(records, scale)
    page.read_evidence(records)  # what is damaged is said before anything is run
    _carry_out(names, records, scale, options.processes)
    elsewhere = [job for job in plan.plan(names, records, scale) if not job.is_done]
    if elsewhere:
        say(f"{len(elsewhere)} runs are being made by another command; run this one again when it is done.")
    evidence = page.read_evidence(records)
    drawn = page.draw(evidence, names, folder, scale.note)
    parts = page.sections(evidence, drawn, scale.note)
    written = page.write_page(folder, parts)
    if options.page is not None:
        at = Path(options.page)
        beside = Path(os.path.relpath(folder, at.parent)).as_posix() + "/"
        renewed = page.renew(at, page.sections(evidence, drawn, scale.note, beside))
        say(f"{options.page}: renewed {', '.join(renewed) or 'nothing, it has no marks'}.")
    _print(tables.verdicts(evidence), sum(map(len, drawn.values())), folder, written)
    return 0


def _require_writable(records: Path, at: str | None) -> None:
    from hamq.paper import page

    try:
        records.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HamqError(f"--out: {records} cannot be made ({error.strerror}); choose another folder.") from error
    if at is not None and not Path(at).is_file():
        raise HamqError(f"--page: there is no file {at}; it must be a page that has marks such as {page.begin('fig1')}.")


def _carry_out(names: Sequence[str], records: Path, scale: Any, processes: int | None) -> None:
    """Makes what is missing, with other processes beside this one."""
    from hamq.paper import plan
    from hamq.paper.plan import settled, workers
    from hamq.runs.progress import Progress

    jobs = plan.plan(names, records, scale)
    missing = [job for job in jobs if not job.is_done]
    num_missing, total = len(missing), sum(job.weight for job in missing)
    if not num_missing:
        say(f"all {len(jobs)} runs have their records.")
        return
    num = min(settled(processes), num_missing)
    say(f"{num_missing} of {len(jobs)} runs are to be made" + (f", by {num} processes." if num > 1 else "."))
    began = time.monotonic()

    try:
        with Progress() as progress:

            def told(job: Any) -> None:
                left = [job for job in jobs if not job.is_done]
                share = sum(job.weight for job in left) / total
                progress.plan(job.title, num_missing - len(left), num_missing, share, time.monotonic() - began)

            with workers(num - 1, names, records, scale):
                plan.carry_out(jobs, told, progress.draws)
            plan.carry_out(jobs, told, progress.draws)  # what a worker could not make fails here, with its reason
    except KeyboardInterrupt:
        raise KeyboardInterrupt("finished runs have their records; the same command goes on with the rest.") from None


def _print(verdicts: Sequence[tuple[str, str]], num_pictures: int, folder: Path, written: Path) -> None:
    table = make_table(("the paper says", "verdict"), ("the paper says", "verdict"))
    for quote, verdict in verdicts:
        table.add_row(quote, verdict)
    make_console().print(table)
    tell(f"{num_pictures} pictures in {folder}; captions, tables and the measurements behind each verdict in {written}.")
