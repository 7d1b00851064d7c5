"""The hash of a problem: equal for the same problem on another machine, different for another problem.

User functions have no text that could be hashed, so their values at fixed pairs stand for them. The pairs come from
SHA-256 of their number: the same for ever, and as good on a grid of 10³⁸ states as on one of 35.

Values are rounded, because the last bits of a sine differ between machines. Rounding to digits would be at its worst
where values like to be: on zeros that are 1e-17, and on decimals that end in 5. So v becomes the nearest integer to
10⁶·asinh(10⁴·v/scale): six digits of what is large beside 1e-4 of the function's largest value, 1e-10 of that value
near zero, and no boundary on a round number. Last bits (1e-15) move one value in 10⁹ across a boundary.
"""

import hashlib
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from hamq.problem.actions import ProductActions
from hamq.problem.problem import Problem
from hamq.problem.programs import program

NUM_PROBES = 256
"""Enough to meet a goal or a terminal region of 2 % of the states with a probability of 99 %."""
SMALLEST_SCALE = 1e-5
"""Of functions that are nowhere larger: then 1e-15 is one step, and a function that should be 0 is."""


def problem_hash(problem: Problem) -> str:
    """SHA-256 of grid, actions, discount, law and the rounded values of the user's functions; not of the name."""
    grid, kernel = problem.grid, problem.kernel
    described = {
        "points": grid.points,
        "periodic": grid.periodic,
        "law": problem.law,
        "kernel": type(kernel).__name__,
        "box": _rounded([grid.lower, grid.upper]),
        "actions": _rounded_actions(problem),
        "horizon": _rounded(1 / (1 - problem.discount)),  # tells 0.9999999 from 0.9999998
        **{name: _rounded(values) for name, values in _probed(problem).items()},
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _probed(problem: Problem) -> dict[str, Any]:
    """The values of the user's functions at the probe pairs, by name, in float64."""
    normal = problem.kernel.normal
    states, nearby = _probe_states(problem, "state"), _probe_states(problem, "next state")
    with jax.enable_x64(True):
        states, nearby, actions = jnp.asarray(states), jnp.asarray(nearby), jnp.asarray(_probe_actions(problem))

        def at_pairs(function, *arguments, job=None, functions=None):
            """Compiled once for a function, however often its problem is hashed."""
            given = ("probe", job), functions or (function,), jax.vmap(function)
            return np.asarray(program(*given, *arguments)(*arguments))

        def log_at(point, state, action):
            return problem.density(state, action).log(point)

        of_kernel = {"job": problem.constants, "functions": problem.kernel.functions}
        values: dict[str, Any] = {"reward": at_pairs(problem.reward, states, actions)}
        if problem.terminal is not None:
            values["terminal"] = at_pairs(problem.terminal, states)
        if normal is not None:
            values["mean"] = at_pairs(normal.mean, states, actions)
            is_function = callable(normal.covariance)
            values["covariance"] = at_pairs(normal.covariance, states, actions) if is_function else normal.covariance
        else:
            # A density may be 0 nearly everywhere, but hardly where the state stays what it is.
            values["logdensity"] = at_pairs(log_at, nearby, states, actions, **of_kernel)
            values["logdensity of staying"] = at_pairs(log_at, states, states, actions, **of_kernel)
    return values


def _probe_states(problem: Problem, purpose: str) -> np.ndarray:
    grid = problem.grid
    axes = [grid.axis_nodes(i)[_probe_numbers(f"{purpose} {i}", n)] for i, n in enumerate(grid.points)]
    return np.stack(axes, axis=-1)


def _probe_actions(problem: Problem) -> np.ndarray:
    if isinstance(problem.actions, ProductActions):
        axes = [
            np.asarray(of_one)[_probe_numbers(f"action {i}", len(of_one))] for i, of_one in enumerate(problem.actions.levels)
        ]
        return np.stack(axes, axis=-1)
    return problem.actions[_probe_numbers("action", problem.num_actions)]


def _probe_numbers(purpose: str, size: int) -> Int[np.ndarray, " n"]:
    """NUM_PROBES numbers below `size`, one sequence per purpose."""
    digests = [hashlib.sha256(f"{purpose} {probe}".encode()).digest() for probe in range(NUM_PROBES)]
    return np.asarray([int.from_bytes(digest) % size for digest in digests])


def _rounded_actions(problem: Problem) -> Any:
    """Of a product that is not listed, its levels."""
    if isinstance(problem.actions, ProductActions):
        return [_rounded(of_one) for of_one in problem.actions.levels]
    return _rounded(problem.actions)


def _rounded(values: Any) -> dict[str, Any]:
    """Shape, scale and values as integers; values that are not finite by their name."""
    values = np.asarray(values, np.float64)
    is_finite = np.isfinite(values)
    scale = max(np.max(np.abs(values), where=is_finite, initial=0.0), SMALLEST_SCALE)
    steps = np.rint(1e6 * np.arcsinh(1e4 * np.where(is_finite, values, 0) / scale)).astype(np.int64)
    return {
        "shape": values.shape,
        "scale": int(np.rint(1e6 * np.log(scale))),
        "steps": [
            int(step) if finite else str(value)
            for step, finite, value in zip(steps.flat, is_finite.flat, values.flat, strict=True)
        ],
    }
