"""No completion: entries that are not backed up keep their values."""

from typing import Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float

from hamq.completion.completion import AbstractCompletion, Completion, Mixing, Observed, require_selection
from hamq.completion.selection import FRACTION, Selection


class Keep(AbstractCompletion):
    """Some entries are backed up in every iteration, and the others keep their values; `solve(completion=None)`: all are."""

    selection: Selection = eqx.field(static=True, default="per_state")
    fraction: float = FRACTION
    completes: Literal["table"] = eqx.field(static=True, default="table", init=False)

    def __check_init__(self):
        require_selection("Keep", self.selection, self.fraction)

    @property
    def is_optional(self) -> bool:
        return self.selection == "all"

    @property
    def mixing(self) -> Mixing | None:
        nothing = np.zeros(0, np.int64)
        return Mixing(None, nothing, nothing, None) if self.selection == "all" else None

    def complete(
        self, observed: Observed, previous: Float[np.ndarray, "S A"], memory: tuple[np.ndarray, ...] = ()
    ) -> Completion:
        if self.selection == "all":
            return Completion(observed.values, previous.shape[1], 0, 0.0, 0.0, 1, True, "All entries are new.", ())
        empty = int(np.sum(~observed.mask.any(axis=1)))
        table = np.where(observed.mask, observed.values, previous)
        result = f"{int(observed.mask.sum())} entries are new."
        return Completion(table, previous.shape[1], empty, 0.0, 0.0, 1, True, result, ())
