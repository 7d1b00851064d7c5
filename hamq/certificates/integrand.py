"""Which combination of V and its variates is averaged in each pair: chosen on pilot draws, used on others.

    f = V + b·(Σ_j E[V | s'_{−j}] − d·V) + βᵀz,

z the Stein functions. Bounds that hold by a theorem need a known range of f: β = 0 and b = 1/d, an average of conditional
expectations that stays in the range of V, or b = 0 where none is known. (b = 1 has a seventh of the spread, and three
times the range, which costs more at a few thousand draws.) Asymptotic bounds take the b and β of least squares.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.certificates.fresh import Seen

RIDGE = 1e-4
"""Of the regression, as a part of the variance of each variate."""


class Integrand(NamedTuple):
    """Of P pairs: `mixed` is b, `stein` β (None where there is none)."""

    mixed: Float[np.ndarray, " P"]
    stein: Float[np.ndarray, "P k"] | None

    def of(self, pairs: np.ndarray) -> "Integrand":
        return Integrand(self.mixed[pairs], None if self.stein is None else self.stein[pairs])

    def values(self, seen: Seen, dimension: int) -> Float[np.ndarray, "P J n"]:
        """f at every draw."""
        f = seen.plain
        if seen.conditional is not None:
            f = f + self.mixed[:, None, None] * (seen.conditional - dimension * seen.plain)
        if self.stein is not None and seen.stein is not None:
            f = f + np.einsum("pk,pkn->pn", self.stein, seen.stein)[:, None, :]
        return f


def bounded(num_pairs: int, weight: float) -> Integrand:
    """b = `weight` in every pair; in the range of V for weights up to 1/d."""
    return Integrand(np.full(num_pairs, weight), None)


def regressed(seen: Seen, dimension: int) -> Integrand:
    """Least squares of V on all variates, pair by pair."""
    num_pairs = len(seen.plain)
    columns = [] if seen.conditional is None else [seen.conditional[:, :1] - dimension * seen.plain[:, :1]]
    if seen.stein is not None:
        columns.append(seen.stein)
    if not columns:
        return bounded(num_pairs, 0.0)
    variates = np.concatenate(columns, axis=1)
    centred = variates - variates.mean(axis=2, keepdims=True)
    scale = np.maximum(centred.std(axis=2, keepdims=True), 1e-12)
    centred = centred / scale
    target = seen.plain[:, 0] - seen.plain[:, 0].mean(axis=1, keepdims=True)
    gram = np.einsum("pkn,pln->pkl", centred, centred) / centred.shape[2]
    gram = gram + RIDGE * np.eye(gram.shape[1])
    right = np.einsum("pkn,pn->pk", centred, target) / centred.shape[2]
    found = -np.linalg.solve(gram, right[..., None])[..., 0] / scale[..., 0]
    if seen.conditional is None:
        return Integrand(np.zeros(num_pairs), found)
    return Integrand(found[:, 0], None if seen.stein is None else found[:, 1:])


def joined(integrands: tuple[Integrand, ...]) -> Integrand:
    """Of several blocks of pairs, one after the other."""
    stein = [one.stein for one in integrands if one.stein is not None]
    return Integrand(np.concatenate([one.mixed for one in integrands]), np.concatenate(stein) if stein else None)
