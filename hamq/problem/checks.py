"""What is refused, and what is warned about, before any computing starts.

Refusals are `HamqError`s that name the field, the value, the rule and the remedy. Surprises are things that are legal
and rarely meant: they are warned about, or kept as notes where the author of the problem says that they are wanted.
"""

import math
import re
import warnings
from collections.abc import Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jaxtyping import Float

from hamq.problem.actions import action_at, action_shape, count
from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import AbstractKernel, Reading, check_output, shapes_of_pair
from hamq.problem.programs import program, renew
from hamq.types import HamqError, HamqWarning, UserFunction

STATES_PER_CALL = 2**8, 2**15
"""Of a short line, and of a long one."""


def check_discount(discount) -> float:
    if isinstance(discount, bool) or not isinstance(discount, (int, float, np.floating, np.integer)):
        raise HamqError(f"Problem: discount must be a number in [0, 1), got {discount!r}.")
    if not (math.isfinite(discount) and 0 <= discount < 1):
        raise HamqError(
            f"Problem: discount must be in [0, 1), got {float(discount)}; with 1 or more the values have no finite sum."
        )
    return float(discount)


def check_functions(
    grid: Grid, actions: Any, kernel: AbstractKernel, reward: UserFunction, terminal: UserFunction | None
) -> bool:
    """Checks shape, type and purity of every user function; returns whether the kernel is a product over axes."""
    state, action = shapes_of_pair(grid, action_shape(actions))
    check_output("reward", reward, (state, action), [()])
    if terminal is not None:
        check_output("terminal", terminal, (state,), [()], kinds="b", remedy="return a boolean, such as state[0] > 1")
    kernel.check(grid, action_shape(actions))
    _check_purity(grid, actions, kernel, reward)
    return kernel.is_product(grid, action_shape(actions))


def _check_purity(grid: Grid, actions: Any, kernel: AbstractKernel, reward: UserFunction) -> None:
    """Two calls with the same arguments must agree: the library may call a function once and use it a million times."""
    is_small = grid.num_states < 2**62
    state = jnp.asarray(grid.states_at(np.asarray([grid.num_states // 3]))[0] if is_small else grid.lower, jnp.float32)
    action = jnp.asarray(action_at(actions, 0), jnp.float32)
    calls = {"reward": Reading(reward, reward, (state, action)), **kernel.readings(grid, state, action)}
    for name, (owner, function, given) in calls.items():
        first, second = (_reading(function, given) for _ in range(2))
        if first is not None and first == second:
            renew(owner, ("reading", name, *(a.shape for a in given)), first)
            continue
        # Each `lambda` is traced anew: the function itself is called twice, and compiled as one program, not op by op.
        first, second = (np.asarray(jax.jit(lambda: function(*given))()) for _ in range(2))  # noqa: B023
        if not np.array_equal(first, second, equal_nan=True):
            raise HamqError(
                f"{name} is not a pure function: two calls at state {np.asarray(state)} gave {first} and {second}; "
                "noise belongs into the kernel, and no state may be kept between calls."
            )


def _reading(function: UserFunction, given: tuple) -> Hashable:
    """The operations and constants that JAX reads; None where it calls Python. Compiles nothing."""
    found = jax.make_jaxpr(lambda *given: function(*given))(*given)
    text = re.sub(r"0x[0-9a-f]+", "", str(found.jaxpr))
    return None if "callback" in text else (text, tuple(_constants(found)))


def _constants(found: ClosedJaxpr) -> Iterator[bytes]:
    for constant in found.consts:
        is_key = jnp.issubdtype(constant.dtype, jax.dtypes.prng_key)
        yield np.asarray(jax.random.key_data(constant) if is_key else constant).tobytes()
    for equation in found.jaxpr.eqns:
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: isinstance(value, ClosedJaxpr))
        for value in inner:
            if isinstance(value, ClosedJaxpr):
                yield from _constants(value)


def look_for_surprises(
    grid: Grid, actions: Any, kernel: AbstractKernel, reward: UserFunction, law: str
) -> list[tuple[str, str]]:
    found = list(_noise_surprises(grid, kernel, law)) + list(_aliasing_surprises(grid, actions, reward))
    if count(actions) == 1:
        found.append(("single", "there is one action: the policy is fixed and completion has nothing to do"))
    return found


def _noise_surprises(grid: Grid, kernel: AbstractKernel, law: str) -> Iterator[tuple[str, str]]:
    normal = kernel.normal
    if normal is None or callable(normal.covariance):
        return
    covariance = np.asarray(normal.covariance, np.float64)
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
    size = STATES_PER_CALL[len(states) > 16 * STATES_PER_CALL[0]]
    for first in range(0, len(states), size):
        part = states[first : first + size]
        given = np.pad(part, ((0, size - len(part)), (0, 0)), mode="edge"), action
        run = program("rewards", (reward,), jax.vmap(lambda s, a: jnp.asarray(reward(s, a)), (0, None)), *given)
        rewards[first : first + len(part)] = np.asarray(run(*given))[: len(part)]
    return rewards


def warn_unless_expected(found: list[tuple[str, str]], expected: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Warns about what was found and not expected; returns the rest as notes."""
    for kind, sentence in found:
        if kind not in expected and kind != "single":
            warnings.warn(f"{name}: {sentence}.", HamqWarning, stacklevel=4)
    return tuple(sentence for kind, sentence in found if kind in expected or kind == "single")
