"""docs/certificates.md says what the record holds, and the record what was asked for."""

import json

from benchmarks.certificates import PAGE, RECORD, ZOO, page

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_record():
    text = PAGE.read_text(encoding="utf-8")
    assert page(RECORDED, text) == text


def test_every_method_covered():
    rows = RECORDED["coverage"]["rows"]
    assert {row["problem"] for row in rows} == {"correlated", "repelling_agents", "pendulum", "cartpole"}
    assert len(rows) == 12
    for row in rows:
        assert row["seeds"] == 200
        assert row["backup"] >= 190 and row["q"] == 200 and row["error"] == 200 and row["loss"] == 200


def test_the_bounds_are_as_narrow_as_was_asked_for():
    rows = {row["method"]: row for row in RECORDED["width"]["rows"]}
    assert rows["exact"]["ratio"] <= 2
    for method in ("guaranteed", "asymptotic"):
        assert rows[method]["ratio"] <= 5
        assert rows[f"{method} plain"]["loss_bound"] >= 5 * rows[method]["loss_bound"]


def test_all_of_the_zoo_is_there_and_no_bound_is_below_the_truth():
    rows = RECORDED["zoo"]["rows"]
    assert {row["problem"] for row in rows} == set(ZOO)
    for row in rows:
        assert row["error"] is None or (row["bound"] >= row["error"] and row["loss_bound"] >= row["loss"])
