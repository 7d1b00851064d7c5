"""The order of the steps on disk, full disks, and readers that meet a writer."""

import errno
import os
import subprocess
import sys
import threading

import pytest

from hamq.errors import RunError
from hamq.runs import storage
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import sha256
from hamq.runs.reading import read_run
from tests.runs.posed import CONFIG, HASH, ROOT, assert_same_arrays, history, state, written


class Watch:
    """What a commit asks of the system, in order: ("write" | "sync" | "rename", name)."""

    def __init__(self, monkeypatch):
        self.events, self._names = [], {}
        self._real = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace")}
        for name in self._real:
            monkeypatch.setattr(os, name, getattr(self, name))

    def open(self, path, *options):
        descriptor = self._real["open"](path, *options)
        self._names[descriptor] = os.path.basename(path)
        return descriptor

    def write(self, descriptor, content):
        self.events.append(("write", self._names[descriptor]))
        return self._real["write"](descriptor, content[:1000])  # short writes must be continued

    def fsync(self, descriptor):
        self.events.append(("sync", self._names[descriptor]))
        self._real["fsync"](descriptor)

    def replace(self, source, target):
        self.events.append(("rename", os.path.basename(source)))
        self._real["replace"](source, target)


def test_what_is_renamed_is_on_the_disk_before(tmp_path, monkeypatch):
    run = RunFolder.create(tmp_path / "run", CONFIG, HASH)
    watch = Watch(monkeypatch)
    run.save_checkpoint(state(1), history(1))
    steps = watch.events
    for name in ("checkpoint.npz.next", "history.csv.next", "manifest.json.next"):
        last_write = max(i for i, step in enumerate(steps) if step == ("write", name))
        assert steps[last_write + 1] == ("sync", name)
        assert last_write < steps.index(("rename", name))
    # The folder too: the contents have their names before the manifest says so, and the manifest has its own at the end.
    commit = steps.index(("rename", "manifest.json.next"))
    assert steps[commit - 1] == steps[commit + 1] == ("sync", "run")
    assert steps[-1] == ("sync", "run")
    monkeypatch.undo()
    run.close()
    assert_same_arrays(read_run(tmp_path / "run").history.columns, history(1).columns)


@pytest.mark.parametrize("num_calls", [0, 1, 2])
@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, monkeypatch, name, num_calls):
    folder = written(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with RunFolder.resume(folder, CONFIG, HASH) as run:
        real = getattr(os, name)
        calls = iter(range(10**9))

        def full(*arguments):
            if next(calls) >= num_calls:
                monkeypatch.undo()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)

        monkeypatch.setattr(os, name, full)
        with pytest.raises(RunError, match=r"run could not be written \(No space left on device\): 2\d{4} bytes are needed"):
            run.save_checkpoint(state(4), history(4))
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        run.save_checkpoint(state(5), history(5))  # and goes on when there is room again
    assert len(read_run(folder).history) == 5


LIMITED = """
import resource, sys
from hamq.runs.folder import RunFolder
from tests.runs.posed import CONFIG, HASH, history, state
with RunFolder.create(sys.argv[1], CONFIG, HASH) as run:
    run.save_checkpoint(state(3), history(3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        run.save_checkpoint(state(4, size=100_000), history(4))
    except ValueError as error:
        print(error)
"""


def test_a_real_limit_keeps_the_last_checkpoint(tmp_path):
    command = [sys.executable, "-c", LIMITED, tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert "run could not be written (File too large): 18" in done.stdout, done.stderr
    assert not storage.leftovers(tmp_path / "run")
    with RunFolder.resume(tmp_path / "run", CONFIG, HASH) as run:
        checkpoint = run.load_checkpoint()
        assert checkpoint is not None
        assert_same_arrays(checkpoint.arrays, state(3))


def test_a_disk_that_is_full_from_the_start_leaves_an_empty_folder(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RunError, match="No space left on device"):
        RunFolder.create(tmp_path / "run", CONFIG, HASH)
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["hamq.lock"]
    RunFolder.create(tmp_path / "run", CONFIG, HASH).close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_beside_the_rename_loses_nothing(tmp_path, monkeypatch, when):
    """Ctrl-C arrives between two lines of Python; the last rename may or may not have happened."""
    folder = written(tmp_path / "run")
    real = os.replace

    def interrupted(source, target):
        if when == "after":
            real(source, target)
        if os.path.basename(target) == "manifest.json":
            monkeypatch.undo()
            raise KeyboardInterrupt
        if when == "before":
            real(source, target)

    with RunFolder.resume(folder, CONFIG, HASH) as run:
        monkeypatch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.save_checkpoint(state(4), history(4))
        assert len(read_run(folder).history) == (3 if when == "before" else 4)
        run.save_checkpoint(state(5), history(5))
    assert len(read_run(folder).history) == 5
    assert not storage.leftovers(folder)


def test_leftovers_do_not_count_and_are_removed(tmp_path):
    folder = written(tmp_path / "run")
    for name in ("checkpoint.npz.next", f"checkpoint.npz.{'0' * 64}.next", "manifest.json.next", "result.npz"):
        (folder / name).write_bytes(b"half")
    (folder / "mine.next").write_bytes(b"not a leftover")
    assert len(read_run(folder).history) == 3
    RunFolder.resume(folder, CONFIG, HASH).close()
    found = {path.name for path in folder.iterdir()}
    assert found == {"config.json", "history.csv", "checkpoint.npz", "manifest.json", "hamq.lock", "mine.next"}


def test_contents_count_before_they_have_their_own_names(tmp_path):
    """The state after a kill between the rename of the manifest and those of its files."""
    folder = written(tmp_path / "run")
    good = (folder / "history.csv").read_bytes()
    (folder / "history.csv").rename(folder / f"history.csv.{sha256(good)}.next")
    (folder / "history.csv").write_bytes(b"iteration\n1\n")  # of the checkpoint before
    assert len(read_run(folder).history) == 3
    RunFolder.resume(folder, CONFIG, HASH).close()
    assert (folder / "history.csv").read_bytes() == good
    assert not storage.leftovers(folder)


def test_the_same_content_may_be_written_twice(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        for _ in range(2):
            run.save_checkpoint(state(1), history(1))
            read_run(run.path)
    assert (tmp_path / "run" / "checkpoint.npz").exists()


@pytest.mark.parametrize("name", ["config.json", "history.csv", "result.npz"])
def test_a_reader_that_meets_a_commit_reads_again(tmp_path, monkeypatch, solution, name):
    """The commit comes between the manifest and this file."""
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        run.finish(solution, {}, arrays=state(2))
        real = storage.read_verified

        def overtaken(folder, manifest, wanted):
            if wanted == name:
                monkeypatch.undo()
                run.save_checkpoint(state(3), history(3))
            return real(folder, manifest, wanted)

        monkeypatch.setattr(storage, "read_verified", overtaken)
        found = read_run(run.path)
    assert len(found.history) == 3 and not found.is_finished


def test_readers_meet_a_writer_and_see_whole_runs(tmp_path):
    failures, done = [], threading.Event()

    def read():
        while not done.is_set():
            try:
                found = read_run(tmp_path / "run")
                assert_same_arrays(found.history.columns, history(len(found.history)).columns)
            except Exception as error:
                failures.append(error)

    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        run.save_checkpoint(state(1), history(1))
        reader = threading.Thread(target=read)
        reader.start()
        for number in range(2, 40):
            run.save_checkpoint(state(number), history(number))
        done.set()
        reader.join()
    assert failures == []


def test_a_damaged_file_is_not_waited_for(tmp_path):
    folder = written(tmp_path / "run")
    (folder / "history.csv").write_bytes(b"")
    with pytest.raises(RunError, match=r"history\.csv"):
        storage.read_all(folder)
