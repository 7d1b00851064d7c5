"""Completions that are defined here, one class each: everything works with them, and nothing asks for their type."""

import json

import equinox as eqx
import numpy as np
import pytest

import hamq
from hamq.cli import main
from hamq.completion.completion import Completion
from hamq.completion.keep import Keep
from hamq.completion.planning import Plan
from hamq.completion.selection import some_actions
from hamq.problem.tables import reward_table
from hamq.report import writing
from hamq.runs.flat import assembled, flat, spelt_out
from tests.test_own_sampler import Antithetic


class Levels(hamq.AbstractCompletion):
    """Every entry is the level of its state plus that of its action, in least squares."""

    sweeps: int = eqx.field(static=True, default=20)
    fraction: float = 0.6

    def complete(self, observed, previous, memory=()):
        mask, values = observed.mask, np.where(observed.mask, observed.values, 0)
        rows, columns = np.zeros((len(mask), 1)), np.zeros((1, mask.shape[1]))
        for _ in range(self.sweeps):
            rows = np.sum(mask * (values - columns), axis=1, keepdims=True) / np.maximum(1, mask.sum(axis=1, keepdims=True))
            columns = np.sum(mask * (values - rows), axis=0, keepdims=True) / np.maximum(1, mask.sum(axis=0, keepdims=True))
        table = np.where(mask, values, rows + columns)
        empty = int(np.sum(~mask.any(axis=1)))
        return Completion(table, 2, empty, 0.0, float("nan"), self.sweeps, True, "levels", ())


class Chosen(hamq.AbstractCompletion):
    """The columns that it was told, which a pilot may change; all others are like the nearest of them."""

    columns: tuple[int, ...] = eqx.field(static=True)
    completes = "expectation"
    is_fixed = True

    def plan(self, pilot):
        few = pilot.draw(some_actions(pilot.problem, np.asarray(self.columns)), 4, key=pilot.key)
        rough = few.expected(pilot.rewards.max(axis=1))
        assert rough.shape == (pilot.problem.num_states, len(self.columns))
        if len(self.columns) == pilot.problem.num_actions:
            return Plan(None, "all columns were asked for")
        return Plan(Chosen((0, *self.columns[1:])), f"{len(self.columns)} columns of mine")

    def choose(self, problem, *, key):
        return (some_actions(problem, np.asarray(self.columns)),)

    def complete(self, observed, previous, memory=()):
        nearest = [min(self.columns, key=lambda c, a=a: abs(c - a)) for a in range(observed.mask.shape[1])]
        return Completion(observed.values[:, nearest], len(self.columns), 0, 0.0, float("nan"), 1, True, "nearest", ())


@pytest.fixture(scope="module")
def problem():
    return hamq.problems.gym_pendulum(points=[7, 6], num_actions=5, noise=(25.0, 20.0), discount=0.9)


@pytest.fixture(scope="module")
def exact(problem):
    return hamq.solve_exact(problem, tolerance=1e-3)


@pytest.fixture(scope="module")
def solved(problem, exact):
    return hamq.solve(problem, hamq.Exhaustive(), Levels(), exact=exact, iterations=120)


def test_solve_certify_and_evaluate(solved, exact):
    history = solved.history
    assert history.distance[-1] < 0.05 and history.rank.tolist() == [2] * 120 and not history.unidentified.any()
    true = np.abs(solved.q - exact.q).max()
    assert true - 1e-3 <= hamq.certify(solved).error
    assert hamq.evaluate(solved, "Pendulum-v1", episodes=2).returns.shape == (2,)


def test_with_a_sampler_of_our_own(problem, exact):
    found = hamq.solve(problem, Antithetic(200), Levels(), exact=exact, iterations=60)
    assert found.history.distance[-1] < 0.1


def test_save_load_resume_and_report(solved, problem, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "animated", lambda *_: ([], []))
    solved.save(tmp_path / "run")
    np.testing.assert_array_equal(hamq.load(tmp_path / "run", problem).q, solved.q)
    assert hamq.report([solved, tmp_path / "run"], tmp_path / "page.html").path.exists()
    given = {"sampler": hamq.Exhaustive(), "out": tmp_path / "more", "resume": True}
    hamq.solve(problem, completion=Levels(), iterations=3, **given)
    config = json.loads((tmp_path / "more" / "config.json").read_text())
    assert config["completion"] == {"kind": "Levels", "sweeps": 20} and config["fraction"] == 0.6
    with pytest.raises(hamq.HamqError, match=r"fraction is 0\.5 \(in the folder 0\.6\)"):
        hamq.solve(problem, completion=Levels(fraction=0.5), iterations=5, **given)
    more = hamq.solve(problem, completion=Levels(), iterations=5, **given)
    np.testing.assert_array_equal(more.q, hamq.solve(problem, hamq.Exhaustive(), Levels(), iterations=5).q)


def test_a_completion_that_plans(problem):
    found = hamq.solve(problem, hamq.IID(8), Chosen((1, 3)), iterations=3)
    assert "2 columns of mine" in found.result and found.history.rank[-1] == 2
    gained = found.q - reward_table(problem)
    np.testing.assert_allclose(gained[:, 0], gained[:, 1], atol=1e-6)  # the nearest of columns 0 and 3
    np.testing.assert_allclose(gained[:, 2], gained[:, 3], atol=1e-6)  # of 1 and 3 the first would be as near
    assert found.history.samples[-1] == 42 * 2 * (4 + 8)  # the pilot, and the two columns
    full = hamq.solve(problem, hamq.IID(8), Chosen((0, 1, 2, 3, 4)), iterations=3)
    assert "all columns were asked for" in full.result and full.history.rank[-1] == 5


V01 = {"selection": None, "fraction": None, "complete": None}


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ({"completion": {"kind": "NuclearNorm"}}, hamq.NuclearNorm()),
        ({"completion": {"kind": "SoftImpute"}, "fraction": 0.5}, hamq.SoftImpute(fraction=0.5)),
        ({"completion": {"kind": "Anchors"}}, hamq.Anchors()),
        ({"completion": {"kind": "Anchors"}, "selection": "anchors", "complete": "table"}, hamq.Anchors(completes="table")),
        ({"completion": None}, None),
        ({"completion": None, "selection": "all"}, None),
        ({"completion": None, "fraction": 0.3}, Keep(fraction=0.3)),
        ({"completion": None, "selection": "bernoulli"}, Keep("bernoulli")),
    ],
)
def test_settings_of_version_0_1_are_spelt_out(old, now):
    old, new = spelt_out(V01 | old), flat({"completion": now})
    assert {name: old[name] for name in V01} == {name: new[name] for name in V01}
    assert (old["completion"] or {}).get("kind") == (None if now is None else type(now).__name__)
    assert spelt_out(old) == old
    again = assembled(flat({"completion": now}) | {"sampler": None})
    assert again["completion"] == now and again["passes"] == hamq.Passes()


@pytest.mark.parametrize("given", [{"completion": Keep("per_state", 0.5)}, {"completion": hamq.NuclearNorm(fraction=0.5)}])
def test_the_shell_continues_what_python_began(tmp_path, monkeypatch, capsys, given):
    monkeypatch.chdir(tmp_path)
    problem = hamq.problems.pendulum(points=4, num_actions=3)
    begun = {"sampler": hamq.Exhaustive(), "iterations": 2, "out": "run", **given}
    hamq.solve(problem, **begun)
    kind = "none" if isinstance(given["completion"], Keep) else "nuclear_norm"
    words = ["--points", "4", "--num-actions", "3", "--sampler", "exhaustive", "--completion", kind, "--fraction", "0.5"]
    assert main(["solve", "pendulum", *words, "--iterations", "4", "--out", "run", "--resume"]) == 0
    assert "continued from iteration 2" in capsys.readouterr().err
