"""kill −9 of a real `hamq solve` at random instants; resumed, it gives the bits of the uninterrupted run."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from tests.cli.posed import RESTLESS, history, table

ROOT = Path(__file__).parents[2]
ITERATIONS_PER_KILL = 100
SPREAD = 0.3
"""Seconds within which a kill comes after the first checkpoint."""
START = 3.0
"""Seconds within which a kill comes that does not wait for one: while importing, opening the folder, drawing."""


@pytest.fixture
def environment():
    cache = jax.config.jax_compilation_cache_dir
    return os.environ | {"PYTHONPATH": str(ROOT)} | ({} if cache is None else {"JAX_COMPILATION_CACHE_DIR": str(cache)})


def killed(command, folder: Path, environment, delay: float, is_in_loop: bool) -> None:
    """Starts the command and kills it after the delay, counted from its first checkpoint if `is_in_loop`."""
    saved = folder / "history.csv"
    before = saved.stat().st_mtime_ns if saved.exists() else 0
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while is_in_loop and process.poll() is None and not (saved.exists() and saved.stat().st_mtime_ns > before):
            time.sleep(0.005)
        time.sleep(delay)
        assert process.poll() is None, "it ended before it could be killed; give it more iterations"
        process.kill()


@pytest.mark.parametrize("num_kills", [1, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_resume_after_kills_equals_uninterrupted(hamq, tmp_path, environment, num_kills):
    rng = random.Random(num_kills)
    folder = tmp_path / "run"
    words = [*RESTLESS, "--iterations", str(ITERATIONS_PER_KILL * num_kills), "--out"]
    command = [sys.executable, "-m", "hamq", *words, str(folder), "--checkpoint-every", "1"]
    killed(command, folder, environment, rng.random() * SPREAD, is_in_loop=True)
    for number in range(1, num_kills):
        is_in_loop = number % 4 != 3
        delay = rng.random() * (SPREAD if is_in_loop else START)
        killed([*command, "--resume"], folder, environment, delay, is_in_loop)
    assert "Not finished" in hamq("show", folder).out
    assert hamq(*words, folder, "--resume").code == 0
    assert hamq(*words, "whole").code == 0
    assert table(folder) == table(tmp_path / "whole")
    assert history(folder) == history(tmp_path / "whole")
