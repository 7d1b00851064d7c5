"""`main`: one command, its exit code, and what happens to errors, warnings and signals."""

import contextlib
import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence

from hamq.cli.messages import inert, say
from hamq.cli.parsing import Request, command_names, described, module_of, parse
from hamq.cli.place import place_of
from hamq.errors import HamqError, suggestion

BAD_INPUT, INTERRUPTED = 2, 130
"""Exit codes; 1, which `solve`, `solve-tensor` and `exact` return, means a tolerance missed or a value not finite."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        with _plain_warnings(), _terminate_as_interrupt():
            return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt as stop:
        say(f"interrupted: {stop}" if str(stop) else "interrupted.")
        return INTERRUPTED
    except HamqError as error:  # all else is a bug, or the user's own, and keeps its traceback
        say(str(error))
        return BAD_INPUT


def command() -> None:
    """What the shell runs: `main`.

    Without success other processes are not waited for, and XLA's threads, which may still be at work, are not either.
    """
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)
    gc.freeze()  # nothing is looked through once more at the end of the process: 0.2 s


def _run(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        _print_help()
        return 0 if argv else BAD_INPUT
    command, *rest = argv
    if command == "--version":
        print(sys.modules["hamq"].__version__)
        return 0
    if command not in command_names():
        known = command_names()
        raise HamqError(f"there is no command {command!r} among {', '.join(known)}{suggestion(command, known)}")
    try:
        request = parse(command, rest)
    except SystemExit as stop:  # tyro has printed the help
        return int(stop.code or 0)
    if described(command).is_long(request.words) and _is_first(request):
        say(f"{command} {request.words[0]}: starting")  # before JAX, which takes a second or more
    return module_of(command).run(request)


def _is_first(request: Request) -> bool:
    """Whether this is process 0, or there is no other; refuses options of processes that make no sense."""
    return "processes" not in request.options or place_of(request.options["processes"], os.environ).index == 0


def _print_help() -> None:
    print("usage: hamq COMMAND [OPTIONS]\n\nStochastic control with transition densities known up to a constant.\n")
    for name in command_names():
        print(f"  hamq {name} {described(name).needed}".ljust(34) + described(name).summary)
    print("\nhamq COMMAND --help shows its options. Compiled code is kept in ~/.cache/hamq, unless HAMQ_CACHE=off.")


def _warn(sentence: str) -> None:
    print(f"warning: {inert(sentence)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line, without the place in the source."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: _warn(str(message))
        yield


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
