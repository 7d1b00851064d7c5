"""Runs from Python: solved into a folder, continued, saved, loaded; the same folders as the shell writes."""

import dataclasses
import functools
import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.cli import main
from hamq.exact import value_iteration
from hamq.learning import q_iteration
from hamq.runs.folder import RunFolder
from hamq.runs.storage import LOCK
from hamq.tensor import solve as tensor_module

QUICK = {"sampler": hamq.HMC(10), "completion": None, "iterations": 6}


def drift(state, action):
    return 0.9 * state + 0.2 * action


def reward(state, action):
    return -jnp.sum(state**2)


@functools.cache
def mine(discount=0.9) -> hamq.Problem:
    """Which no run can name."""
    return hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [4, 3]),
        actions=jnp.array([-1.0, 0.5, 1.0]),
        kernel=hamq.GaussianKernel(drift, [0.05, 0.05]),
        reward=reward,
        discount=discount,
        law="linear",
        name="mine",
    )


class Stop(Exception):
    pass


def stop_after(count):
    def callback(iterate):
        if iterate.iteration == count:
            raise Stop

    return callback


def assert_same(found, expected):
    assert type(found) is type(expected) and repr(found) == repr(expected)
    if isinstance(expected, hamq.TensorSolution):
        assert found.order == expected.order and found.residual == expected.residual
        assert all(map(np.array_equal, found.cores, expected.cores))
    else:
        for name in ("q", "lower", "upper", "error"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name, column in expected.history.columns.items():
        if name != "seconds":
            np.testing.assert_array_equal(found.history[name], column)


def solve_table(**more):
    return hamq.solve(mine(), **QUICK, **more)


def solve_train(**more):
    return hamq.solve_tensor(mine(), rank=2, iterations=4, tolerance=1e-9, **more)


@pytest.mark.bits
@pytest.mark.parametrize("solve", [solve_table, solve_train])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, solve):
    whole = solve()
    with pytest.raises(Stop):
        solve(out=tmp_path / "run", callback=stop_after(3))
    saved = hamq.read_run(tmp_path / "run")
    assert len(saved.history) == 3 and not saved.is_finished
    with pytest.raises(hamq.HamqError, match=r"run is not finished: it has 3 iterations"):
        hamq.load(tmp_path / "run", mine())
    seen = []
    found = solve(out=tmp_path / "run", resume=True, callback=lambda iterate: seen.append(iterate.iteration))
    assert seen == list(range(4, len(whole.history) + 1))
    assert_same(found, whole)
    assert_same(hamq.load(tmp_path / "run", mine()), whole)


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "a lock", "half a first write"])
def test_resume_starts_where_nothing_is_yet(tmp_path, left):
    """A run that was killed before its first write, or whose first write met a full disk."""
    path = tmp_path / "run"
    if left != "nothing":
        path.mkdir()
    if left in ("a lock", "half a first write"):
        (path / LOCK).write_text("process 1 on another host")
    if left == "half a first write":
        (path / "config.json.next").write_text('{"comm')
    found = hamq.solve_exact(mine(), tolerance=1e-3, out=path, resume=True)
    assert_same(hamq.load(path, mine()), found)
    assert sorted(file.name for file in path.iterdir()) == sorted(
        ["config.json", "history.csv", LOCK, "manifest.json", "result.json", "result.npz"]
    )


def test_resume_of_what_is_done_returns_it_and_more_iterations_go_on(tmp_path, monkeypatch):
    first = solve_table(out=tmp_path / "run")
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.name != LOCK}
    with monkeypatch.context() as patched:
        patched.setattr(q_iteration, "prepare_run", lambda *_, **__: pytest.fail("it is done"))
        assert_same(solve_table(out=tmp_path / "run", resume=True), first)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.name != LOCK} == before
    longer = hamq.solve(mine(), **QUICK | {"iterations": 9}, out=tmp_path / "run", resume=True)
    assert_same(longer, hamq.solve(mine(), **QUICK | {"iterations": 9}))
    with pytest.raises(hamq.HamqError, match=r"does not continue the run of .*: seed is 1 \(in the folder 0\)"):
        solve_table(out=tmp_path / "run", resume=True, key=1)
    with pytest.raises(hamq.HamqError, match=r"holds a run of the problem with hash"):
        hamq.solve(mine(0.8), **QUICK, out=tmp_path / "run", resume=True)


def test_a_run_is_not_replaced_unless_asked_for(tmp_path):
    old = solve_table(out=tmp_path / "run")
    with pytest.raises(hamq.HamqError, match="already holds a run"):
        solve_table(out=tmp_path / "run", key=1)
    with pytest.raises(Stop):  # the old run counts until there is a new one
        solve_table(out=tmp_path / "run", key=1, resume="overwrite", progress=_stop)
    assert_same(hamq.load(tmp_path / "run", mine()), old)
    new = solve_table(out=tmp_path / "run", key=1, resume="overwrite")
    assert_same(hamq.load(tmp_path / "run", mine()), new)


def _stop(*_):
    raise Stop


def test_what_is_refused_leaves_no_folder(tmp_path):
    with pytest.raises(hamq.HamqError, match="iterations must be a whole number"):
        hamq.solve(mine(), iterations=0, out=tmp_path / "run")
    with pytest.raises(Stop):
        solve_table(out=tmp_path / "run", progress=_stop)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"resume": True}, r"solve: resume=True needs out=, the folder of the run"),
        ({"resume": "overwrite"}, r"solve: resume='overwrite' needs out=, the folder of the run"),
        (
            {"resume": "yes"},
            r"solve: resume must be True, False, 'overwrite' or what .* gave, got 'yes'",
        ),
        ({"out": "run", "resume": {"q": np.zeros((12, 3))}}, r"solve: resume from arrays has no folder"),
    ],
)
def test_refusals(more, said):
    with pytest.raises(hamq.HamqError, match=said):
        solve_table(**more)


def test_arrays_of_a_checkpoint_are_still_taken():
    kept = []
    whole = solve_table(callback=lambda iterate: kept.append(iterate.checkpoint()))
    assert_same(solve_table(resume=kept[2]), whole)


def test_a_misspelt_argument_is_named():
    with pytest.raises(TypeError, match="iteratons"):
        hamq.solve(mine(), iteratons=3)
    for solve in (hamq.solve, hamq.solve_exact, hamq.solve_tensor):
        with pytest.raises(hamq.HamqError, match=rf"{solve.__name__}: problem must be a hamq\.Problem, .* got 'pendulum'"):
            solve("pendulum")


@pytest.mark.parametrize(
    ("ours", "solver"),
    [
        (hamq.solve, q_iteration.solve),
        (hamq.solve_exact, value_iteration.solve_exact),
        (hamq.solve_tensor, tensor_module.solve_tensor),
    ],
)
def test_arguments_are_those_of_the_solver_and_of_the_folder(ours, solver):
    given, own = inspect.signature(ours).parameters, inspect.signature(solver).parameters
    around = ["out", "resume", "progress"]
    assert len(given) <= 14
    assert list(given) == [*(name for name in own if name not in around), *around]
    assert all(given[name] == own[name] for name in own if name not in around)
    for name in around:
        assert ours.__doc__.count(f"\n{name}  ") == 1


def test_keys_are_kept_too(tmp_path):
    found = solve_table(key=jax.random.key(7), out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["seed"] == [0, 7]
    assert_same(found, solve_table(key=7))


@pytest.mark.parametrize("solve", [solve_table, solve_train, lambda: hamq.solve_exact(mine(), tolerance=1e-3)])
def test_what_is_saved_is_loaded(tmp_path, solve):
    solution = solve()
    solution.save(tmp_path / "run")
    found = hamq.load(tmp_path / "run", mine())
    assert_same(found, solution)
    states = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    for name in ("value_at", "q_at", "act"):
        np.testing.assert_array_equal(getattr(found, name)(states), getattr(solution, name)(states))
    found.save(tmp_path / "again")  # with what made it
    assert_same(hamq.load(tmp_path / "again", mine()), solution)
    assert (tmp_path / "again" / "config.json").read_bytes() == (tmp_path / "run" / "config.json").read_bytes()
    with pytest.raises(hamq.HamqError, match="already holds a run"):
        solution.save(tmp_path / "run")
    solution.save(tmp_path / "run", overwrite=True)


def test_health_is_loaded(tmp_path):
    solution = hamq.solve(mine(), hamq.HMC(10), iterations=3, out=tmp_path / "run")
    found = hamq.load(tmp_path / "run", mine())
    assert found.health is not None
    for field in dataclasses.fields(solution.health):
        np.testing.assert_array_equal(getattr(found.health, field.name), getattr(solution.health, field.name))


def test_a_problem_that_no_run_can_name_is_asked_for(tmp_path):
    solve_table(out=tmp_path / "run")
    with pytest.raises(hamq.HamqError, match=r"'mine' was solved from Python, .* give the problem to hamq\.load"):
        hamq.load(tmp_path / "run")
    with pytest.raises(hamq.HamqError, match=r"and mine has .*; give the problem that it solved"):
        hamq.load(tmp_path / "run", mine(0.8))


def test_a_default_of_the_zoo_is_made_again_and_another_one_is_asked_for(tmp_path):
    hamq.solve_exact(hamq.problems.double_integrator(), tolerance=1.0, out=tmp_path / "run")
    assert hamq.load(tmp_path / "run").problem.name == "double_integrator"
    hamq.solve_exact(hamq.problems.double_integrator(points=5), tolerance=1.0, out=tmp_path / "other")
    with pytest.raises(
        hamq.HamqError, match=r"other was solved from Python, for another double_integrator than that of the"
    ):
        hamq.load(tmp_path / "other")


def test_a_train_that_nobody_knows_the_draws_of_is_not_saved(tmp_path):
    bare = tensor_module.solve_tensor(mine(), rank=2, iterations=1)
    with pytest.raises(hamq.HamqError, match=r"does not know its sampler and seed, .* solve it with hamq\.solve_tensor"):
        bare.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_expected_error_is_loaded(tmp_path):
    table = np.zeros((mine().num_states, mine().num_actions))
    hamq.Solution(mine(), table, hamq.solve_exact(mine(), 1e-2).history, "made up", True, expected_error=0.25).save(
        tmp_path / "run"
    )
    assert hamq.load(tmp_path / "run", mine()).expected_error == 0.25


def test_a_bare_table_is_saved(tmp_path):
    bare = q_iteration.solve(mine(), **QUICK)
    bare.save(tmp_path / "run")
    assert_same(hamq.load(tmp_path / "run", mine()), bare)


SHELL = ["--points", "4", "--num-actions", "3", "--sampler", "exhaustive", "--completion", "none", "--selection", "all"]


def test_shell_and_python_continue_each_others_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    problem = hamq.problems.pendulum(points=4, num_actions=3)
    same = {"sampler": hamq.Exhaustive(), "completion": None}
    whole = hamq.solve(problem, **same, iterations=8)
    assert main(["solve", "pendulum", *SHELL, "--iterations", "3", "--out", "run"]) == 0
    found = hamq.solve(problem, **same, iterations=5, out="run", resume=True)
    assert len(found.history) == 5
    assert main(["solve", "pendulum", *SHELL, "--iterations", "8", "--out", "run", "--resume"]) == 0
    assert "continued from iteration 5" in capsys.readouterr().err
    assert_same(hamq.load("run"), whole)  # it knows how its problem is made


def test_the_shell_reads_what_python_wrote(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exact = hamq.solve_exact(hamq.problems.double_integrator(), tolerance=1e-2, out="exact")
    hamq.solve(hamq.problems.double_integrator(), iterations=3, exact=exact, out="run")
    for words in (["show", "run"], ["compare", "run", "exact"], ["show", "run", "--json"]):
        assert main(words) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "double_integrator" in shown and hamq.read_run("run").outcome.comparison == hamq.compare(hamq.load("run"), exact)


def test_resume_from_the_shell_starts_where_nothing_is_yet(tmp_path, monkeypatch, capsys):
    """What job schedulers pass always."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["solve", "pendulum", *SHELL, "--iterations", "3", "--out", "run", "--resume"]) == 0
    assert "run is finished already" in capsys.readouterr().err and len(hamq.read_run("run").history) == 3


def test_a_full_disk_at_the_first_write_can_be_resumed(tmp_path, monkeypatch):
    from hamq.runs import storage

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "write_synced", full)
        with pytest.raises(hamq.HamqError, match="make room and continue with --resume"):
            solve_table(out=tmp_path / "run")
    assert_same(solve_table(out=tmp_path / "run", resume=True), solve_table())


def test_a_second_writer_is_refused(tmp_path):
    solve_table(out=tmp_path / "run")
    with RunFolder.open(tmp_path / "run"), pytest.raises(hamq.HamqError, match="is being written by"):
        solve_table(out=tmp_path / "run", resume=True)
