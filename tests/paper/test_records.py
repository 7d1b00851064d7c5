"""Records survive the trip to a file and back; damaged ones are named."""

import dataclasses
import json

import pytest

from hamq.paper.records import Group, Record, RecordError, read, read_all, versions, write
from tests.paper.posed import record

GROUP = Group("pendulum", "corrected", "hmc")


def test_round_trip(tmp_path):
    made = dataclasses.replace(record(GROUP, 0), versions=versions())
    path = write(tmp_path, made)
    assert path == tmp_path / "pendulum" / "corrected-hmc-0.json"
    again = read(path)
    assert again.maps.keys() == made.maps.keys() and again.maps["plane"].axes == made.maps["plane"].axes
    assert again.curve["frobenius"] == pytest.approx(made.curve["frobenius"], rel=1e-5)
    assert again.curve["policy_loss"][0] is None
    assert (again.cost, again.settings, again.versions) == (made.cost, made.settings, made.versions)
    # Once rounded, the trip changes nothing any more.
    assert read(write(tmp_path, again)) == again
    assert not list(tmp_path.rglob("*.partial"))


def test_groups_are_in_the_order_of_seeds(tmp_path):
    for seed in (10, 2, 0):
        write(tmp_path, record(GROUP, seed))
    other = Group("pendulum", "ours", "hmc-1M")
    write(tmp_path, record(other, 1))
    found = read_all(tmp_path)
    assert set(found) == {GROUP, other}
    assert [run.seed for run in found[GROUP]] == [0, 2, 10]


def test_what_is_not_finite_becomes_none(tmp_path):
    broken = dataclasses.replace(record(GROUP, 0), final={"frobenius": float("nan"), "sup": float("inf")})
    path = write(tmp_path, broken)
    assert json.loads(path.read_text())["final"] == {"frobenius": None, "sup": None}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"task": "pendulum"}', '{"maps": {"plane": {}}}'])
def test_damaged_records_are_named(tmp_path, damage):
    path = write(tmp_path, record(GROUP, 0))
    path.write_text(damage)
    with pytest.raises(RecordError, match=r"corrected-hmc-0\.json .*measured again"):
        read(path)


def test_versions_say_what_numbers_depend_on():
    assert {"python", "jax", "numpy", "device"} <= versions().keys()
    assert {field.name for field in dataclasses.fields(Record)} >= {"seed", "cost", "versions", "settings"}
