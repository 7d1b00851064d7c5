"""Which runs the figures need, and the loop that makes those that are missing.

A run that has its record is not made again, so an interrupted study goes on where it stopped, and pictures of a finished
one are drawn in seconds. Several processes may work on one folder: each run is locked by the one that makes it.

Several processes for one plan: each makes the runs that no other has locked.
"""

import contextlib
import dataclasses
import importlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import jax

from hamq import paper
from hamq.errors import RunError
from hamq.learning.draws import Progress
from hamq.paper import deep, tabular
from hamq.paper import drawing as drawing  # first: says which extra is missing
from hamq.paper.records import Group, RecordError, read_json, record_name, versions, write, write_json
from hamq.paper.tasks import HIGH
from hamq.problem.programs import use_compilation_cache
from hamq.runs.storage import Lock
from hamq.types import is_cpu

FIGURES: dict[str, ModuleType] = {
    name: importlib.import_module(f"hamq.paper.{name.replace('fig', 'figure')}") for name in paper.FIGURES
}
STUDIES: dict[str, ModuleType] = {name: importlib.import_module(f"hamq.paper.{name}") for name in paper.STUDIES}


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much is run. The 6-D problem has its own numbers: an iteration there takes as long as 80 of the others."""

    seeds: int
    deep_seeds: int
    high_seeds: int
    iterations: int
    high_iterations: int
    deep_steps: int
    deep_paper_steps: int
    is_quick: bool

    @property
    def note(self) -> str:
        """Printed on every picture of a quick run."""
        if not self.is_quick:
            return ""
        return (
            f"quick run: {self.seeds} seeds, {self.iterations} iterations (6-D: {self.high_seeds} and "
            f"{self.high_iterations}; ours: all 200), networks {self.deep_seeds} seeds, {self.deep_steps:,} steps"
        )

    def of(self, group: Group) -> tuple[int, int]:
        """(seeds, iterations or steps) of a group."""
        if group.method.startswith(deep.ALGORITHMS):
            return self.deep_seeds, self.deep_steps if group.variant == "ours" else self.deep_paper_steps
        if group.task == HIGH.name:
            # The library's own runs are cheap: all their iterations are made.
            is_cheap = group.variant == "ours" or group.method == "exhaustive"
            return self.high_seeds, FULL.iterations if is_cheap else self.high_iterations
        return self.seeds, FULL.iterations if group.variant == "ours" else self.iterations


FULL = Scale(10, 5, 10, 200, 200, 20_000, 200_000, False)
QUICK = Scale(2, 2, 1, 30, 3, 2_000, 2_000, True)
NOT_IN_QUICK = ("hmc-400k", "hmc-14M", "dqn-iid", "dqn-one", "ddpg-iid", "ddpg-one")
"""What a quick run leaves out, since each compiles anew: the middle of our budgets, and samplers that the paper has not."""


class Job(NamedTuple):
    """Work that makes the records of these paths."""

    title: str
    paths: tuple[Path, ...]
    make: Callable[[Progress | None], None]
    weight: float = 1.0
    """How long it takes, in seconds of two cores; only the time left depends on it."""

    @property
    def is_done(self) -> bool:
        return all(path.exists() for path in self.paths)


def plan(names: Sequence[str], folder: Path, scale: Scale) -> list[Job]:
    """The jobs of these figures and studies, cheap groups first."""
    groups = dict.fromkeys(group for name in names if name in FIGURES for group in FIGURES[name].GROUPS)
    groups = [group for group in groups if not (scale.is_quick and group.method in NOT_IN_QUICK)]
    jobs = [job for group in sorted(groups, key=_dearness) for job in _jobs(group, folder, scale)]
    return jobs + [_study(name, folder, scale) for name in names if name in STUDIES]


def _dearness(group: Group) -> int:
    is_dear = group.variant != "ours" and group.method != "exhaustive"
    return is_dear + 2 * group.method.startswith(deep.ALGORITHMS) + 4 * (group.task == HIGH.name and is_dear)


def _jobs(group: Group, folder: Path, scale: Scale) -> list[Job]:
    seeds, length = scale.of(group)
    paths = [folder / f"{record_name(*group, seed)}.json" for seed in range(seeds)]
    title = f"{group.task}, {group.variant}, {group.method}"
    if group.method.startswith(deep.ALGORITHMS):

        def train(told: Progress | None) -> None:
            missing = [seed for seed, path in enumerate(paths) if not path.exists()]
            for record in deep.run(*group, missing, length):
                write(folder, record)

        return [Job(title, tuple(paths), train, 8 + seeds * length * (2e-4 if group.variant == "ours" else 1e-4))]

    def one(seed: int) -> Callable[[Progress | None], None]:
        def make(told: Progress | None) -> None:
            write(folder, tabular.run(*group, seed, length, told))

        return make

    weight = _seconds(group, length)
    return [Job(f"{title}, seed {seed}", (path,), one(seed), weight) for seed, path in enumerate(paths)]


def _seconds(group: Group, iterations: int) -> float:
    is_high = group.task == HIGH.name
    if group.method == "exhaustive":
        return 5.0 if is_high else 0.3
    if group.variant == "ours":
        return 35.0 if is_high else 8.0
    return 20 + 6.5 * iterations if is_high else 3 + 0.15 * iterations


def _study(name: str, folder: Path, scale: Scale) -> Job:
    path = folder / f"{name}.json"

    def make(told: Progress | None) -> None:
        record = STUDIES[name].measure(scale.seeds, scale.is_quick)
        write_json(path, record | {"versions": versions()})

    return Job(name, (path,), make, 40.0 if scale.is_quick else 170.0)


def carry_out(
    jobs: Sequence[Job],
    told: Callable[[Job], None] | None = None,
    inner: Progress | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> list[Job]:
    """Makes what is missing, until `is_over`; returns the jobs that another process is working on."""
    elsewhere = []
    for job in jobs:
        if is_over():
            break
        if job.is_done:
            continue
        folder, name = job.paths[0].parent, f".{job.paths[0].stem}.lock"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = Lock(folder, name)
        except RunError:
            elsewhere.append(job)
            continue
        try:
            if not job.is_done:  # another process may have finished it meanwhile
                if told is not None:
                    told(job)
                job.make(inner)
            # Whoever locks a new file of this name finds the record first.
            (folder / name).unlink(missing_ok=True)
        finally:
            lock.release()
    return [job for job in elsewhere if not job.is_done]


def require_scale(folder: Path, scale: Scale) -> None:
    """Refuses a folder with records of another scale; seeds may be added."""
    path = folder / "scale.json"
    wanted, found = dataclasses.asdict(scale), {}
    if path.exists():
        found = read_json(path)
        if not isinstance(found, dict):
            raise RecordError(f"{path} does not say how its records were made; choose another --out.")
        differing = [name for name in wanted if "seeds" not in name and found.get(name) != wanted[name]]
        if differing:
            changes = ", ".join(f"{name} {found.get(name)} there, {wanted[name]} asked for" for name in differing)
            raise RecordError(f"{folder} holds records of another scale ({changes}); choose another --out.")
    write_json(path, {name: max(wanted[name], found.get(name, 0)) if "seeds" in name else wanted[name] for name in wanted})


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
