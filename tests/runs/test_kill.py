"""kill −9: at random instants from outside, and before every single system call from inside."""

import os
import random
import subprocess
import sys
import time

import pytest

from hamq.runs import storage
from hamq.runs.folder import RunFolder
from tests.runs.posed import CONFIG, HASH, ROOT, assert_same_arrays, history, state
from tests.runs.writer import SIZE

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}


def killed(folder, rng) -> int:
    """The last checkpoint that the writer said was saved before it was killed, somewhere within one of its saves."""
    command = [sys.executable, ROOT / "tests/runs/writer.py", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        start = time.monotonic()
        numbers = [writer.stdout.readline() for _ in range(rng.randint(1, 4))]
        time.sleep(rng.random() * (time.monotonic() - start) / len(numbers))
        writer.kill()
        numbers += writer.stdout.read().split()
    return int(numbers[-1])


@pytest.mark.parametrize("num_kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_the_last_checkpoint_survives_a_kill(tmp_path, num_kills):
    rng = random.Random(num_kills)
    last = 0
    for _ in range(num_kills):
        said = killed(tmp_path / "run", rng)
        with RunFolder.resume(tmp_path / "run", CONFIG, HASH) as run:
            checkpoint = run.load_checkpoint()
        assert checkpoint is not None
        number = int(checkpoint.arrays["t"])
        # What was said to be saved is saved; at most the one after it, which was not said, may be there too.
        assert number in (said, said + 1) and number > last
        assert_same_arrays(checkpoint.arrays, state(number, SIZE))
        assert_same_arrays(checkpoint.history.columns, history(number).columns)
        assert not storage.leftovers(tmp_path / "run")
        last = number


def test_a_kill_before_any_system_call_loses_nothing(tmp_path):
    command = [sys.executable, ROOT / "tests/runs/every_instant.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 100
