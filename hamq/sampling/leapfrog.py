"""Leapfrog integration of Hamilton's equations, the heart of HMC.

The momentum is kept as the displacement w = ε·C·p that one drift makes (C = M⁻¹ is the inverse mass), so that a step is

    y ← y + w,    w ← w − ε²C·∇U(y):

one gradient, two multiply-adds, no value of U. Two half kicks meet between steps and are done as one; the gradient at
the end is handed back, because the next trajectory starts there. `fold` puts a position that left the box back into it
(reflecting walls) and turns its momentum; other walls pass it through.

A batch of trajectories is laid out with the batch as the last axis of every array (`batch_last.py`).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.problem.kernels.gaussian import times
from hamq.sampling.batch_last import alone, batched_last, over_last
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
        *own, kick = given
        return leap(eqx.combine(jax.tree.unflatten(structure, own), rest), kick, y, w)

    def run(y, w, g, *given):
        """All steps of B trajectories; every array has a last axis of B, or of 1 where all share it."""
        size = max(a.shape[-1] for a in (y, w, g, *given))
        steps = over_last(step, size)
        carry = tuple(jnp.broadcast_to(a, (*a.shape[:-1], size)) for a in (y, w, g))
        return jax.lax.fori_loop(0, num_steps, lambda _, now: steps(*now[:2], *given), carry, unroll=unrolled(num_steps))

    w = displacement - 0.5 * apply(kick, start_gradient)
    y, w, g = (a[..., 0] for a in batched_last(run)(*alone(position, w, start_gradient, *leaves, kick)))
    return y, w + 0.5 * apply(kick, g), g


def leap(
    potential: Any, kick: Float[Array, "..."], y: Float[Array, " d"], w: Float[Array, " d"]
) -> tuple[Array, Array, Array]:
    """One drift and one kick: (position, displacement, gradient there)."""
    y, w = potential.fold(y + w, w)
    g = potential.gradient(y)
    return y, w - apply(kick, g), g


def unrolled(num_steps: int) -> int:
    """Leapfrog steps that are written out in a row."""
    return min(num_steps, UNROLLED if is_cpu() else UNROLLED_ON_ACCELERATOR)


def apply(matrix: Float[Array, "..."], vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """Matrix times vector, for a matrix that may be given by its diagonal."""
    return matrix * vector if matrix.ndim == 1 else times(matrix, vector)
