"""Leapfrog integration of Hamilton's equations, the heart of HMC.

The momentum is kept as the displacement w = ε·C·p that one drift makes (C = M⁻¹ is the inverse mass), so that a step is

    y ← y + w,    w ← w − ε²C·∇U(y):

one gradient, two multiply-adds, no value of U. Two half kicks meet between steps and are done as one; the gradient at
the end is handed back, because the next trajectory starts there. `fold` puts a position that left the box back into it
(reflecting walls) and turns its momentum; other walls pass it through.

With a product density and a diagonal mass every operation is elementwise. `elementwise_leapfrog` says so to `vmap`: a
batch of chains is laid out as ONE long vector, where a `[chains, d]` array would be walked in strips of d numbers, too
short for the vector units (2 to 3 times slower at d = 6).
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from hamq.problem.kernel import times

UNROLLED = 10
"""Steps written out in a row: more make the compiled loop no faster and the compilation slower."""


def leapfrog(
    potential: Any,
    position: Float[Array, " d"],
    displacement: Float[Array, " d"],
    start_gradient: Float[Array, " d"],
    kick: Float[Array, "..."],
    num_steps: int,
) -> tuple[Float[Array, " d"], Float[Array, " d"], Float[Array, " d"]]:
    """(position, displacement, gradient) after `num_steps` steps; `kick` is ε²C, `[d]` or `[d, d]`."""

    def step(_, carry):
        y, w, _ = carry
        y, w = potential.fold(y + w, w)
        g = potential.gradient(y)
        return y, w - apply(kick, g), g

    w = displacement - 0.5 * apply(kick, start_gradient)
    carry = (position, w, start_gradient)
    y, w, g = jax.lax.fori_loop(0, num_steps, step, carry, unroll=min(num_steps, UNROLLED))
    return y, w + 0.5 * apply(kick, g), g


def elementwise_leapfrog(
    potential: Any,
    position: Float[Array, " d"],
    displacement: Float[Array, " d"],
    start_gradient: Float[Array, " d"],
    kick: Float[Array, " d"],
    num_steps: int,
) -> tuple[Float[Array, " d"], Float[Array, " d"], Float[Array, " d"]]:
    """`leapfrog` of a potential whose arrays are all `[d]` and act coordinate by coordinate."""
    arrays, rest = eqx.partition(potential, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def run(*flat):
        *own, y, w, g, k = flat
        rebuilt = eqx.combine(jax.tree.unflatten(structure, own), rest)
        return leapfrog(rebuilt, y, w, g, k, num_steps)

    return _flattened(run)(*leaves, position, displacement, start_gradient, kick)


def _flattened(function):
    """An elementwise function of equal-shaped arrays that batches by becoming longer."""

    @custom_vmap
    def elementwise(*arrays):
        return function(*arrays)

    @elementwise.def_vmap
    def _(axis_size, is_batched, *arrays):
        full = [
            a if batched else jnp.broadcast_to(a, (axis_size, *a.shape))
            for a, batched in zip(arrays, is_batched, strict=True)
        ]
        results = elementwise(*(a.reshape(-1) for a in full))
        return tuple(r.reshape(full[0].shape) for r in results), (True,) * len(results)

    return functools.wraps(function)(elementwise)


def apply(matrix: Float[Array, "..."], vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """Matrix times vector, for a matrix that may be given by its diagonal."""
    return matrix * vector if matrix.ndim == 1 else times(matrix, vector)
