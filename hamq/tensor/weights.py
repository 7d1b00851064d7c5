"""Expected weights of the nodes under independent normals cut to the box: E[hat_i(x)] in closed form, axis by axis.

Over one interval [t, t+h] between nodes, with m its mass and M = E[x; interval] = μ·m − σ·(φ(b) − φ(a)), the left node
gets (t + h)·m/h − M/h and the right node M/h − t·m/h. Their product over the axes makes E[V] exact for a tensor train.
In float32, so a mean further than 10 σ outside the box is moved to 10 σ: the law is then within σ/10 of the wall, not
closer.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.tensor.contraction import Axes
from hamq.tensor.gaussian import ndtr

FARTHEST = 10.0
NUM_TURNS = 2
"""Turns round a circle, either way, that a wrapped normal is followed."""
WIDEST = 0.7
"""In lengths of the circle; a wider wrapped normal is uniform to 0.1 %, and two turns would not hold it."""


def expected_weights(axis: Axes, mean: Float[Array, ""], std: Float[Array, ""], num_nodes: int) -> Float[Array, " n"]:
    """E[hat_i] of every node of one axis under N(mean, std²), cut to the axis, or wrapped round it."""
    return jnp.where(axis.is_circle, _wrapped(axis, mean, std, num_nodes), _cut(axis, mean, std, num_nodes))


def _cut(axis: Axes, mean, std, num_nodes: int) -> Array:
    last = axis.last.astype(jnp.int32)
    mean, std = (mean - axis.lower) / axis.spacing, std / axis.spacing  # in units of the spacing, node i at i
    mean = jnp.clip(mean, -FARTHEST * std, axis.last + FARTHEST * std)
    left, right = _shares(jnp.arange(num_nodes - 1, dtype=mean.dtype), mean, std)
    is_inside = jnp.arange(num_nodes - 1) < last
    left, right = jnp.where(is_inside, left, 0), jnp.where(is_inside, right, 0)
    weights = jnp.pad(left, (0, 1)) + jnp.pad(right, (1, 0))
    return weights / jnp.sum(weights)


def _wrapped(axis: Axes, mean, std, num_nodes: int) -> Array:
    around = axis.last + 1
    mean, std = ((mean - axis.lower) / axis.spacing) % around, jnp.minimum(std / axis.spacing, WIDEST * around)
    starts = jnp.arange(-NUM_TURNS * num_nodes, (NUM_TURNS + 1) * num_nodes, dtype=mean.dtype)
    left, right = _shares(starts, mean, std)
    node = jnp.arange(num_nodes, dtype=mean.dtype)
    at_left = (starts[None, :] % around == node[:, None]).astype(mean.dtype)
    at_right = ((starts + 1)[None, :] % around == node[:, None]).astype(mean.dtype)
    weights = jnp.sum(at_left * left[None, :] + at_right * right[None, :], axis=1)
    return weights / jnp.sum(weights)


def _shares(starts: Float[Array, " m"], mean, std) -> tuple[Array, Array]:
    """What the intervals [t, t + 1] give to their left and right nodes."""
    a, b = (starts - mean) / std, (starts + 1 - mean) / std
    is_above = a + b > 0  # in the upper tail 1 − Φ has the digits
    mass = jnp.where(is_above, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
    moved = mean * mass - std * (_density(b) - _density(a))  # E[x; interval]
    return (starts + 1) * mass - moved, moved - starts * mass


def _density(z: Array) -> Array:
    return jnp.exp(-0.5 * z**2) / jnp.sqrt(2 * jnp.asarray(jnp.pi, z.dtype))
