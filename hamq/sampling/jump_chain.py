"""Chains of densities that may have several modes: each transition is a jump, accepted or not, and then a trajectory.

Up to three dimensions a jump is proposed for the whole vector from the modes' Laplace mixture, in more for a few
coordinates one after the other (`jumps.py`). Which mode's mass a trajectory uses is drawn anew each time, which leaves the
target invariant because the choice does not look at the position.

The user's density is most of the program, so it stands in it as seldom as possible: the place that a jump proposes and the
steps of the trajectory are turns of one loop, whose body evaluates U and ∇U once. Jumps of coordinates have a loop of
their own, which evaluates U.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from hamq.sampling.batch_last import alone, batched_last
from hamq.sampling.chain import Chain, ChainState, choose_state, over_lanes, scan_some, summary
from hamq.sampling.jumps import (
    MAX_WHOLE,
    Box,
    CoordinateNoise,
    JumpNoise,
    box_of,
    choose_coordinate,
    log_marginal,
    log_proposal,
    marginals_of,
    one_of,
    picked,
    propose,
    propose_coordinate,
    tabled_shares,
    times_lanes,
)
from hamq.sampling.modes import Modes
from hamq.sampling.noise import ChainNoise
from hamq.sampling.walls import AbstractPotential


class Lanes(NamedTuple):
    """B chains: their modes and step sizes, with the lanes last, and functions of each lane's potential."""

    box: Box
    modes: Modes
    step: Float[Array, " _"]
    of_each: Any


def run_jumping_chain(
    potential: AbstractPotential,
    modes: Modes,
    step_size: Float[Array, ""],
    start: ChainState,
    noise: ChainNoise,
    lengths: Int[Array, " num"],
    count: Int[Array, ""] | int | None = None,
) -> tuple[ChainState, Chain]:
    """The last state and all others: one jump and one trajectory for each of the first `count` random numbers.

    `lengths` are the leapfrog steps of each trajectory, the same for all chains of a batch: values, so that chains of any
    length share one program.
    """
    arrays, rest = eqx.partition(potential, eqx.is_array)
    tabled = None
    if modes.table is not None:
        assert isinstance(noise.jump, JumpNoise)
        tabled = tabled_shares(modes.table, noise.jump)
    given, structure = jax.tree.flatten((start, (noise, lengths, tabled), modes, step_size, arrays))
    count = jnp.asarray(len(noise.log_uniform) if count is None else count, jnp.int32)

    def run(count, *given):
        size = max(a.shape[-1] for a in given)
        start, noise, modes, step, arrays = jax.tree.unflatten(structure, given)
        lanes = Lanes(box_of(potential), modes, step, over_lanes((arrays,), (rest,), size))
        start = ChainState(*(jnp.broadcast_to(a, (*a.shape[:-1], size)) for a in start))
        step = functools.partial(_transition, lanes)
        end, made = scan_some(step, start, noise, count[0])
        return *end, *made

    made = batched_last(run)(*alone(count, *given))
    *end, positions, gradients, gains, has_jumped = (a[..., 0] for a in made)
    return ChainState(*end), summary(positions, gradients, gains, noise.log_uniform, has_jumped, count)


def _transition(
    lanes: Lanes, state: ChainState, given: tuple[ChainNoise, Int[Array, " 1"], Float[Array, "d _"] | None]
) -> tuple[ChainState, tuple[Array, Array, Array, Array]]:
    """(state, (position, gradient, energy gained, whether the jump was accepted)) of each lane."""
    noise, length, tabled = given
    assert noise.mass_choice is not None
    mass = _mass(lanes, noise.mass_choice)
    if state.position.shape[0] <= MAX_WHOLE:
        place, log_ratio, log_uniform, has_moved = _whole(lanes, state, noise, tabled)
    else:
        place, log_ratio, log_uniform, has_moved = _by_coordinates(lanes, state, noise)

    def evaluate(potential, y, w, place, is_jump):
        drifted, w = potential.fold(y + w, w)
        y = jnp.where(is_jump, place, drifted)
        return y, w, *potential.energy_and_gradient(y)

    def turn(i, carry):
        """Turn 0 is the jump, from 1 on the steps of the trajectory."""
        start, now, w, has_jumped = carry
        is_jump = (i == 0)[None]
        y, w, energy, g = lanes.of_each(evaluate, now.position, w, place, is_jump)
        reached = ChainState(y, energy, g)
        is_accepted = is_jump & (log_uniform < start.energy - energy + log_ratio)  # False for NaN
        start = choose_state(is_accepted, reached, start)
        now = choose_state(is_jump, start, reached)
        kick = mass.kicked(now.gradient)
        w = jnp.where(is_jump, mass.strode(noise.momentum) - 0.5 * kick, w - kick)
        return start, now, w, has_jumped | is_accepted

    carry = (state, state, jnp.zeros_like(state.position), jnp.zeros_like(state.energy, bool))
    state, end, w, has_jumped = jax.lax.fori_loop(jnp.int32(0), length[0] + 1, turn, carry)
    end_momentum = mass.momentum(w + 0.5 * mass.kicked(end.gradient))
    gain = state.energy - end.energy + 0.5 * jnp.sum(noise.momentum**2 - end_momentum**2, axis=0)
    state = choose_state(noise.log_uniform < gain, end, state)
    return state, (state.position, state.gradient, gain, has_jumped & has_moved)


class Mass(NamedTuple):
    """εL and (εL)⁻¹ of each lane, with C = L·Lᵀ the inverse mass; `chain.Scales` are the same for chains of one mode."""

    stride: Float[Array, "d d _"]
    inverse_stride: Float[Array, "d d _"]

    def strode(self, momentum: Float[Array, "d _"]) -> Float[Array, "d _"]:
        """The displacement ε·C·p of one drift, from p in units of the mass."""
        return times_lanes(self.stride, momentum)

    def kicked(self, gradient: Float[Array, "d _"]) -> Float[Array, "d _"]:
        """ε²C·∇U."""
        return times_lanes(self.stride, times_lanes(jnp.swapaxes(self.stride, 0, 1), gradient))

    def momentum(self, w: Float[Array, "d _"]) -> Float[Array, "d _"]:
        return times_lanes(self.inverse_stride, w)


def _mass(lanes: Lanes, choice: Float[Array, " _"]) -> Mass:
    """That of a mode which is drawn by its weight."""
    is_one = one_of(jnp.exp(lanes.modes.log_weights), choice)
    step = lanes.step[None, None]
    return Mass(step * picked(is_one, lanes.modes.factors), picked(is_one, lanes.modes.inverse_factors) / step)


def _whole(lanes: Lanes, state: ChainState, noise: ChainNoise, tabled: Float[Array, "d _"] | None):
    """(place, log q(y)/q(place), log of the uniform, True): independence Metropolis for the whole vector."""
    assert isinstance(noise.jump, JumpNoise)
    place = propose(lanes.box, lanes.modes, noise.jump, tabled)
    log_ratio = log_proposal(lanes.box, lanes.modes, state.position) - log_proposal(lanes.box, lanes.modes, place)
    return place, log_ratio, noise.jump.log_uniform, True


def _by_coordinates(lanes: Lanes, state: ChainState, noise: ChainNoise):
    """(place, inf, 0, whether it moved): a few Metropolis moves of one coordinate each, which turn 0 takes as they are."""
    assert isinstance(noise.jump, CoordinateNoise)
    marginals = marginals_of(lanes.modes)

    def move(i, carry):
        y, energy, has_moved = carry
        one = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, i, keepdims=False), noise.jump)
        coordinate = choose_coordinate(lanes.box, marginals, one.axis)
        value, index = propose_coordinate(marginals, coordinate, one), jnp.arange(len(y), dtype=jnp.int32)
        place = jnp.where(index[:, None] == coordinate.index[None], value[None], y)
        new_energy = lanes.of_each(lambda potential, y: potential.energy(y), place)
        old = picked([coordinate.index == i for i in range(len(y))], y)
        log_ratio = log_marginal(lanes.box, coordinate, old) - log_marginal(lanes.box, coordinate, value)
        is_accepted = one.log_uniform < energy - new_energy + log_ratio
        y, energy = jnp.where(is_accepted[None], place, y), jnp.where(is_accepted, new_energy, energy)
        return y, energy, has_moved | is_accepted

    start = (state.position, state.energy, jnp.zeros_like(state.energy, bool))
    place, _, has_moved = jax.lax.fori_loop(0, len(noise.jump.normal), move, start)
    return place, jnp.inf, 0.0, has_moved
