"""What a page shows of a certificate: a card of facts, and, where it bounds something, two maps.

Per state, the error bound is that of max_a |Q − Q*|, and the loss bound that of V* − V^π, π greedy in Q.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from hamq.certificates.certificate import rounded_down, rounded_up
from hamq.certificates.methods import METHODS
from hamq.report.cards import FactsCard
from hamq.report.facts import COSTS, Facts
from hamq.report.layers import TableLayer
from hamq.runs.certificate import RunCertificate

ERROR_BOUND, LOSS_BOUND = "Error bound", "Loss bound"


def certificate_layers(
    found: RunCertificate | None, q: Float[np.ndarray, "S A"], points: Sequence[int], run: int = 0
) -> list[TableLayer]:
    """Two maps; none where nothing is bounded."""
    if found is None or not found.is_bound:
        return []
    assert found.policy_loss is not None
    off = found.errors(q)
    given = {"points": tuple(int(n) for n in points), "floor": 0.0, "run": run}
    sure = (
        "" if not METHODS[found.method].sure else f" With {rounded_down(found.confidence)} confidence in all states at once."
    )
    return [
        TableLayer(ERROR_BOUND, off, about=f"Certified bound of |Q − Q*|, the largest over the actions.{sure}", **given),
        TableLayer(LOSS_BOUND, found.policy_loss, about=f"Certified bound of what the greedy policy loses.{sure}", **given),
    ]


def certificate_card(found: RunCertificate) -> FactsCard:
    """The sentence with its numbers; of a statement about a part of the pairs the sentence alone."""
    if found.error is None:
        return FactsCard("Certificate", [], found.sentence)
    spent = [f"{getattr(found.cost, name):,} {word}" for name, word in COSTS.items() if getattr(found.cost, name)]
    facts: Facts = [
        *_bounds(found),
        ("Confidence", "1: nothing was drawn" if not METHODS[found.method].sure else rounded_down(found.confidence)),
        ("Method", f"{found.method}, {METHODS[found.method].how}"),
        ("Draws", f"{found.draws:,.0f} fresh ones per pair" if found.draws else "none"),
        ("Cost", ", ".join(spent) or "exact sums: nothing was drawn"),
        ("Time", f"{found.seconds:.1f} s"),
    ]
    return FactsCard("Certificate", facts, found.sentence)


def _bounds(found: RunCertificate) -> Facts:
    known = ("Known before", f"|Q − Q*| ≤ {rounded_up(found.known_before)}, from the rewards alone")
    if found.is_vacuous:
        return [("Bound", "vacuous: too few draws for a bound of use"), known]
    loss = f"at most {rounded_up(found.worst_loss)} in any state, {rounded_up(found.mean_loss)} on average over the states"
    return [("Bound", f"|Q − Q*| ≤ {rounded_up(found.error)} in all pairs"), ("Policy loss", loss), known]
