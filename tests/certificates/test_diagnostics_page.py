"""docs/diagnostics.md says what the record holds, and the record what was looked at."""

import json

from benchmarks.diagnostics import CASES, NUM_PAIRS, PAGE, RECORD, page

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_page_is_that_of_the_record():
    text = PAGE.read_text(encoding="utf-8")
    assert page(RECORDED, text) == text, "write it again: python -m benchmarks.diagnostics page"


def test_all_of_the_zoo_was_looked_at_with_one_seed_and_known_versions():
    rows = RECORDED["rows"]
    assert [row["problem"] for row in rows] == list(CASES)
    assert {"jax", "hamq", "python"} <= set(RECORDED["versions"]) and RECORDED["seed"] == 0
    for row in rows:
        assert row["pairs"] == min(NUM_PAIRS, row["all_pairs"])
        assert row["cost"]["samples"] >= 4000 * row["pairs"]


def test_only_three_agents_have_chains_that_disagree():
    for row in RECORDED["rows"]:
        if "3 agents" in row["problem"]:
            assert row["suspect"] > 10 and row["causes"]["rhat"] > 0
        else:
            assert set(row["causes"]) <= {"tail_ess"} and row["suspect"] <= 3


def test_a_changed_record_changes_the_page():
    text = PAGE.read_text(encoding="utf-8")
    first = {**RECORDED["rows"][0], "suspect": 17, "causes": {"rhat": 17}}
    assert "| **17** |" in page(RECORDED | {"rows": [first]}, text)
