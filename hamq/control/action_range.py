"""The ends of a problem's actions, and the action of its set that is nearest to any vector."""

from typing import Any

import numpy as np
from jaxtyping import Float

from hamq.problem.problem import Problem, listed_actions


def action_range(problem: Problem) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """(lowest, highest) action, coordinate by coordinate; k = 1 where actions are numbers."""
    if problem.action_levels is not None:
        return np.asarray([min(of_one) for of_one in problem.action_levels]), np.asarray(
            [max(of_one) for of_one in problem.action_levels]
        )
    actions = action_table(problem)
    return actions.min(axis=0), actions.max(axis=0)


def nearest_actions(problem: Problem, wanted: Float[np.ndarray, "B k"]) -> Float[np.ndarray, "B k"]:
    """The nearest action of the set: level by level in a product, by Euclidean distance in a list."""
    if problem.action_levels is None:
        actions = action_table(problem)
        distances = np.sum((wanted[:, None, :] - actions[None, :, :]) ** 2, axis=2)
        return actions[np.argmin(distances, axis=1)]
    columns = [_nearest(np.asarray(of_one), wanted[:, i]) for i, of_one in enumerate(problem.action_levels)]
    return np.stack(columns, axis=1)


def as_actions(problem: Problem, vectors: Float[np.ndarray, "B k"]) -> Any:
    """The same as `[B]` where the problem's actions are numbers."""
    return vectors.reshape(len(vectors), *problem.action_shape)


def _nearest(levels: Float[np.ndarray, " L"], wanted: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
    return levels[np.argmin(np.abs(wanted[:, None] - levels[None, :]), axis=1)]


def action_table(problem: Problem) -> Float[np.ndarray, "A k"]:
    """The actions as vectors, also where they are numbers."""
    return np.asarray(listed_actions(problem), np.float64).reshape(problem.num_actions, -1)
