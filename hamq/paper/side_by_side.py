"""Several processes for one plan: each makes the runs that no other has locked."""

import contextlib
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

from hamq.paper.plan import Scale, carry_out, plan
from hamq.problem.cache import use_compilation_cache
from hamq.types import is_cpu

MOST = 4
"""Processes where nobody says how many: each compiles for itself, and holds the tables of its run."""


def settled(processes: int | None) -> int:
    """One per core, but one in all on an accelerator, whose memory the first process takes."""
    if processes is not None:
        return processes
    return min(os.cpu_count() or 1, MOST) if is_cpu() else 1


@contextlib.contextmanager
def workers(num: int, names: Sequence[str], records: Path, scale: Scale) -> Iterator[None]:
    """`num` processes that work on the plan while the body does; the body's end is theirs once it has nothing left."""
    platform = jax.default_backend()
    context = multiprocessing.get_context("spawn")
    given = (tuple(names), records, scale, platform, os.getpid())
    # Each begins at another place: the seeds of a group compile the same, so one process should make them all.
    started = [context.Process(target=_work, args=(*given, i / (num + 1)), daemon=True) for i in range(1, num + 1)]
    for process in started:
        process.start()
    try:
        yield
        for process in started:
            process.join()
    finally:
        for process in started:
            process.terminate()


def _work(names: tuple[str, ...], records: Path, scale: Scale, platform: str, parent: int, start: float) -> None:
    jax.config.update("jax_platforms", platform)
    use_compilation_cache()
    jobs = plan(names, records, scale)
    first = round(start * len(jobs))
    with contextlib.suppress(KeyboardInterrupt):
        carry_out(jobs[first:] + jobs[:first], is_over=lambda: os.getppid() != parent)
