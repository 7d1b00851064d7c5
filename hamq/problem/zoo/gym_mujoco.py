"""A cart with one or two poles as MuJoCo moves it: what InvertedPendulum-v5 and InvertedDoublePendulum-v5 have in common.

Joints: the cart's position x, the first pole's angle from upright, the second's angle from the first. In the angles φ of the
poles from upright, with masses mᵢ, inertias Iᵢ, centres cᵢ from the joint below and turned by a lean δᵢ, lengths Lᵢ and
the masses hᵢ above each,

    M·(ẍ, φ̈₁, φ̈₂) = forces,    M₀₀ = Σ mass,    M₀ᵢ = mᵢcᵢ cos(φᵢ + δᵢ) + hᵢLᵢ cos φᵢ,
    Mᵢᵢ = Iᵢ + mᵢcᵢ² + hᵢLᵢ²,    M₁₂ = L₁m₂c₂ cos(φ₁ − φ₂ − δ₂),

the forces being gear·action on the cart, gravity, the damping of every joint, and what the derivatives of M leave (φ̇²).
Poles are capsules of 1,000 kg/m³, as MuJoCo's compiler takes them. One step is RK4 with the action held, `frame_skip`
times. The stops of the rail, soft constraints at |x| = 1, are not in it: the policies that are worth having stay within.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

DENSITY = 1000.0
"""kg/m³, MuJoCo's default."""


class Capsule(NamedTuple):
    """`inertia` is about an axis through the centre, across the capsule."""

    mass: float
    inertia: float


def capsule(radius: float, length: float) -> Capsule:
    """A cylinder of this length with half balls on its ends."""
    cylinder = DENSITY * math.pi * radius**2 * length
    balls = DENSITY * 4 / 3 * math.pi * radius**3
    of_cylinder = cylinder * (3 * radius**2 + length**2) / 12
    of_balls = balls * (2 / 5 * radius**2 + length**2 / 4 + 3 / 8 * length * radius)
    return Capsule(cylinder + balls, of_cylinder + of_balls)


class Pole(NamedTuple):
    """`centre` of mass and `length` are measured from the joint; `lean` is the centre's angle where the joint's is 0."""

    body: Capsule
    centre: float
    length: float
    lean: float = 0.0


class CartPoles(NamedTuple):
    """All constants of one environment; `gravity` pulls down, `sideways` along the rail."""

    cart: Capsule
    poles: tuple[Pole, ...]
    damping: float
    gear: float
    gravity: float
    sideways: float
    time_step: float
    frame_skip: int


def accelerations(
    model: CartPoles, positions: Float[Array, " n"], velocities: Float[Array, " n"], action: Float[Array, ""]
) -> Float[Array, " n"]:
    """Of the joints: ẍ eliminated, then Cramer's rule for the poles."""
    angles, turns = list(itertools.accumulate(positions[1:])), list(itertools.accumulate(velocities[1:]))
    reaches, sides, own = zip(*(_levers(model, i, angle) for i, angle in enumerate(angles)), strict=True)
    total = model.cart.mass + sum(pole.body.mass for pole in model.poles)
    # A joint's torque turns the pole above it and pushes back the one below.
    resisted = [*(-model.damping * velocity for velocity in velocities), 0.0]
    force = model.gear * action + total * model.sideways + resisted[0]
    force = force + sum(side * turn**2 for side, turn in zip(sides, turns, strict=True))
    torques = [
        model.gravity * side + model.sideways * reach + resisted[i + 1] - resisted[i + 2] - reach * force / total
        for i, (side, reach) in enumerate(zip(sides, reaches, strict=True))
    ]
    matrix = [inertia - reach**2 / total for inertia, reach in zip(own, reaches, strict=True)]
    if len(angles) == 1:
        found = [torques[0] / matrix[0]]
    else:
        below, top = model.poles
        lever, between = below.length * top.body.mass * top.centre, angles[0] - angles[1] - top.lean
        torques[0] -= lever * jnp.sin(between) * turns[1] ** 2
        torques[1] += lever * jnp.sin(between) * turns[0] ** 2
        coupled = lever * jnp.cos(between) - reaches[0] * reaches[1] / total
        determinant = matrix[0] * matrix[1] - coupled**2
        found = [
            (matrix[1] * torques[0] - coupled * torques[1]) / determinant,
            (matrix[0] * torques[1] - coupled * torques[0]) / determinant,
        ]
    cart = (force - sum(reach * turning for reach, turning in zip(reaches, found, strict=True))) / total
    return jnp.stack([cart, found[0], *(after - before for before, after in itertools.pairwise(found))])


def _levers(model: CartPoles, i: int, angle: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""], float]:
    """(M₀ᵢ, the same with sines, Mᵢᵢ)."""
    pole, above = model.poles[i], sum(pole.body.mass for pole in model.poles[i + 1 :])
    own, carried = pole.body.mass * pole.centre, above * pole.length
    return (
        own * jnp.cos(angle + pole.lean) + carried * jnp.cos(angle),
        own * jnp.sin(angle + pole.lean) + carried * jnp.sin(angle),
        pole.body.inertia + own * pole.centre + carried * pole.length,
    )


def step(model: CartPoles, state: Float[Array, " d"], action: Float[Array, ""]) -> Float[Array, " d"]:
    """(positions, velocities) after `frame_skip` Runge-Kutta steps."""
    return jax.lax.scan(_runge_kutta(model), (state, action), length=model.frame_skip)[0][0]


@functools.cache
def _runge_kutta(model: CartPoles) -> Callable:
    """One function for each model: JAX then compiles the loop once, also where nothing else is compiled."""
    n, h = len(model.poles) + 1, model.time_step

    def slope(s, action):
        return jnp.concatenate([s[n:], accelerations(model, s[:n], s[n:], action)])

    def advance(carry, _):
        s, action = carry
        first = slope(s, action)
        second = slope(s + h / 2 * first, action)
        third = slope(s + h / 2 * second, action)
        fourth = slope(s + h * third, action)
        return (s + h / 6 * (first + 2 * second + 2 * third + fourth), action), None

    return advance
