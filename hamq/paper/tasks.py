"""The five control problems of the paper, as its figures show them."""

import functools
from typing import Any, NamedTuple

import numpy as np

from hamq.certificates.comparison import Comparison, advantages, compare, losses_of, relative_distance
from hamq.exact.bellman import BellmanOperator, make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.paper.records import Map
from hamq.problem import zoo
from hamq.problem.problem import Problem
from hamq.solution import Solution
from hamq.types import Law


class Slice(NamedTuple):
    """Two axes that are shown, and the state at whose nearest nodes the others stand."""

    axes: tuple[int, int]
    at: tuple[float, ...]


class Task(NamedTuple):
    """`slices`: what heat maps show. The paper names the slice of Figure 1 twice, in the text and in the caption."""

    name: str
    coordinates: tuple[str, ...]
    slices: dict[str, Slice]


ANGLE = ("angle", "angular velocity")
CART = ("position", "velocity")
POLES = ("angle 1", "angular velocity 1", "angle 2", "angular velocity 2")

LOW = (
    Task("pendulum", ANGLE, {"plane": Slice((0, 1), (0, 0))}),
    Task("double_integrator", CART, {"plane": Slice((0, 1), (0, 0))}),
    Task("cartpole", (*ANGLE, *CART), {"plane": Slice((0, 1), (0, 0, 0, 0))}),
    Task("acrobot", POLES, {"plane": Slice((0, 1), (0, 0, 0, 0))}),
)
HIGH = Task(
    "cart_double_pendulum",
    (*CART, *POLES),
    {
        "text": Slice((2, 3), (-1.2, 3.5, 0, 0, 0, 0)),
        "caption": Slice((2, 3), (-1.2, 1.75, 0, 0, np.pi / 4, 1.5)),
    },
)
TASKS = {task.name: task for task in (*LOW, HIGH)}


def pose(name: str, law: Law = "cell", discount: float | None = None, num_actions: int | None = None) -> Problem:
    """The task on the preset `paper`."""
    given: dict[str, Any] = {"discount": discount, "num_actions": num_actions}
    return getattr(zoo, name)(law=law, **{key: value for key, value in given.items() if value is not None})


class Reference(NamedTuple):
    """Q* of a problem, and what policies are evaluated with."""

    exact: Solution
    operator: BellmanOperator

    def measure(self, q: np.ndarray) -> dict[str, float]:
        """Relative errors of the table and of its advantages, and the mean loss of its greedy policy."""
        return {
            "frobenius": relative_distance(q, self.exact.q),
            "advantage": relative_distance(advantages(q), advantages(self.exact.q)),
            "policy_loss": float(self.losses(q.argmax(axis=1)).mean()),
        }

    def losses(self, policy: np.ndarray) -> np.ndarray:
        """V* − V^π in every state."""
        return losses_of(self.operator, self.exact, policy)

    def compare(self, q: np.ndarray) -> Comparison:
        return compare(q, self.exact, self.operator)

    def maps(self, task: Task, policy: np.ndarray) -> dict[str, Map]:
        """The slices of the task: actions, and max_a Q*(s, a) − Q*(s, action)."""
        problem, q = self.exact.problem, self.exact.q
        given_up = q.max(axis=1) - q[np.arange(len(q)), policy]
        actions = np.asarray(problem.actions)[policy]
        return {name: _map(problem, task, part, actions, given_up) for name, part in task.slices.items()}


@functools.cache
def reference(name: str, law: Law = "cell", discount: float | None = None, num_actions: int | None = None) -> Reference:
    problem = pose(name, law, discount, num_actions)
    return Reference(solve_exact(problem), make_operator(problem))


def _map(problem: Problem, task: Task, part: Slice, actions: np.ndarray, given_up: np.ndarray) -> Map:
    grid = problem.grid
    axes = [np.linspace(grid.lower[i], grid.upper[i], grid.points[i]) for i in range(grid.dimension)]
    nodes = [int(np.abs(axis - value).argmin()) for axis, value in zip(axes, part.at, strict=True)]
    index = tuple(slice(None) if i in part.axes else node for i, node in enumerate(nodes))
    held = [i for i in range(grid.dimension) if i not in part.axes]
    hold = ", ".join(f"{task.coordinates[i]} at {axes[i][nodes[i]]:.3g}" for i in held)
    first, second = part.axes
    return Map(
        axes=(task.coordinates[first], task.coordinates[second]),
        x=axes[first].tolist(),
        y=axes[second].tolist(),
        hold=hold,
        actions=actions.reshape(grid.points)[index].tolist(),
        given_up=given_up.reshape(grid.points)[index].tolist(),
    )
