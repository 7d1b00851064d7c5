"""The random numbers of chains: all that is random in them, made before they move.

A number has an address: the key, a stream (the state, or the pair, that a chain belongs to), the transition and a place
within it. Threefry turns address into bits, so that a chain has the same numbers in however many parts it is made, and in
whatever batch. Nothing here looks at the density: problems of one dimension share what is compiled, and actions of one
state can share the numbers.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Integer, UInt32

from hamq.sampling.jumps import MAX_WHOLE, NUM_COORDINATES, CoordinateNoise, JumpNoise, normal_quantile, student_quantile
from hamq.types import Key, is_cpu


class StartNoise(NamedTuple):
    """What is random in the start of a chain: the choice of a mode, and the way from it."""

    choice: Float[Array, "*n"]
    normal: Float[Array, "*n d"]


class ChainNoise(NamedTuple):
    """What is random in n transitions: momentum p ~ N(0, I), log of the uniform that accepts, and where a density may have
    several modes the choice of a mass and the proposal of a jump."""

    momentum: Float[Array, "*n d"]
    log_uniform: Float[Array, "*n"]
    mass_choice: Float[Array, "*n"] | None
    jump: JumpNoise | CoordinateNoise | None


def make_noise(
    num: int, d: int, jumps: bool, *, key: Key, stream: Integer[Array, ""] | int = 0, first: Integer[Array, ""] | int = 0
) -> tuple[StartNoise, ChainNoise]:
    """(noise of the start, noise of the transitions `first` … `first + num − 1`) of one chain in d dimensions."""
    jump = _of_jump(d) if jumps else Numbers(0, 0, 0, 0)
    counts = Numbers(d + jump.normals, 1 + jump.logs, jump.students, (1 if jumps else 0) + jump.plain)
    rows = jnp.arange(num + 1, dtype=jnp.uint32)  # row 0 is the start
    rows = jnp.where(rows > 0, rows + jnp.asarray(first, jnp.uint32), 0)
    u = _addressed_uniforms(key, stream, rows, max(sum(counts), d + 1))
    # Numbers of a kind lie side by side: each function stands in the program once.
    normals, logs, students, plain = (u[:, at] for at in _parts(counts))
    normals, logs, students = normal_quantile(normals), jnp.log(logs), student_quantile(students)
    start = StartNoise(u[0, d], normals[0, :d])
    normals, logs, students, plain = (a[1:] for a in (normals, logs, students, plain))
    if not jumps:
        return start, ChainNoise(normals, logs[:, 0], None, None)
    if d <= MAX_WHOLE:
        made = JumpNoise(plain[:, 1:3], students, plain[:, 3:], logs[:, 1])
    else:
        choices = plain[:, 1 : 1 + 2 * NUM_COORDINATES].reshape(num, NUM_COORDINATES, 2)
        axis, even = jnp.split(plain[:, 1 + 2 * NUM_COORDINATES :], 2, axis=1)
        made = CoordinateNoise(axis, choices, normals[:, d:], even, logs[:, 1:])
    return start, ChainNoise(normals[:, :d], logs[:, 0], plain[:, 0], made)


class Numbers(NamedTuple):
    """How many random numbers of each kind there are."""

    normals: int
    logs: int
    students: int
    plain: int


def _of_jump(d: int) -> Numbers:
    if d <= MAX_WHOLE:
        return Numbers(0, 1, d, 2 + d)
    return Numbers(NUM_COORDINATES, NUM_COORDINATES, 0, 4 * NUM_COORDINATES)


def _parts(counts: Numbers) -> list[slice]:
    ends = list(itertools.accumulate(counts))
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _addressed_uniforms(
    key: Key, stream: Integer[Array, ""] | int, rows: Integer[Array, " n"], width: int
) -> Float[Array, "n width"]:
    """Numbers of the open interval, two from each block of 64 bits."""
    half = -(-width // 2)
    column = rows[:, None] * jnp.asarray(half, jnp.uint32) + jnp.arange(half, dtype=jnp.uint32)[None, :]
    bits = jnp.concatenate(threefry(jr.key_data(key), jnp.asarray(stream, jnp.uint32), column), axis=1)
    return (((bits >> 9).astype(jnp.float32) + 0.5) * 2.0**-23)[:, :width].astype(jnp.result_type(float))


ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def threefry(
    words: UInt32[Array, " 2"], stream: UInt32[Array, ""], counter: UInt32[Array, "..."]
) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """Threefry-2x32 with 20 rounds (Salmon and others 2011) of the block (stream, counter), as `jax.random` has it.

    On a CPU a loop of single rounds, where JAX's own writes out four at a time: that took XLA longer to compile than a
    chain. An accelerator would write the numbers to memory after every round, and gets one formula.
    """
    keys = jnp.stack([words[0], words[1], words[0] ^ words[1] ^ jnp.uint32(0x1BD11BDA)])
    rounds = np.arange(1, 6)
    injected = jnp.stack([keys[rounds % 3], keys[(rounds + 1) % 3] + rounds.astype(np.uint32)])
    added = jnp.zeros((2, 5, 4), jnp.uint32).at[:, :, 3].set(injected).reshape(2, 20)  # after every fourth round
    turns = jnp.asarray(np.tile(np.asarray(ROTATIONS, np.uint32), 3)[:20])

    def one_round(i, block):
        x, y = block
        x = x + y
        y = ((y << turns[i]) | (y >> (32 - turns[i]))) ^ x
        return x + added[0, i], y + added[1, i]

    start = jnp.broadcast_to(stream + keys[0], counter.shape), counter + keys[1]
    return jax.lax.fori_loop(0, 20, one_round, start, unroll=1 if is_cpu() else 20)


def uniforms(shape: tuple[int, ...], *, key: Key) -> Float[Array, "..."]:
    """Uniform in the open interval: 0 and 1 have no quantile."""
    return jr.uniform(key, shape, minval=1e-7, maxval=1 - 1e-7)
