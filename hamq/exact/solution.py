"""What a solver returns: the table, how it was reached, and how far it can be from the answer."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int, Num

from hamq.problem.problem import Problem, pair_name


@dataclasses.dataclass(frozen=True, eq=False, init=False, repr=False)
class History:
    """One row per iteration, columns as arrays: `history.residual` or `history["residual"]`; row t is `history[t]`."""

    columns: dict[str, Num[np.ndarray, " rows"]]

    def __init__(self, **columns):
        arrays = {name: np.asarray(column) for name, column in columns.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"History: columns must have one length, got {lengths}.")
        for array in arrays.values():
            array.setflags(write=False)
        object.__setattr__(self, "columns", arrays)

    def __getattr__(self, name: str) -> np.ndarray:
        columns = self.__dict__.get("columns", {})  # absent while a copy is being unpickled
        if name not in columns:
            raise AttributeError(f"History has the columns {', '.join(columns)}, not {name!r}.")
        return columns[name]

    def __getitem__(self, key: str | int) -> np.ndarray | dict[str, float | int]:
        """A column by its name, or one row by its number."""
        if isinstance(key, str):
            return getattr(self, key)
        return {name: column[key].item() for name, column in self.columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __repr__(self) -> str:
        return f"History({len(self)} rows: {', '.join(self.columns)})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Health:
    """How well the sampler did in each state, as the mean over the pairs of the state that were drawn; NaN where none was.

    acceptance  mean acceptance probability of the trajectories; NaN for samplers that accept everything
    stuck       share of the chains that never moved; NaN for samplers without chains
    effective   effective number of draws per pair (learning/health.py says of what)
    """

    acceptance: Float[np.ndarray, " S"]
    stuck: Float[np.ndarray, " S"]
    effective: Float[np.ndarray, " S"]

    def __repr__(self) -> str:
        return f"Health({len(self.acceptance)} states: acceptance, stuck, effective)"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """A table of action values with its certificate, where there is one.

    `error` bounds ‖q − Q*‖∞ and lower ≤ Q* ≤ upper holds entry by entry; all three are None without a certificate.
    `health` is that of the draws that `solve` made once and reused; None where none were.
    """

    problem: Problem
    q: Float[np.ndarray, "S A"]
    history: History
    result: str
    converged: bool
    lower: Float[np.ndarray, "S A"] | None = None
    upper: Float[np.ndarray, "S A"] | None = None
    error: float | None = None
    health: Health | None = None

    @property
    def policy(self) -> Int[np.ndarray, " S"]:
        """argmax_a q(s, a), the first one where several are equal."""
        return np.argmax(self._checked(), axis=1)

    @property
    def value(self) -> Float[np.ndarray, " S"]:
        """max_a q(s, a)."""
        return np.max(self._checked(), axis=1)

    def _checked(self) -> np.ndarray:
        # argmax takes a NaN for the largest number.
        bad = np.isnan(self.q)
        if np.any(bad):
            s, a = (int(v) for v in np.argwhere(bad)[0])
            raise ValueError(
                f"q of {self.problem.name} is NaN in {int(bad.sum())} entries, first at "
                f"{pair_name(self.problem, s, a)}; no action can be chosen from it."
            )
        return self.q

    def __repr__(self) -> str:
        bound = "no bound" if self.error is None else f"|q - Q*| <= {self.error:.2g}"
        size = " × ".join(str(n) for n in self.q.shape)
        return f"Solution({self.problem.name!r}: {size}, {bound}, {len(self.history)} iterations; {self.result})"
