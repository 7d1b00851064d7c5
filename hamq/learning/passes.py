"""How the passes of Algorithm 1 are made: which draws, which steps, and where."""

import dataclasses
import math
from typing import Any, Literal

import numpy as np

from hamq.types import HamqError, require_one_of

Keeping = Literal["reuse", "fresh", "regenerate"]
Schedule = Literal["constant", "lemma3"]


@dataclasses.dataclass(frozen=True)
class Passes:
    """How the passes of `solve` are made; the defaults are what measured best.

    draws           "reuse" those of the first iteration (they do not depend on Q), "regenerate" the same ones from their
                    keys each time (where they do not fit into memory), or "fresh" ones each time
    coupled         the actions of a state share their random numbers
    step_size, step_decay   Q^{t+1} = Q^t + α_t·(completed − Q^t), α_t = step_size/(1 + t/step_decay)
    schedule        "lemma3" takes the number of draws from the paper's Lemma 3
    max_bytes       refuse what needs more memory (default: half of the machine's)
    devices         how many devices of this process (of every process, where several have joined) share the states
    """

    draws: Keeping = "reuse"
    coupled: bool = True
    step_size: float = 1.0
    step_decay: float | None = None
    schedule: Schedule = "constant"
    max_bytes: int | None = None
    devices: int | None = None

    def __post_init__(self):
        require_one_of("Passes: draws", self.draws, Keeping)
        require_one_of("Passes: schedule", self.schedule, Schedule)
        if not isinstance(self.coupled, bool):
            raise HamqError(f"Passes: coupled must be True or False, got {self.coupled!r}.")
        if not (is_number(self.step_size) and 0 < self.step_size <= 1):
            raise HamqError(f"Passes: step_size must lie above 0 and be at most 1, got {self.step_size!r}.")
        for name in ("step_decay", "max_bytes"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value > 0):
                raise HamqError(f"Passes: {name} must be None or a number above 0, got {value!r}.")

    def step(self, iteration: int) -> float:
        """α_t, constant or α/(1 + t/decay)."""
        return self.step_size if self.step_decay is None else self.step_size / (1 + iteration / self.step_decay)


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
