"""docs/certificates.md says what the record holds, and the record what was asked for."""

import json

from benchmarks.certificates import CHAIN_SEEDS, PAGE, RECORD, SEEDS, WAYS, ZOO, page
from benchmarks.jumps import CUTS, METHODS

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_record():
    text = PAGE.read_text(encoding="utf-8")
    assert page(RECORDED, text) == text


def test_every_method_covered():
    rows = RECORDED["coverage"]["rows"]
    assert {row["problem"] for row in rows} == {"correlated", "repelling_agents", "pendulum", "cartpole"}
    assert len(rows) == 12
    for row in rows:
        assert row["seeds"] == SEEDS["coverage"] == 200
        assert row["backup"] >= 190 and row["q"] == 200 and row["error"] == 200 and row["loss"] == 200


def test_every_bracket_of_a_density_with_jumps_holds_the_truth_or_is_refused():
    rows = RECORDED["jumps"]["rows"]
    assert {(row["density"], row["method"]) for row in rows} == {(name, method) for name in CUTS for method in METHODS}
    for row in rows:
        made = row["runs"] - row["refused"]
        assert row["runs"] == SEEDS["jumps"] == 200 and row["covered"] == row["bounded"] == made
        assert not made or row["width"] < 0.5  # wider ones would hold anything


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


def test_widths_are_of_the_seeds_that_the_command_takes():
    for row in RECORDED["width"]["rows"]:
        is_of_chains = row["method"].startswith("asymptotic") and row["method"] != "asymptotic plain"
        assert row["seeds"] == (CHAIN_SEEDS if is_of_chains else SEEDS["width"])


def test_the_zoo_was_certified_in_the_ways_that_the_command_takes():
    for name in ZOO:
        asked = WAYS.get(name, ((None, None),))
        found = [row["method"] for row in RECORDED["zoo"]["rows"] if row["problem"] == name]
        assert found == [(method or "exact") + ("" if draws is None else f", {draws} draws") for method, draws in asked]


def test_the_page_says_how_many_draws_spring_chain_needs():
    (row,) = (row for row in RECORDED["zoo"]["rows"] if row["problem"] == "spring_chain")
    assert row["draws_needed"] == 60_019
    assert f"{round(row['draws_needed'], -3):,}" in PAGE.read_text(encoding="utf-8")
