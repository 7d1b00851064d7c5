"""Trajectories one after the other, each accepted or not: what drawing spends its time on.

`run_chain` makes all transitions of a chain from random numbers that are given, so that nothing in it is random, and
`run_batch` makes them for many chains at once, laid out with the batch last (`batch_last.py`). Only what a chain cannot do
without is computed within the loop: acceptance probabilities and the like are made of the energies that were gained, for
all transitions together, when it has ended.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from hamq.sampling.batch_last import alone, batched_last, over_last
from hamq.sampling.leapfrog import apply, leap, unrolled
from hamq.sampling.registers import fits_registers, run_in_registers
from hamq.sampling.walls import AbstractPotential


class ChainState(NamedTuple):
    """What the next transition needs: position, U and ∇U there."""

    position: Float[Array, "d *B"]
    energy: Float[Array, "*B"]
    gradient: Float[Array, "d *B"]


class Scales(NamedTuple):
    """Step size ε and inverse mass C = L·Lᵀ as a trajectory uses them: εL, (εL)⁻¹ and ε²C, each `[d]` where diagonal."""

    stride: Float[Array, "..."]
    inverse_stride: Float[Array, "..."]
    kick: Float[Array, "..."]


class Chain(NamedTuple):
    """Positions after each transition with ∇U there, and what only diagnostics need of the transitions."""

    positions: Float[Array, "num d"]
    gradients: Float[Array, "num d"]
    acceptance: Float[Array, " num"]
    has_moved: Bool[Array, " num"]
    is_nonfinite: Bool[Array, " num"]


def make_scales(factor: Array, inverse: Array, covariance: Array, step: Array | float) -> Scales:
    return Scales(step * factor, inverse / step, step**2 * covariance)


def run_chain(
    potential: AbstractPotential,
    scales: Scales,
    start: ChainState,
    momentum: Float[Array, "num d"],
    log_uniform: Float[Array, " num"],
    num_leapfrog: int,
) -> tuple[ChainState, Chain]:
    """The last state and all others: one transition for each momentum p ~ N(0, I), in units of the mass."""
    arrays, rest = eqx.partition((potential, scales), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)

    run_all = run_in_registers if fits_registers(potential) else run_batch

    def run(position, energy, gradient, momentum, log_uniform, *leaves):
        given = (ChainState(position, energy, gradient), momentum, log_uniform)
        end, *others = run_all(jax.tree.unflatten(structure, leaves), rest, *given, num_leapfrog)
        return *end, *others

    made = batched_last(run)(*alone(*start, momentum, log_uniform, *leaves))
    *end, positions, gradients, gains = (a[..., 0] for a in made)
    probability = jnp.where(jnp.isnan(gains), 0, jnp.exp(jnp.minimum(gains, 0)))
    return ChainState(*end), Chain(positions, gradients, probability, log_uniform < gains, ~jnp.isfinite(gains))


def run_batch(
    arrays: PyTree[Array],
    rest: Any,
    start: ChainState,
    momentum: Float[Array, "num d ..."],
    log_uniform: Float[Array, "num ..."],
    num_leapfrog: int,
) -> tuple[ChainState, Float[Array, "num d B"], Float[Array, "num d B"], Float[Array, "num B"]]:
    """(last state, positions, gradients, energies gained H(start) − H(end)) of B chains.

    `arrays` are those of (potential, scales), `rest` what else there is of them. Every array has a last axis of B, or of 1
    where all chains share it.
    """
    leaves, structure = jax.tree.flatten(arrays)
    size = max(a.shape[-1] for a in (*start, momentum, log_uniform, *leaves))

    def of_each(function, *given):
        """`function` of (potential, scales) and of what is given, chain by chain."""

        def one(*own):
            potential, scales = eqx.combine(jax.tree.unflatten(structure, own[: len(leaves)]), rest)
            return function(potential, scales, *own[len(leaves) :])

        return over_last(one, size)(*leaves, *given)

    def begin(_, scales, momentum, g):
        return apply(scales.stride, momentum) - 0.5 * apply(scales.kick, g)

    def step(potential, scales, y, w):
        return leap(potential, scales.kick, y, w)

    def gained(potential, scales, old_energy, momentum, y, w, g):
        energy = potential.energy(y)
        end_momentum = apply(scales.inverse_stride, w + 0.5 * apply(scales.kick, g))
        return energy, old_energy - energy + 0.5 * jnp.sum(momentum**2 - end_momentum**2)

    def transition(state, noise):
        momentum, log_uniform = noise
        w = of_each(begin, momentum, state.gradient)
        trajectory = (state.position, w, state.gradient)
        y, w, g = jax.lax.fori_loop(
            0, num_leapfrog, lambda _, now: of_each(step, *now[:2]), trajectory, unroll=unrolled(num_leapfrog)
        )
        energy, gain = of_each(gained, state.energy, momentum, y, w, g)
        is_accepted = log_uniform < gain  # False for NaN
        new = ChainState(y, energy, g)
        state = jax.tree.map(lambda a, b: jnp.where(jnp.broadcast_to(is_accepted, a.shape), a, b), new, state)
        return state, (state.position, state.gradient, gain)

    start = ChainState(*(jnp.broadcast_to(a, (*a.shape[:-1], size)) for a in start))
    end, (positions, gradients, gains) = jax.lax.scan(transition, start, (momentum, log_uniform))
    return end, positions, gradients, gains
