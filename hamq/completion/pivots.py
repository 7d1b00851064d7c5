"""The rows with which a search for a submatrix of large volume starts.

SciPy has this as a pivoted QR decomposition, and takes a third of a second of every start of the program to be imported.
"""

import numpy as np
from jaxtyping import Float, Int


def pivot_rows(basis: Float[np.ndarray, "rows k"]) -> Int[np.ndarray, " k"]:
    """One row after the other, each the farthest from the span of those before; the columns must be independent."""
    left, chosen = np.array(basis), []
    for _ in range(basis.shape[1]):
        chosen.append(np.argmax(np.sum(left**2, axis=1)))
        direction = left[chosen[-1]] / np.linalg.norm(left[chosen[-1]])
        left -= np.outer(left @ direction, direction)
    return np.array(chosen)
