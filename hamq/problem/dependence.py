"""Which coordinates of the state a user's function depends on, read off what JAX traces of it.

Every value of the trace carries the set of inputs that it was made from, element by element, as bits. Operations that move
elements (slices, stacks, …) move the sets; elementwise ones join those of the same place; any other joins all that it
was given. So a set may be too large, and never too small: an input that is not in it cannot change the value.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import Int

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
