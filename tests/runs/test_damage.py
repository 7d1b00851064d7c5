"""Every way in which a file can be other than it was written."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from hamq.errors import RunError
from hamq.runs import manifest
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import read_manifest
from hamq.runs.reading import read_run
from tests.runs.posed import CONFIG, HASH, forge, history, state

NAMES = ["config.json", "history.csv", "checkpoint.npz", "result.npz", "result.json", "manifest.json"]
REMEDY = r"; delete the folder or start with --overwrite\."


@pytest.fixture
def folder(tmp_path, solution):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        run.save_checkpoint(state(3, size=10), history(3))
        run.finish(solution, {"seconds": 1.0})
    return tmp_path / "run"


def assert_refused(folder, name):
    message = rf"{name} of .*run is damaged: .*{REMEDY}"
    with pytest.raises(RunError, match=message):
        read_run(folder)
    with pytest.raises(RunError, match=message):
        RunFolder.resume(folder, CONFIG, HASH)


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_is_seen(folder, name):
    path = folder / name
    good = path.read_bytes()
    places = np.linspace(0, len(good) - 1, 200 if name == "manifest.json" else 20).astype(int)
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << int(place % 8)
        path.write_bytes(bad)
        with pytest.raises(RunError, match=rf"{name} of .*run is damaged: .*{REMEDY}"):
            read_run(folder)
    assert_refused(folder, name)
    path.write_bytes(good)
    read_run(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("keep", [0, 0.5, -1])
def test_a_truncated_or_empty_file_is_seen(folder, name, keep):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(keep * len(content)) if keep >= 0 else -1])
    assert_refused(folder, name)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_missing_file_is_seen(folder, name):
    (folder / name).unlink()
    assert_refused(folder, name)


def test_the_checkpoint_is_verified_when_it_is_loaded(folder):
    with RunFolder.resume(folder, CONFIG, HASH) as run:
        content = bytearray((folder / "checkpoint.npz").read_bytes())
        content[len(content) // 2] ^= 1
        (folder / "checkpoint.npz").write_bytes(content)
        with pytest.raises(RunError, match=rf"checkpoint\.npz of .* is damaged: the SHA-256 of its \d+ bytes .*{REMEDY}"):
            run.load_checkpoint()


class Trap:
    """Pickles to something that would leave a trace when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def pickled_npz(kind) -> bytes:
    buffer = io.BytesIO()
    if kind == "object array":
        np.savez(buffer, q=np.asarray([Trap()], object))
    else:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("q.npy", pickle.dumps(Trap()))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["object array", "raw"])
def test_a_pickle_is_never_loaded(folder, kind):
    forge(folder, "result.npz", pickled_npz(kind))
    with pytest.raises(RunError, match=rf"result\.npz of .* is damaged: .*{REMEDY}"):
        read_run(folder)
    forge(folder, "checkpoint.npz", pickled_npz(kind))
    with (
        RunFolder.resume(folder, CONFIG, HASH) as run,
        pytest.raises(RunError, match=rf"checkpoint\.npz of .* is damaged: .*{REMEDY}"),
    ):
        run.load_checkpoint()


def test_a_bare_pickle_is_never_loaded(folder):
    forge(folder, "checkpoint.npz", pickle.dumps(Trap()))
    with (
        RunFolder.resume(folder, CONFIG, HASH) as run,
        pytest.raises(RunError, match=r"checkpoint\.npz of .* is damaged: File is not a zip file"),
    ):
        run.load_checkpoint()


def test_a_later_format_is_refused(folder, monkeypatch):
    later = read_manifest(folder)
    monkeypatch.setattr(manifest, "FORMAT_VERSION", 2)
    (folder / "manifest.json").write_bytes(later.encode())
    monkeypatch.undo()
    with pytest.raises(RunError, match="has format version 2 and this hamq reads 1; read it with the hamq that wrote it"):
        read_run(folder)


@pytest.mark.parametrize("content", [b"[]", b"null", b"[" * 100_000, json.dumps({"sha256": "x"}).encode()])
def test_other_json_is_no_manifest(folder, content):
    (folder / "manifest.json").write_bytes(content)
    assert_refused(folder, "manifest.json")


@pytest.mark.parametrize(("name", "value"), [("error", [1]), ("error", "small"), ("error", 10**400), ("seconds", [1])])
def test_numbers_that_are_none_are_refused(folder, name, value):
    """Whoever signs them: they are shown and compared."""
    said = json.loads((folder / "result.json").read_bytes())
    forge(folder, "result.json", json.dumps(said | {name: value}).encode())
    with pytest.raises(RunError, match=rf"result\.json of .* is damaged: its {name} is .*, not a number"):
        read_run(folder)
