"""User functions on many pairs at once, in float64, checked: the first pair with a value that is not finite is named."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from hamq.problem.kernels.gaussian import check_covariance
from hamq.problem.kernels.kernel import NormalFunctions
from hamq.problem.problem import Problem, action_values, pair_name
from hamq.problem.programs import program
from hamq.types import HamqError

CHUNK_VALUES = 2**21
"""Values computed at once; a table is filled chunk by chunk, so that only the table itself takes memory."""


def reward_table(problem: Problem) -> Float[np.ndarray, "S A"]:
    """r(s, a) of all pairs, 0 in terminal states."""
    table = tabulate(problem, problem.reward)
    ended = terminal_table(problem)
    if ended is not None:
        table[ended] = 0
    require_finite(problem, table, "reward")
    return table


def mean_table(problem: Problem) -> Float[np.ndarray, "S A d"]:
    table = tabulate(problem, _normal(problem).mean, (problem.grid.dimension,))
    require_finite(problem, table, "mean")
    return table


def std_table(problem: Problem) -> Float[np.ndarray, "..."]:
    """Standard deviations of a product kernel: `[d]` where they are the same everywhere, else `[S, A, d]`."""
    covariance = _normal(problem).covariance
    if not callable(covariance):
        return np.sqrt(np.asarray(covariance, np.float64))
    table = tabulate(problem, covariance, (problem.grid.dimension,))
    require_finite(problem, table, "covariance")
    if np.any(table <= 0):
        s, a, i = (int(v) for v in np.argwhere(table <= 0)[0])
        raise HamqError(
            f"covariance gives the variance {table[s, a, i]} on axis {i} at {pair_name(problem, s, a)}; "
            "every variance must be above 0."
        )
    return np.sqrt(table)


def check_covariances(problem: Problem, num_probes: int = 1000) -> None:
    """Full covariances that depend on the pair: checks up to `num_probes` pairs, spread evenly, each by name."""
    normal = problem.kernel.normal
    covariance = None if normal is None else normal.covariance
    if problem.is_product or not callable(covariance):
        return  # constants were checked when the kernel was made, variances are checked in their table
    problem.require_enumerable(f"{problem.name}: a look at the covariances")
    pairs = np.unique(np.linspace(0, problem.num_states * problem.num_actions - 1, num_probes).astype(np.int64))
    states, actions = problem.grid.states_at(pairs // problem.num_actions), pairs % problem.num_actions
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(covariance)(jnp.asarray(states), action_values(problem)[actions]))
    for pair, matrix in zip(pairs, found, strict=True):
        check_covariance(matrix, f"covariance at {pair_name(problem, *divmod(int(pair), problem.num_actions))}")


def terminal_table(problem: Problem) -> Bool[np.ndarray, " S"] | None:
    terminal = problem.terminal
    if terminal is None:
        return None
    states = problem.grid.states()
    with jax.enable_x64(True):
        chunks = [jnp.asarray(chunk) for chunk in np.array_split(states, _chunks(states.size))]
        evaluate = jax.vmap(lambda state: jnp.asarray(terminal(state)))
        return np.concatenate([np.asarray(program("ends", (terminal,), evaluate, chunk)(chunk)) for chunk in chunks])


def tabulate(problem: Problem, function, shape: tuple[int, ...] = ()) -> np.ndarray:
    problem.require_enumerable(f"{problem.name}: a table of all pairs")
    states = problem.grid.states()
    table = np.empty((problem.num_states, problem.num_actions, *shape))
    with jax.enable_x64(True):
        over_actions = jax.vmap(lambda state, action: jnp.asarray(function(state, action)), in_axes=(None, 0))
        over_states = jax.vmap(over_actions, in_axes=(0, None))
        start = 0
        for chunk in np.array_split(states, _chunks(table.size)):
            given = jnp.asarray(chunk), action_values(problem)
            table[start : start + len(chunk)] = program("table", (function,), over_states, *given)(*given)
            start += len(chunk)
    return table


def _chunks(num_values: int) -> int:
    return math.ceil(num_values / CHUNK_VALUES)


def _normal(problem: Problem) -> NormalFunctions:
    normal = problem.kernel.normal
    if normal is None:
        raise TypeError(f"{problem.name}: kernels of the family {type(problem.kernel).__name__} have no mean.")
    return normal


def require_finite(problem: Problem, table: np.ndarray, name: str) -> None:
    bad = ~np.isfinite(table)
    if np.any(bad):
        s, a = (int(v) for v in np.argwhere(bad)[0][:2])
        count = int(bad.any(axis=tuple(range(2, bad.ndim))).sum())
        raise HamqError(
            f"{name} gives {table[s, a]} at {pair_name(problem, s, a)} ({count} "
            "pairs are not finite); it must be finite on the whole grid."
        )
