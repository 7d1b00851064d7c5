"""Chains of product densities as one GPU kernel: a thread holds its chain in registers from the first step to the last.

XLA starts a kernel for every transition, which reads and writes the state of all chains; here only random numbers are read
and positions written. Axes of a product density do not know each other within a trajectory: each is a chain of its own
whose energies are added up where the end is accepted or not. The formulas are those of `walls.py` and `chain.py`, applied to
arrays of chains instead of arrays of axes. (On an H200 5.0 ms for 31,250 × 205 transitions of 100 steps in 6 dimensions,
where XLA takes 7.0; docs/scale.md.)
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float, PyTree

from hamq.sampling.walls import AbstractPotential, LogitPotential, SigmoidPotential

CHAINS_PER_BLOCK, WARPS = 64, 2


def fits_registers(potential: AbstractPotential) -> bool:
    """Whether the kernel can do it: product densities on boxes without circles, in float32, on a GPU."""
    return (
        jax.default_backend() == "gpu"
        and potential.density.is_elementwise
        and isinstance(potential, (LogitPotential, SigmoidPotential))
        and potential.is_circle is None
        and potential.lower.dtype == jnp.float32
    )


def run_in_registers(
    arrays: PyTree[Array],
    rest: Any,
    start: Any,
    momentum: Float[Array, "num d ..."],
    log_uniform: Float[Array, "num ..."],
    num_leapfrog: int,
    interpret: bool = False,
):
    """`chain.run_batch`, by the kernel."""
    leaves, structure = jax.tree.flatten(arrays)
    size = max(a.shape[-1] for a in (*start, momentum, log_uniform, *leaves))
    padded = -(-size // CHAINS_PER_BLOCK) * CHAINS_PER_BLOCK
    num, d = momentum.shape[:2]

    def spread(array):
        array = jnp.broadcast_to(array, (*array.shape[:-1], size))
        return jnp.pad(array, ((0, 0),) * (array.ndim - 1) + ((0, padded - size),), mode="edge")

    given = [spread(a) for a in (*start, momentum, log_uniform, *leaves)]
    shapes = [(d, padded), (padded,), (d, padded), (num, d, padded), (num, d, padded), (num, padded)]
    kernel = functools.partial(_kernel, structure=structure, rest=rest, num=num, d=d, num_leapfrog=num_leapfrog)
    made = pl.pallas_call(
        kernel,
        grid=(padded // CHAINS_PER_BLOCK,),
        in_specs=[_block(a.shape) for a in given],
        out_specs=[_block(shape) for shape in shapes],
        out_shape=[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes],
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=WARPS, num_stages=1),
    )(*given)
    *end, positions, gradients, gains = (a[..., :size] for a in made)
    return type(start)(*end), positions, gradients, gains


def _block(shape: tuple[int, ...]) -> pl.BlockSpec:
    """All of the array for some of the chains, which are its last axis."""
    return pl.BlockSpec((*shape[:-1], CHAINS_PER_BLOCK), lambda block: (*(0 for _ in shape[:-1]), block))


def _kernel(*refs, structure, rest, num: int, d: int, num_leapfrog: int):
    num_leaves = structure.num_leaves
    (y_ref, energy_ref, g_ref, momentum_ref, log_uniform_ref), leaf_refs = refs[:5], refs[5 : 5 + num_leaves]
    end_y, end_energy, end_g, positions, gradients, gains = refs[5 + num_leaves :]
    # Arrays of all chains for one axis each: what is elementwise in the axes is so in the chains.
    axes = [eqx.combine(structure.unflatten([ref[i, :] for ref in leaf_refs]), rest) for i in range(d)]

    def total(parts):
        return functools.reduce(jnp.add, parts)

    def leap(trajectory):
        y, w, _ = trajectory
        y = tuple(y[i] + w[i] for i in range(d))
        g = tuple(axes[i][0].gradient(y[i]) for i in range(d))
        return y, tuple(w[i] - axes[i][1].kick * g[i] for i in range(d)), g

    def two_leaps(_, trajectory):
        return leap(leap(trajectory))

    def transition(t, state):
        y, energy, g = state
        p = [momentum_ref[t, i, :] for i in range(d)]
        w = tuple(axes[i][1].stride * p[i] - 0.5 * axes[i][1].kick * g[i] for i in range(d))
        trajectory = jax.lax.fori_loop(0, num_leapfrog // 2, two_leaps, (y, w, g))
        new_y, w, new_g = leap(trajectory) if num_leapfrog % 2 else trajectory
        ends = [axes[i][1].inverse_stride * (w[i] + 0.5 * axes[i][1].kick * new_g[i]) for i in range(d)]
        new_energy = total([axes[i][0].energy_of_axis(new_y[i]) for i in range(d)])
        gain = energy - new_energy + 0.5 * total([p[i] ** 2 - ends[i] ** 2 for i in range(d)])
        is_accepted = log_uniform_ref[t, :] < gain  # False for NaN
        y = tuple(jnp.where(is_accepted, new_y[i], y[i]) for i in range(d))
        g = tuple(jnp.where(is_accepted, new_g[i], g[i]) for i in range(d))
        for i in range(d):
            positions[t, i, :], gradients[t, i, :] = y[i], g[i]
        gains[t, :] = gain
        return y, jnp.where(is_accepted, new_energy, energy), g

    def of_axes(ref):
        return tuple(ref[i, :] for i in range(d))

    y, energy, g = jax.lax.fori_loop(0, num, transition, (of_axes(y_ref), energy_ref[:], of_axes(g_ref)))
    end_energy[:] = energy
    for i in range(d):
        end_y[i, :], end_g[i, :] = y[i], g[i]
