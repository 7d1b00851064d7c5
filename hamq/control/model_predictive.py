"""Model predictive control: in every state, the best sequence of actions on the model without noise; its first is taken.

The next state is taken to be the mean, clipped to the box, and the sequence of `horizon` actions maximises
Σ_t γᵗ r(s_t, a_t) by projected gradient steps (Adam's, from the middle of the actions; the best sequence seen is kept). It
knows the nonlinear model and the ends of the actions, and needs no V; it does not know the noise, nor anything beyond the
horizon, and it finds the sequence that lies uphill, not the best of all.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.control.action_range import action_range, as_actions, nearest_actions
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.types import HamqError, require_count

LONGEST = 40
LEFT_OUT = 0.1
"""γ^horizon that the default horizon leaves out, unless that takes more than LONGEST steps."""
STEP_SIZE = 0.3
"""Of the first gradient step, in half widths of the range of the actions; it falls to 0 linearly."""
FORGET, FORGET_SQUARES = 0.9, 0.99


@dataclasses.dataclass(frozen=True, eq=False)
class PredictivePolicy:
    """The first action of the best sequence found; a function of states `[B, d]`, as `rollouts` takes it."""

    problem: Problem
    horizon: int
    num_steps: int
    rounded: bool

    def __call__(self, states: Any) -> Any:
        low, high = (jnp.asarray(end, jnp.float32)[None, :] for end in action_range(self.problem))
        given = jnp.asarray(states, jnp.float32)
        planned, _ = plan_each(self.problem, low, high, self.horizon, self.num_steps, given)
        first = np.asarray(planned[:, 0], np.float64)
        return as_actions(self.problem, nearest_actions(self.problem, first) if self.rounded else first)


def mpc_policy(
    problem: Problem, *, horizon: int | None = None, num_steps: int = 60, rounded: bool = False
) -> PredictivePolicy:
    """Model predictive control with `num_steps` gradient steps per state; `rounded`: to the nearest of the actions.

    horizon     None: until γ^horizon ≤ 0.1, at most 40
    """
    if problem.kernel.normal is None:
        raise HamqError(f"mpc_policy needs the mean of the next state, and {problem.name} has none; use a GaussianKernel.")
    if horizon is None:
        horizon = LONGEST if problem.discount >= 1 else math.ceil(math.log(LEFT_OUT) / math.log(max(problem.discount, 1e-9)))
        horizon = min(max(horizon, 1), LONGEST)
    require_count("mpc_policy: horizon", horizon)
    require_count("mpc_policy: num_steps", num_steps)
    return PredictivePolicy(problem, horizon, num_steps, rounded)


def sequence_return(problem: Problem, state: Float[Array, " d"], actions: Float[Array, "H k"]) -> Float[Array, ""]:
    """Σ_t γᵗ r(s_t, a_t) on the model without noise."""
    normal, grid = problem.kernel.normal, problem.grid
    assert normal is not None
    lower, upper, discount = (jnp.asarray(v, state.dtype) for v in (grid.lower, grid.upper, problem.discount))

    def move(carry, action):
        state, weight = carry
        action = action.reshape(problem.action_shape)
        mean = jnp.asarray(normal.mean(state, action))
        inside = jnp.where(jnp.asarray(grid.periodic), mean, jnp.clip(mean, lower, upper))
        is_over = False if problem.terminal is None else jnp.asarray(problem.terminal(state))
        weight = jnp.where(is_over, 0, weight)  # nothing is paid from the end on
        return (inside, weight * discount), weight * jnp.asarray(problem.reward(state, action))

    return jnp.sum(jax.lax.scan(move, (state, jnp.ones_like(discount)), actions)[1])


def plan_each(
    problem: Problem, low: Array, high: Array, horizon: int, num_steps: int, states: Float[Array, "B d"]
) -> tuple[Float[Array, "B H k"], Float[Array, " B"]]:
    """(the best sequences found, their returns) of a batch of states; actions from low to high `[1, k]`."""
    job = ("plan", problem.constants, problem.discount, len(problem.functions), problem.action_shape, horizon, num_steps)
    trace = functools.partial(_plan_each, problem, horizon, num_steps)
    return program(job, problem.functions, trace, low, high, states)(low, high, states)


def _plan_each(problem: Problem, horizon: int, num_steps: int, low: Array, high: Array, states: Array):

    def value(shares, state):
        return sequence_return(problem, state, (low + high) / 2 + (high - low) / 2 * shares)

    def one(state):
        def climb(i, carry):
            shares, slope, square, best, most = carry
            gain, gradient = jax.value_and_grad(value)(shares, state)
            best, most = jnp.where(gain > most, shares, best), jnp.maximum(gain, most)
            slope = FORGET * slope + (1 - FORGET) * gradient
            square = FORGET_SQUARES * square + (1 - FORGET_SQUARES) * gradient**2
            turn = (i + 1).astype(gain.dtype)
            # Both averages start from 0: divided by the weight that they have gathered so far.
            step = slope / (1 - FORGET**turn) / (jnp.sqrt(square / (1 - FORGET_SQUARES**turn)) + 1e-12)
            rate = STEP_SIZE * (1 - i.astype(gain.dtype) / num_steps)
            return jnp.clip(shares + rate * step, -1, 1), slope, square, best, most

        zeros = jnp.zeros((horizon, low.shape[1]), states.dtype)
        start = (zeros, zeros, zeros, zeros, jnp.full((), -jnp.inf, states.dtype))
        shares, _, _, best, most = jax.lax.fori_loop(0, num_steps, climb, start)
        last = value(shares, state)
        best = jnp.where(last > most, shares, best)
        return (low + high) / 2 + (high - low) / 2 * best, jnp.maximum(last, most)

    return jax.vmap(one)(states)
