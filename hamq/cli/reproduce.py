"""`hamq paper`: the runs that the figures need, the pictures, the tables and the verdict on every claim."""

import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path

from hamq.cli.cache import use_compilation_cache
from hamq.cli.messages import say
from hamq.cli.options import FIGURES
from hamq.cli.parsing import Request
from hamq.cli.progress import Progress
from hamq.cli.tables import make_console, make_table
from hamq.paper import page, plan, tables
from hamq.paper.plan import Job


def run(request: Request) -> int:
    use_compilation_cache()
    options = request.options["study"]
    names = list(FIGURES) if "all" in request.words else list(dict.fromkeys(request.words))
    scale = plan.QUICK if options.quick else plan.FULL
    if options.seeds is not None:
        if options.seeds < 1:
            raise ValueError(f"--seeds must be at least 1, got {options.seeds}.")
        scale = dataclasses.replace(scale, seeds=options.seeds, deep_seeds=options.seeds, high_seeds=options.seeds)
    folder = Path(options.out or ("paper-quick" if options.quick else "paper"))
    records = folder / "records"
    plan.require_scale(records, scale)
    elsewhere = _carry_out(plan.plan(names, records, scale))
    if elsewhere:
        say(f"{len(elsewhere)} runs are being made by another process; run the command again for the rest.")
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


def _carry_out(jobs: Sequence[Job]) -> list[Job]:
    missing = [job for job in jobs if not job.is_done]
    if not missing:
        say(f"all {len(jobs)} runs have their records.")
        return []
    say(f"{len(missing)} of {len(jobs)} runs are to be made.")
    began = time.monotonic()
    with Progress() as progress:

        def told(job, number, total):
            progress.plan(job.title, number, total, time.monotonic() - began)

        try:
            return plan.carry_out(missing, told, progress.draws)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("finished runs have their records; the same command goes on with the rest.") from None


def _print(verdicts: Sequence[tuple[str, str]], num_pictures: int, folder: Path, written: Path) -> None:
    table = make_table(("the paper says", "verdict"), ("the paper says", "verdict"))
    for quote, verdict in verdicts:
        table.add_row(quote, verdict)
    make_console().print(table)
    print(f"{num_pictures} pictures in {folder}; captions, tables and the measurements behind each verdict in {written}.")
