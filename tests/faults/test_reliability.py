"""The record of the fault campaign is whole, and its page cannot leave it."""

from faults.page import PAGE, SECTIONS, page
from faults.record import RECORD, load
from faults.run import PARTS


def test_the_page_is_what_the_record_says():
    assert PAGE.read_text(encoding="utf-8") == page(load(RECORD)), "write it again: python -m faults.run --only"


def test_the_record_is_whole():
    parts = load(RECORD)["parts"]
    assert list(parts) == list(PARTS) == list(SECTIONS)
    assert not any(part["is_quick"] for part in parts.values())
    kills = parts["kills"]
    assert kills["kills"] >= 200 and kills["runs_equal"] == kills["runs"] and kills["lost_iterations"] == 0
    aimed = ("sampling", "iterating", "checkpointing", "final write")
    assert all(kills["phases"][name] >= 10 for name in aimed), kills["phases"]
    assert parts["damage"]["silent"] == 0 and parts["damage"]["damaged"] >= 120 * 16
    for name in ("certificate.json", "certificate.npz"):
        assert parts["damage"]["files"][f"{name} of a run that is finished"] == {"refused by name": 120}
    assert parts["fuzzing"]["cases"] >= 100_000 and parts["outcomes"]["cases"] >= 10_000
    assert all(parts[name][kind] == 0 for name in ("fuzzing", "outcomes") for kind in ("other_errors", "hangs"))
    assert parts["endurance"]["iterations"] == 10_000
    assert all(run["compiled_after"] == 0 for run in parts["endurance"]["runs"].values())


def test_a_page_of_half_a_record_says_what_is_missing():
    parts = load(RECORD)["parts"]
    text = page({"parts": {"kills": parts["kills"]}})
    assert f"{parts['kills']['kills']} times `kill -9`" in text
    missing = "disk_full, writers, damage, fuzzing, outcomes, endurance, memory, devices, hostile"
    assert f"Not in the record yet: {missing}." in text
    assert "**Power cuts.**" in text
