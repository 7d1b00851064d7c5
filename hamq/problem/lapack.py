"""Does a user's density call LAPACK? Then its draws must not run in several threads.

XLA's CPU client hands a batch of `jnp.linalg` calls to its own thread pool and waits; two threads that do so can wait for
each other for ever. The library's own code keeps clear of it (`small_matrix.py`), user functions are looked through.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from hamq.problem.problem import Problem
from hamq.problem.programs import remembered

CALLS = (
    *("cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "ormqr", "qr", "schur", "svd"),
    *("symmetric_product", "triangular_solve", "tridiagonal", "tridiagonal_solve"),
)


def calls_lapack(problem: Problem) -> bool:
    """True where the density of a pair or a derivative of it uses a primitive that XLA leaves to LAPACK."""

    def use(point, state, action):
        density = problem.density(state, action)
        return density.log(point), jax.jacfwd(density.gradient)(point)  # samplers use both

    return any(name in CALLS for name in _remembered(problem, "lapack", use))


def must_run_alone(problem: Problem) -> bool:
    """True where log p itself calls LAPACK, or Python: a callback on a thread of XLA's does not see float64."""
    used = _remembered(problem, "log", lambda point, state, action: problem.density(state, action).log(point))
    return any(name in CALLS or "callback" in name for name in used)


def _remembered(problem: Problem, job: str, use: Callable[..., Any]) -> frozenset[str]:
    """The primitives of a function of (point, state, action): a user's function is traced once, not with every draw."""

    def find() -> frozenset[str]:
        with jax.enable_x64(False):  # as samplers trace it, whoever asks
            state, action = jnp.asarray(problem.grid.lower, jnp.float32), jnp.zeros(problem.action_shape, jnp.float32)
            return frozenset(_names(jax.make_jaxpr(use)(state, state, action).jaxpr))

    return remembered((job, problem.constants, problem.action_shape), problem.kernel.functions, find)


def _names(jaxpr: Jaxpr) -> Iterator[str]:
    """Names of all primitives, those of loops, branches and called functions included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                yield from _names(value.jaxpr if isinstance(value, ClosedJaxpr) else value)


def _is_jaxpr(value) -> bool:
    return isinstance(value, (ClosedJaxpr, Jaxpr))
