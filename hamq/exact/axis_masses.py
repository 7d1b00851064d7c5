"""Masses of the axes of a product kernel, each on the coordinates that its density depends on.

The masses of one axis are needed once for every value of the coordinates that the axis depends on, which is read off its
log-density, and not for every pair. They are integrated, or computed where they have closed forms.

Which coordinates of the state a user's function depends on, read off what JAX traces of it.

Every value of the trace carries the set of inputs that it was made from, element by element, as bits. Operations that move
elements (slices, stacks, …) move the sets; elementwise ones join those of the same place; any other joins all that it
was given. So a set may be too large, and never too small: an input that is not in it cannot change the value.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import Float, Int

from hamq.exact.contraction import Factor
from hamq.problem import cells
from hamq.problem.problem import Problem, listed_actions
from hamq.problem.quadrature import FIRST_VALUES

Bits = Int[np.ndarray, "..."]

ELEMENTWISE = (
    *("abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e", "cbrt"),
    *("ceil", "clamp", "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv"),
    *("erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac", "integer_pow", "is_finite", "le", "lgamma"),
    *("log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not", "or", "pow", "real", "rem"),
    *("reduce_precision", "regularized_incomplete_beta", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt"),
    *("square", "stop_gradient", "sub", "tan", "tanh", "xor", "zeta"),
)


def depends_on(function: Callable[..., Any], dimension: int, action_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of the state's coordinates that function(coordinate, state, action) may depend on; `dimension`: the action."""
    with jax.enable_x64(False):  # as samplers trace it
        given = jnp.zeros(()), jnp.zeros(dimension), jnp.zeros(action_shape)
        closed = jax.make_jaxpr(function)(*given)
    state = np.asarray([1 << i for i in range(dimension)], np.int64)
    inputs = [np.zeros((), np.int64), state, np.full(action_shape, 1 << dimension, np.int64)]
    outputs = _follow(closed.jaxpr, [np.zeros(np.shape(c), np.int64) for c in closed.consts], inputs)
    found = _joined(outputs)
    return tuple(i for i in range(dimension + 1) if found >> i & 1)


def _follow(jaxpr: Jaxpr, constants: list[Bits], inputs: list[Bits]) -> list[Bits]:
    """The sets of what a trace returns."""
    known: dict[Any, Bits] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *inputs), strict=True))

    def read(value: Any) -> Bits:
        return np.zeros(np.shape(value.val), np.int64) if isinstance(value, Literal) else known[value]

    for equation in jaxpr.eqns:
        made = _made(equation, [read(value) for value in equation.invars])
        known.update(zip(equation.outvars, made, strict=True))
    return [read(value) for value in jaxpr.outvars]


def _made(equation: Any, given: list[Bits]) -> list[Bits]:
    name, shapes = equation.primitive.name, [tuple(out.aval.shape) for out in equation.outvars]
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    if name in ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call") and isinstance(inner, ClosedJaxpr):
        return _follow(inner.jaxpr, [np.zeros(np.shape(c), np.int64) for c in inner.consts], given)
    if name in ELEMENTWISE:
        joined = functools.reduce(np.bitwise_or, np.broadcast_arrays(*given))
        return [np.broadcast_to(joined, shapes[0])]
    if name in MOVES:
        return [MOVES[name](equation.params, *given).reshape(shapes[0])]
    return [np.full(shape, _joined(given), np.int64) for shape in shapes]


def _joined(sets: list[Bits]) -> int:
    return functools.reduce(int.__or__, (int(np.bitwise_or.reduce(each, axis=None)) for each in sets), 0)


def _slice(params: dict[str, Any], given: Bits) -> Bits:
    strides = params["strides"] or (1,) * given.ndim
    ranges = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return given[tuple(slice(*each) for each in ranges)]


def _broadcast(params: dict[str, Any], given: Bits, *_: Bits) -> Bits:
    shape = [1] * len(params["shape"])
    for own, axis in enumerate(params["broadcast_dimensions"]):
        shape[axis] = given.shape[own]
    return np.broadcast_to(given.reshape(shape), params["shape"])


MOVES: dict[str, Callable[..., Bits]] = {
    "slice": _slice,
    "broadcast_in_dim": _broadcast,
    "squeeze": lambda params, given: given,  # `_made` gives it its shape
    "reshape": lambda params, given: given,
    "expand_dims": lambda params, given: given,
    "transpose": lambda params, given: given.transpose(params["permutation"]),
    "rev": lambda params, given: np.flip(given, params["dimensions"]),
    "concatenate": lambda params, *given: np.concatenate(given, params["dimension"]),
    "stack": lambda params, *given: np.stack(given, params["axis"]),
}
"""What operations do that only move elements."""


class AxisMasses(NamedTuple):
    """One factor per axis; their quadrature error (the sum of the axes' largest, in total variation) and what they cost."""

    factors: list[Factor]
    error: float
    evaluations: int


def axis_dependence(problem: Problem) -> list[tuple[int, ...]]:
    """Of each axis, the numbers of the coordinates that its masses depend on; the dimension stands for the action."""
    return [_depends_on(problem, axis) for axis in range(problem.grid.dimension)]


def _depends_on(problem: Problem, axis: int) -> tuple[int, ...]:
    def masses(coordinate, state, action):
        density = problem.density(state, action)
        if problem.has_closed_masses:
            return density.axis_log_masses(problem.grid, axis, problem.law)
        return jnp.asarray(density.log_of_axis(axis, coordinate))

    return depends_on(masses, problem.grid.dimension, problem.action_shape)


def num_rows(problem: Problem, own: tuple[int, ...]) -> int:
    """Rows of masses of an axis that depends on these coordinates."""
    sizes = (*problem.grid.points, problem.num_actions)
    return math.prod(sizes[i] for i in own)


def require_evaluations(problem: Problem, depends: list[tuple[int, ...]], max_evaluations: int | float | None) -> None:
    """Refuses, with the numbers, masses that take too many evaluations before any of them is refined."""
    allowed = cells.MAX_EVALUATIONS if max_evaluations is None else max_evaluations
    needed = sum(num_rows(problem, own) * cells.axis_evaluations(problem, axis) for axis, own in enumerate(depends))
    if cells.needs_quadrature(problem) and needed > allowed:
        raise cells.DoesNotFit(
            f"solving {problem.name} exactly needs at least {needed:.2e} density evaluations for the masses of its axes, "
            f"and {allowed:.2e} are allowed; use fewer points or actions, raise max_evaluations, or sample (HMC needs no "
            "masses)."
        )


def axis_masses(
    problem: Problem,
    depends: list[tuple[int, ...]],
    tolerance: float,
    max_evaluations: int | float | None = None,
    progress: cells.Progress | None = None,
) -> AxisMasses:
    """The masses of all axes, which together miss at most `tolerance` of a row where the evaluations suffice for it."""
    d, total = len(depends), sum(num_rows(problem, own) for own in depends)
    budget = (cells.MAX_EVALUATIONS if max_evaluations is None else max_evaluations) / total
    factors, error, evaluations, done = [], 0.0, 0, 0
    for axis, own in enumerate(depends):
        masses, worst = np.empty((num_rows(problem, own), problem.grid.points[axis])), 0.0
        for rows in _blocks(len(masses), FIRST_VALUES // cells.axis_evaluations(problem, axis)):
            found = cells.axis_rows_of(problem, axis, *_pairs(problem, own, rows), tolerance / d, budget)
            masses[rows] = found.masses
            worst, evaluations = max(worst, float(found.errors.max())), evaluations + int(found.evaluations.sum())
            done += len(rows)
            if progress is not None:
                progress("integrating the density", done, total)
        error += worst
        masses /= masses.sum(axis=1, keepdims=True)
        sizes = (*problem.grid.points, problem.num_actions)
        factors.append(Factor(masses.reshape(*(sizes[i] for i in own), -1), own))
    return AxisMasses(factors, error, evaluations)


def _blocks(count: int, size: int) -> Iterator[Int[np.ndarray, " n"]]:
    for first in range(0, count, max(1, size)):
        yield np.arange(first, min(first + max(1, size), count))


def _pairs(
    problem: Problem, own: tuple[int, ...], rows: Int[np.ndarray, " P"]
) -> tuple[Float[np.ndarray, "P d"], Float[np.ndarray, "P *k"]]:
    """States and actions of these rows of an axis; coordinates that it does not depend on are the first of their axis."""
    d, sizes = problem.grid.dimension, (*problem.grid.points, problem.num_actions)
    at = dict(zip(own, np.unravel_index(rows, [sizes[i] for i in own]), strict=True)) if own else {}
    first = np.zeros(len(rows), np.int64)
    states = np.stack([problem.grid.axis_nodes(i)[at.get(i, first)] for i in range(d)], axis=-1)
    return states, np.asarray(listed_actions(problem), np.float64)[at.get(d, first)]
