"""The checkpoint before the last one: kept, and gone on from where the last one is damaged."""

import os
import warnings

import pytest

from hamq.errors import RunError
from hamq.runs.folder import RunFolder
from hamq.runs.reading import read_run
from hamq.types import HamqWarning
from tests.runs.posed import CONFIG, HASH, assert_same_arrays, history, state


@pytest.fixture
def folder(tmp_path):
    """Three checkpoints, of iterations 1, 2 and 5."""
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        for number in (1, 2, 5):
            run.save_checkpoint(state(number), history(number))
    return tmp_path / "run"


def spoil(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["flipped", "missing", "empty", "finished"])
def test_a_run_goes_on_from_the_checkpoint_before(folder, solution, how):
    if how == "finished":
        with RunFolder.resume(folder, CONFIG, HASH) as run:
            run.finish(solution, {})
    {
        "flipped": spoil,
        "finished": spoil,
        "missing": lambda path: path.unlink(),
        "empty": lambda path: path.write_bytes(b""),
    }[how](folder / "checkpoint.npz")
    with pytest.raises(RunError, match=r"checkpoint\.npz of .* is damaged: .*; continue with --resume, which goes on from"):
        read_run(folder)
    said = r"checkpoint\.npz of .*run is damaged: the run goes on from previous\.npz, .*, of iteration 2\."
    with pytest.warns(HamqWarning, match=said), RunFolder.resume(folder, CONFIG, HASH) as run:
        checkpoint = run.load_checkpoint()
        assert checkpoint is not None
        assert_same_arrays(checkpoint.arrays, state(2))
        found = read_run(folder)
        assert len(found.history) == 2 and not found.is_finished
        assert not (folder / "previous.npz").exists()  # the damaged one is no spare
        run.save_checkpoint(state(3), history(3))
    # What was restored is the checkpoint before that of iteration 3 in its turn.
    spoil(folder / "checkpoint.npz")
    with pytest.warns(HamqWarning, match="of iteration 2"):
        RunFolder.resume(folder, CONFIG, HASH).close()


def test_a_spare_checkpoint_is_not_needed(folder):
    spoil(folder / "previous.npz")
    assert len(read_run(folder).history) == 5
    with warnings.catch_warnings(), RunFolder.resume(folder, CONFIG, HASH) as run:
        warnings.simplefilter("error")
        checkpoint = run.load_checkpoint()
        assert checkpoint is not None
        assert_same_arrays(checkpoint.arrays, state(5))


def test_two_damaged_checkpoints_are_refused(folder):
    spoil(folder / "previous.npz")
    spoil(folder / "checkpoint.npz")
    with pytest.raises(RunError, match=r"checkpoint\.npz of .* is damaged: and so is previous\.npz, .*; delete the folder"):
        RunFolder.resume(folder, CONFIG, HASH)


def test_what_is_refused_is_not_gone_back(folder):
    spoil(folder / "checkpoint.npz")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RunError, match="seed is 1"):
        RunFolder.resume(folder, CONFIG | {"seed": 1}, HASH)
    spoil(folder / "config.json")
    with pytest.raises(RunError, match=r"config\.json of .* is damaged"):
        RunFolder.resume(folder, CONFIG, HASH)
    spoil(folder / "config.json")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_disks_without_links_get_a_copy(tmp_path, monkeypatch):
    def unknown(*_, **__):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", unknown)
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        for number in (1, 2):
            run.save_checkpoint(state(number), history(number))
    spoil(tmp_path / "run" / "checkpoint.npz")
    with pytest.warns(HamqWarning, match="of iteration 1"):
        RunFolder.resume(tmp_path / "run", CONFIG, HASH).close()


def test_solve_says_that_it_goes_back_and_ends_with_the_same_bits(tmp_path, monkeypatch, capsys):
    from hamq.cli import main
    from tests.cli.posed import RESTLESS, table
    from tests.cli.posed import history as rows

    monkeypatch.chdir(tmp_path)
    words = [*RESTLESS, "--iterations", "7", "--checkpoint-every", "2", "--out"]
    assert main([*words, "whole"]) == 0
    assert main([*words, "run"]) == 0
    spoil(tmp_path / "run" / "checkpoint.npz")
    capsys.readouterr()
    assert main([*words, "run", "--resume"]) == 0
    assert "warning: checkpoint.npz of " in capsys.readouterr().err
    assert table(tmp_path / "run") == table(tmp_path / "whole")
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")
