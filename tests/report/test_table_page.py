"""Pages of tables: the layers answer their questions, runs stand side by side, seeds are one curve with a band."""

import base64
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from hamq.problem.grid import Grid
from hamq.report.convergence import Member, convergence_charts, seed_groups
from hamq.report.layers import TableLayer
from hamq.report.run_page import Exact, Shown, write_run_page
from hamq.report.table_page import table_layers
from hamq.runs.manifest import Manifest
from hamq.runs.reading import Run
from hamq.solution import History

POINTS = (3, 2, 2)
ACTIONS = [-1.0, 0.0, 2.0]
NAN = float("nan")


def random_q(seed: int, num_actions: int = 3, num_states: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(num_states, num_actions))


def by_name(layers: list[TableLayer]) -> dict[str, np.ndarray]:
    return {one.name: one.values if one.levels is None else np.take(one.levels, one.values) for one in layers}


def test_layers_answer_their_questions():
    q, exact = random_q(0), random_q(1)
    found = by_name(table_layers(q, POINTS, np.array(ACTIONS), exact))
    for s in range(12):  # one state at a time, by sorting
        order = sorted(range(3), key=lambda a: -q[s, a])
        assert found["Greedy action"][s] == ACTIONS[order[0]]
        assert found["Value"][s] == q[s, order[0]]
        assert found["Action gap"][s] == pytest.approx(q[s, order[0]] - q[s, order[1]])
        assert found["Error of the value"][s] == pytest.approx(max(q[s]) - max(exact[s]))
        assert found["Given up by the greedy action"][s] == pytest.approx(max(exact[s]) - exact[s, order[0]])
        assert found["Largest error of Q"][s] == pytest.approx(max(abs(q[s, a] - exact[s, a]) for a in range(3)))
    assert len(found) == 6 and found["Given up by the greedy action"].max() > 0


def test_colours_of_a_policy_are_for_the_actions_that_are_chosen():
    q = np.zeros((12, 3))
    q[:6, 2] = 1  # otherwise the first of equals
    (action, *_) = table_layers(q, POINTS, np.array([-1.0, 0.0, 2.0]))
    assert action.levels == [-1.0, 2.0] and action.is_diverging
    (action, *_) = table_layers(q, POINTS, np.array([1.0, 2.0, 3.0]))
    assert action.levels == [1.0, 3.0] and not action.is_diverging


def test_vector_actions_have_a_map_for_each_actuator_and_one_for_their_number():
    actions = np.array([[0.0, 5.0], [1.0, 5.0], [1.0, 7.0]])
    q = random_q(2)
    found = by_name(table_layers(q, POINTS, actions))
    policy = q.argmax(axis=1)
    np.testing.assert_array_equal(found["Greedy action 1"], actions[policy, 0])
    np.testing.assert_array_equal(found["Greedy action 2"], actions[policy, 1])
    np.testing.assert_array_equal(found["Greedy action, its number"], policy)
    unknown = by_name(table_layers(q, POINTS, None))
    assert list(unknown) == ["Greedy action, its number", "Value", "Action gap"]
    assert "Action gap" not in by_name(table_layers(q[:, :1], POINTS, np.array([1.0])))


HEALTH = {
    "acceptance": np.linspace(0.5, 1, 12),
    "stuck": np.full(12, NAN),
    "effective": np.append(np.arange(11.0), NAN),
}


def test_health_is_shown_where_it_says_something():
    found = by_name(table_layers(random_q(0), POINTS, None, health=HEALTH))
    np.testing.assert_array_equal(found["Acceptance"], HEALTH["acceptance"])
    np.testing.assert_array_equal(found["Effective draws"], HEALTH["effective"])
    assert "Stuck chains" not in found  # a sampler without chains


def a_run(folder: Path, seed: int = 0, command: str = "solve", problem: str = "aa", **changes) -> Run:
    grid = {"points": list(POINTS), "lower": [0.0] * 3, "upper": [1.0, 2.0, 3.0], "periodic": [False, True, False]}
    residual = np.array([1.0, 0.5, 0.25]) * (seed + 1)
    columns = {"residual": residual, "change": residual / 2, "gradient_evaluations": np.array([10, 10, 10])}
    columns = {"residual": residual, "error": residual} if command == "exact" else columns
    summary = {"grid": grid, "num_actions": 3, "iterations": 3, "seconds": 1.5, "samples": 70, "actions": ACTIONS}
    summary |= {"axis_names": ["x", "y", "z"], "name": "a <b>problem</b>", "law": "cell"}
    config = {
        "command": command,
        "problem": {"name": "/home/me/mine.py:make", "options": {"points": 3}},
        "seed": seed,
        "sampler": None,
        "completion": {"kind": "Anchors", "num_columns": 2, "num_states": None},
        "iterations": 3,
        "output": {"checkpoint_every": seed},
    }
    q = changes.pop("q", random_q(seed))
    run = Run(folder / f"run{seed}", config, History(**columns), Manifest(problem, {"jax": "1.2"}, {}), q)
    return dataclasses.replace(run, result="settled", converged=True, summary=summary, **changes)


def data_of(path: Path) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def test_one_run_is_a_page_of_facts_curves_and_layers(tmp_path):
    written = write_run_page(tmp_path / "p.html", [Shown("run0", a_run(tmp_path))])
    text, data = written.path.read_text(), data_of(written.path)
    assert written.layers == ("Greedy action", "Value", "Action gap") and not written.notes
    assert "<b>problem" not in text and "a &lt;b&gt;problem" in text and "/home/me" not in text
    for part in (
        *("settled.", "mine.py:make(points=3)", "12 states × 3 actions, 3 dimensions", "cell", "Anchors(num_columns=2)"),
        *("70 draws", "seed 0", "jax 1.2", "Residual, iteration 3: 0.25", "iterations=3"),
    ):
        assert part in text, part
    assert [axis["name"] for axis in data["axes"]] == ["x", "y", "z"] and data["runs"] == ["run0"]
    value = next(layer for layer in data["layers"] if layer["name"] == "Value")
    stored = np.frombuffer(base64.b64decode(value["values"]), "<f4")
    np.testing.assert_array_equal(stored, random_q(0).max(axis=1).astype("f4"))
    assert not data["isSmooth"]


def test_errors_need_the_exact_answer_of_the_same_problem(tmp_path):
    run, answer = Shown("run", a_run(tmp_path)), Shown("exact", a_run(tmp_path, 1, "exact"))
    names = write_run_page(tmp_path / "p.html", [run, answer]).layers
    assert "Error of the value" in names
    errors = [layer for layer in data_of(tmp_path / "p.html")["layers"] if layer["name"] == "Error of the value"]
    assert [layer["run"] for layer in errors] == [0]  # not of the answer itself
    q, exact = random_q(0), random_q(1)
    given_up = np.mean([max(exact[s]) - exact[s, np.argmax(q[s])] for s in range(12)])
    assert f"one greedy action gives up {given_up:.2g} on average" in (tmp_path / "p.html").read_text()
    assert write_run_page(tmp_path / "p.html", [run], Exact("aa", random_q(1))).layers == names
    assert len(write_run_page(tmp_path / "p.html", [run], Exact("bb", random_q(1))).layers) == 3


def test_facts_of_several_runs_are_a_table(tmp_path):
    runs = [
        Shown("one", a_run(tmp_path)),
        Shown("two <i>", a_run(tmp_path, 1, health=HEALTH)),
        Shown("answer", a_run(tmp_path, 2, "exact", error=1e-7)),
    ]
    text = write_run_page(tmp_path / "p.html", runs).path.read_text()
    assert "two &lt;i&gt;" in text and "two <i>" not in text and "3 runs, 3 dimensions, 12 grid states" in text
    labels = re.findall(r"<tr><td>([^<]+)</td>", text)
    assert labels[:3] == ["Result", "Problem", "Size"] and labels[-1] == "Written with"
    assert labels.index("Certified") < labels.index("Cost")
    assert "acceptance 0.75 (0.5 to 1); effective draws 5 (0 to 10)" in text and "|q − Q*| ≤ 1e-07" in text


def test_runs_over_other_axes_are_refused_with_a_sentence(tmp_path):
    first, other = Shown("one", a_run(tmp_path)), a_run(tmp_path, 1)
    changed = {
        r"two has the axes x, y, w and one has x, y, z; show them on two pages\.": {"axis_names": ["x", "y", "w"]},
        r"z is \[0, 4\] in two and \[0, 3\] in one": {"grid": other.summary["grid"] | {"upper": [1.0, 2.0, 4.0]}},
        r"y is \[0, 2\] in two and \[0, 2\], a circle, in one": {"grid": other.summary["grid"] | {"periodic": [False] * 3}},
    }
    flat = {"points": [12], "lower": [0.0], "upper": [1.0], "periodic": [False]}
    changed |= {r"two has 1 dimension and one has 3 dimensions": {"grid": flat, "axis_names": ["x"]}}
    for sentence, change in changed.items():
        two = Shown("two", dataclasses.replace(other, summary=other.summary | change))
        with pytest.raises(ValueError, match=sentence):
            write_run_page(tmp_path / "p.html", [first, two])
    assert not (tmp_path / "p.html").exists()


def test_runs_on_other_grids_of_the_same_box_stand_side_by_side(tmp_path):
    other = a_run(tmp_path, 1, q=random_q(1, 3, 36))
    finer = dataclasses.replace(other, summary=other.summary | {"grid": other.summary["grid"] | {"points": [3, 4, 3]}})
    written = write_run_page(tmp_path / "p.html", [Shown("one", a_run(tmp_path)), Shown("fine", finer)])
    assert {tuple(layer["points"]) for layer in data_of(written.path)["layers"]} == {(3, 2, 2), (3, 4, 3)}
    assert "12 and 36 grid states" in written.path.read_text()


def test_an_older_run_shows_numbers_of_actions_and_numbered_axes(tmp_path):
    run = a_run(tmp_path)
    kept = {name: value for name, value in run.summary.items() if name not in ("actions", "axis_names", "name", "law")}
    shown = Shown("old", dataclasses.replace(run, summary=kept), why_not="its file is gone")
    written = write_run_page(tmp_path / "p.html", [shown])
    assert written.layers[0] == "Greedy action, its number"
    assert written.notes == ("actions are shown by their number: its file is gone",)
    assert [axis["name"] for axis in data_of(written.path)["axes"]] == ["s1", "s2", "s3"]
    beside = write_run_page(tmp_path / "two.html", [shown, Shown("new", run)])
    assert [axis["name"] for axis in data_of(beside.path)["axes"]] == ["x", "y", "z"]
    assert "<h1>mine.py:make</h1>" in written.path.read_text()


def member(seed: int, residual: list[float], **config) -> Member:
    settings = {"command": "solve", "seed": seed, "sampler": {"n": 3}} | config
    columns = {"residual": np.array(residual), "gradient_evaluations": np.arange(len(residual)) * (seed + 1)}
    return Member(f"seed{seed}", settings, "aa", History(**columns))


def test_seeds_are_grouped_if_nothing_else_differs():
    members = [member(0, [1.0]), member(1, [1.0]), member(2, [1.0], sampler={"n": 4}), member(3, [1.0])]
    assert seed_groups(members) == [[0, 1, 3], [2]]
    assert seed_groups([members[0], members[1]._replace(problem="bb")]) == [[0], [1]]


def test_a_group_is_its_median_in_a_band_from_the_lowest_to_the_highest():
    members = [
        member(0, [4.0, 2.0, 1.0]),
        member(1, [6.0, NAN, 0.5]),
        member(2, [5.0, 3.0]),
        member(7, [9.0, 8.0], sampler=1),
    ]
    charts = convergence_charts(members)
    by_iteration, by_gradient = (next(c for c in charts if c.across == across) for across in ("iteration", "gradient"))
    group, alone = by_iteration.curves
    np.testing.assert_allclose(group.heights, [5.0, 2.5, 0.75])
    np.testing.assert_allclose(group.band, [[4.0, 2.0, 0.5], [6.0, 3.0, 1.0]])
    assert list(group.across) == [1, 2, 3] and group.name == "seed0, seed1, seed2: median, lowest to highest"
    assert (alone.name, list(alone.heights), alone.band, alone.hue) == ("seed7", [9.0, 8.0], None, 1)
    np.testing.assert_allclose(by_gradient.curves[0].across, [0, 2, 3])  # the median of what the seeds spent
    assert by_iteration.title == "Residual"


def test_gradients_that_were_spent_before_the_first_iteration_are_no_axis(tmp_path):
    run = a_run(tmp_path)
    charts = convergence_charts([Member("one", run.config, "aa", run.history)])
    assert {chart.across for chart in charts} == {"iteration"}
    assert [curve.name for curve in charts[0].curves] == ["Residual", "Largest change of Q"]


def test_six_dimensions_are_one_small_file(tmp_path):
    grid = Grid([-1.0] * 6, [1.0] * 6, 5)
    run = a_run(tmp_path, q=random_q(0, 10, grid.num_states))
    box = {"points": [5] * 6, "lower": [-1.0] * 6, "upper": [1.0] * 6, "periodic": [False] * 6}
    summary = run.summary | {"grid": box, "axis_names": list("abcdef"), "actions": list(range(10))}
    health = {name: np.random.default_rng(1).uniform(size=grid.num_states) for name in HEALTH}
    runs = [Shown(f"r{i}", dataclasses.replace(run, summary=summary, health=health)) for i in range(3)]
    exact = Exact("aa", random_q(1, 10, grid.num_states))
    assert write_run_page(tmp_path / "p.html", runs, exact).path.stat().st_size < 3_000_000
    assert {layer["digits"] for layer in data_of(tmp_path / "p.html")["layers"]} == {"u1", "f4"}
    assert write_run_page(tmp_path / "p.html", runs * 2, exact).path.stat().st_size < 3_000_000
    assert {layer["digits"] for layer in data_of(tmp_path / "p.html")["layers"]} == {"u1", "u2"}
