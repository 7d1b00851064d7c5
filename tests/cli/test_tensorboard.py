"""`--tensorboard`: the event files, read with the format's own rules, hold the history of the run."""

import struct
import sys

import numpy as np
import pytest
from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event, SessionLog

from hamq.report.tensorboard import Scalars, require_place
from hamq.runs.reading import read_run
from hamq.solution import History
from tests.cli.posed import PENDULUM, RESTLESS, TINY

LINEAR = ("solve-tensor", *PENDULUM, "--rank", "2", "--max-rank", "2", "--sampler", "exhaustive", "--tolerance", "1e-9")


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(path):
    """TFRecord: length, its CRC, the event, its CRC."""
    content = path.read_bytes()
    while content:
        (length, check), data = struct.unpack("<QI", content[:12]), content[12:]
        assert check == masked(content[:8]) and struct.unpack("<I", data[length : length + 4])[0] == masked(data[:length])
        yield Event.FromString(data[:length])
        content = data[length + 4 :]


def scalars(folder) -> dict[str, dict[int, float]]:
    """As TensorBoard shows them: a session that starts at a step takes back what earlier files had from there on."""
    shown = {}
    for path in sorted(folder.iterdir()):
        for event in events(path):
            if event.HasField("session_log") and event.session_log.status == SessionLog.START:
                shown = {tag: {k: v for k, v in steps.items() if k < event.step} for tag, steps in shown.items()}
            for value in event.summary.value:
                shown.setdefault(value.tag, {})[event.step] = value.simple_value
    return shown


def assert_history(folder, history):
    """Every finite number of the history, and nothing else, in the single precision of event files."""
    expected = {
        name: {i + 1: float(np.float32(number)) for i, number in enumerate(column) if np.isfinite(number)}
        for name, column in history.columns.items()
    }
    assert scalars(folder) == {name: steps for name, steps in expected.items() if steps}


def test_the_history_is_there(hamq, tmp_path):
    assert hamq(*TINY, "--out", "run", "--tensorboard", "logs/one").code == 0
    history = read_run("run").history
    assert len(history) == 5 and np.isnan(history.distance).all()
    assert_history(tmp_path / "logs" / "one", history)
    assert "tensorboard" not in str(read_run("run").config)


def test_resume_continues_the_steps(hamq, tmp_path):
    """Also where the files know more iterations than the checkpoint: what is made again replaces it."""
    logs = tmp_path / "logs"
    assert hamq(*RESTLESS, "--iterations", 3, "--out", "run", "--tensorboard", logs).code == 0
    past = read_run("run").history
    with Scalars(logs) as late:
        late.add(lambda: past, 4, {"change": -1.0, "seconds": 9.0})  # an iteration that no checkpoint has
    assert scalars(logs)["change"] == pytest.approx({1: past.change[0], 2: past.change[1], 3: past.change[2], 4: -1})
    assert hamq(*RESTLESS, "--iterations", 5, "--out", "run", "--tensorboard", logs, "--resume").code == 0
    assert len(list(logs.iterdir())) == 3
    assert_history(logs, read_run("run").history)
    # A run that had no scalars so far gets them all.
    assert hamq(*RESTLESS, "--iterations", 6, "--out", "run", "--tensorboard", "new", "--resume").code == 0
    assert_history(tmp_path / "new", read_run("run").history)
    # One that is replaced takes everything back.
    assert hamq(*RESTLESS, "--iterations", 2, "--out", "run", "--tensorboard", logs, "--overwrite").code == 0
    assert_history(logs, read_run("run").history)


@pytest.mark.slow
def test_trains(hamq, tmp_path):
    hamq(*LINEAR, "--iterations", 2, "--out", "run", "--tensorboard", "logs")
    history = read_run("run").history
    assert len(history) == 2
    assert_history(tmp_path / "logs", history)


def test_refusals(hamq, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    refused = hamq(*TINY, "--tensorboard", "file")
    assert refused.code == 2 and "--tensorboard file is a file; give it a folder." in refused.err
    with Scalars(tmp_path / "taken") as other:
        other.add(History, 1, {"loss": 0.5})
    refused = hamq(*TINY, "--out", "run", "--tensorboard", "taken")
    assert refused.code == 2 and "--tensorboard taken holds scalars already" in refused.err
    assert not (tmp_path / "run").exists()
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.delitem(sys.modules, "hamq.report.tensorboard")
    refused = hamq(*TINY, "--tensorboard", "logs")
    assert refused.code == 2 and refused.err.endswith("--tensorboard needs tensorboardX: pip install 'hamq[tensorboard]'.\n")


def test_nothing_is_made_before_the_first_iteration(tmp_path):
    with Scalars(tmp_path / "logs"):
        pass
    assert not (tmp_path / "logs").exists()
    require_place(tmp_path / "logs", is_continued=False)
    (tmp_path / "file").touch()
    with (
        Scalars(tmp_path / "file" / "logs") as scalars,
        pytest.raises(ValueError, match="cannot be written: Not a directory"),
    ):
        scalars.add(History, 1, {"loss": 0.5})


def test_times_of_what_was_before(tmp_path):
    """Iterations of an earlier process are as far from each other as they were."""
    with Scalars(tmp_path) as late:
        late.add(lambda: History(seconds=[10.0, 30.0, 70.0]), 3, {"seconds": 70.0})
    (path,) = tmp_path.iterdir()
    times = [event.wall_time for event in events(path) if event.summary.value]
    np.testing.assert_allclose(np.diff(times), [20.0, 40.0], atol=1e-3)
