"""What a table says of any point of the box: V, Q and the action to take."""

import dataclasses
import warnings
import weakref
from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.control.decoders import Policy, make_policy, table_policy
from hamq.solution import Solution
from hamq.types import HamqError, HamqWarning

_POLICIES: "weakref.WeakKeyDictionary[Solution, Policy]" = weakref.WeakKeyDictionary()
"""One per solution: what a policy compiles and looks up once serves all calls."""


def value_at(solution: Solution, states: Any) -> Float[np.ndarray, " B"]:
    """max_a Q at the nearest node, or that of the nodes around interpolated (law="linear")."""
    read = dataclasses.replace(table_policy(solution.problem, solution.q), q=solution.value[:, None])
    return read.scores(states)[:, 0]


def q_at(solution: Solution, states: Any) -> Float[np.ndarray, "B A"]:
    """Q of all actions, read as `value_at` reads V."""
    return table_policy(solution.problem, solution.q).scores(states)


def act(solution: Solution, states: Any) -> Float[np.ndarray, "B *k"]:
    """The actions of the decoder that measured best (docs/environments.md)."""
    if solution not in _POLICIES:
        _POLICIES[solution] = best_policy(solution)
    return _POLICIES[solution](states)


def best_policy(solution: Solution) -> Policy:
    """`lookahead`, or `interpolate`, with a warning, where the model cannot be asked."""
    simpler = make_policy(solution, "interpolate")  # refuses what is wrong with the table itself
    try:
        return make_policy(solution, "lookahead")
    except HamqError as error:
        warnings.warn(f"actions are read off Q between the nodes, because of this: {error}", HamqWarning, stacklevel=5)
        return simpler
