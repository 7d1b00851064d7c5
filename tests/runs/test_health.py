"""The health of the sampler in a run folder: written whole, read back, refused where it does not fit, absent in old runs."""

import dataclasses

import numpy as np
import pytest

from hamq.errors import RunError
from hamq.runs.encoding import encode_arrays
from hamq.runs.folder import RunFolder
from hamq.runs.reading import read_run
from hamq.runs.storage import TABLES
from hamq.runs.summary import arrays_of
from hamq.solution import Health
from tests.runs.posed import CONFIG, HASH, assert_same_arrays, forge, history, state


@pytest.fixture
def measured(solution):
    rng = np.random.default_rng(8)
    acceptance, stuck, effective = rng.uniform(size=(3, len(solution.q)))
    acceptance[3] = np.nan
    return dataclasses.replace(solution, health=Health(acceptance, stuck, effective))


def finished(folder, solution):
    with RunFolder.create(folder, CONFIG, HASH) as run:
        run.finish(solution, {})
    return folder


def test_it_comes_back(tmp_path, measured):
    found = read_run(finished(tmp_path / "run", measured))
    assert found.health is not None and list(found.health) == ["acceptance", "stuck", "effective"]
    assert_same_arrays(found.health, vars(measured.health))
    assert_same_arrays({"q": found.q}, {"q": measured.q})
    with np.load(tmp_path / "run" / TABLES) as arrays:
        assert {"health/acceptance", "health/stuck", "health/effective"} <= set(arrays)


def test_runs_without_it(tmp_path, solution):
    """Also those that were written before there was any: their result.npz is the same."""
    assert set(arrays_of(solution)) == {"q", "lower", "upper"}
    found = read_run(finished(tmp_path / "run", solution))
    assert found.health is None and found.q is not None


def test_a_checkpoint_takes_it_away(tmp_path, measured):
    finished(tmp_path / "run", measured)
    with RunFolder.resume(tmp_path / "run", CONFIG, HASH) as run:
        run.save_checkpoint(state(1), history(1))
        assert read_run(tmp_path / "run").health is None  # it was that of a result which counts no more
        run.finish(measured, {})
    assert read_run(tmp_path / "run").health is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"health/stuck": None},
        {"health/temper": np.zeros(35)},
        {"health/effective": np.zeros(34)},
        {"health/effective": np.zeros((35, 1))},
        {"health/acceptance": np.zeros(35, np.float32)},
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, measured, changed):
    folder = finished(tmp_path / "run", measured)
    arrays = {name: array for name, array in (arrays_of(measured) | changed).items() if array is not None}
    forge(folder, TABLES, encode_arrays(arrays))
    with pytest.raises(RunError, match=r"result\.npz of .* is damaged: the health .* acceptance, stuck, effective of every"):
        read_run(folder)
