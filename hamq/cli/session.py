"""What `solve`, `solve-tensor` and `exact` have in common: a solver that is shown, recorded and can be interrupted."""

import contextlib
import dataclasses
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import hamq
from hamq.cli.messages import say, tell
from hamq.cli.parsing import Request
from hamq.cli.problems import named
from hamq.errors import HamqError, NonFiniteError

FAILED = 1
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclasses.dataclass(frozen=True)
class FolderOptions:
    """The run folder and what is printed."""

    out: str | None = None
    """Run folder to write; without it nothing is kept."""
    resume: bool = False
    """Continue the run in --out, with the same options (only --iterations and --tolerance may change)."""
    overwrite: bool = False
    """Replace the run in --out, once the new one has its first iteration."""
    checkpoint_every: int | None = None
    """Iterations between two checkpoints."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    tensorboard: str | None = None
    """Folder for TensorBoard: the columns of the history as scalars, one step per iteration."""
    report: bool = False
    """Write report.html into the run folder as well."""
    json: bool = False
    """Print one JSON object on stdout."""

    @property
    def kept(self) -> dict[str, Any]:
        """What the config of a run keeps of them."""
        return {"checkpoint_every": self.checkpoint_every, "checkpoint_seconds": self.checkpoint_seconds}


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
        from hamq.report.tensorboard import require_place

        require_place(Path(output.tensorboard), is_continued=output.resume or output.overwrite)


def build(request: Request) -> tuple[Any, "hamq.Problem"]:
    """(what makes the problem of this command again, the problem)."""
    from hamq.runs import naming

    what = naming.Named(*named(request.words[0], request.options))
    return what, naming.build(what)


def open_recording(output: FolderOptions, config: Any, problem: "hamq.Problem") -> Any:
    """The `Recording` of this run, or one that keeps nothing."""
    from hamq.runs.problem_hash import problem_hash
    from hamq.runs.recording import Recording

    return Recording(
        output.out,
        config,
        "" if output.out is None else problem_hash(problem),
        overwrite=output.overwrite,
        resume=output.resume,
        every_iterations=output.checkpoint_every,
        every_seconds=output.checkpoint_seconds,
    )


def announce(problem: "hamq.Problem", recording: Any, otherwise: str) -> None:
    from hamq.types import as_count

    size = f"{as_count(problem.num_states, ',')} states × {as_count(problem.num_actions)} actions"
    beginning = f"continued from iteration {recording.num_saved}" if recording.num_saved else otherwise
    say(f"{problem.name}: {size}, {beginning}")


def carry_out(
    request: Request,
    recording: Any,
    solver: Callable[..., Any],
    given: dict[str, Any],
    is_over: Callable[[bool], bool] = bool,
) -> Any:
    """What the solver returns for what is given; None where a value was not finite, which has been said.

    An interruption saves and says how to go on; `is_over` is asked after every iteration, and told whether one came here.
    """
    from hamq.runs.progress import Progress
    from hamq.runs.solving import record

    folder = request.options["output"].tensorboard
    with Interruption() as interruption, Progress() as progress, _scalars(folder) as write:

        def begin(iterate: Any) -> None:
            interruption.is_patient = True  # from here on there is something to save
            progress.iteration(iterate)
            write(iterate)

        def end(iterate: Any) -> None:
            if is_over(interruption.is_asked):
                raise KeyboardInterrupt

        try:
            return record(solver, given, recording, progress.draws, before=begin, after=end)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_farewell(request, recording.num_saved)) from None
        except NonFiniteError as error:
            say(str(error))
            return None


class Interruption:
    """Ctrl-C and SIGTERM during a solve: at once while there is nothing to save, otherwise after the iteration.

    A context manager; `is_asked` says that a signal came while `is_patient` was set. A second one is not waited with.
    """

    def __init__(self, tell: Callable[[str], None] = say):
        self._tell = tell
        self.is_patient = False
        self.is_asked = False

    def __enter__(self) -> "Interruption":
        self._before = [signal.signal(number, self._handle) for number in SIGNALS]
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in zip(SIGNALS, self._before, strict=True):
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked or not self.is_patient:
            raise KeyboardInterrupt
        self.is_asked = True
        self._tell("stopping after this iteration; once more stops at once")


@contextlib.contextmanager
def _scalars(folder: str | None) -> Iterator[Callable[[Any], None]]:
    """What tells TensorBoard of an iteration; nothing where it was not asked for."""
    if folder is None:
        yield lambda iterate: None
        return
    from hamq.report.tensorboard import Scalars

    with Scalars(Path(folder)) as scalars:
        yield lambda iterate: scalars.add(iterate.history, iterate.iteration, iterate.row._asdict())


def _farewell(request: Request, num_saved: int) -> str:
    out = request.options["output"].out
    if not num_saved:
        return "nothing was saved" + (f"; {out} is what it was." if out else ", because no --out was given.")
    again = [word for word in request.argv if word not in ("--resume", "--overwrite")]
    command = shlex.join(["hamq", request.command, *again, "--resume"])
    return f"{num_saved} iterations are saved; continue with\n  {command}"


def found_before(done: "hamq.Run") -> dict[str, Any]:
    """What a finished run says of itself, as a new one is told about."""
    return {"problem": done.setup.problem.name, "result": done.result, "converged": done.converged, **done.summary}


def tell_place(out: str | None, page: str | None, readers: str = "hamq show, hamq compare and hamq report") -> None:
    if out is not None:
        tell(f"Saved in {out}; {readers} read it.")
    if page is not None:
        tell(f"The page is {page}.")
