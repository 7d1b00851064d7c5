"""Options of `hamq certify`, as options.py has those of the other commands."""

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class CertifyOptions:
    """How surely, at what cost, and what is printed; see docs/certificates.md."""

    confidence: float = 0.95
    """Probability, over the draws that certify, with which all bounds hold at once."""
    max_evaluations: int | None = None
    """Of the density and its gradient, a draw as one; None: 1,000 draws per pair. Too few: a statement about most pairs."""
    method: Literal["exact", "guaranteed", "asymptotic"] | None = None
    """By sums without a draw, by independent draws, or by chains; None: the strongest that applies."""
    seed: int = 0
    """Of the draws that certify; they are others than those that solved."""
    json: bool = False
    """Print one JSON object on stdout."""
