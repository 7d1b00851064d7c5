"""Returns of policies on the problem's own model, with the same random numbers for all of them.

A rollout starts somewhere, does what the policy says and moves by the density cut to the box (`next_state.py`), never by the
draws or the interpolation that a solver used. Its return is Σ_t γᵗ r(s_t, a_t) over the steps asked for: γᵗ of what comes
later is missing. With law="linear" states are continuous, with law="cell" they are nodes.

Rollout i of every policy starts in the same state, and its step t has the same random numbers: differences between policies
are differences of pairs, and much surer than either return.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.control.next_state import Account, Method, Model, make_model, step
from hamq.control.statistics import difference_interval
from hamq.problem.problem import Problem
from hamq.tensor.backup import ended
from hamq.types import HamqError, Key, as_key, require_count

NUM_STARTS, SPREAD = 64, 0.5
"""Where no start is given: the first of so many random states in the middle of the box that is not terminal."""
Policy = Callable[[Any], Any]
"""states `[B, d]` in float32 → actions `[B]`, or `[B, k]` where the problem's are vectors."""


class Difference(NamedTuple):
    """A mean difference of pairs and its 95 % interval; one without 0 says which is larger."""

    mean: float
    low: float
    high: float


def paired_difference(first: Any, second: Any) -> Difference:
    """mean(first − second) of two lists of returns, pair by pair, with a bootstrap interval over the pairs."""
    low, high = difference_interval(first, second, np.mean, paired=True)
    return Difference(float(np.mean(np.asarray(first) - np.asarray(second))), low, high)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Rollouts:
    """What each policy got, by name: `returns[name]` `[B]`, `states[name]` `[steps + 1, B, d]`, `rewards[name]`.

    `effective[name]`: mean effective number of draws of which a next state was picked, 1 where one is enough. `how`: where
    the next states come from, such as "last of 128 draws of chains".
    """

    returns: dict[str, Float[np.ndarray, " B"]]
    states: dict[str, Float[np.ndarray, "T B d"]]
    effective: dict[str, float]
    how: str
    actions: dict[str, Float[np.ndarray, "steps B *k"]]
    rewards: dict[str, Float[np.ndarray, "steps B"]]

    def difference(self, first: str, second: str) -> Difference:
        """How much more the first gets than the second, over pairs with the same start and random numbers."""
        return paired_difference(self.returns[first], self.returns[second])

    def visited(self, name: str) -> Float[np.ndarray, "N d"]:
        """All states of all rollouts in one list."""
        states = self.states[name]
        return states.reshape(-1, states.shape[-1])

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {values.mean():.4g}" for name, values in self.returns.items())
        return f"Rollouts({len(next(iter(self.returns.values())))} of each; mean returns: {means})"


def rollouts(
    problem: Problem,
    policies: Mapping[str, Policy],
    *,
    starts: Any,
    steps: int = 60,
    num_draws: int | None = None,
    method: Method | None = None,
    key: Key | int = 0,
) -> Rollouts:
    """Returns of every policy from the same starts `[B, d]` with the same random numbers.

    num_draws, method   see `make_model`: how many draws a next state is taken from, and "masses" or "chains" for densities
                        without a normaliser
    """
    require_count("rollouts: steps", steps)
    if num_draws is not None:
        require_count("rollouts: num_draws", num_draws)
    if not policies:
        raise HamqError("rollouts: policies must name at least one policy, such as {'tensor': solution.actions}.")
    starts = np.asarray(starts, np.float32)
    if starts.ndim != 2 or starts.shape[1] != problem.grid.dimension or not len(starts):
        raise HamqError(f"rollouts: starts must have the shape [B, {problem.grid.dimension}], got {list(starts.shape)}.")
    model, key = make_model(problem, num_draws, method), as_key(key)
    followed = {name: _follow(model, name, policy, starts, steps, key) for name, policy in policies.items()}
    accounts = sorted((one.account for one in followed.values()), key=lambda account: account.effective)
    for account in [account for account in accounts if account.sentences()][:1]:
        account.warn("rollouts", "", stacklevel=2)
    return Rollouts(
        returns={name: one.returns for name, one in followed.items()},
        states={name: one.states for name, one in followed.items()},
        effective={name: one.account.effective for name, one in followed.items()},
        how=model.how,
        actions={name: one.actions for name, one in followed.items()},
        rewards={name: one.rewards for name, one in followed.items()},
    )


class Followed(NamedTuple):
    """One policy: what it got, where it was, what it did, what it was paid, and an account of the draws."""

    returns: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    account: Account


def _follow(model: Model, name: str, policy: Policy, starts: np.ndarray, steps: int, key: Key) -> Followed:
    problem, states = model.problem, starts
    returns, visited, taken, paid, account = np.zeros(len(starts)), [starts], [], [], Account(model)
    for t in range(steps):
        actions = _checked(problem, f"rollouts: policy {name!r} at step {t}", policy(states), len(states))
        moved = step(model, np.asarray(states, np.float32), actions, key=jr.fold_in(key, t))
        taken.append(actions)
        paid.append(np.asarray(moved.rewards, np.float64))
        returns += problem.discount**t * paid[-1]
        states = np.asarray(moved.states)
        visited.append(states)
        account.add(moved)
    if not np.all(np.isfinite(returns)):
        first = int(np.argmax(~np.isfinite(returns)))
        raise HamqError(f"rollouts: the return of policy {name!r} from start {first} is {returns[first]}.")
    return Followed(returns, np.stack(visited), np.stack(taken), np.stack(paid), account)


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """One rollout step by step: s_t, a_t, r(s_t, a_t) and what was got up to and with step t, Σ_{i≤t} γⁱ r_i.

    One that reaches a terminal state has one last step there, paid nothing.
    """

    name: str
    states: Float[np.ndarray, "T d"]
    actions: Float[np.ndarray, "T *k"]
    rewards: Float[np.ndarray, " T"]
    returns: Float[np.ndarray, " T"]
    has_ended: bool


def traces(
    problem: Problem, policies: Mapping[str, Policy], start: Any = None, steps: int = 200, key: Key | int = 0
) -> list[Trace]:
    """One rollout of each policy from `start` `[d]`, by default a random state that is not terminal.

    With law="cell" the start is moved to its nearest node, as all states after it are.
    """
    found = rollouts(problem, policies, starts=_start(problem, start, key)[None, :], steps=steps, key=key)
    return [_trace(problem, found, name) for name in policies]


def _trace(problem: Problem, found: Rollouts, name: str) -> Trace:
    states = found.states[name][:-1, 0]
    is_over = np.asarray(ended(problem, jnp.asarray(states)))
    length = int(np.argmax(is_over)) + 1 if is_over.any() else len(states)
    paid = found.rewards[name][:length, 0]
    returns = np.cumsum(problem.discount ** np.arange(length) * paid)
    return Trace(name, states[:length], found.actions[name][:length, 0], paid, returns, bool(is_over.any()))


def _start(problem: Problem, start: Any, key: Key | int) -> Float[np.ndarray, " d"]:
    d = problem.grid.dimension
    if start is None:
        candidates = random_starts(problem, NUM_STARTS, spread=SPREAD, key=key)
    else:
        candidates = np.atleast_2d(np.asarray(start, np.float32))
    if candidates.shape[1:] != (d,) or (start is not None and len(candidates) != 1):
        raise HamqError(f"traces: start must be one state of {d} coordinates, got {start!r}.")
    if not np.all(np.isfinite(candidates)):
        raise HamqError(f"traces: start must be finite, got {start!r}.")
    if problem.law != "linear":
        near = jax.vmap(problem.grid.coordinates)(jnp.asarray(candidates))
        candidates = np.asarray(problem.grid.lower) + np.asarray(problem.grid.spacing) * np.asarray(near)
    candidates = candidates.astype(np.float32)
    return candidates[int(np.argmin(np.asarray(ended(problem, jnp.asarray(candidates)))))]


def _checked(problem: Problem, who: str, actions: Any, size: int) -> Float[np.ndarray, "B *k"]:
    actions, shape = np.asarray(actions, np.float32), (size, *problem.action_shape)
    if actions.shape != shape:
        raise HamqError(f"{who} must return actions of the shape {list(shape)}, got {list(actions.shape)}.")
    if not np.all(np.isfinite(actions)):
        raise HamqError(
            f"{who} returned an action that is not finite, for rollout {np.argwhere(~np.isfinite(actions))[0][0]}."
        )
    return actions


def random_starts(problem: Problem, count: int, *, spread: float = 1.0, key: Key | int = 0) -> Float[np.ndarray, "B d"]:
    """Uniform in the box, shrunk by `spread` about its centre."""
    require_count("random_starts: count", count)
    if not 0 <= spread <= 1:
        raise HamqError(f"random_starts: spread must be between 0 and 1, the part of the box, got {spread!r}.")
    low, high = np.asarray(problem.grid.lower), np.asarray(problem.grid.upper)
    shares = np.asarray(jr.uniform(as_key(key), (count, problem.grid.dimension)), np.float64) - 0.5
    return ((low + high) / 2 + spread * (high - low) * shares).astype(np.float32)
