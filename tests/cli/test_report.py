"""`hamq report` and `--report` for tables: which runs make a page, and which are refused with a sentence."""

import json
import re

import pytest

from hamq.report import writing
from hamq.runs.folder import RunFolder
from hamq.runs.loading import short_names
from tests.cli.posed import PENDULUM, TINY, contents
from tests.cli.test_refusals import assert_refused

EXACT = ("exact", *PENDULUM)


@pytest.fixture
def still(monkeypatch):
    """Pages without rollouts, which take their time."""
    monkeypatch.setattr(writing, "animated", lambda *_: ([], []))


def data_of(path) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def test_solve_and_exact_write_their_page(hamq, tmp_path, still):
    solved = hamq(*TINY, "--exact", "--out", "run", "--report")
    assert solved.code == 0 and "The page is run/report.html." in solved.out
    data = data_of(tmp_path / "run" / "report.html")
    names = [layer["name"] for layer in data["layers"]]
    assert names[:3] == ["Greedy action", "Value", "Action gap"] and "Error of the value" in names
    assert [axis["name"] for axis in data["axes"]] == ["angle", "angular velocity"] and data["runs"] == ["run"]
    exact = hamq(*EXACT, "--out", "answer", "--report", "--json")
    assert exact.json["report"] == "answer/report.html" and exact.json["axis_names"] == ["angle", "angular velocity"]
    assert len(data_of(tmp_path / "answer" / "report.html")["layers"]) == 3
    again = hamq(*TINY, "--exact", "--out", "run", "--report", "--resume", "--json")  # finished already: only the page
    assert again.json["report"] == "run/report.html"
    assert [layer["name"] for layer in data_of(tmp_path / "run" / "report.html")["layers"]] == names

    both = hamq("report", "run", "answer", "-o", "both.html", "--json")
    assert both.json["runs"] == {"run": "run", "answer": "answer"} and both.json["page"] == "both.html"
    assert data_of(tmp_path / "both.html")["runs"] == ["run", "answer"]
    apart = hamq("report", "run", "--exact", "answer", "-o", "apart.html")
    assert apart.code == 0 and "Given up by the greedy action" in apart.out
    assert data_of(tmp_path / "apart.html")["layers"] == data_of(tmp_path / "run" / "report.html")["layers"]


@pytest.fixture
def runs(hamq):
    """A finished run, the exact answer of another problem, and one over another box."""
    hamq(*TINY, "--out", "run")
    hamq("exact", "pendulum", "--points", 3, "--num-actions", 4, "--out", "other")
    hamq("exact", "double_integrator", "--points", 3, "--num-actions", 3, "--out", "box")


def test_refusals(hamq, tmp_path, runs):
    kept = contents(tmp_path / "run")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name, content in kept.items():
        (damaged / name).write_bytes(content)
    (damaged / "result.npz").write_bytes(kept["result.npz"][:-7] + b"changed")
    RunFolder.create(tmp_path / "begun", json.loads(kept["config.json"]), "aa").close()
    (tmp_path / "mine.html").write_text("mine")
    for words, sentence in (
        ("report", r"hamq report needs a RUN; give the --out folder of a run\."),
        ("report nowhere", r"nowhere is not a run folder: it has no manifest\.json"),
        ("report run nowhere", r"nowhere is not a run folder"),
        ("report begun", r"begun is not finished: it has 0 iterations; continue it with --resume\."),
        ("report run begun", r"begun is not finished"),
        ("report damaged", r"result\.npz of .*damaged"),
        ("report run run", r"run is given twice; give every run once\."),
        ("report run ./run", r"\./run is given twice"),
        ("report run --exact run", r"--exact takes a finished run of hamq exact, and run is of hamq solve\."),
        (
            "report run --exact other",
            r"--exact other is of another problem than the runs; give the exact answer of theirs\.",
        ),
        ("report run --exact nowhere", r"nowhere is not a run folder"),
        (
            "report run box",
            r"box has the axes position, velocity and run has angle, angular velocity; show them on two pages\.",
        ),
        ("report run -o mine.html", r"mine\.html is there already, and not a page of hamq report; choose another name"),
        ("report run -o no/page.html", r"there is no folder no for the page; make it, or choose another with -o\."),
        ("solve pendulum --report", r"--report needs --out, the folder of the run\."),
        ("exact pendulum --report", r"--report needs --out, the folder of the run\."),
    ):
        assert_refused(hamq(*words.split()), sentence)
    assert contents(tmp_path / "run") == kept and (tmp_path / "mine.html").read_text() == "mine"
    assert not [*tmp_path.rglob("report.html")]


def test_names_are_as_short_as_tells_them_apart():
    assert short_names(["/a/b/c", "/a/b/d"]) == ["c", "d"]
    assert short_names(["/a/one/run", "/a/two/run", "/a/two/other"]) == ["one/run", "two/run", "two/other"]


MINE = """
import hamq
import jax.numpy as jnp

def make():
    return hamq.Problem(
        grid=hamq.Grid([-1.0], [1.0], [5]),
        actions=jnp.array([[0.0, 1.0], [1.0, -1.0]]),
        kernel=hamq.GaussianKernel(lambda s, a: 0.9 * s + 0.1 * a[0], [0.1]),
        reward=lambda s, a: -jnp.sum(s**2),
        discount=0.9,
        name="</script><img src=x onerror=alert(1)>",
        axis_names=["<b>where</b>"],
    )
"""


def test_an_own_problem_of_one_axis_and_its_page(hamq, tmp_path, still):
    (tmp_path / "mine.py").write_text(MINE)
    made = hamq("exact", "mine.py:make", "--out", "run", "--report")
    assert made.code == 0
    text, data = (tmp_path / "run" / "report.html").read_text(), data_of(tmp_path / "run" / "report.html")
    assert "<img" not in text and "</script><img" not in text and "<b>where" not in text and str(tmp_path) not in text
    assert [layer["name"] for layer in data["layers"]][:3] == [
        "Greedy action 1",
        "Greedy action 2",
        "Greedy action, its number",
    ]
    (tmp_path / "mine.py").write_text("1 / 0")
    again = hamq("report", "run", "--json")
    assert again.code == 0 and "no rollout, because the problem cannot be made again" in again.err
    assert data_of(tmp_path / "run" / "report.html")["layers"] == data["layers"]  # all that maps need is in the folder
