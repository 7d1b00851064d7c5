import errno
import fcntl
import os
import socket
import subprocess
import sys

import pytest

from hamq.errors import RunError
from hamq.runs import storage
from hamq.runs.folder import RunFolder
from hamq.runs.reading import read_run
from tests.runs.posed import CONFIG, HASH, ROOT, written

HOLD = """
import pathlib, sys
from hamq.runs.storage import Lock
held = Lock(pathlib.Path(sys.argv[1]))
print(1, flush=True)
input()
"""


@pytest.fixture
def held(tmp_path):
    """(folder, the process that holds its lock)."""
    folder = written(tmp_path / "run")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    with holder:
        assert holder.stdout.readline() == b"1\n"
        yield folder, holder
        holder.kill()


def test_a_second_process_is_refused_and_told_who_writes(held):
    folder, holder = held
    message = rf"is being written by process {holder.pid} on {socket.gethostname()}; wait for it or choose another folder"
    with pytest.raises(RunError, match=message):
        RunFolder.resume(folder, CONFIG, HASH)
    with pytest.raises(RunError, match=message):
        RunFolder.create(folder, CONFIG, HASH, overwrite=True)
    assert read_run(folder).config == CONFIG  # reading needs no lock


def test_a_killed_process_gives_the_lock_back(held):
    folder, holder = held
    holder.kill()
    holder.wait()
    RunFolder.resume(folder, CONFIG, HASH).close()


def test_the_same_process_is_refused_too(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH), pytest.raises(RunError, match=f"process {os.getpid()} on"):
        RunFolder.create(tmp_path / "run", CONFIG, HASH, overwrite=True)
    RunFolder.resume(tmp_path / "run", CONFIG, HASH).close()


def test_a_writer_that_came_between_look_and_lock_keeps_its_run(tmp_path, monkeypatch):
    class LateLock(storage.Lock):
        def __init__(self, folder):
            monkeypatch.undo()
            RunFolder.create(folder, {"seed": 1}, HASH).close()
            super().__init__(folder)

    monkeypatch.setattr("hamq.runs.folder.Lock", LateLock)
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder.create(tmp_path / "run", CONFIG, HASH)
    assert read_run(tmp_path / "run").config == {"seed": 1}


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_disks_without_locks_are_refused(tmp_path, monkeypatch, code):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(RunError, match=rf"cannot be locked: {os.strerror(code)}; choose a folder with room on a disk of"):
        RunFolder.create(tmp_path / "run", CONFIG, HASH)


def test_systems_without_locks_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "fcntl", None)
    with pytest.raises(RunError, match="cannot be locked: this system has no flock"):
        RunFolder.create(tmp_path / "run", CONFIG, HASH)
