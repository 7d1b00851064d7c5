import dataclasses
import errno
import os

import numpy as np
import pytest

from hamq.errors import RunError
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import package_versions, read_manifest
from hamq.runs.reading import read_run
from hamq.types import HamqWarning
from tests.runs.posed import CONFIG, HASH, assert_same_arrays, history, state, written


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_a_run_comes_back_whole(tmp_path, solution):
    folder = tmp_path / "deep" / "run"
    with RunFolder.create(folder, CONFIG, HASH) as run:
        assert run.load_checkpoint() is None
        for number in (1, 2, 5):
            run.save_checkpoint(state(number), history(number))
        run.finish(solution, {"seconds": 1.5, "cost": {"gradients": 10**12}})
    assert names(folder) == {
        "config.json", "history.csv", "checkpoint.npz", "previous.npz", "result.npz", "result.json", "manifest.json",
        "hamq.lock",
    }  # fmt: skip
    found = read_run(folder)
    assert (found.config, found.summary) == (CONFIG, {"seconds": 1.5, "cost": {"gradients": 10**12}})
    assert (found.result, found.converged, found.error, found.is_finished) == ("stopped ≤ 1e-3", True, 1.0, True)
    assert_same_arrays(
        {"q": found.q, "lower": found.lower, "upper": found.upper},
        {"q": solution.q, "lower": solution.lower, "upper": solution.upper},
    )
    assert_same_arrays(found.history.columns, solution.history.columns)
    assert found.manifest.problem == HASH
    assert found.manifest.versions == package_versions()
    assert set(found.manifest.versions) == {"hamq", "jax", "jaxlib", "numpy", "scipy", "equinox", "python"}
    assert repr(found) == f"Run({str(folder)!r}: 2 iterations; stopped ≤ 1e-3)"


def test_an_unfinished_run_is_read_without_a_table(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        found = read_run(run.path)
        assert len(found.history) == 0 and not found.is_finished
        run.save_checkpoint(state(4), history(4))
        found = read_run(run.path)  # no lock is needed
    assert_same_arrays(found.history.columns, history(4).columns)
    assert (found.q, found.lower, found.result, found.converged, found.summary) == (None, None, None, None, {})
    assert "unfinished" in repr(found)


def test_a_result_without_bounds_has_none(tmp_path, solution):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        run.finish(dataclasses.replace(solution, lower=None, upper=None, error=None), {})
    found = read_run(tmp_path / "run")
    assert (found.lower, found.upper, found.error) == (None, None, None)
    np.testing.assert_array_equal(found.q, solution.q)


def test_resume_continues_from_the_last_checkpoint(tmp_path):
    folder = written(tmp_path / "run", 7)
    with RunFolder.resume(folder, CONFIG | {"iterations": 99}, HASH) as run:
        checkpoint = run.load_checkpoint(like=state(7))
        assert checkpoint is not None
        assert_same_arrays(checkpoint.arrays, state(7))
        assert_same_arrays(checkpoint.history.columns, history(7).columns)
        run.save_checkpoint(state(8), history(8))
    assert read_run(folder).config["iterations"] == 99


def test_a_finished_run_can_be_continued(tmp_path, solution):
    folder = written(tmp_path / "run")
    with RunFolder.resume(folder, CONFIG, HASH) as run:
        run.finish(solution, {}, arrays=state(2))
    with RunFolder.resume(folder, CONFIG, HASH) as run:
        checkpoint = run.load_checkpoint()
        assert checkpoint is not None and len(checkpoint.history) == len(solution.history)
        assert_same_arrays(checkpoint.arrays, state(2))
        assert read_run(folder).is_finished
        run.save_checkpoint(state(9), history(9))
        assert not read_run(folder).is_finished
    assert names(folder) == {"config.json", "history.csv", "checkpoint.npz", "previous.npz", "manifest.json", "hamq.lock"}


def test_an_existing_run_is_kept_unless_told(tmp_path):
    folder = written(tmp_path / "run")
    before = read_manifest(folder)
    with pytest.raises(RunError, match=r"run already holds a run; continue it with --resume, replace it with --overwrite"):
        RunFolder.create(folder, CONFIG, HASH)
    assert read_manifest(folder) == before
    (folder / "notes.txt").write_text("mine")
    with RunFolder.create(folder, {"seed": 1}, "cd" * 32, overwrite=True) as run:
        assert run.load_checkpoint() is None
    assert names(folder) == {"config.json", "manifest.json", "hamq.lock", "notes.txt"}
    assert read_run(folder).config == {"seed": 1}


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "checkpoint.npz", "hamq.lock"])
def test_a_damaged_run_can_be_overwritten(tmp_path, name):
    folder = written(tmp_path / "run")
    (folder / name).write_bytes(b"")
    RunFolder.create(folder, CONFIG, HASH, overwrite=True).close()
    assert read_run(folder).config == CONFIG


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_never_touched(tmp_path, overwrite):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(RunError, match=r"is not empty and not a run folder: it holds 'manifest\.json'; choose another"):
        RunFolder.create(tmp_path, CONFIG, HASH, overwrite=overwrite)
    assert names(tmp_path) == {"manifest.json"}
    with pytest.raises(RunError, match=r"manifest\.json of .* is damaged: its SHA-256 does not fit"):
        RunFolder.resume(tmp_path, CONFIG, HASH)
    assert names(tmp_path) == {"manifest.json"}


def test_an_empty_folder_is_taken(tmp_path):
    RunFolder.create(tmp_path, CONFIG, HASH).close()
    assert read_run(tmp_path).config == CONFIG


def test_files_and_closed_places_are_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file is a file; choose another name"):
        RunFolder.create(tmp_path / "file", CONFIG, HASH)
    with pytest.raises(RunError, match=r"cannot be made: Not a directory"):
        RunFolder.create(tmp_path / "file" / "run", CONFIG, HASH)
    for path in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        for opened in (read_run, lambda folder: RunFolder.resume(folder, CONFIG, HASH)):
            with pytest.raises(RunError, match=r"is not a run folder: it has no manifest\.json"):
                opened(path)
    assert names(tmp_path) == {"file"}


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    folder = written(tmp_path / "run")

    def denied(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", denied)  # permissions do not stop root
    with pytest.raises(RunError, match=r"cannot be written: Permission denied; choose another folder"):
        RunFolder.resume(folder, CONFIG, HASH)


def test_another_problem_is_refused_with_both_hashes(tmp_path):
    folder = written(tmp_path / "run")
    with pytest.raises(RunError, match=f"the problem with hash {HASH}, not {'cd' * 32}; resume with the problem"):
        RunFolder.resume(folder, CONFIG, "cd" * 32)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**CONFIG, "seed": 1}, r"seed is 1 \(in the folder 0\); resume with the values in its config\.json"),
        ({**CONFIG, "sampler": {"kind": "IID", "num_samples": 50}}, r"sampler\.kind is \"IID\" \(in the .* \"HMC\"\); samp"),
        ({**CONFIG, "sampler": {"kind": "HMC", "num_sample": 1}}, r"num_sample is not .* mean sampler\.num_samples\?"),
        ({**CONFIG, "iteration": 3}, r"iteration is not a field of it \(did you mean iterations\?\)"),
        ({"problem": "pendulum", "seed": 0}, r"sampler\.kind is missing \(in the folder \"HMC\"\)"),
        ({**CONFIG, "sampler": {}}, r"sampler is not a field of it"),
    ],
)  # fmt: skip
def test_another_config_is_refused_by_its_fields(tmp_path, config, message):
    folder = written(tmp_path / "run")
    with pytest.raises(RunError, match=message):
        RunFolder.resume(folder, config, HASH)
    assert read_run(folder).config == CONFIG
    RunFolder.resume(folder, CONFIG, HASH).close()  # the refusal gave the lock back


def test_how_long_and_how_loud_may_change(tmp_path):
    nan = {"start": float("nan")}  # does not equal itself
    RunFolder.create(tmp_path / "run", nan | {"output": {"every": 1}, "tolerance": 0.1}, HASH).close()
    RunFolder.resume(tmp_path / "run", nan | {"output": {"quiet": True}, "iterations": 5}, HASH).close()
    RunFolder.resume(tmp_path / "run", {"start": 1.0}, HASH, free=("start", "output", "iterations")).close()


def test_other_versions_are_said(tmp_path, monkeypatch):
    folder = written(tmp_path / "run")
    now = package_versions() | {"jax": "99.0"}
    monkeypatch.setattr("hamq.runs.folder.package_versions", lambda: now)
    with pytest.warns(HamqWarning, match=r"was written with jax .*, now 99\.0: the run continues, but perhaps not bit for"):
        RunFolder.resume(folder, CONFIG, HASH).close()
    assert read_manifest(folder).versions["jax"] == "99.0"


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ({**state(3), "q": state(3)["q"].astype("f4")}, r"its array 'q' is float64\[1000, 2\], this run needs float32"),
        ({**state(3), "t": np.zeros(2, int)}, r"its array 't' is int64\[\], this run needs int64\[2\]"),
        ({"q": state(3)["q"], "t": state(3)["t"]}, r"'draws/cells' is int16\[1000\], this run needs missing"),
    ],
)
def test_a_checkpoint_of_another_solver_is_refused(tmp_path, like, message):
    with (
        RunFolder.resume(written(tmp_path / "run"), CONFIG, HASH) as run,
        pytest.raises(RunError, match=rf"checkpoint\.npz of .* is of another solver: .*{message}"),
    ):
        run.load_checkpoint(like)


def test_names_that_are_taken_are_refused(tmp_path, solution):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        with pytest.raises(RunError, match="the name history/x is taken by the history"):
            run.save_checkpoint({"history/x": np.zeros(1)}, history(1))
        with pytest.raises(RunError, match="summary must not have the fields converged, result"):
            run.finish(solution, {"result": "fine", "converged": True, "seconds": 1})


def test_a_closed_folder_is_not_written(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        pass
    with pytest.raises(RunError, match="was closed; write before the end of its `with`"):
        run.save_checkpoint(state(1), history(1))
    run.close()


def test_a_config_that_json_does_not_have_leaves_no_folder(tmp_path):
    with pytest.raises(RunError, match=r"config\.x is \{1\} of type set"):
        RunFolder.create(tmp_path / "run", {"x": {1}}, HASH)
    assert not (tmp_path / "run").exists()
