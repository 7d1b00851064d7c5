"""Real processes over loopback: the bits of one process, whoever dies, hangs or is interrupted."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import jax
import pytest

from hamq.cli import processes as lifelines
from hamq.cli.place import Place, ProcessOptions, place_of
from hamq.cli.processes import FAREWELL, Lifeline
from hamq.learning.devices import LOST
from tests.cli.posed import history, table

ROOT = Path(__file__).parents[2]
# States for four processes of 32 each, an incomplete tile among them; independent draws, because they compile quickly.
SHARED = (
    *("solve", "pendulum", "--points", "10", "--num-actions", "5", "--seed", "4"),
    *("--sampler", "iid", "--num-samples", "3", "--completion", "none"),
)
LONG = (*SHARED, "--iterations", "150")
LIMIT = 60
"""Seconds within which a lost process must have ended the others."""


@pytest.fixture
def environment():
    cache = jax.config.jax_compilation_cache_dir
    shared = {} if cache is None else {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | shared


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def started(environment, num: int, *words: object):
    """So many processes of one solve; none is left behind."""
    at = ("--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", str(num), "--process-id")
    commands = [[sys.executable, "-m", "hamq", *map(str, words), *at, str(i)] for i in range(num)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, **pipes) for command in commands]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def ended(processes, seconds: float = 200) -> list[tuple[int, str, str]]:
    """(exit code, stdout, stderr) of each."""
    until = time.monotonic() + seconds
    printed = [process.communicate(timeout=max(0.1, until - time.monotonic())) for process in processes]
    return [(process.returncode, *pair) for process, pair in zip(processes, printed, strict=True)]


def run(environment, num: int, *words: object) -> list[tuple[int, str, str]]:
    with started(environment, num, *words) as processes:
        return ended(processes)


def wait_for_checkpoint(folder: Path, processes) -> None:
    while not (folder / "history.csv").exists():
        assert all(process.poll() is None for process in processes), ended(processes)
        time.sleep(0.01)


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one(hamq, tmp_path, environment):
    words = (*SHARED, "--iterations", "20", "--json")
    (code, out, err), (other_code, *other_printed) = run(environment, 2, *words, "--out", tmp_path / "two")
    assert (code, other_code) == (0, 0), err
    assert json.loads(out)["iterations"] == 20 and "iteration 20/20" in err  # nothing but the result on stdout
    assert other_printed == ["", ""]
    assert hamq(*words, "--out", "one").code == 0
    assert table(tmp_path / "two") == table(tmp_path / "one")
    assert history(tmp_path / "two") == history(tmp_path / "one")


SEVERAL = [pytest.param(*numbers, marks=pytest.mark.slow) for numbers in ((2, 1, 2), (4, 0, 1), (4, 3, 4))]


@pytest.mark.parametrize(("num", "killed", "then"), [(2, 1, 1), *SEVERAL])
def test_a_killed_process_is_survived(hamq, tmp_path, environment, num, killed, then):
    """So many processes, one of them killed; resumed by another number of them, with the bits of one process."""
    folder = tmp_path / "run"
    with started(environment, num, *LONG, "--out", folder, "--checkpoint-every", "1") as processes:
        wait_for_checkpoint(folder, processes)
        processes[killed].kill()
        outcomes = ended(processes, LIMIT)
    for index, (code, out, err) in enumerate(outcomes):
        if index != killed:
            assert code == LOST and out == "", err
            sentences = [line for line in err.splitlines() if "process" in line]
            assert len(sentences) == 1 and f"process {index} of {num} " in sentences[0] and "--resume" in sentences[0]
            assert index == 0 or err.splitlines() == sentences  # no stack traces either
    assert "Not finished" in hamq("show", folder).out
    again = [*LONG, "--out", folder, "--resume", "--json"]
    if then == 1:
        assert hamq(*again).code == 0
    else:
        (code, out, err), *others = run(environment, then, *again)
        assert code == 0, err
        assert json.loads(out)["iterations"] == 150 and "iteration 150/150" in err  # nothing but the result on stdout
        assert others == [(0, "", "")] * (then - 1)
    assert hamq(*LONG, "--out", "whole").code == 0
    assert table(folder) == table(tmp_path / "whole")
    assert history(folder) == history(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_process_that_hangs_ends_the_other(tmp_path, environment, stopped):
    folder = tmp_path / "run"
    words = (*SHARED, "--iterations", "100000", "--out", folder, "--checkpoint-every", "1")
    with started(environment, 2, *words) as processes:
        wait_for_checkpoint(folder, processes)
        processes[stopped].send_signal(signal.SIGSTOP)
        (code, _, err), *_ = ended([processes[1 - stopped]], LIMIT)
    assert code == LOST and f"process {1 - stopped} of 2 " in err and "died or hangs" in err


@pytest.mark.slow
@pytest.mark.parametrize("told", [(0,), (1,), (0, 1)])
def test_an_interruption_of_one_stops_all(hamq, tmp_path, environment, told):
    folder = tmp_path / "run"
    words = (*LONG, "--out", folder, "--checkpoint-seconds", "0.001")
    with started(environment, 2, *words, "--iterations", "100000") as processes:
        wait_for_checkpoint(folder, processes)
        for index in told:
            processes[index].send_signal(signal.SIGINT)
        outcomes = ended(processes, LIMIT)
    assert [code for code, *_ in outcomes] == [130, 130], outcomes
    assert "iterations are saved; continue with" in outcomes[0][2]


@pytest.mark.slow
def test_what_process_0_refuses_or_has_done_is_told(hamq, tmp_path, environment):
    folder = tmp_path / "run"
    words = (*SHARED, "--iterations", "5", "--out", folder)
    assert hamq(*words).code == 0
    before = table(folder)
    refused = run(environment, 2, *words)
    assert [code for code, *_ in refused] == [2, 2], refused
    assert "process 0 of 2: " in refused[0][2] and "process 1 of 2: process 0 stopped: " in refused[1][2]
    done = run(environment, 2, *words, "--resume")
    assert [code for code, *_ in done] == [0, 0], done
    assert "finished already" in done[0][2] and done[1][1:] == ("", "")
    assert table(folder) == before


@pytest.mark.slow
def test_processes_with_other_options_do_not_mix(tmp_path, environment):
    at = ("--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", "2", "--process-id")
    commands = [[sys.executable, "-m", "hamq", *SHARED, "--iterations", f"{5 + i}", *at, f"{i}"] for i in range(2)]
    processes = [subprocess.Popen(c, env=environment, stderr=subprocess.PIPE, text=True) for c in commands]
    (first, _, _), (second, _, err) = ended(processes, LIMIT)
    assert first in (2, LOST) and second == 2 and "process 0 was given another problem or other options" in err


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, Place()),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, Place()),  # salloc, sbatch
        (
            {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
            | {"SLURM_STEP_NODELIST": "node1", "SLURM_JOB_ID": "7"},
            Place(),  # an interactive step
        ),
        (
            {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "node[1-2]"},
            Place(4, 3, None, 1, finds=True),
        ),
        ({"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, Place()),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
            | {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911"},
            Place(2, 1, None, 1, finds=True),
        ),
    ],
)
def test_the_place_comes_from_the_environment(given, found):
    assert place_of(ProcessOptions(), given) == found
    assert place_of(ProcessOptions(num_processes=1), given) == Place()
    options = ProcessOptions("[::1]:80", 3, 2)
    place = place_of(options, given)
    assert (place.num, place.index, place.host) == (3, 2, "::1")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ProcessOptions(num_processes=2), "belong together"),
        (ProcessOptions(process_id=1), "belong together"),
        (ProcessOptions("localhost:80"), "belong together"),
        (ProcessOptions("localhost:80", 2), "belong together"),
        (ProcessOptions("localhost:80", 2, 2), r"--process-id must be 0 to 1 with --num-processes 2, got 2\."),
        (ProcessOptions("localhost:80", 0, 0), r"--num-processes must be at least 1, got 0\."),
        (ProcessOptions("localhost", 2, 0), r"--coordinator takes HOST:PORT, .*, got 'localhost'\."),
        (ProcessOptions("localhost:http", 2, 0), r"--coordinator takes HOST:PORT"),
    ],
)
def test_refused_places(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        place_of(options, {})


def test_new_open_mpi_needs_a_coordinator():
    given = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    with pytest.raises(ValueError, match=r"does not say where process 0 is; give --coordinator HOST:PORT"):
        place_of(ProcessOptions(), given)
    assert place_of(ProcessOptions("node1:29500"), given) == Place(2, 1, "node1:29500", 1)


@pytest.mark.parametrize("what", ["silent", "closed", "farewell"])
def test_a_lifeline_notices_who_is_gone(monkeypatch, what):
    for name in ("BEAT", "GRACE"):
        monkeypatch.setattr(lifelines, name, 0.01)
    monkeypatch.setattr(lifelines, "SILENCE", 0.3)
    said, ends, is_over = [], [], threading.Event()
    monkeypatch.setattr(lifelines, "say", said.append)
    here, there = socket.socketpair()
    lifeline = Lifeline(lambda code: (ends.append(code), is_over.set()))
    with here, there:
        lifeline.watch(here, "process 7")
        there.sendall(FAREWELL if what == "farewell" else b".")
        if what == "closed":
            there.close()
        is_over.wait(2)
        lifeline.close()
    assert ends == ([] if what == "farewell" else [LOST])
    assert len(said) == len(ends) and all("process 7" in sentence for sentence in said)
