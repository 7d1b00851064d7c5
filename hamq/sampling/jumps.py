"""Independent proposals from the Laplace mixture of the modes, widened, with a part spread evenly over the box.

As a Metropolis move it lets a chain jump between modes that no trajectory crosses; with weights it is importance sampling.
The even part bounds the weights wherever the Laplace approximation is too thin.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from hamq.sampling.leapfrog import apply
from hamq.sampling.modes import Modes, difference, wrapped
from hamq.sampling.walls import AbstractPotential, LogitPotential
from hamq.types import Key

WIDENING = 1.3
EVEN_SHARE = 0.1


class JumpNoise(NamedTuple):
    """The random numbers of n proposals: the same for all actions of a state."""

    choice: Float[Array, "n 2"]
    normal: Float[Array, "n d"]
    even: Float[Array, "n d"]


def jump_noise(num: int, d: int, *, key: Key) -> JumpNoise:
    choice_key, normal_key, even_key = jr.split(key, 3)
    return JumpNoise(jr.uniform(choice_key, (num, 2)), jr.normal(normal_key, (num, d)), jr.uniform(even_key, (num, d)))


def propose(potential: AbstractPotential, modes: Modes, noise: JumpNoise) -> Float[Array, " d"]:
    """One proposal, from the noise of one proposal."""
    share = jnp.clip(noise.even, 1e-7, 1 - 1e-7)
    even = potential.lower + (potential.upper - potential.lower) * share
    if isinstance(potential, LogitPotential):
        even = potential.where_circle(even, jnp.log(share) - jnp.log1p(-share))
    k = jnp.searchsorted(jnp.cumsum(jnp.exp(modes.log_weights)), noise.choice[1]).clip(0, len(modes.log_weights) - 1)
    near_mode = modes.positions[k] + WIDENING * apply(modes.factors[k], noise.normal)
    y = jnp.where(noise.choice[0] < EVEN_SHARE, even, near_mode)
    return wrapped(potential, y)


def log_proposal(potential: AbstractPotential, modes: Modes, y: Float[Array, " d"]) -> Float[Array, ""]:
    """log density of `propose` over y, up to a constant that depends on nothing but the box."""
    shifts = jnp.asarray(_shifts(potential), y.dtype)
    d = y.shape[0]

    def log_component(position, inverse, log_height):
        offset = difference(potential, y, position)
        squares = jax.vmap(lambda shift: jnp.sum(apply(inverse, offset + shift) ** 2))(shifts)
        return log_height - 0.5 * squares / WIDENING**2

    logs = jax.vmap(log_component)(modes.positions, modes.inverse_factors, modes.log_weights - modes.log_volumes)
    constant = -d * np.log(WIDENING) - 0.5 * d * np.log(2 * np.pi) + np.log(1 - EVEN_SHARE)
    # On logit axes the volume element leaves out the range, so the even part is 1 per unit of σ(y), not per unit of s'.
    extents = np.asarray(potential.grid.widths)
    if isinstance(potential, LogitPotential):
        extents = extents[potential.circle]
    even = potential.log_volume(y) - float(np.log(extents).sum()) + np.log(EVEN_SHARE)
    point = potential.place(y)
    is_inside = jnp.all(potential.wraps | ((point >= potential.lower) & (point <= potential.upper)))
    even = jnp.where(is_inside, even, -jnp.inf)
    return jnp.logaddexp(jax.nn.logsumexp(logs) + constant, even)


def _shifts(potential: AbstractPotential) -> np.ndarray:
    """Images round the circles: a widened mode has σ below a quarter of a circle, so one on each side is enough."""
    ranges = [(-1, 0, 1) if circle else (0,) for circle in potential.wraps]
    return np.asarray(list(itertools.product(*ranges))) * np.asarray(potential.grid.widths)
