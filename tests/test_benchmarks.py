"""The benchmark suite without its measurements: ratios, the check, exponents, and a page that cannot leave its record."""

import copy
import json
import re

import numpy as np
import pytest

from benchmarks.run import PARTS, in_order
from benchmarks.suite.cells import number
from benchmarks.suite.check import LEAST, falls
from benchmarks.suite.exponents import exponent
from benchmarks.suite.page import TITLES, page
from benchmarks.suite.pictures import draw_peers, draw_scaling
from benchmarks.suite.reasons import is_slower, reason
from benchmarks.suite.record import GPU, RECORD, claim, comparisons, load, ratio, save, table
from benchmarks.suite.turns import Seconds, Times, compare, take_turns
from tests.pages import ROOT


def times(*seconds: float) -> Times:
    return Times(Seconds(9.0, 18.0), [Seconds(one, 2 * one) for one in seconds])


def part(*rows: dict, **more) -> dict:
    about = {"date": "2026-01-02", "is_full": False, "seconds": 3.0, "versions": {"hamq": "0.1"}}
    about["machine"] = {"cpu": "a CPU", "cores": 2, "device": "cpu"}
    return about | {"comparisons": list(rows), "tables": [], "claims": [], "notes": []} | more


@pytest.fixture
def fake() -> dict:
    fast = compare("solve, 5 × 2", "QuantEcon", times(1.0, 1.0, 1.0), times(4.0, 5.0, 6.0), "cpu", "its best method")
    slow = compare("HMC, sigmoid walls, autodiff, d = 2", "BlackJAX", times(2.0, 2.0, 2.0), times(1.0, 1.0, 1.2))
    costs = [{"draws": 1.0, "iteration": 0.1}, {"draws": 2.0, "iteration": 0.4}]
    study = {"sizes": [1, 2], "costs": costs, "exponents": {"draws": 1.0, "iteration": 2.0}}
    tables = [table("Memory", ["size", "MB"], [["5 × 2", 1234.5], ["6 × 2", None]], "of a process.")]
    return {
        "parts": {
            "sampling": part(slow),
            "exact": part(fast, tables=tables, claims=[claim("it is 4 times as fast", True), claim("it flies", False)]),
            "scaling": part(studies={"draws": study, "actions": study}, notes=["A note."]),
        }
    }


def test_ratios_are_theirs_over_ours_turn_by_turn():
    found = compare("a", "b", times(1.0, 2.0, 4.0), times(2.0, 8.0, 40.0), "cpu")
    assert found["wall"] == [3.0, 4.0, 7.0]  # of 2, 4, 10
    assert ratio(found) == found["cpu"] == found["wall"]
    assert found["ours"] == {"first_s": 9.0, "wall_s": 2.0, "cpu_s": 4.0}
    assert not is_slower(found)
    assert is_slower(compare("a", "b", times(2.0), times(1.0)))


@pytest.mark.parametrize("measure", ["wall", "cpu"])
def test_either_clock_makes_a_comparison_slower(measure):
    even = compare("a", "b", times(1.0), times(2.0))
    assert not is_slower(even)
    assert is_slower(even | {measure: [0.8, 0.9, 1.1]})


def test_codes_take_turns_after_a_first_call_of_each():
    calls = []

    def side(name):
        return lambda: (calls.append(name), Seconds(float(len(calls)), 0.0))[1]

    found = take_turns({"a": side("a"), "b": side("b")}, 2)
    assert calls == ["a", "b"] * 3
    assert found["b"].first.wall == 2.0
    assert [turn.wall for turn in found["a"].turns] == [3.0, 5.0]


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponent_of_a_power(power):
    sizes = [2, 4, 8, 20]
    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


def test_exponent_refuses_what_has_no_slope():
    with pytest.raises(ValueError, match="at least two different sizes"):
        exponent([3, 3], [1.0, 2.0])
    with pytest.raises(ValueError, match="must be above 0"):
        exponent([1, 2], [0.0, 1.0])


def test_the_check_sees_a_fall_and_allows_the_spread(fake):
    before = fake["parts"]["exact"]

    def now(low, median, high):
        later = copy.deepcopy(before)
        later["comparisons"][0]["cpu"] = [low, median, high]
        return falls(before, later)

    assert falls(before, before) == []
    assert now(2.0, 2.9, 5 * LEAST + 0.01) == []  # the median of the record is 5
    (fall,) = now(2.0, 2.5, 5 * LEAST - 0.01)
    assert (fall.name, fall.peer, fall.before, fall.now) == ("solve, 5 × 2", "QuantEcon", 5.0, 2.5)


def test_the_check_does_not_look_at_seconds(fake):
    later = copy.deepcopy(fake["parts"]["exact"])
    for side in ("ours", "theirs"):
        later["comparisons"][0][side] = {name: 100 * value for name, value in later["comparisons"][0][side].items()}
    later["comparisons"][0]["wall"] = [0.1, 0.1, 0.1]  # not what this comparison counts by
    assert falls(fake["parts"]["exact"], later) == []


def test_the_check_leaves_out_what_was_not_measured_before(fake):
    later = copy.deepcopy(fake["parts"]["exact"])
    later["comparisons"][0] |= {"peer": "another", "cpu": [0.1, 0.1, 0.1]}
    assert falls(fake["parts"]["exact"], later) == []


def test_page_of_a_small_record(fake):
    gpu = {
        "device": "a GPU",
        "versions": {"jax": "1"},
        "rows": [{"name": "draws", "value": 0.5, "unit": "s", "note": "fast"}],
    }
    text = page(fake, gpu)
    assert "| solve, 5 × 2 | QuantEcon | 9 / 1 / 2 | 9 / 5 / 10 | 5 [4.5, 5.5] | **5** [4.5, 5.5] |" in text
    assert "| 5 × 2 | 1,234 |\n| 6 × 2 |  |" in text
    assert "- Holds: it is 4 times as fast." in text
    assert "- **Does not hold**: it flies." in text
    assert "| draws | 0.5 | s | fast |" in text
    assert "A note." in text
    assert "has no gpu.json" in page(fake, None)


def test_page_names_what_is_slower_and_why(fake):
    section = slower_section(page(fake, None))
    assert section.count("**") == 2
    ratio = "0.5 [0.5, 0.55]"
    assert f"autodiff, d = 2, BlackJAX** {ratio} in wall seconds, {ratio} in CPU seconds. Why: a density" in section
    fake["parts"] = {"exact": fake["parts"]["exact"]}
    assert "In none of the comparisons" in slower_section(page(fake, None))


def test_page_says_where_nobody_knows_why(fake):
    fake["parts"]["sampling"]["comparisons"][0]["name"] = "something new"
    text = page(fake, None)
    assert "**something new, BlackJAX** 0.5 [0.5, 0.55] in wall" in text
    assert "Why: nobody has found out yet." in text


def test_page_counts_first_calls_that_take_longer(fake):
    assert "first call" not in slower_section(page(fake, None))  # 9 s each
    fake["parts"]["sampling"]["comparisons"][0]["theirs"]["first_s"] = 4.0
    section = slower_section(page(fake, None))
    assert "takes longer than the peer's in 1 of 2 comparisons" in section
    assert (
        "against code of others 2.25 times as long (HMC, sigmoid walls, autodiff, d = 2, BlackJAX: 9 against 4 s)" in section
    )
    assert "our own" not in section
    fake["parts"]["exact"]["comparisons"][0] |= {
        "peer": "hamq on one device",
        "ours": {"first_s": 36.0, "wall_s": 1, "cpu_s": 1},
    }
    section = slower_section(page(fake, None))
    assert "in 2 of 2 comparisons; at worst, against code of others 2.25 times" in section
    assert "and against our own 4 times as long (solve, 5 × 2, hamq on one device: 36 against 9 s)" in section


def test_page_says_whose_loss_is_the_worst(fake):
    fake["parts"]["exact"]["tables"] = [table("End to end", ["problem", "worst loss"], [["a", 0.5]])]
    assert "| problem | loss, worst seed |" in page(fake, None)


def slower_section(text: str) -> str:
    section = re.search(r"## Where a peer is faster\n(.*?)\n## ", text, re.DOTALL)
    assert section is not None
    return section[1]


def test_a_record_survives_being_written(fake, tmp_path):
    save(tmp_path / "suite.json", fake)
    assert load(tmp_path / "suite.json") == fake
    assert load(tmp_path / "absent.json") == {"parts": {}}


def test_pictures_are_drawn(fake, tmp_path):
    draw_peers(fake, tmp_path / "peers.png")
    draw_scaling(fake["parts"]["scaling"]["studies"], tmp_path / "scaling.png")
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("peers.png", "scaling.png"))


def test_numbers_are_short():
    assert [number(x) for x in (0.0, 1234.56, 0.123456, 0.00012345, 12.0)] == ["0", "1,235", "0.123", "1.2e-04", "12"]
    assert number(float("nan")) == "–"


def test_parts_keep_their_order():
    assert list(in_order({"scaling": 1, "sampling": 2})) == ["sampling", "scaling"]
    assert list(TITLES) == list(PARTS)


def recorded() -> dict:
    return load(RECORD)


def test_the_page_is_what_the_record_says():
    gpu = json.loads(GPU.read_text(encoding="utf-8")) if GPU.exists() else None
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert text == page(recorded(), gpu), "write it again: python -m benchmarks.run --only"


def test_every_slower_comparison_has_a_reason_on_the_page():
    slower = [row for row in comparisons(recorded()) if is_slower(row)]
    assert [row["name"] for row in slower if reason(row) is None] == []
    section = slower_section((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    assert [row["name"] for row in slower if f"**{row['name']}, {row['peer']}**" not in section] == []
    assert section.count("**") == 2 * len(slower)


def test_the_record_is_whole():
    record = recorded()
    assert list(record["parts"]) == list(PARTS)
    for row in comparisons(record):
        assert all(np.isfinite(ratio(row))) and 0 < ratio(row)[0] <= ratio(row)[1] <= ratio(row)[2]
        assert row["repeats"] >= 5
