"""What `solve` and `solve-tensor` have in common: a solver that is shown, recorded and can be interrupted."""

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from hamq.cli.interruption import Interruption
from hamq.cli.messages import say
from hamq.cli.options import FolderOptions
from hamq.cli.parsing import Request
from hamq.errors import HamqError
from hamq.learning.devices import LostProcessError
from hamq.problem.problem import Problem
from hamq.runs.config import RunConfig
from hamq.runs.problem_hash import problem_hash
from hamq.runs.progress import Progress
from hamq.runs.recording import Iterate, Recording
from hamq.types import NonFiniteError

Found = TypeVar("Found")


def require_sense(output: FolderOptions) -> None:
    """Refuses options of the run folder that contradict each other."""
    for name in ("resume", "overwrite", "checkpoint_every"):
        if getattr(output, name) and output.out is None:
            raise HamqError(f"--{name.replace('_', '-')} needs --out, the folder of the run.")
    if output.resume and output.overwrite:
        raise HamqError("--resume continues the run in --out and --overwrite replaces it; give one of them.")
    if output.checkpoint_every is not None and output.checkpoint_every < 1:
        raise HamqError(f"--checkpoint-every must be at least 1, got {output.checkpoint_every}.")
    if not output.checkpoint_seconds > 0:
        raise HamqError(f"--checkpoint-seconds must be above 0, got {output.checkpoint_seconds}.")
    if output.tensorboard is not None:
        from hamq.report.tensorboard import require_place  # noqa: PLC0415 (an extra)

        require_place(Path(output.tensorboard), is_continued=output.resume or output.overwrite)


def open_recording(output: FolderOptions, config: RunConfig, problem: Problem) -> Recording:
    return Recording(
        output.out,
        config,
        "" if output.out is None else problem_hash(problem),
        overwrite=output.overwrite,
        resume=output.resume,
        every_iterations=output.checkpoint_every,
        every_seconds=output.checkpoint_seconds,
    )


def beginning(recording: Recording, otherwise: str) -> str:
    return f"continued from iteration {recording.num_saved}" if recording.num_saved else otherwise


def carry_out(
    request: Request,
    recording: Recording,
    solve: Callable[[Callable[[Iterate], None], Progress], Found],
    is_over: Callable[[bool], bool] = bool,
) -> Found | None:
    """What `solve(callback, progress)` returns; None where a value was not finite, which has been said.

    An interruption saves and says how to go on; `is_over` is asked after every iteration, and told whether one came here.
    A lost process saves as well.
    """
    folder = request.options["output"].tensorboard
    with Interruption() as interruption, Progress() as progress, _scalars(folder) as tell:

        def callback(iterate: Iterate) -> None:
            interruption.is_patient = True  # from here on there is something to save
            progress.iteration(iterate)
            tell(iterate)
            recording.add(iterate)
            if is_over(interruption.is_asked):
                recording.save_last()
                raise KeyboardInterrupt

        try:
            return solve(callback, progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_farewell(request, recording.num_saved)) from None
        except LostProcessError:
            recording.save_last()
            raise
        except NonFiniteError as error:
            recording.save_last()
            say(str(error))
            return None


@contextlib.contextmanager
def _scalars(folder: str | None) -> Iterator[Callable[[Iterate], None]]:
    """What tells TensorBoard of an iteration; nothing where it was not asked for."""
    if folder is None:
        yield lambda iterate: None
        return
    from hamq.report.tensorboard import Scalars  # noqa: PLC0415 (an extra)

    with Scalars(Path(folder)) as scalars:
        yield lambda iterate: scalars.add(iterate.history, iterate.iteration, iterate.row._asdict())


def _farewell(request: Request, num_saved: int) -> str:
    out = request.options["output"].out
    if not num_saved:
        return "nothing was saved" + (f"; {out} is what it was." if out else ", because no --out was given.")
    again = [word for word in request.argv if word not in ("--resume", "--overwrite")]
    command = shlex.join(["hamq", request.command, *again, "--resume"])
    return f"{num_saved} iterations are saved; continue with\n  {command}"
