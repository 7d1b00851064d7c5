"""What a user's function returns, looked at by tracing it: shape and type are refused by the function's name."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hamq.types import HamqError, UserFunction


def check_output(
    name: str,
    function: UserFunction,
    arguments: tuple[Any, ...],
    shapes: list[tuple[int, ...]],
    kinds: str = "f",
    remedy: str = "",
) -> tuple[int, ...]:
    """The shape that a function returns for one pair, which must be one of `shapes`; its dtype one of `kinds`."""
    try:
        result = jax.eval_shape(lambda *given: jax.tree.map(jnp.asarray, function(*given)), *arguments)
    except Exception as error:
        given = ", ".join(f"array of shape {a.shape}" for a in arguments)
        error.add_note(f"hamq called {name} with ({given}): one state and one action, traced by JAX.")
        raise
    expected = " or ".join(str(shape) for shape in shapes)
    if not isinstance(result, jax.ShapeDtypeStruct):
        raise HamqError(f"{name} must return one array of shape {expected}, got {jax.tree.structure(result)}.")
    if result.shape not in shapes:
        raise HamqError(
            f"{name} must return shape {expected} for ONE state and ONE action, got {result.shape}; the library batches."
        )
    if np.dtype(result.dtype).kind not in kinds:
        raise HamqError(
            f"{name} must return {'a boolean' if kinds == 'b' else 'floats'}, got {result.dtype}; "
            + (remedy or "write 0.0 instead of 0, and take the real part of complex values")
            + "."
        )
    return result.shape
