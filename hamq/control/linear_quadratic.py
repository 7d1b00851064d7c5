"""The linear-quadratic regulator of a problem's linear model: the controller to beat where nothing else is known.

About a state s₀ and an action u₀, with z = (s − s₀, 1) and u = a − u₀,

    mean of s':  z' = A z + B u,        reward:  zᵀQz + 2zᵀSu + uᵀRu,

first derivatives of the mean, second ones of the reward; the 1 in z carries what is left where s₀ is no equilibrium or
the reward is not level there. V = zᵀMz with Riccati's equation

    M = Q + γAᵀMA − (S + γAᵀMB)(R + γBᵀMB)⁻¹(S + γAᵀMB)ᵀ,        u = −K z,   K = (R + γBᵀMB)⁻¹(S + γAᵀMB)ᵀ,

whatever the noise, and actions clipped to the range of the problem's. It is optimal where the model is linear, the reward
quadratic, and neither walls nor the ends of the actions are near.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from hamq.control.action_range import action_range, as_actions, nearest_actions
from hamq.problem.problem import Problem
from hamq.types import HamqError

MAX_ITERATIONS = 100_000
CHANGE = 1e-12
"""Of M, relative, where the iteration ends."""
LARGEST = 1e100
"""Of M: beyond, it grows without end."""


class LinearModel(NamedTuple):
    """A `[d+1, d+1]`, B `[d+1, k]`, Q, S and R of the module's docstring."""

    a: Float[np.ndarray, "z z"]
    b: Float[np.ndarray, "z k"]
    q: Float[np.ndarray, "z z"]
    s: Float[np.ndarray, "z k"]
    r: Float[np.ndarray, "k k"]


@dataclasses.dataclass(frozen=True, eq=False)
class LinearPolicy:
    """u₀ − K z clipped to the range of the actions; a function of states `[B, d]`, as `rollouts` takes it."""

    problem: Problem
    state: Float[np.ndarray, " d"]
    action: Float[np.ndarray, " k"]
    gain: Float[np.ndarray, "k z"]
    matrix: Float[np.ndarray, "z z"]
    rounded: bool

    def __call__(self, states: Any) -> Any:
        low, high = action_range(self.problem)
        wanted = np.clip(self.action - self._deviations(states) @ self.gain.T, low, high)
        return as_actions(self.problem, nearest_actions(self.problem, wanted) if self.rounded else wanted)

    def value(self, states: Any) -> Float[np.ndarray, " B"]:
        """zᵀMz: the value without noise, walls and ends of the actions."""
        z = self._deviations(states)
        return np.sum((z @ self.matrix) * z, axis=1)

    def _deviations(self, states: Any) -> Float[np.ndarray, "B z"]:
        """(s − s₀, 1), the short way round on circles."""
        grid, off = self.problem.grid, np.asarray(states, np.float64) - self.state
        turns = np.where(grid.periodic, np.round(off / np.asarray(grid.widths)), 0.0)
        return np.concatenate([off - turns * np.asarray(grid.widths), np.ones((len(off), 1))], axis=1)


def lqr_policy(problem: Problem, *, at: tuple[Any, Any] | None = None, rounded: bool = False) -> LinearPolicy:
    """The linear-quadratic regulator about `at` = (state `[d]`, action), clipped; `rounded`: to the nearest of the actions.

    None: the middle of the actions, and the state to which the reward rises from the centre of the box.
    """
    if problem.kernel.normal is None:
        raise HamqError(f"lqr_policy needs the mean of the next state, and {problem.name} has none; use a GaussianKernel.")
    state, action = _checked(problem, at) if at is not None else best_rest(problem)
    model = linearise(problem, state, action)
    if np.linalg.eigvalsh(model.r).max() >= 0:
        raise HamqError(
            f"lqr_policy: the reward of {problem.name} does not curve down in the action (second derivatives up to "
            f"{2 * np.linalg.eigvalsh(model.r).max():.3g}); give every actuator a cost."
        )
    gain, matrix = riccati(model, problem.discount, problem.name)
    return LinearPolicy(problem, state, action, gain, matrix, rounded)


def best_rest(problem: Problem) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " k"]]:
    """The middle action, and the state of largest reward uphill from the centre of the box."""
    low, high = action_range(problem)
    action = (low + high) / 2
    lower, upper = np.asarray(problem.grid.lower), np.asarray(problem.grid.upper)
    with jax.enable_x64(True):
        given = jnp.asarray(action).reshape(problem.action_shape)
        climb = jax.jit(jax.value_and_grad(lambda s: -jnp.asarray(problem.reward(s, given), jnp.float64)))

        def loss(s):
            value, slope = climb(jnp.asarray(s))
            return float(value), np.asarray(slope)

        found = minimize(loss, (lower + upper) / 2, jac=True, bounds=list(zip(lower, upper, strict=True)))
    return found.x, action


def linearise(problem: Problem, state: Float[np.ndarray, " d"], action: Float[np.ndarray, " k"]) -> LinearModel:
    """Mean and reward about one pair, in float64."""
    normal, d, k = problem.kernel.normal, len(state), len(action)
    assert normal is not None

    def mean(both):
        return jnp.asarray(normal.mean(both[:d], both[d:].reshape(problem.action_shape)))

    def reward(both):
        return jnp.asarray(problem.reward(both[:d], both[d:].reshape(problem.action_shape)))

    def derivatives(both):
        return mean(both), jax.jacfwd(mean)(both), reward(both), jax.grad(reward)(both), jax.hessian(reward)(both)

    with jax.enable_x64(True):
        found = jax.jit(derivatives)(jnp.asarray(np.concatenate([state, action])))
    following, jacobian, value, slope, hessian = (np.asarray(each) for each in found)
    moved = following - state
    a = np.block([[jacobian[:, :d], moved[:, None]], [np.zeros((1, d)), np.ones((1, 1))]])
    b = np.concatenate([jacobian[:, d:], np.zeros((1, k))])
    q = np.block([[hessian[:d, :d] / 2, slope[:d, None] / 2], [slope[None, :d] / 2, value[None, None]]])
    s = np.concatenate([hessian[:d, d:], slope[None, d:]]) / 2
    return LinearModel(a, b, q, s, hessian[d:, d:] / 2)


def riccati(
    model: LinearModel, discount: float, name: str = "problem"
) -> tuple[Float[np.ndarray, "k z"], Float[np.ndarray, "z z"]]:
    """(K, M): value iteration on quadratic functions, from 0."""
    a, b, q, s, r = model
    matrix = np.zeros_like(q)
    for _ in range(MAX_ITERATIONS):
        cross = s + discount * a.T @ matrix @ b
        curvature = r + discount * b.T @ matrix @ b
        if np.abs(matrix).max() > LARGEST or np.linalg.eigvalsh(curvature).max() >= 0:
            break
        gain = np.linalg.solve(curvature, cross.T)
        following = q + discount * a.T @ matrix @ a - cross @ gain
        following = (following + following.T) / 2
        change = np.abs(following - matrix).max()
        matrix = following
        if change <= CHANGE * np.abs(matrix).max():
            return gain, matrix
    raise HamqError(
        f"lqr_policy: Riccati's equation of {name} has no solution that iteration finds; its linear model grows faster than "
        "the discount shrinks and cannot be held, or its reward curves up; choose another point `at`."
    )


def _checked(problem: Problem, at: tuple[Any, Any]) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " k"]]:
    state, action = np.asarray(at[0], np.float64), np.asarray(at[1], np.float64)
    if state.shape != (problem.grid.dimension,) or action.shape != problem.action_shape:
        raise HamqError(
            f"lqr_policy: at must be (state [{problem.grid.dimension}], action {list(problem.action_shape)}), got shapes "
            f"{list(state.shape)} and {list(action.shape)}."
        )
    return state, action.reshape(-1)
