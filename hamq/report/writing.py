"""`hamq.report`: solutions and run folders as one self-contained page."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hamq.control.decoders import table_policy
from hamq.control.rollouts import Policy
from hamq.problem.problem import Problem
from hamq.report.animation import Animation, make_animation
from hamq.report.page import is_page
from hamq.report.run_page import Exact, Shown, Written, require_same_axes, write_run_page
from hamq.runs import naming
from hamq.runs.loading import require_finished, run_of, train_of
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import Run, read_run
from hamq.solution import AbstractSolution, Solution
from hamq.tensor.solution import TensorSolution
from hamq.types import HamqError

REPORT = "report.html"
MOST = 4
"""Runs whose rollouts are shown."""
STEPS, STEPS_OF_A_TRAIN = 200, 60
"""Of a rollout: the policy of a train backs up all its actions in every state that it comes to."""
Tell = Callable[[str], None]
"""Told what is being done, and what cannot be shown."""


def report(
    what: Any, path: str | os.PathLike, *, exact: Solution | None = None, tell: Tell = lambda sentence: None
) -> Written:
    """Writes the page of one solution or run folder, of several in a list, or by name in a dict.

    A file that is there already is replaced if it is such a page, and refused if not.

    exact   Q* of the problem, for maps of errors; not needed where an exact answer is among what is shown
    tell    told what takes time, and what cannot be shown
    """
    path = Path(path)
    require_free(path)
    if not path.parent.is_dir():
        raise HamqError(f"report: there is no folder {path.parent} for the page; make it, or choose another place.")
    shown = [_shown(name, one, tell) for name, one in _by_name(what).items()]
    if not shown:
        raise HamqError("report: give at least one solution or run folder.")
    return write(path, shown, None if exact is None else Exact(problem_hash(exact.problem), exact.q), tell)


def _by_name(what: Any) -> dict[str, Any]:
    if isinstance(what, Mapping):
        return dict(what)
    given = list(what) if isinstance(what, Sequence) and not isinstance(what, str) else [what]
    names = [one.problem.name if isinstance(one, AbstractSolution) else Path(one).name for one in given]
    counted = [f"{name} {names[: i + 1].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)]
    return dict(zip(counted, given, strict=True))


def _shown(name: str, one: Any, tell: Tell) -> Shown:
    if isinstance(one, (Solution, TensorSolution)):
        return Shown(name, run_of(one, name), one.problem, one if isinstance(one, TensorSolution) else None)
    if not isinstance(one, (str, os.PathLike)):
        raise HamqError(f"report: {one!r:.60} is neither a solution nor the path of a run folder.")
    run = read_run(one)
    require_finished(str(one), run)
    return made_again(name, run, tell)


def require_free(path: Path) -> None:
    """Refuses a place where something else is than a page of ours."""
    if path.is_dir():
        raise HamqError(f"{path} is a folder; give the page a name, such as {path / REPORT}.")
    if path.is_symlink():  # of a folder that somebody else made it may lead anywhere
        raise HamqError(f"{path} is a link, and would be written through; choose another name with -o.")
    try:
        is_taken = path.exists() and not is_page(path)
    except OSError as error:
        raise HamqError(f"{path} cannot be read: {error.strerror}; choose another name for the page.") from error
    if is_taken:
        raise HamqError(f"{path} is there already, and not a page of hamq report; choose another name with -o.")


def made_again(name: str, run: Run, tell: Tell) -> Shown:
    """The run with its problem, and its policy where it is a train; without them, and saying so, if they cannot be had."""
    try:
        problem = naming.build(run.setup.problem)
        if run.cores is not None:
            return Shown(name, run, problem, train_of(run, problem))
        if problem_hash(problem) != run.manifest.problem:
            raise HamqError("it is no longer the problem that was solved")
        return Shown(name, run, problem)
    except Exception as error:  # the user's own code runs here, and V can be shown without it
        why_not = f"the problem cannot be made again: {str(error).rstrip('.')}"
        what = "no maps of the policy" if run.cores is not None else "no rollout"
        tell(f"{what}, because {why_not}")
        return Shown(name, run, why_not=why_not)


def write(path: Path, shown: Sequence[Shown], exact: Exact | None, tell: Tell) -> Written:
    """The page of what is shown."""
    require_same_axes(shown)  # before what takes time
    if any(one.solution is not None for one in shown):
        tell(f"{path}: backing up the policy's maps")
    animations, notes = animated(shown, tell)
    try:
        written = write_run_page(path, shown, exact, animations)
        return written._replace(notes=(*written.notes, *notes))
    except OSError as error:
        raise HamqError(f"{path} could not be written: {error.strerror}; choose another place for the page.") from error


def animated(shown: Sequence[Shown], tell: Tell) -> tuple[list[Animation], list[str]]:
    """One animation per problem, all from the same start with the same random numbers; and why runs have none."""
    made: list[Animation] = []
    notes = [f"rollouts are shown of the first {MOST} runs only"] if len(shown) > MOST else []
    of_problems: dict[str, list[Shown]] = {}
    for one in shown[:MOST]:
        of_problems.setdefault(one.run.manifest.problem, []).append(one)
    for group in of_problems.values():
        names = ", ".join(one.name for one in group)
        problem = next((one.problem for one in group if one.problem is not None), None)
        if problem is None:
            notes.append(f"no animated rollout of {names}: {group[0].why_not}")
            continue
        tell(f"{names}: following the policy in the model of {problem.name}")
        start = made[0].rollouts[0].steps.states[0] if made else None
        try:
            policies = {one.name: _policy(one, problem) for one in group}
            made.append(make_animation(problem, policies, start, _steps(group)))
        except Exception as error:  # the user's own code runs here, and the page can do without it
            notes.append(f"no animated rollout of {names}: {str(error).rstrip('.')}")
    return made, notes


def _steps(group: Sequence[Shown]) -> int:
    return STEPS_OF_A_TRAIN if any(one.solution is not None for one in group) else STEPS


def _policy(one: Shown, problem: Problem) -> Policy:
    if one.run.q is not None:
        return table_policy(problem, one.run.q)
    if one.solution is None:
        raise HamqError(one.why_not)
    return one.solution.actions
