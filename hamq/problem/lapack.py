"""Does a user's density call LAPACK? Then its draws must not run in several threads.

XLA's CPU client hands a batch of `jnp.linalg` calls to its own thread pool and waits; two threads that do so can wait for
each other for ever. The library's own code keeps clear of it (`small_matrix.py`), user functions are looked through.
"""

from collections.abc import Iterator

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
    # A user's function is traced once, not with every draw.
    job = ("lapack", problem.constants, problem.action_shape)
    return remembered(job, problem.kernel.functions, lambda: _calls_lapack(problem))


def _calls_lapack(problem: Problem) -> bool:
    def use(point, state, action):
        density = problem.density(state, action)
        return density.log(point), jax.jacfwd(density.gradient)(point)  # samplers use both

    with jax.enable_x64(False):  # as samplers trace it, whoever asks
        state, action = jnp.asarray(problem.grid.lower, jnp.float32), jnp.zeros(problem.action_shape, jnp.float32)
        return any(name in CALLS for name in _names(jax.make_jaxpr(use)(state, state, action).jaxpr))


def _names(jaxpr: Jaxpr) -> Iterator[str]:
    """Names of all primitives, those of loops, branches and called functions included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(value):
                yield from _names(value.jaxpr if isinstance(value, ClosedJaxpr) else value)


def _is_jaxpr(value) -> bool:
    return isinstance(value, (ClosedJaxpr, Jaxpr))
