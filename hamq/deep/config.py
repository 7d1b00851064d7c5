"""What a deep run can be told, and two presets: the paper's printed values, and values that learn in a minute."""

import dataclasses
import math
from typing import Any, Literal

from hamq.problem.zoo.preset import Sourced
from hamq.types import HamqError, require_count

Algorithm = Literal["dqn", "ddpg"]
CHOICES = {
    "algorithm": ("dqn", "ddpg"),
    "schedule": ("constant", "cosine"),
    "activation": ("relu", "tanh", "silu"),
    "output": ("raw", "reward"),
}


@dataclasses.dataclass(frozen=True)
class DeepConfig:
    """Settings of one run; the discount, the states and the actions belong to the problem, the draws to the sampler."""

    algorithm: Algorithm = "dqn"
    """`dqn`: one network, an output per action. `ddpg`: a critic of (state, action) and an actor."""
    steps: int = 20_000
    """Optimiser steps."""
    learning_rate: float = 2e-3
    """Of Adam; the actor of DDPG has the same."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """The learning rate stays, or falls to 0 along a cosine."""
    batch_size: int = 320
    """State-action pairs per step; with `whole_rows` rounded up to whole states."""
    whole_rows: bool = True
    """A batch has all training actions of a few states, on coupled draws; False: pairs drawn independently of each other."""
    target_period: int = 10
    """Steps between two copies of the network into the target network."""
    width: int = 64
    """Units of each hidden layer."""
    depth: int = 2
    """Hidden layers."""
    activation: Literal["relu", "tanh", "silu"] = "tanh"
    """Of the hidden layers."""
    output: Literal["raw", "reward"] = "reward"
    """`raw`: Q is the network's output. `reward`: Q = offset + scale · output, both known from the rewards."""
    num_sets: int | None = None
    """Independent sets of draws kept for each pair; None: as many as make `draws_per_pair`."""
    draws_per_pair: int = 400
    """Draws kept for each pair where num_sets is None."""
    num_train_actions: int = 11
    """DDPG: actions of the pairs that train the critic, spread evenly over the problem's."""
    snap: bool = True
    """Draws become grid states, as in the problem's law; False: the target network is evaluated where they are."""
    num_records: int = 25
    """Moments at which the table is compared with the exact one, the start apart; divides `steps`."""

    def __post_init__(self):
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise HamqError(f"DeepConfig: {name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        for name, remedy in COUNTS.items():
            require_count(f"DeepConfig: {name}", getattr(self, name), remedy=remedy)
        rate, sets = self.learning_rate, self.num_sets
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not (math.isfinite(rate) and rate > 0):
            raise HamqError(f"DeepConfig: learning_rate must be a positive number, got {rate!r}; the paper has 1e-5.")
        if sets is not None:
            require_count("DeepConfig: num_sets", sets, remedy="None follows draws_per_pair")
        for name, remedy in SWITCHES.items():
            if not isinstance(getattr(self, name), bool):
                raise HamqError(f"DeepConfig: {name} must be True or False, got {getattr(self, name)!r}; {remedy}.")
        if self.steps % self.num_records:
            raise HamqError(
                f"DeepConfig: num_records must divide steps = {self.steps}, got {self.num_records!r}; records are evenly "
                f"spaced; use e.g. num_records={math.gcd(self.steps, self.num_records)}."
            )


COUNTS = {
    "steps": "one step is one update by Adam",
    "batch_size": "the paper has 32",
    "target_period": "1 has no target network, the paper has 10000",
    "width": "it is the number of units of a hidden layer",
    "depth": "it is the number of hidden layers",
    "draws_per_pair": "it is the number of draws kept for each pair",
    "num_train_actions": "actions are spread evenly over the problem's",
    "num_records": "1 compares the final table alone",
}
SWITCHES = {
    "whole_rows": "False draws every pair of a batch on its own, as usual",
    "snap": "True keeps the problem's law",
}

_PAPER = {
    "learning_rate": Sourced(1e-5, "paper"),
    "schedule": Sourced("constant", "assumed"),
    "batch_size": Sourced(32, "paper"),
    "whole_rows": Sourced(False, "assumed"),
    "target_period": Sourced(10_000, "paper"),
    "steps": Sourced(1_200_000, "assumed"),
    "width": Sourced(64, "assumed"),
    "depth": Sourced(2, "assumed"),
    "activation": Sourced("relu", "assumed"),
    "output": Sourced("raw", "assumed"),
}
_OURS = (
    "learning_rate",
    "schedule",
    "batch_size",
    "whole_rows",
    "target_period",
    "steps",
    "width",
    "depth",
    "activation",
    "output",
)


def deep_config(preset: str = "faster", algorithm: Algorithm = "dqn", **changes: Any) -> DeepConfig:
    """The preset `paper` or `faster` for `dqn` or `ddpg`, with some fields changed."""
    given = {name: sourced.value for name, sourced in deep_provenance(preset).items()}
    return DeepConfig(**{**given, "algorithm": algorithm, **changes})


def deep_provenance(preset: str = "paper") -> dict[str, Sourced]:
    """Each setting of a preset with its value and where it comes from; the rest are the defaults, all assumed."""
    if preset not in ("paper", "faster"):
        raise HamqError(f"deep_config: preset must be paper or faster, got {preset!r}.")
    if preset == "paper":
        return dict(_PAPER)
    default = DeepConfig()
    return {name: Sourced(getattr(default, name), "assumed") for name in _OURS}
