"""Options of `hamq diagnose`, as options.py has those of the other commands."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class DiagnoseOptions:
    """Which chains are drawn, and what is printed; see docs/diagnostics.md."""

    num_pairs: int | None = None
    """Pairs of a state and an action that are looked at, at random; None: all, and 2,000 of more than that."""
    num_samples: int = 4000
    """Draws per pair, all chains together."""
    num_chains: int = 4
    """Chains per pair."""
    seed: int = 0
    """Of the pairs and of the chains; they are others than those that solved."""
    json: bool = False
    """Print one JSON object on stdout."""
