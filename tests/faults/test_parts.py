"""Small versions of the parts of the campaign; kills are in tests/runs/test_kill.py and tests/cli/test_kill.py."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from faults import damage, fuzzing, hostile, outcomes
from hamq.runs.encoding import decode_json, encode_json
from hamq.runs.folder import RunFolder
from hamq.solution import History
from tests.runs.posed import CONFIG, HASH, history, state
from tests.runs.posed_certificates import certificate

ROOT = Path(__file__).parents[2]


@pytest.fixture
def patience():
    before = signal.signal(signal.SIGALRM, fuzzing._hangs)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A run for nonsense to be put into."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    with RunFolder.create(tmp_path / "run", fuzzing.CONFIG, fuzzing.HASH) as run:
        run.save_checkpoint({"q": np.zeros((3, 2))}, History(iteration=np.arange(3)))
    return tmp_path / "run"


@pytest.mark.parametrize("name", [*fuzzing.KINDS, *outcomes.KINDS])
def test_readers_refuse_nonsense_by_our_error_alone(begun, patience, as_user, name):
    kind = (fuzzing.KINDS | outcomes.KINDS)[name]
    found = fuzzing.fuzz(name, kind, begun, 120)
    assert found["refused"] > 10 and sum(found.values()) >= 120


def certificate_saying(**changes) -> bytes:
    said = decode_json(outcomes.FILES["certificate.json"]) | changes
    return encode_json({name: value for name, value in said.items() if value != "gone"})


@pytest.mark.parametrize(
    ("changes", "came"),
    [
        ({}, "read"),
        ({"error": 1e-9}, "read"),  # whoever signs it can lie
        ({"q": "cd" * 32}, "not trusted"),
        ({"q": None}, "not trusted"),
        ({"error": "small"}, "refused"),
        ({"error": 10**400}, "refused"),
        ({"confidence": 1.5}, "refused"),
        ({"confidence": float("nan")}, "refused"),
        ({"draws_needed": "gone"}, "refused"),
        ({"of": "a part"}, "refused"),
    ],
)
def test_a_certificate_is_read_for_what_it_says(begun, patience, as_user, changes, came):
    assert fuzzing.came_of(outcomes.KINDS["certificate.json"], begun, certificate_saying(**changes)) == came


@pytest.mark.parametrize("is_certified", [False, True])
def test_every_kind_of_damage_is_judged(tmp_path, monkeypatch, solution, is_certified):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    folder = tmp_path / "run"
    with RunFolder.create(folder, CONFIG, HASH) as run:
        for number in (1, 2):
            run.save_checkpoint(state(number, size=10), history(number))
        if is_certified:
            run.finish(solution, {})
            run.save_certificate(certificate(solution.problem, solution.q), solution.q)
    names = sorted(path.name for path in folder.iterdir())
    assert ("certificate.json" in names) == ("certificate.npz" in names) == is_certified
    found = {name: dict(damage.damage(folder, name, random.Random(0), 4, 8)) for name in names}
    judged = {"checkpoint.npz": "previous used", "previous.npz": "harmless", "hamq.lock": "harmless"}
    assert found == {name: {judged.get(name, "refused by name"): 12} for name in names}


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
    assert int(done.stdout) > 200


def test_no_run_folder_leads_out_of_itself(tmp_path):
    assert hostile.lead_out(tmp_path) >= 15
