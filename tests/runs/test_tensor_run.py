"""A tensor train in a run folder: back bit for bit, or refused with the name of the file."""

import dataclasses

import numpy as np
import pytest

from hamq.errors import RunError
from hamq.problem import zoo
from hamq.runs.encoding import encode_arrays
from hamq.runs.folder import RunFolder
from hamq.runs.loading import load_tensor
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import read_run
from hamq.tensor.solve import solve_tensor
from tests.runs.posed import assert_same_arrays, forge, history, state
from tests.runs.test_damage import REMEDY

NAMED = {"name": "spring_chain", "options": {"num_masses": 1, "points": 5}}
HEAD = {"command": "solve-tensor", "problem": NAMED}
CONFIG = HEAD | {"sampler": {"kind": "IID", "num_samples": 32}, "num_starts": 1, "seed": 0}


@pytest.fixture(scope="module")
def solved():
    return solve_tensor(zoo.spring_chain(1, points=5), rank=3, iterations=2, order=(1, 0))


@pytest.fixture
def folder(tmp_path, solved):
    with RunFolder.create(tmp_path / "run", CONFIG, problem_hash(solved.problem)) as run:
        run.save_checkpoint(state(2, size=10), history(2))
        run.finish(solved, {"seconds": 1.5, "ranks": list(solved.ranks)})
    return tmp_path / "run"


def arrays(solved) -> dict[str, np.ndarray]:
    return {f"core/{k}": core for k, core in enumerate(solved.cores)} | {"order": np.asarray(solved.order)}


def test_a_train_comes_back_whole(folder, solved):
    found = read_run(folder)
    assert found.is_finished and found.q is None and found.error is None
    assert (found.order, found.residual, found.result, found.converged) == (
        (1, 0),
        solved.residual,
        solved.result,
        solved.converged,
    )
    assert found.summary == {"seconds": 1.5, "ranks": list(solved.ranks)}
    assert found.cores is not None
    assert_same_arrays(dict(enumerate(found.cores)), dict(enumerate(solved.cores)))
    assert all(core.dtype == np.float64 for core in found.cores)
    assert_same_arrays(found.history.columns, solved.history.columns)
    with np.load(folder / "result.npz") as stored:
        assert sorted(stored) == ["core/0", "core/1", "order"]


def test_a_table_keeps_the_residual_of_its_last_iteration(tmp_path, solution):
    with RunFolder.create(tmp_path / "run", CONFIG, "ab" * 32) as run:
        run.finish(solution, {"residual": 0.5})
    found = read_run(tmp_path / "run")
    assert found.summary == {"residual": 0.5} and found.residual is None and found.cores is None


def test_names_that_are_taken_are_refused(tmp_path, solved):
    with (
        RunFolder.create(tmp_path / "run", CONFIG, "ab" * 32) as run,
        pytest.raises(RunError, match="summary must not have the fields residual"),
    ):
        run.finish(solved, {"residual": 0.5})


def test_a_flipped_bit_is_seen(folder):
    path = folder / "result.npz"
    good = path.read_bytes()
    for place in np.linspace(0, len(good) - 1, 20).astype(int):
        bad = bytearray(good)
        bad[place] ^= 1 << int(place % 8)
        path.write_bytes(bad)
        with pytest.raises(RunError, match=rf"result\.npz of .*run is damaged: .*{REMEDY}"):
            read_run(folder)


FORGED = {
    "no order": lambda found: found.pop("order"),
    "no core": lambda found: found.pop("core/0"),
    "a gap": lambda found: found.update({"core/7": found.pop("core/1")}),
    "more": lambda found: found.update(q=np.zeros((2, 2))),
    "twice one axis": lambda found: found.update(order=np.asarray([1, 1])),
    "other ranks": lambda found: found.update({"core/0": found["core/0"][:, :, :1]}),
    "an open end": lambda found: found.update({"core/0": np.repeat(found["core/0"], 2, axis=0)}),
    "a matrix": lambda found: found.update({"core/0": found["core/0"][0]}),
    "float32": lambda found: found.update({"core/0": found["core/0"].astype(np.float32)}),
    "NaN": lambda found: found.update({"core/0": found["core/0"] * np.nan}),
    "nothing": lambda found: found.clear(),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_is_no_train_is_refused(folder, solved, case):
    found = arrays(solved)
    FORGED[case](found)
    forge(folder, "result.npz", encode_arrays(found))
    with pytest.raises(RunError, match=rf"result\.npz of .*run is damaged: its .*{REMEDY}"):
        read_run(folder)


def test_a_loaded_solution_backs_up_as_the_solver_did(folder, solved):
    found = load_tensor(folder, solved.problem)
    grid = solved.problem.grid
    states = np.random.default_rng(0).uniform(grid.lower, grid.upper, (10, 2))
    np.testing.assert_array_equal(found.q(states), solved.q(states))
    np.testing.assert_array_equal(found.value(states), solved.value(states))
    assert found.action(states[0]) == solved.action(states[0])
    assert found.engine.reads > 0 and repr(found) == repr(solved)


def test_what_cannot_be_loaded(folder, tmp_path, solved, solution):
    with pytest.raises(RunError, match=r"run holds a run of the problem with hash .*; give the problem that it solved"):
        load_tensor(folder, zoo.spring_chain(1, points=5, discount=0.8))
    with RunFolder.create(tmp_path / "table", CONFIG, "ab" * 32) as run:
        with pytest.raises(RunError, match=r"table has no tensor train: it is not finished; give the folder of a finished"):
            load_tensor(tmp_path / "table", solved.problem)
        run.finish(solution, {})
    with pytest.raises(RunError, match=r"table has no tensor train: it is of `hamq solve` or `hamq exact`; use hamq.load"):
        load_tensor(tmp_path / "table", solved.problem)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, r"config\.json of .* is damaged: its command is None, not one of solve, solve-tensor, exact"),
        (CONFIG | {"problem": "mine"}, r"config\.json of .* is damaged: its problem is 'mine', not a name with options"),
        (CONFIG | {"sampler": 3}, r"config\.json of .* is damaged: its sampler is 3, not its fields"),
        (HEAD, r"config\.json of .* is damaged: it does not say how backups are made \('sampler' is missing\)"),
        (
            CONFIG | {"sampler": {"kind": "Dice"}},
            r"the sampler 'Dice', which is not one of hamq's .* hamq.load\(path, sampler=",
        ),
        (CONFIG | {"sampler": {"kind": "IID", "n": 3}}, r"is damaged: it does not say how backups are made"),
    ],
)
def test_a_config_of_somebody_else_is_refused(tmp_path, solved, config, said):
    with RunFolder.create(tmp_path / "run", config, problem_hash(solved.problem)) as run:
        run.finish(solved, {})
    with pytest.raises(RunError, match=said):
        load_tensor(tmp_path / "run", solved.problem)


def test_cores_of_another_grid_are_refused(tmp_path, solved):
    longer = tuple(np.repeat(core, 2, axis=1) for core in solved.cores)
    with RunFolder.create(tmp_path / "run", CONFIG, problem_hash(solved.problem)) as run:
        run.finish(dataclasses.replace(solved, cores=longer), {})
    with pytest.raises(RunError, match=r"result\.npz of .* is damaged: its cores have other points than the grid"):
        load_tensor(tmp_path / "run", solved.problem)
