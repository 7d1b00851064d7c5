"""Axis vocabulary and aliases.

Shapes are written with the same letters everywhere: `S` states, `A` actions, `d` dimension of the state, `k` dimension
of the action, `n` draws, `m` quadrature nodes of one axis. `q` is always the S × A table.

Numbers of states and actions as text: they are Python ints, and 9⁴⁰⁰ of them do not fit a float.
"""

import difflib
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, get_args

import jax
import jax.random as jr
import numpy as np

from hamq.errors import HamqError as HamqError
from hamq.errors import HamqWarning as HamqWarning
from hamq.errors import NonFiniteError as NonFiniteError

Key = jax.Array
Law = Literal["cell", "linear", "point"]
Walls = Literal["logit", "reflect", "sigmoid"]
UserFunction = Callable[..., Any]


def is_cpu() -> bool:
    """Whether JAX computes on the CPU, where small tiles and short loops are best."""
    return jax.default_backend() == "cpu"


def as_key(key: jax.Array | int | np.integer) -> Key:
    """A JAX key from a key or an int seed."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -(2**63) <= key < 2**63:
            raise HamqError(f"key must be a seed of 64 bits, got {key}.")
        return jr.key(int(key))
    if isinstance(key, jax.Array):
        if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) and key.ndim == 0:
            return key
        if key.dtype == np.uint32 and key.shape == (2,):
            return jr.wrap_key_data(key)
    raise HamqError(f"key must be a JAX key (jax.random.key(0)) or an int seed, got {key!r}.")


def require_one_of(name: str, value: Any, choices: Any) -> None:
    """Refuses what is none of the names of a Literal, with the one that was meant."""
    names = get_args(choices)
    if value not in names:
        near = difflib.get_close_matches(str(value), names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise HamqError(f"{name} must be one of {', '.join(names)}, got {value!r}{hint}")


def np_generator(key: Key) -> np.random.Generator:
    """NumPy's random numbers of a JAX key: for what is chosen on the host, where JAX would compile a program for it."""
    return np.random.default_rng(np.asarray(jr.key_data(key), np.uint32).tolist())


LARGEST_FLOAT = 10**300
LONGEST_COUNT = 10**9


def as_power(number: int, digits: int = 2) -> str:
    """`1.48e+38`, of a number of any size."""
    return f"{number if abs(number) < LARGEST_FLOAT else Decimal(number):.{digits}e}"


def as_count(number: int, separator: str = "") -> str:
    """`6561` (`6,561` with a comma as the separator) below 10⁹, `1.48e+38` from there on."""
    return f"{number:{separator}}" if number < LONGEST_COUNT else as_power(number)


def require_count(name: str, value: Any, least: int = 1, remedy: str = "") -> None:
    """Refuses what is no whole number, or too small; `name` says whose it is."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        more = f"; {remedy}" if remedy else ""
        raise HamqError(f"{name} must be a whole number of at least {least}, got {value!r}{more}.")
