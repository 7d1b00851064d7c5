"""Anchors: a few whole columns and rows, which a pilot chooses (`anchoring.py`), and the rest as C·U⁺·R (`cross.py`)."""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from hamq.completion.anchoring import plan_anchors
from hamq.completion.completion import AbstractCompletion, Completion, Observed, Part, require_part
from hamq.completion.planning import AbstractPilot, Plan
from hamq.types import HamqError


class Anchors(AbstractCompletion):
    """Back up a few actions in all states and all actions in a few states, and complete the rest as C·U⁺·R.

    `num_columns` and `num_states` default to what held-out entries say, at the budget of draws that there is; a table that
    no few columns express is backed up in full. `completes` is what is completed: the expectation, because the reward is
    known, the increment Q̂ − Q^t, or the table.
    """

    num_columns: int | None = eqx.field(static=True, default=None)
    num_states: int | None = eqx.field(static=True, default=None)
    completes: Part = eqx.field(static=True, default="expectation")

    def __check_init__(self):
        require_part("Anchors", self.completes)
        for name in ("num_columns", "num_states"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise HamqError(f"Anchors: {name} must be None or a whole number of at least 1, got {value!r}.")
        if self.num_columns is not None and self.num_states is not None and self.num_states < self.num_columns:
            raise HamqError(
                f"Anchors: num_states = {self.num_states} cannot identify num_columns = {self.num_columns}; give at least "
                "as many states as columns."
            )

    @property
    def is_optional(self) -> bool:
        return self.num_columns is None and self.num_states is None

    @property
    def few_actions(self) -> int:
        """Rows included."""
        return 3

    def plan(self, pilot: AbstractPilot) -> Plan:
        return plan_anchors(self.num_columns, self.num_states, self.completes, pilot)

    def complete(
        self, observed: Observed, previous: Float[np.ndarray, "S A"], memory: tuple[np.ndarray, ...] = ()
    ) -> Completion:
        raise NotImplementedError("Anchors: `plan` chooses the columns and rows that complete the table.")
