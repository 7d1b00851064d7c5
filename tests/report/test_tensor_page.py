"""The page of a train: V as it is stored, the policy as a train with its error, and words for what is left out."""

import base64
import dataclasses
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.control import policy_train as policy_module
from hamq.problem import zoo
from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.report import tensor_page
from hamq.report.facts import described
from hamq.report.page import is_page
from hamq.report.run_page import Exact, Shown, Written, write_run_page
from hamq.runs.manifest import Manifest, package_versions
from hamq.runs.naming import Named
from hamq.runs.reading import Run
from hamq.sampling.iid import IID
from hamq.solution import History
from hamq.tensor import train
from hamq.tensor.solve import solve_tensor


@pytest.fixture(autouse=True)
def one_rank(monkeypatch):
    """Each rank compiles programs of its own; tests/control/test_policy_train.py has them all."""
    monkeypatch.setattr(policy_module, "RANKS", (4,))


@pytest.fixture(scope="module")
def solved():
    problem = zoo.spring_chain(1, points=5, num_actions=3)
    return solve_tensor(problem, sampler=IID(4), rank=3, iterations=2)


@pytest.fixture(scope="module")
def driven():
    """Two actuators, each of a coordinate of its own."""
    problem = Problem(
        grid=Grid([-1.0, -1.0], [1.0, 1.0], [4, 5]),
        actions=ProductActions([[-3.0, 0.0, 3.0], [-3.0, 0.0, 3.0]]),
        kernel=GaussianKernel(lambda state, action: 0.9 * state + 0.1 * action, [0.1, 0.1]),
        reward=lambda state, action: -jnp.sum(state**2) - 0.01 * action[0] ** 2,
        discount=0.9,
        law="linear",
        expected=("aliasing", "noise", "outside"),
    )
    return solve_tensor(problem, sampler=IID(4), rank=2, iterations=1)


def as_run(solution, path, name="spring") -> Run:
    grid = solution.problem.grid
    last = {key: column[-1].item() for key, column in solution.history.columns.items()}
    box = {
        "points": list(grid.points),
        "lower": list(grid.lower),
        "upper": list(grid.upper),
        "periodic": list(grid.periodic),
    }
    summary = last | {"grid": box, "num_actions": 3, "ranks": list(solution.ranks), "order": list(solution.order)}
    summary |= {"name": name, "law": "linear", "iterations": len(solution.history)}
    config = {
        "command": "solve-tensor",
        "problem": {"name": "spring_chain", "options": {"num_masses": 1}},
        "seed": 0,
        "sampler": {"kind": "IID", "n": 4},
    }
    return Run(
        path=path,
        config=config,
        history=solution.history,
        manifest=Manifest("ab" * 32, package_versions(), {}),
        cores=solution.cores,
        order=solution.order,
        residual=solution.residual,
        result=solution.result,
        converged=solution.converged,
        summary=summary,
    )


def write_tensor_page(path, run: Run, solution, why_not: str = "") -> Written:
    return write_run_page(path, [Shown("run", run, None, solution, why_not)])


def layers(text: str) -> list[dict]:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])["layers"]


def entries(layer: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(layer["cores"]), "<f4")


def test_the_page_holds_value_policy_and_facts(tmp_path, solved):
    written = write_tensor_page(tmp_path / "page.html", as_run(solved, tmp_path), solved)
    text = written.path.read_text()
    value, action = layers(text)
    np.testing.assert_array_equal(entries(value), np.concatenate([np.ravel(c) for c in solved.cores]).astype("f4"))
    assert (value["name"], value["order"], value["isDiverging"]) == ("Value", list(solved.order), False)
    assert action["name"] == "Greedy action" and action["isDiverging"]
    assert re.fullmatch(r"rms error [\d.]+ %", action["note"])
    assert written.layers == (value["name"], action["name"]) and is_page(written.path)
    for part in ("spring_chain(num_masses=1)", "25 states × 3 actions", "linear", "IID(n=4)", "jax ", solved.result[:20]):
        assert part in text, part
    assert "off by" in text and "Residual, held out" in text and "Largest rank" in text


def test_a_policy_that_no_train_follows_is_left_out(tmp_path, solved, monkeypatch):
    monkeypatch.setattr(tensor_page, "MAX_ERROR", 0.0)
    written = write_tensor_page(tmp_path / "page.html", as_run(solved, tmp_path), solved)
    assert written.layers == ("Value",) and len(layers(written.path.read_text())) == 1
    assert re.search(r"Greedy action has no map: the best train is off by [\d.]+ % of its range", written.path.read_text())


def test_each_actuator_has_its_layer_up_to_a_few(tmp_path, driven, monkeypatch):
    monkeypatch.setattr(tensor_page, "MAX_ERROR", 10.0)
    written = write_tensor_page(tmp_path / "page.html", as_run(driven, tmp_path), driven)
    assert written.layers == ("Value", "Greedy action 1", "Greedy action 2")
    first, second = layers(written.path.read_text())[1:]
    assert not np.array_equal(entries(first), entries(second))
    monkeypatch.setattr(tensor_page, "MAX_ACTUATORS", 1)
    written = write_tensor_page(tmp_path / "page.html", as_run(driven, tmp_path), driven)
    assert len(written.layers) == 2 and written.notes[-1] == "actuators 2 to 2 are not shown"


def test_without_its_solution_the_page_has_the_value_and_the_reason(tmp_path, solved):
    hostile = "</script><img src=x onerror=alert(1)>{{data}}"
    run = dataclasses.replace(as_run(solved, tmp_path, hostile), converged=False)
    text = write_tensor_page(tmp_path / "page.html", run, None, f"no file {hostile}").path.read_text()
    assert "<img" not in text and "no maps of the policy: no file &lt;/script&gt;" in text and "Not converged: " in text
    assert [layer["name"] for layer in layers(text)] == ["Value"]


def test_the_error_of_v_is_that_at_the_nodes(tmp_path, solved):
    """A circle of reasoning: the exact answer is the train's own table, but for one state."""
    nodes = np.indices((5, 5)).reshape(2, -1).T
    table = solved.value(solved.problem.grid.states()).astype(float)
    np.testing.assert_allclose(table, train.entries(solved.cores, nodes[:, list(solved.order)]), rtol=1e-5)
    exact = np.stack([table, table - 1], axis=1)
    exact[7] += 2.0
    run = as_run(solved, tmp_path)
    write_run_page(tmp_path / "page.html", [Shown("run", run, None, solved)], Exact(run.manifest.problem, exact))
    error = next(one for one in layers((tmp_path / "page.html").read_text()) if one["name"] == "Error of the value")
    found = np.frombuffer(base64.b64decode(error["values"]), "<f4")
    np.testing.assert_allclose(found, np.where(np.arange(25) == 7, -2.0, 0.0), atol=1e-4)


def test_a_train_and_a_table_stand_side_by_side(tmp_path, solved):
    run = as_run(solved, tmp_path)
    table = dataclasses.replace(run, cores=None, order=None, q=np.zeros((25, 3)), history=History(residual=[0.5]))
    table = dataclasses.replace(table, config=run.config | {"command": "exact"})
    written = write_run_page(tmp_path / "page.html", [Shown("train", run, None, solved), Shown("table", table)])
    kinds = {(layer["name"], layer["kind"], layer["run"]) for layer in layers(written.path.read_text())}
    assert {("Value", "train", 0), ("Value", "table", 1), ("Error of the value", "table", 0)} <= kinds


def test_a_users_file_is_named_without_its_folder():
    assert described(Named("/home/me/secret/mine.py:make", {"points": 7, "law": None})) == "mine.py:make(points=7)"
    assert described(Named("pendulum", {})) == "pendulum()"
    assert described(Named("made in Python", None)) == "made in Python"


def test_other_files_are_no_pages(tmp_path):
    (tmp_path / "a").write_text("<html>mine</html>")
    (tmp_path / "b").write_bytes(b"")
    assert not is_page(tmp_path / "a") and is_page(tmp_path / "b")  # nothing is lost with an empty file
