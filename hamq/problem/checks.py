"""What is refused, and what is warned about, before any computing starts.

Refusals are `ValueError`s that name the field, the value, the rule and the remedy. Surprises are things that are legal
and rarely meant: they are warned about, or kept as notes where the author of the problem says that they are wanted.
"""

import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from hamq.problem.actions import action_at, action_shape, count
from hamq.problem.grid import Grid
from hamq.problem.kernel import GaussianKernel, UnnormalizedKernel
from hamq.problem.programs import program
from hamq.types import HamqWarning, UserFunction

STATES_PER_CALL = 256


def check_discount(discount) -> float:
    if isinstance(discount, bool) or not isinstance(discount, (int, float, np.floating, np.integer)):
        raise ValueError(f"Problem: discount must be a number in [0, 1), got {discount!r}.")
    if not (math.isfinite(discount) and 0 <= discount < 1):
        raise ValueError(
            f"Problem: discount must be in [0, 1), got {float(discount)}; with 1 or more the values have no finite sum."
        )
    return float(discount)


def check_functions(grid: Grid, actions: Any, kernel, reward: UserFunction, terminal: UserFunction | None) -> bool:
    """Checks shape, type and purity of every user function; returns whether the kernel is a product over axes."""
    d = grid.dimension
    state = jax.ShapeDtypeStruct((d,), jnp.float32)
    action = jax.ShapeDtypeStruct(action_shape(actions), jnp.float32)
    _check_output("reward", reward, (state, action), [()])
    if terminal is not None:
        _check_output("terminal", terminal, (state,), [()], kinds="b", remedy="return a boolean, such as state[0] > 1")
    if isinstance(kernel, UnnormalizedKernel):
        _check_output("logdensity", kernel.logdensity, (state, state, action), [()])
        is_product = False
    else:
        _check_output("mean", kernel.mean, (state, action), [(d,)])
        if callable(kernel.covariance):
            shape = _check_output("covariance", kernel.covariance, (state, action), [(d,), (d, d)])
        else:
            shape = np.shape(kernel.covariance)
            if shape not in ((d,), (d, d)):
                raise ValueError(
                    f"GaussianKernel: covariance has shape {shape} and the grid has {d} dimensions; "
                    f"give [{d}] or [{d}, {d}]."
                )
        is_product = len(shape) == 1
    _check_purity(grid, actions, kernel, reward)
    return is_product


def _check_output(name, function, arguments, shapes, kinds: str = "f", remedy: str = "") -> tuple[int, ...]:
    try:
        result = jax.eval_shape(lambda *given: jax.tree.map(jnp.asarray, function(*given)), *arguments)
    except Exception as error:
        given = ", ".join(f"array of shape {a.shape}" for a in arguments)
        error.add_note(f"hamq called {name} with ({given}): one state and one action, traced by JAX.")
        raise
    expected = " or ".join(str(shape) for shape in shapes)
    if not isinstance(result, jax.ShapeDtypeStruct):
        raise ValueError(f"{name} must return one array of shape {expected}, got {jax.tree.structure(result)}.")
    if result.shape not in shapes:
        raise ValueError(
            f"{name} must return shape {expected} for ONE state and ONE action, got {result.shape}; the library batches."
        )
    if np.dtype(result.dtype).kind not in kinds:
        raise ValueError(
            f"{name} must return {'a boolean' if kinds == 'b' else 'floats'}, got {result.dtype}; "
            + (remedy or "write 0.0 instead of 0, and take the real part of complex values")
            + "."
        )
    return result.shape


def _check_purity(grid: Grid, actions: Any, kernel, reward: UserFunction) -> None:
    """Two calls with the same arguments must agree: the library may call a function once and use it a million times."""
    is_small = grid.num_states < 2**62
    state = jnp.asarray(grid.states_at(np.asarray([grid.num_states // 3]))[0] if is_small else grid.lower, jnp.float32)
    action = jnp.asarray(action_at(actions, 0), jnp.float32)
    calls = {"reward": lambda: reward(state, action)}
    if isinstance(kernel, GaussianKernel):
        calls["mean"] = lambda: kernel.mean(state, action)
        if callable(kernel.covariance):
            calls["covariance"] = lambda: kernel.covariance(state, action)
    else:
        calls["logdensity"] = lambda: kernel.logdensity(state, state, action)
    for name, call in calls.items():
        if _is_traced_alike(call):
            continue
        # Each `lambda` is traced anew: the function itself is called twice, and compiled as one program, not op by op.
        first, second = (np.asarray(jax.jit(lambda: call())()) for _ in range(2))  # noqa: B023
        if not np.array_equal(first, second, equal_nan=True):
            raise ValueError(
                f"{name} is not a pure function: two calls at state {np.asarray(state)} gave {first} and {second}; "
                "noise belongs into the kernel, and no state may be kept between calls."
            )


def _is_traced_alike(call: Callable[[], Any]) -> bool:
    """Whether JAX reads the same operations and constants twice; compiles nothing, where two calls compile two programs."""
    first, second = (jax.make_jaxpr(lambda: call())() for _ in range(2))
    texts = [re.sub(r"0x[0-9a-f]+", "", str(found.jaxpr)) for found in (first, second)]
    if texts[0] != texts[1] or "callback" in texts[0] or len(first.consts) != len(second.consts):
        return False
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first.consts, second.consts, strict=True))


def look_for_surprises(grid: Grid, actions: Any, kernel, reward: UserFunction, law: str) -> list[tuple[str, str]]:
    found = list(_noise_surprises(grid, kernel, law)) + list(_aliasing_surprises(grid, actions, reward))
    if count(actions) == 1:
        found.append(("single", "there is one action: the policy is fixed and completion has nothing to do"))
    return found


def _noise_surprises(grid: Grid, kernel, law: str) -> Iterator[tuple[str, str]]:
    if not isinstance(kernel, GaussianKernel) or callable(kernel.covariance):
        return
    covariance = np.asarray(kernel.covariance, np.float64)
    stds = np.sqrt(covariance if covariance.ndim == 1 else np.diag(covariance))
    for i, (std, width, h) in enumerate(zip(stds, grid.widths, grid.spacing, strict=True)):
        if 6 * std > 3 * width:
            yield (
                "noise",
                f"on axis {i} the noise spans 6·sqrt(Σ) = {6 * std:.3g} where the box is {width:.3g} wide, so the next "
                "state hardly depends on the action; covariance holds variances, not standard deviations",
            )
        if law == "cell" and 6 * std < h:
            yield (
                "noise",
                f"on axis {i} the noise spans 6·sqrt(Σ) = {6 * std:.3g} where the grid spacing is {h:.3g}, so the state "
                "rounds back to its own cell; use more points, law='linear', or check that covariance holds variances",
            )


def _aliasing_surprises(grid: Grid, actions: Any, reward: UserFunction) -> Iterator[tuple[str, str]]:
    """A reward that oscillates between the nodes: it is far from its own linear interpolation on the grid."""
    centre = np.asarray([grid.axis_nodes(i)[n // 2] for i, n in enumerate(grid.points)])
    action = np.asarray(action_at(actions, count(actions) // 2), np.float32)
    for i in range(grid.dimension):
        nodes = grid.axis_nodes(i)
        fine = np.linspace(nodes[0], nodes[-1], 16 * (len(nodes) - 1) + 1)
        line = np.tile(centre, (len(fine), 1))
        line[:, i] = fine
        rewards = _rewards(reward, line.astype(np.float32), action)
        if not np.all(np.isfinite(rewards)):
            continue  # refused by name as soon as the table is made
        missed = np.abs(rewards - np.interp(fine, nodes, rewards[::16])).mean()
        if missed > 0.7 * np.abs(rewards - rewards.mean()).mean() > 1e-6:
            yield (
                "aliasing",
                f"the reward oscillates between the grid points of axis {i}: the grid sees another function; "
                "use more points or a smoother reward",
            )


def _rewards(reward: UserFunction, states: Float[np.ndarray, "n d"], action: np.ndarray) -> Float[np.ndarray, " n"]:
    """r(s, a) of one action, some states in each call of a program that all grids of a dimension share."""
    rewards = np.empty(len(states), np.float32)
    for first in range(0, len(states), STATES_PER_CALL):
        part = states[first : first + STATES_PER_CALL]
        given = np.pad(part, ((0, STATES_PER_CALL - len(part)), (0, 0)), mode="edge"), action
        run = program("rewards", (reward,), jax.vmap(lambda s, a: jnp.asarray(reward(s, a)), (0, None)), *given)
        rewards[first : first + len(part)] = np.asarray(run(*given))[: len(part)]
    return rewards


def warn_unless_expected(found: list[tuple[str, str]], expected: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Warns about what was found and not expected; returns the rest as notes."""
    for kind, sentence in found:
        if kind not in expected and kind != "single":
            warnings.warn(f"{name}: {sentence}.", HamqWarning, stacklevel=4)
    return tuple(sentence for kind, sentence in found if kind in expected or kind == "single")
