"""Small versions of the parts of the campaign; kills are in tests/runs/test_kill.py and tests/cli/test_kill.py."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from faults import damage, fuzzing, hostile
from hamq.exact.solution import History
from hamq.runs.folder import RunFolder
from tests.runs.posed import CONFIG, HASH, history, state

ROOT = Path(__file__).parents[2]


@pytest.fixture
def patience():
    before = signal.signal(signal.SIGALRM, fuzzing._hangs)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", fuzzing.CASES)
def test_readers_refuse_nonsense_by_our_error_alone(tmp_path, monkeypatch, patience, kind):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(fuzzing, "bomb", lambda: fuzzing.GOOD_ARRAYS)
    with RunFolder.create(tmp_path / "run", fuzzing.CONFIG, fuzzing.HASH) as run:
        run.save_checkpoint({"q": np.zeros((3, 2))}, History(iteration=np.arange(3)))
    found = fuzzing.fuzz(kind, tmp_path / "run", 120)
    assert found["refused"] > 10 and sum(found.values()) >= 120


def test_every_kind_of_damage_is_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    folder = tmp_path / "run"
    with RunFolder.create(folder, CONFIG, HASH) as run:
        for number in (1, 2):
            run.save_checkpoint(state(number, size=10), history(number))
    found = {path.name: damage.damage(folder, path.name, random.Random(0), 4, 8) for path in sorted(folder.iterdir())}
    judged = {"checkpoint.npz": "previous used", "previous.npz": "harmless", "hamq.lock": "harmless"}
    assert {name: dict(one) for name, one in found.items()} == {
        name: {judged.get(name, "refused by name"): 12} for name in found
    }


def test_damage_that_is_not_seen_fails_the_campaign(tmp_path, monkeypatch):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        for number in (1, 2):
            run.save_checkpoint(state(number, size=10), history(number))
    monkeypatch.setattr("hamq.runs.storage.sha256", lambda content: run_digest(tmp_path / "run", content))
    with pytest.raises(AssertionError, match=r"damage of history\.csv was not seen"):
        damage.damage(tmp_path / "run", "history.csv", random.Random(0), 2, 2)


def run_digest(folder: Path, content: bytes) -> str:
    """A SHA-256 that is content with anything."""
    from hamq.runs.manifest import read_manifest, sha256

    known = read_manifest(folder).files
    return sha256(content) if sha256(content) in known.values() else known["history.csv"]


@pytest.mark.slow
def test_no_system_call_without_room_loses_anything(tmp_path):
    """In a process without threads, because it forks."""
    code = (
        "import os, sys, pathlib; from faults.disk_full import fail_every_call; os.fsync = lambda descriptor: None; "
        "print(fail_every_call(pathlib.Path(sys.argv[1]), 1000))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) > 100


def test_no_run_folder_leads_out_of_itself(tmp_path):
    assert hostile.lead_out(tmp_path) >= 15
