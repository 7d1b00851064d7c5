"""Kills a writer before each of its system calls in turn, and looks at what it left: `python every_instant.py FOLDER`.

The writer is a fork of this process, which has imported JAX but never started it: a fork of it is safe and starts at once.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np

from hamq.errors import RunError
from hamq.runs import storage
from hamq.runs.checkpoint import decode_checkpoint
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import read_manifest
from hamq.runs.reading import read_run
from hamq.solution import History
from tests.runs.posed import CONFIG, HASH, assert_same_arrays, history, state

CALLS = ("open", "write", "fsync", "replace", "link", "unlink", "ftruncate", "pwrite")


class Ended:
    """What `finish` needs of a Solution; a real one would need a problem."""

    q, lower, upper, error, health, result, converged = np.zeros((3, 2)), None, None, None, None, "done", True
    expected_error = None
    history = History(iteration=[0, 1, 2, 3])


def write(folder: Path) -> None:
    """Seven states of a folder, told apart by `state_of`."""
    with RunFolder.create(folder, CONFIG, HASH) as run:
        run.save_checkpoint(state(1), history(1))
        run.save_checkpoint(state(2), history(2))
        run.finish(Ended(), {})
    with RunFolder.resume(folder, CONFIG | {"iterations": 30}, HASH) as run:
        run.save_checkpoint(state(5), history(5))
    RunFolder.create(folder, CONFIG | {"seed": 1}, HASH, overwrite=True).close()


def state_of(folder: Path) -> int:
    try:
        run = read_run(folder)
    except RunError as error:
        assert "it has no manifest.json" in str(error), error
        return 0
    if run.config["seed"] == 1:
        assert len(run.history) == 0
        return 7
    if run.is_finished:
        assert len(run.history) == 4
        return 4 if run.config["iterations"] == 20 else 5
    return {0: 1, 1: 2, 2: 3, 5: 6}[len(run.history)]


def die_at(number: int) -> None:
    """Makes system call `number` of this process its last: writes are cut in half, others never happen."""
    calls = iter(range(1, 10**9))

    def mortal(name):
        real = getattr(os, name)

        def call(*arguments, **options):
            if next(calls) == number:
                if name == "write":
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, mortal(name))


def written_until(folder: Path, number: int) -> bool:
    """Whether the writer came to its end."""
    child = os.fork()
    if child == 0:
        die_at(number)
        try:
            write(folder)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status == 0


def open_again(folder: Path, found: int) -> None:
    """The folder can be written as if nothing had happened."""
    if found == 0:
        RunFolder.create(folder, CONFIG, HASH).close()
    else:
        config = read_run(folder).config
        with RunFolder.resume(folder, config, HASH) as run:
            checkpoint = run.load_checkpoint()
            number = {1: 0, 2: 1, 3: 2, 4: 2, 5: 2, 6: 5, 7: 0}[found]
            assert (checkpoint is None) == (number == 0)
            if checkpoint is not None:
                assert_same_arrays(checkpoint.arrays, state(number))
            spare = {3: 1, 4: 1, 5: 1, 6: 2}.get(found)  # the checkpoint before
            if spare is not None:
                content = storage.read_verified(folder, read_manifest(folder), storage.PREVIOUS)
                assert_same_arrays(decode_checkpoint(folder, content).arrays, state(spare))
        assert state_of(folder) == found
    assert not storage.leftovers(folder)


def main(root: Path) -> None:
    os.fsync = lambda descriptor: None  # what is in the page cache survives a kill; disks have other tests
    seen = []
    for number in range(1, 1000):
        folder = root / "run"
        shutil.rmtree(folder, ignore_errors=True)
        is_whole = written_until(folder, number)
        seen.append(state_of(folder))
        open_again(folder, seen[-1])
        if is_whole:
            break
    assert seen == sorted(seen), seen
    assert set(seen) == set(range(8)), seen
    print(f"{len(seen)} instants")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
