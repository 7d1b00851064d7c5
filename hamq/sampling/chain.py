"""Trajectories one after the other, each accepted or not: what drawing spends its time on.

`run_chain` makes the transitions of one chain from random numbers that are given, so that nothing in it is random; under
`vmap` the loop is laid out with the batch last (`batch_last.py`). How many transitions are made is a value, not a shape:
chains of any length share one program. Only what a chain cannot do without is computed within the loop; acceptance
probabilities and the like are made of the energies that were gained, for all transitions together, when it has ended.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

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
    """Positions after each transition with ∇U there, and what only diagnostics need of the transitions.

    Transitions that were not made (beyond the number that was asked for) have moved nowhere, and accepted nothing.
    """

    positions: Float[Array, "num d"]
    gradients: Float[Array, "num d"]
    acceptance: Float[Array, " num"]
    has_moved: Bool[Array, " num"]
    is_nonfinite: Bool[Array, " num"]
    has_jumped: Bool[Array, " num"]


def make_scales(factor: Array, inverse: Array, covariance: Array, step: Array | float) -> Scales:
    return Scales(step * factor, inverse / step, step**2 * covariance)


def run_chain(
    potential: AbstractPotential,
    scales: Scales,
    start: ChainState,
    momentum: Float[Array, "num d"],
    log_uniform: Float[Array, " num"],
    num_leapfrog: int,
    count: Int[Array, ""] | int | None = None,
) -> tuple[ChainState, Chain]:
    """The last state and all others: a transition for each of the first `count` momenta p ~ N(0, I), in mass units."""
    arrays, rest = eqx.partition((potential, scales), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    num = momentum.shape[0]
    count = jnp.asarray(num if count is None else count, jnp.int32)

    def run(count, position, energy, gradient, momentum, log_uniform, *leaves):
        given = (ChainState(position, energy, gradient), momentum, log_uniform)
        arrays = jax.tree.unflatten(structure, leaves)
        if fits_registers(potential):  # a kernel makes all transitions
            end, *others = run_in_registers(arrays, rest, *given, num_leapfrog)
        else:
            end, *others = run_batch(arrays, rest, *given, num_leapfrog, count[0])
        return *end, *others

    made = batched_last(run)(*alone(count, *start, momentum, log_uniform, *leaves))
    *end, positions, gradients, gains = (a[..., 0] for a in made)
    return ChainState(*end), summary(positions, gradients, gains, log_uniform, jnp.zeros((num,), bool), count)


def summary(positions: Array, gradients: Array, gains: Array, log_uniform: Array, has_jumped: Array, count: Array) -> Chain:
    """What is told of a chain, from the energies H(start) − H(end) that its trajectories gained."""
    is_made = jnp.arange(len(gains), dtype=jnp.int32) < count
    probability = jnp.where(is_made & ~jnp.isnan(gains), jnp.exp(jnp.minimum(gains, 0)), 0)
    has_moved = is_made & (log_uniform < gains)
    return Chain(positions, gradients, probability, has_moved, is_made & ~jnp.isfinite(gains), is_made & has_jumped)


def over_lanes(arrays: PyTree[Array], rest: Any, size: int) -> Callable:
    """`function(*modules, *given)` of each of `size` lanes; `arrays` and `rest` are the two parts of the modules."""
    leaves, structure = jax.tree.flatten(arrays)

    def of_each(function, *given):
        def one(*own):
            modules = eqx.combine(jax.tree.unflatten(structure, own[: len(leaves)]), rest)
            return function(*modules, *own[len(leaves) :])

        return over_last(one, size)(*leaves, *given)

    return of_each


def run_batch(
    arrays: PyTree[Array],
    rest: Any,
    start: ChainState,
    momentum: Float[Array, "num d ..."],
    log_uniform: Float[Array, "num ..."],
    num_leapfrog: int,
    count: Int[Array, ""] | int,
) -> tuple[ChainState, Float[Array, "num d B"], Float[Array, "num d B"], Float[Array, "num B"]]:
    """(last state, positions, gradients, energies gained H(start) − H(end)) of B chains.

    `arrays` are those of (potential, scales), `rest` what else there is of them. Every array has a last axis of B, or of 1
    where all chains share it.
    """
    size = max(a.shape[-1] for a in (*start, momentum, log_uniform, *jax.tree.leaves(arrays)))
    of_each = over_lanes(arrays, rest, size)

    def begin(_, scales, momentum, g):
        return apply(scales.stride, momentum) - 0.5 * apply(scales.kick, g)

    def step(potential, scales, y, w):
        return leap(potential, scales.kick, y, w)

    def gained(potential, scales, old_energy, momentum, y, w, g):
        energy = potential.energy(y)
        return energy, old_energy - energy + kinetic_gain(scales, momentum, w, g)

    def transition(state, noise):
        momentum, log_uniform = noise
        w = of_each(begin, momentum, state.gradient)
        trajectory = (state.position, w, state.gradient)
        y, w, g = jax.lax.fori_loop(
            0, num_leapfrog, lambda _, now: of_each(step, *now[:2]), trajectory, unroll=unrolled(num_leapfrog)
        )
        energy, gain = of_each(gained, state.energy, momentum, y, w, g)
        is_accepted = log_uniform < gain  # False for NaN
        state = choose_state(is_accepted, ChainState(y, energy, g), state)
        return state, (state.position, state.gradient, gain)

    start = ChainState(*(jnp.broadcast_to(a, (*a.shape[:-1], size)) for a in start))
    end, (positions, gradients, gains) = scan_some(transition, start, (momentum, log_uniform), count)
    return end, positions, gradients, gains


def kinetic_gain(scales: Scales, momentum: Array, w: Array, g: Array) -> Float[Array, ""]:
    """½|p|² at the start − ½|p|² at the end of a trajectory, whose last half kick is still to come."""
    end_momentum = apply(scales.inverse_stride, w + 0.5 * apply(scales.kick, g))
    return 0.5 * jnp.sum(momentum**2 - end_momentum**2)


def choose_state(condition: Bool[Array, "*B"], new: ChainState, old: ChainState) -> ChainState:
    return jax.tree.map(lambda a, b: jnp.where(jnp.broadcast_to(condition, a.shape), a, b), new, old)


def scan_some(body: Callable, start: Any, xs: Any, count: Int[Array, ""] | int) -> tuple[Any, Any]:
    """`jax.lax.scan` that ends after `count` of the inputs, a value; what it does not reach stays 0."""
    num = len(jax.tree.leaves(xs)[0])
    body = jax.jit(body, inline=True)  # traced once, for its shapes and for the loop
    _, made = jax.eval_shape(body, start, jax.tree.map(lambda a: a[0], xs))
    room = jax.tree.map(lambda one: jnp.zeros((num, *one.shape), one.dtype), made)

    def step(t, carry):
        state, room = carry
        x = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, t, keepdims=False), xs)
        state, made = body(state, x)
        return state, jax.tree.map(lambda a, one: jax.lax.dynamic_update_index_in_dim(a, one, t, 0), room, made)

    return jax.lax.fori_loop(jnp.int32(0), jnp.asarray(count, jnp.int32), step, (start, room))
