"""`hamq.report`: solutions and run folders on one page, from Python."""

import json
import re
from pathlib import Path

import pytest

import hamq
from hamq.report import writing


@pytest.fixture(autouse=True)
def still(monkeypatch, tmp_path):
    """No rollouts, which are tested elsewhere."""
    monkeypatch.setattr(writing, "animated", lambda *_: ([], []))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def exact():
    return hamq.solve_exact(hamq.problems.double_integrator(points=5, num_actions=3), tolerance=1e-3)


@pytest.fixture(scope="module")
def table(exact):
    return hamq.solve(exact.problem, hamq.Exhaustive(), None, iterations=3)


def data(path="page.html") -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', Path(path).read_text(encoding="utf-8"), re.DOTALL)[1])


def test_a_solution_without_a_folder(table, exact):
    written = hamq.report(table, "page.html", exact=exact)
    assert written.path == Path("page.html") and "Error of the value" in written.layers
    assert data()["runs"] == ["double_integrator"] and table.result in Path("page.html").read_text(encoding="utf-8")
    assert "Error of the value" not in hamq.report(table, "page.html").layers  # our own page is replaced


def test_the_page_of_a_solution_is_that_of_its_folder(table):
    table.save("run")
    hamq.report({"same": table}, "a.html")
    hamq.report({"same": "run"}, "b.html")
    assert data("a.html")["layers"] == data("b.html")["layers"]


def test_several_and_their_names(table, exact):
    exact.save("best")
    hamq.report([table, table, "best"], "page.html")
    assert data()["runs"] == ["double_integrator 1", "double_integrator 2", "best"]
    hamq.report({"ours": table, "theirs": Path("best")}, "page.html")
    assert data()["runs"] == ["ours", "theirs"]


def test_a_train(monkeypatch):
    problem = hamq.problems.spring_chain(1, points=5, num_actions=3)
    train = hamq.solve_tensor(problem, rank=3, iterations=2)
    told = []
    hamq.report(train, "page.html", tell=told.append)
    assert any("backing up the policy's maps" in sentence for sentence in told)
    assert {layer["kind"] for layer in data()["layers"]} == {"train"}


def test_a_problem_that_cannot_be_made_again_is_said(table):
    table.save("run")  # of five points, which its name does not say
    told = []
    written = hamq.report("run", "page.html", tell=told.append)
    assert told == ["no rollout, because the problem cannot be made again: it is no longer the problem that was solved"]
    assert "Greedy action" in written.layers


def test_refusals(table, tmp_path):
    Path("mine.html").write_text("mine")
    with pytest.raises(hamq.HamqError, match=r"mine\.html is there already, and not a page"):
        hamq.report(table, "mine.html")
    with pytest.raises(hamq.HamqError, match="there is no folder nowhere for the page"):
        hamq.report(table, "nowhere/page.html")
    with pytest.raises(hamq.HamqError, match="give at least one solution or run folder"):
        hamq.report([], "page.html")
    with pytest.raises(hamq.HamqError, match="3 is neither a solution nor the path of a run folder"):
        hamq.report({"three": 3}, "page.html")
    with pytest.raises(hamq.HamqError, match="absent is not a run folder"):
        hamq.report("absent", "page.html")
    assert Path("mine.html").read_text() == "mine" and not Path("page.html").exists()
