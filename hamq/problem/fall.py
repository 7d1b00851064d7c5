"""How the errors of pairs fall with their evaluations, and what that says of the evaluations that a tolerance takes.

A smooth density settles faster than any power of its evaluations, a jump along a line to the power of one half or one, a
singularity more slowly. The last doubling of the evaluations of a pair says which.
"""

import numpy as np
from jaxtyping import Float, Int

LEAST_POWER = 0.1
"""An error that falls more slowly than evaluations to this power does not fall."""


class Fall:
    """Evaluations and errors of pairs, round by round."""

    def __init__(self, tolerance: float):
        self.tolerance, self.rows = tolerance, []

    def add(
        self, evaluations: Int[np.ndarray, " P"], errors: Float[np.ndarray, " P"], masses: Float[np.ndarray, " P"]
    ) -> None:
        with np.errstate(all="ignore"):
            self.rows.append((evaluations.astype(float), errors / masses))

    def needed(self) -> Float[np.ndarray, " P"]:
        """Evaluations of each pair until its error is within the tolerance; those it has where it is."""
        spent, errors = (np.stack(column) for column in zip(*self.rows, strict=True))
        half = np.maximum(np.argmax(spent > spent[-1] / 2, axis=0) - 1, 0)[None]
        then, error_then = (np.take_along_axis(a, half, axis=0)[0] for a in (spent, errors))
        with np.errstate(all="ignore"):
            power = np.log(error_then / errors[-1]) / np.log(spent[-1] / then)
            more = (errors[-1] / self.tolerance) ** (1 / np.maximum(power, LEAST_POWER))
        return np.where(errors[-1] <= self.tolerance, spent[-1], spent[-1] * np.nan_to_num(more, nan=np.inf))
