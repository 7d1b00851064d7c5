"""Leapfrog integration of Hamilton's equations, the heart of HMC.

The momentum is kept as the displacement w = ε·C·p that one drift makes (C = M⁻¹ is the inverse mass), so that a step is

    y ← y + w,    w ← w − ε²C·∇U(y):

one gradient, two multiply-adds, no value of U. Two half kicks meet between steps and are done as one; the gradient at
the end is handed back, because the next trajectory starts there. `fold` puts a position that left the box back into it
(reflecting walls) and turns its momentum; other walls pass it through.

A batch of trajectories is laid out with the batch as the LAST axis of every array: a `[chains, d]` array would be walked
in strips of d numbers, too short for the vector units (2 to 5 times slower). `vmap` by itself puts the batch first in
every loop, so the loop stands outside of a `vmap` over one step, and `custom_vmap` tells the outer `vmap`s so.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from hamq.problem.kernel import times
from hamq.types import is_cpu

UNROLLED, UNROLLED_ON_ACCELERATOR = 10, 128
"""Steps written out in a row. More make the loop no faster on a CPU; an accelerator starts a kernel for each turn of it."""


def leapfrog(
    potential: Any,
    position: Float[Array, " d"],
    displacement: Float[Array, " d"],
    start_gradient: Float[Array, " d"],
    kick: Float[Array, "..."],
    num_steps: int,
) -> tuple[Float[Array, " d"], Float[Array, " d"], Float[Array, " d"]]:
    """(position, displacement, gradient) after `num_steps` steps; `kick` is ε²C, `[d]` or `[d, d]`."""
    arrays, rest = eqx.partition(potential, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    def step(y, w, *given):
        """One drift and one kick of one trajectory."""
        *own, kick = given
        own_potential = eqx.combine(jax.tree.unflatten(structure, own), rest)
        y, w = own_potential.fold(y + w, w)
        g = own_potential.gradient(y)
        return y, w - apply(kick, g), g

    def run(y, w, g, *given):
        """All steps of B trajectories; every array has a last axis of B, or of 1 where all share it."""
        size = max(a.shape[-1] for a in (y, w, *given))
        axes = [-1 if a.shape[-1] == size else None for a in given]
        given = [a if axis == -1 else a[..., 0] for a, axis in zip(given, axes, strict=True)]
        steps = jax.vmap(step, in_axes=(-1, -1, *axes), out_axes=-1)
        carry = tuple(jnp.broadcast_to(a, (*a.shape[:-1], size)) for a in (y, w, g))
        unroll = min(num_steps, UNROLLED if is_cpu() else UNROLLED_ON_ACCELERATOR)
        return jax.lax.fori_loop(0, num_steps, lambda _, carry: steps(*carry[:2], *given), carry, unroll=unroll)

    w = displacement - 0.5 * apply(kick, start_gradient)
    alone = [jnp.asarray(a)[..., None] for a in (position, w, start_gradient, *leaves, kick)]
    y, w, g = (a[..., 0] for a in _batched_last(run)(*alone))
    return y, w + 0.5 * apply(kick, g), g


def _batched_last(run):
    """`run` under `vmap`: each new axis is merged into the last one."""

    @custom_vmap
    def runs(*arrays):
        return run(*arrays)

    @runs.def_vmap
    def _(axis_size, is_batched, *arrays):
        size = max(a.shape[-1] for a in arrays)

        def merge(a, batched):
            if not batched and a.shape[-1] == 1:
                return a  # shared by all so far, and by the new axis too
            a = jnp.moveaxis(a, 0, -2) if batched else a[..., None, :]
            return jnp.broadcast_to(a, (*a.shape[:-2], axis_size, size)).reshape(*a.shape[:-2], axis_size * size)

        def split(a):
            return jnp.moveaxis(a.reshape(*a.shape[:-1], axis_size, size), -2, 0)

        results = runs(*(merge(a, batched) for a, batched in zip(arrays, is_batched, strict=True)))
        return tuple(split(r) for r in results), (True,) * len(results)

    return runs


def apply(matrix: Float[Array, "..."], vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """Matrix times vector, for a matrix that may be given by its diagonal."""
    return matrix * vector if matrix.ndim == 1 else times(matrix, vector)
