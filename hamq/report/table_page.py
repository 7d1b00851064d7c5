"""What a page shows of a table of action values: one number per state for each question that one asks of it.

    greedy action   argmax_a Q(s, a)                  value     max_a Q(s, a)
    action gap      best minus second best Q(s, a)    with the exact answer: V − V*, V* − Q*(s, π(s)), max_a |Q − Q*|

All of Q would be larger by the number of actions, and no picture shows it.

What a page shows of a certificate: a card of facts, and, where it bounds something, two maps.

Per state, the error bound is that of max_a |Q − Q*|, and the loss bound that of V* − V^π, π greedy in Q.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.certificates.certificate import rounded_down, rounded_up
from hamq.certificates.comparison import Comparison, relative_distance, state_errors
from hamq.certificates.methods import METHODS
from hamq.control.statistics import spread
from hamq.report.cards import FactsCard
from hamq.report.facts import COSTS, Facts, called, common_facts, versions
from hamq.report.layers import TableLayer
from hamq.runs.certificate import RunCertificate
from hamq.runs.reading import Run
from hamq.types import as_count

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


ACTION, VALUE, GAP = "Greedy action", "Value", "Action gap"
VALUE_ERROR, GIVEN_UP, Q_ERROR = "Error of the value", "Given up by the greedy action", "Largest error of Q"
HEALTH = {
    "acceptance": ("Acceptance", "Mean acceptance probability of the trajectories from this state."),
    "stuck": ("Stuck chains", "Share of the chains of this state that never moved."),
    "effective": ("Effective draws", "Independent draws that are worth as much as those of a pair of this state."),
}
"""What a run may know of its sampler, state by state."""
HEAD = ("seed", "sampler", "completion")
"""Settings that have a line of their own."""


def table_layers(
    q: Float[np.ndarray, "S A"],
    points: Sequence[int],
    actions: Float[np.ndarray, " A"] | Float[np.ndarray, "A k"] | None,
    exact: Float[np.ndarray, "S A"] | None = None,
    health: Mapping[str, np.ndarray] | None = None,
    run: int = 0,
) -> list[TableLayer]:
    """The layers of one table; without `actions`, which a page needs for their values, the policy is their number."""
    given = {"points": tuple(int(n) for n in points), "run": run}
    layers = policy_layers(q.argmax(axis=1), q.shape[1], actions, given)
    layers.append(TableLayer(VALUE, q.max(axis=1), about="The largest action value.", **given))
    if q.shape[1] > 1:
        second, best = np.partition(q, -2, axis=1)[:, -2:].T
        about = "The best action value minus the second best: where it is small, the choice hardly matters."
        layers.append(TableLayer(GAP, best - second, floor=0.0, about=about, **given))
    if exact is not None:
        layers += _errors(q, exact, given)
    for name, values in known(health).items():
        title, about = HEALTH[name]
        layers.append(TableLayer(title, values, about=about, **given))
    return layers


def known(health: Mapping[str, np.ndarray] | None) -> dict[str, Float[np.ndarray, " S"]]:
    """What the sampler said of itself, without what does not apply to it and is NaN everywhere."""
    found = {} if health is None else {name: health[name] for name in HEALTH}
    return {name: values for name, values in found.items() if not np.isnan(values).all()}


def policy_layers(
    policy: np.ndarray, num_actions: int, actions: np.ndarray | None, given: dict[str, Any]
) -> list[TableLayer]:
    """The greedy action, one map for each of its coordinates; where there are several, and without values, its number."""
    columns = [] if actions is None else list(np.asarray(actions, np.float64).reshape(num_actions, -1).T)
    layers = []
    for i, column in enumerate(columns):
        levels, positions = np.unique(column[policy], return_inverse=True)  # colours are for what is chosen somewhere
        name = ACTION if len(columns) == 1 else f"{ACTION} {i + 1}"
        about = "The action with the largest value" + (f", its coordinate {i + 1}." if len(columns) > 1 else ".")
        is_diverging = bool(levels[0] < 0 < levels[-1])
        layers.append(TableLayer(name, positions, levels=levels.tolist(), is_diverging=is_diverging, about=about, **given))
    if len(columns) != 1:
        about = "Which of the actions, counted from 0, has the largest value."
        numbers = [*map(float, range(num_actions))]
        layers.append(TableLayer(f"{ACTION}, its number", policy, levels=numbers, about=about, **given))
    return layers


def _errors(q: np.ndarray, exact: np.ndarray, given: dict[str, Any]) -> list[TableLayer]:
    found = state_errors(q, exact)
    about = "V* − Q*(s, π(s)): what one greedy action here costs, in exact values."
    return [
        TableLayer(VALUE_ERROR, found.value, is_diverging=True, about="V minus the exact V*.", **given),
        TableLayer(GIVEN_UP, found.given_up, floor=0.0, about=about, **given),
        TableLayer(Q_ERROR, found.largest, floor=0.0, about="max over the actions of |Q − Q*|.", **given),
    ]


def table_facts(run: Run, exact: Float[np.ndarray, "S A"] | None = None) -> Facts:
    """What is said of a run of `hamq solve` or `hamq exact`; `exact` is Q*, where it is there."""
    config, found = run.setup, run.outcome
    facts = common_facts(run)
    if config.command == "exact":
        facts.append(("Method", "exact value iteration with certified bounds"))
    else:
        sampler = config.sampler
        facts.append(("Sampler", called(sampler["kind"], sampler) if sampler else "HMC, as many draws as the budget buys"))
        completion = config.settings.get("completion")
        facts.append(("Completion", called(completion["kind"], completion) if completion else "none"))
    settings = [f"{name}={value}" for name, value in config.settings.items() if name not in HEAD and value is not None]
    facts.append(("Settings", ", ".join(settings)))
    if run.error is not None:
        facts.append(("Certified", f"|q − Q*| ≤ {run.error:.2g}"))
    if run.expected_error is not None:
        facts.append(("Expected error", f"{run.expected_error:.1%} of the range of V, from what the draws are worth"))
    if found.comparison is not None:
        facts.append(("Against Q*", _compared(found.comparison)))
    elif exact is not None and run.q is not None:
        facts.append(("Against Q*", _measured(run.q, exact)))
    facts += _health_facts(run.health)
    spent = [f"{found.last[name]:,} {word}" for name, word in COSTS.items() if found.last.get(name)]
    facts.append(("Cost", ", ".join(spent) or "exact sums: nothing was drawn"))
    iterations = f"{as_count(found.iterations, ',')} iterations"
    seed = f", seed {config.seed}" if "seed" in config.settings else ""
    return [*facts, ("Time", f"{found.seconds:.1f} s, {iterations}{seed}"), versions(run)]


def _compared(comparison: Comparison) -> str:
    return (
        f"relative error {comparison.frobenius:.2g}, largest {comparison.sup:.2g}; the greedy action is a best one in "
        f"{comparison.agreement:.0%} of the states; policy loss {comparison.policy_loss:.2g}"
    )


def _measured(q: np.ndarray, exact: np.ndarray) -> str:
    """What the table alone can say; the loss of the policy takes an evaluation of it."""
    _, given_up, largest = state_errors(q, exact)
    return (
        f"relative error {relative_distance(q, exact):.2g}, largest {largest.max():.2g}; one greedy action "
        f"gives up {given_up.mean():.2g} on average over the states, {given_up.max():.2g} at most"
    )


def _health_facts(health: Mapping[str, np.ndarray] | None) -> Facts:
    """Median, lowest and highest over the states of what is known."""
    said = []
    for name, values in known(health).items():
        low, middle, high = (f"{part:.3g}" for part in spread(values))
        said.append(f"{HEALTH[name][0].lower()} {middle} ({low} to {high})")
    return [("Sampler health", f"{'; '.join(said)}: median over the states, lowest to highest")] if said else []
