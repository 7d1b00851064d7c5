"""Loops whose `vmap`s are laid out with the batch as the LAST axis of every array.

A `[chains, d]` array would be walked in strips of d numbers, too short for the vector units, and a sum over d would not be
vectorised at all (2 to 5 times slower). `vmap` by itself puts the batch first in every loop; so a loop is written for
arrays that have the batch last, steps of it are `vmap`s over that axis, and `custom_vmap` merges the axes of all outer
`vmap`s, however many there are, into the one.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array


def alone(*arrays: Array) -> list[Array]:
    """The arrays of one chain, as a batch of one."""
    return [jnp.asarray(a)[..., None] for a in arrays]


def over_last(function: Callable, size: int) -> Callable:
    """`vmap` over the last axis of arrays (in any trees) that have `size` there, and not of those of which all share one."""

    def batched(*trees):
        leaves, structure = jax.tree.flatten(trees)
        axes = tuple(-1 if a.shape[-1] == size else None for a in leaves)
        given = [a if axis == -1 else a[..., 0] for a, axis in zip(leaves, axes, strict=True)]

        def of_one(*own):
            return function(*jax.tree.unflatten(structure, own))

        return jax.vmap(of_one, in_axes=axes, out_axes=-1, axis_size=size)(*given)

    return batched


def batched_last(run: Callable) -> Callable:
    """`run`, which takes and returns tuples of arrays with a last axis of the batch, under any number of `vmap`s."""

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
