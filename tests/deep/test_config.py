"""Settings: the paper's values, where they come from, and what is refused."""

import dataclasses

import pytest

from hamq.deep.config import DeepConfig, deep_config, deep_provenance


def test_the_papers_values_are_marked():
    given = deep_provenance("paper")
    printed = {name: sourced.value for name, sourced in given.items() if sourced.source == "paper"}
    assert printed == {"learning_rate": 1e-5, "batch_size": 32, "target_period": 10_000}
    config = deep_config("paper", "ddpg")
    assert config.algorithm == "ddpg"
    for name, sourced in given.items():
        assert getattr(config, name) == sourced.value
    assert not config.whole_rows and config.output == "raw"


def test_faster_is_the_default_and_assumed():
    assert deep_config() == deep_config("faster", "dqn") == DeepConfig()
    assert {sourced.source for sourced in deep_provenance("faster").values()} == {"assumed"}
    assert deep_provenance("faster").keys() == deep_provenance("paper").keys()


def test_fields_can_be_changed():
    config = deep_config("paper", steps=500, num_records=5)
    assert (config.steps, config.num_records, config.batch_size) == (500, 5, 32)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.steps = 3  # pyright: ignore


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "sarsa"}, "algorithm must be one of dqn, ddpg, got 'sarsa'"),
        ({"activation": "sine"}, "activation must be one of relu, tanh, silu, got 'sine'"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine"),
        ({"output": "none"}, "output must be one of raw, reward"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number, got 0.0; the paper has 1e-5"),
        ({"learning_rate": float("nan")}, "learning_rate must be a positive number, got nan"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0; the paper has 32"),
        ({"steps": 2.5}, "steps must be a whole number of at least 1, got 2.5"),
        ({"target_period": -1}, "target_period must be a whole number of at least 1, got -1"),
        ({"width": True}, "width must be a whole number of at least 1, got True"),
        ({"num_sets": 0}, "num_sets must be a whole number of at least 1, got 0; None follows draws_per_pair"),
        ({"snap": 1}, "snap must be True or False, got 1"),
        ({"whole_rows": "no"}, "whole_rows must be True or False, got 'no'"),
        ({"steps": 100, "num_records": 30}, "num_records must divide steps = 100, got 30;.*num_records=10"),
    ],
)
def test_refusals(changes, message, as_user):
    with pytest.raises(ValueError, match=f"DeepConfig: {message}"):
        deep_config("faster", **changes)


def test_an_unknown_preset():
    with pytest.raises(ValueError, match="preset must be paper or faster, got 'slow'"):
        deep_config("slow")
