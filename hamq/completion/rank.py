"""How many singular values a table needs: the paper's 99 % rule, raw and for the advantages."""

import numpy as np
from jaxtyping import Float

from hamq.types import HamqError


def effective_rank(q: Float[np.ndarray, "S A"], share: float = 0.99, centred: bool = False) -> int:
    """The smallest r with s₁ + … + s_r ≥ share·‖q‖_*, the paper's rule for the rank of a Q matrix; 0 for a table of zeros.

    Raw, the level of the table hides everything else, and nearly every table has rank 1. `centred` subtracts the row means
    first: the rank of the advantages, which is what decides the policy.
    """
    q = np.asarray(q, dtype=np.float64)
    if q.ndim != 2 or q.size == 0:
        raise HamqError(f"effective_rank: q must be a table [S, A] with at least one entry, got shape {q.shape}.")
    if not 0 < share <= 1:
        raise HamqError(f"effective_rank: share must lie in (0, 1], got {share!r}; the paper's is 0.99.")
    if not np.isfinite(q).all():
        state, action = np.argwhere(~np.isfinite(q))[0]
        raise HamqError(f"effective_rank: q must be finite, got {q[state, action]} at state {state}, action {action}.")
    largest = np.abs(q).max()
    table = q / largest if largest > 0 else q
    # What rounding leaves of a constant row is no advantage.
    rounding = np.finfo(np.float64).eps * max(q.shape) * np.sqrt(q.size)
    if centred:
        table = table - table.mean(axis=1, keepdims=True)
    s = np.linalg.svd(table, compute_uv=False)
    s = s[s > rounding]
    if s.size == 0:
        return 0
    sums = np.cumsum(s)
    return int(np.argmax(sums >= share * sums[-1])) + 1
