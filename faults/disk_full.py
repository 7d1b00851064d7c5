"""No room on the disk, at every write: a sentence with the folder's name, what was saved is whole, and resume goes on.

A small tmpfs is filled up but for some pages, from none to as many as a run needs, and once with few inodes instead. In any
case, and alone where nothing can be mounted, every single system call of a writer of checkpoints, a result and a
certificate is made to fail in turn.
"""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from faults import children, posed
from faults.cases import RESTLESS, outcome, require_prefix
from faults.progress import say
from hamq.errors import RunError
from hamq.runs import storage
from hamq.runs.checkpoint import decode_checkpoint
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import MANIFEST
from hamq.runs.reading import read_run
from hamq.runs.storage import CHECKPOINT
from hamq.solution import History

WORDS = (*RESTLESS, "--iterations", "4", "--checkpoint-every", "1")
SIZE, PAGE = 256 * 1024, 4096
CONFIG, HASH = {"seed": 0}, "ab" * 32
CHECKPOINTS = 5
STEPS = 1 + CHECKPOINTS + 2
"""A folder, its checkpoints, a result and a certificate."""


def main(is_quick: bool = False) -> dict:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as name:
        root = Path(name)
        (root / "calls").mkdir()
        calls = fail_every_call(root / "calls", 20 if is_quick else 1000)
        say(f"{calls} system calls failed in turn")
        code, said = children.run([*WORDS, "--out", root / "whole"], root / "printed")
        assert code == 0, said
        mounts = {"pages": _filled, "inodes": _without_inodes}
        found = {}
        if can_mount(root / "disk"):
            for kind, mount in mounts.items():
                found[kind] = fill(root, mount, range(0, 40, 8) if is_quick else range(60))
                say(f"tmpfs with too few {kind}: {found[kind]['full']} full disks, then {found[kind]['whole']} large enough")
    return {
        "means": "tmpfs" if found else "failing system calls only: mount is not allowed here",
        "tmpfs": found,
        "failing_calls": calls,
        "seconds": time.monotonic() - began,
    }


def fail_every_call(root: Path, most: int) -> int:
    """Each system call of a writer of a whole run fails once, in a fork; returns how many it makes."""
    for number in range(1, most + 1):
        shutil.rmtree(root / "run", ignore_errors=True)
        if (pid := os.fork()) == 0:
            os._exit(_write_without_room(root / "run", number))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, 1), f"system call {number}: see above"
        if code == 0:
            return number - 1
    return most


def _write_without_room(folder: Path, number: int) -> int:
    """1 where the call failed and nothing was lost, 0 where there is no such call, 2 otherwise."""
    try:
        failed, run = children.fail_at(number), None
        for step in range(1, STEPS + 1):
            try:
                run = _write(folder, step, run)
            except RunError as error:
                assert str(folder) in str(error) and "No space left on device" in str(error), error
                # The last rename may have counted before the call that failed.
                assert _held(folder) in (step - 1, step), (_held(folder), step)
                run = _write(folder, step, run)  # there is room again
            assert _held(folder) == step and not storage.leftovers(folder), (_held(folder), step)
        return int(bool(failed))
    except BaseException as error:
        print(f"system call {number}: {type(error).__name__}: {error}", flush=True)
        return 2


def _write(folder: Path, step: int, run: RunFolder | None) -> RunFolder:
    """The steps of a run: a folder, checkpoints, a result, all by one writer, and a certificate by another one."""
    if run is None:
        return RunFolder.create(folder, CONFIG, HASH, overwrite=(folder / MANIFEST).exists())
    rows = History(iteration=np.arange(min(step - 1, CHECKPOINTS)))
    if step <= 1 + CHECKPOINTS:
        run.save_checkpoint({"t": np.asarray(len(rows))}, rows)
    elif step < STEPS:
        run.finish(posed.solution(rows), {})
    else:
        run.close()
        with RunFolder.open(folder) as opened:
            opened.save_certificate(posed.certificate(), posed.Q)
    return run


def _held(folder: Path) -> int:
    """The last step that is on the disk, whole."""
    if not (folder / MANIFEST).exists():
        return 0
    run = read_run(folder)
    held = 1 + len(run.history)
    if CHECKPOINT in run.manifest.files:
        content = storage.read_verified(folder, run.manifest, CHECKPOINT)
        assert decode_checkpoint(folder, content).arrays["t"] == len(run.history)
    if run.is_finished:
        assert held == 1 + CHECKPOINTS and run.q is not None and run.q.tobytes() == posed.Q.tobytes()
        held += 1
    if run.certificate is not None:
        assert run.certificate.upper is not None
        assert run.certificate.upper.tobytes() == posed.certificate().upper.tobytes()
        held += 1
    return held


def fill(root: Path, mount, rooms) -> dict:
    """Solves with so much room, until it is enough; each that failed is resumed when there is room again."""
    whole, full, enough = read_run(root / "whole"), 0, 0
    for room in rooms:
        with mount(root / "disk", room) as make_room:
            folder = root / "disk" / "run"
            code, said = children.run([*WORDS, "--out", folder], root / "printed")
            assert "Traceback" not in said, said
            if code:
                full += 1
                assert code == 2 and str(folder) in said and "No space left on device" in said, said
                is_run = (folder / "manifest.json").exists()
                if is_run:
                    require_prefix(folder, whole)
                make_room()
                code, said = children.run([*WORDS, "--out", folder, *(["--resume"] if is_run else [])], root / "printed")
                assert code == 0, said
            else:
                enough += 1
            assert outcome(folder) == outcome(whole.path)
        if enough == 2:
            break
    return {"full": full, "whole": enough}


def can_mount(at: Path) -> bool:
    at.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", at], capture_output=True).returncode:
        return False
    subprocess.run(["umount", at], check=True)
    return True


@contextmanager
def _filled(at: Path, pages: int):
    """A tmpfs with so many pages left."""
    with _mounted(at, f"size={SIZE}"):
        (at / "filler").write_bytes(b"." * (SIZE - pages * PAGE))
        yield (at / "filler").unlink


@contextmanager
def _without_inodes(at: Path, inodes: int):
    """A tmpfs with so many inodes: its own, the folder, the lock, and what a run writes."""
    with _mounted(at, f"size={SIZE},nr_inodes={inodes + 1}"):
        yield lambda: subprocess.run(["mount", "-o", "remount,nr_inodes=1000", at], check=True)


@contextmanager
def _mounted(at: Path, options: str):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", at], check=True)
