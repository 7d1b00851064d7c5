"""How far a table is from the exact one, in the measures that matter, with two rows for scale.

The Frobenius norm alone cannot see the policy: replacing Q* by its row means errs by a fraction of a percent on the
paper's problems. So the advantages A(s, a) = Q(s, a) − mean_a Q(s, a) stand beside it, and the loss of the greedy policy,
V* − V^π, evaluated exactly. Two policies that need no solving say what a loss is worth: the best constant action, and
one greedy step on the exact Q of the uniformly random policy, which is nearly optimal on the paper's easier problems.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.certificates.certificate import checked_table
from hamq.exact.bellman import BellmanOperator, make_operator
from hamq.notebook import card
from hamq.solution import Solution
from hamq.types import HamqError

ACCURACY = 1e-6
"""Part of the span of V* to which policies are evaluated."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Distances of a table from Q*.

    frobenius       ‖Q − Q*‖_F/‖Q*‖_F
    sup             max |Q − Q*|
    advantage       ‖A − A*‖_F/‖A*‖_F
    agreement       share of the states in which the greedy action is one of the best
    policy_loss     mean over the states of V* − V^π of the greedy policy
    worst_loss      its maximum
    constant_action_loss, random_policy_loss    mean loss of the best constant action (of 25 spread ones where there are
                    more), and of one greedy step on the exact Q of the uniformly random policy
    """

    frobenius: float
    sup: float
    advantage: float
    agreement: float
    policy_loss: float
    worst_loss: float
    constant_action_loss: float
    random_policy_loss: float

    def _repr_html_(self) -> str:
        facts = [(field.name.replace("_", " "), f"{getattr(self, field.name):.4g}") for field in dataclasses.fields(self)]
        return card("Comparison with the exact answer", f"{str(self)[0].upper()}{str(self)[1:]}.", facts)

    def __str__(self) -> str:
        return (
            f"relative error {self.frobenius:.4f} (sup {self.sup:.3g}), advantages {self.advantage:.3f}, greedy action "
            f"agrees in {self.agreement:.0%} of the states, policy loss {self.policy_loss:.2g} (worst state "
            f"{self.worst_loss:.2g}; best constant action {self.constant_action_loss:.2g}, greedy on the random policy's Q "
            f"{self.random_policy_loss:.2g})"
        )


def compare(solution: Any, exact: Solution, operator: BellmanOperator | None = None) -> Comparison:
    """Comparison of a solution, a run (`read_run`) or a table with the exact one; `operator` saves building it again."""
    if not isinstance(exact, Solution):
        raise HamqError(f"compare: the second is what solve_exact returned, got {type(exact).__name__}.")
    q = checked_table("compare", exact.problem, solution)
    operator = operator or make_operator(exact.problem)
    best = exact.q.max(axis=1)
    policy = q.argmax(axis=1)
    # Actions that the bounds of Q* cannot tell apart are equally good.
    chosen = exact.q[np.arange(len(q)), policy]
    losses = losses_of(operator, exact, policy)
    return Comparison(
        frobenius=relative_distance(q, exact.q),
        sup=float(np.abs(q - exact.q).max()),
        advantage=relative_distance(advantages(q), advantages(exact.q)),
        agreement=float(np.mean(chosen >= best - 2 * (exact.error or 0))),
        policy_loss=float(losses.mean()),
        worst_loss=float(losses.max()),
        constant_action_loss=_constant_action_loss(operator, exact),
        random_policy_loss=float(losses_of(operator, exact, _random_policy_greedy(operator)).mean()),
    )


class StateErrors(NamedTuple):
    """Of a table, in every state: V − V*, what one greedy action costs in exact values, and max_a |Q − Q*|."""

    value: Float[np.ndarray, " S"]
    given_up: Float[np.ndarray, " S"]
    largest: Float[np.ndarray, " S"]


def state_errors(q: Float[np.ndarray, "S A"], exact: Float[np.ndarray, "S A"]) -> StateErrors:
    """Of a table against Q*; the loss of its policy over time takes an evaluation (`compare`)."""
    best = exact.max(axis=1)
    given_up = best - exact[np.arange(len(q)), q.argmax(axis=1)]
    return StateErrors(q.max(axis=1) - best, given_up, np.abs(q - exact).max(axis=1))


def losses_of(operator: BellmanOperator, exact: Solution, policy: np.ndarray) -> np.ndarray:
    """V* − V^π per state; what is below 0 is so by the accuracy of both, and cut."""
    accuracy = ACCURACY * max(float(np.ptp(exact.value)), 1e-9)
    return np.maximum(exact.value - operator.evaluate(policy, tolerance=accuracy).value, 0)


def _constant_action_loss(operator: BellmanOperator, exact: Solution) -> float:
    num_states, num_actions = exact.q.shape
    tried = np.unique(np.linspace(0, num_actions - 1, min(num_actions, 25)).round().astype(int))
    return min(float(losses_of(operator, exact, np.full(num_states, action)).mean()) for action in tried)


def _random_policy_greedy(operator: BellmanOperator) -> np.ndarray:
    """argmax of r + γ P V^random."""
    num_states, num_actions = operator.rewards.shape
    even = np.full((num_states, num_actions), 1 / num_actions)
    return operator.backup(operator.evaluate(even).value).argmax(axis=1)


def advantages(q: np.ndarray) -> np.ndarray:
    return q - q.mean(axis=1, keepdims=True)


def relative_distance(a: np.ndarray, b: np.ndarray) -> float:
    """‖a − b‖_F/‖b‖_F."""
    error, size = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
    return error / size if size > 0 else 0.0 if error == 0 else float("inf")
