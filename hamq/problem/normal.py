"""Masses of one truncated or wrapped normal on the nodes of one axis, as logs.

With z = (x − μ)/σ and erfcx(z) = exp(z²)·erfc(z), the mass between two points on the same side of μ, a nearer than b, is

    Φ(b) − Φ(a) = exp(−a²/2) · ½ [erfcx(a/√2) − exp(−(b² − a²)/2) · erfcx(b/√2)],

whose bracket neither underflows nor cancels however far a lies in the tail: a mean 80 σ outside the box still has
masses. Normalised over the box, so the constant of the truncation is never needed.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, erfc, logsumexp
from jaxtyping import Array, Float, ScalarLike

from hamq.problem.grid import Grid
from hamq.types import Law

NUM_IMAGES = 13
"""Images of a wrapped normal on each side: 8.5 σ at the widest σ that is not yet uniform on the circle."""
MAX_WRAPPED_STD = 1.5
"""In lengths of the circle; beyond it a wrapped normal is uniform to 1e-19, so σ is cut there."""

_SQRT_HALF = 0.5**0.5


def axis_log_masses(grid: Grid, axis: int, law: Law, mean: ScalarLike, std: ScalarLike) -> Float[Array, " n"]:
    """log P(node) on one axis for a normal (mean, std) cut to the box, or wrapped round a periodic axis."""
    mean, std = jnp.asarray(mean), jnp.asarray(std)
    if grid.periodic[axis]:
        width = grid.widths[axis]
        std = jnp.minimum(std, MAX_WRAPPED_STD * width)
        mean = grid.lower[axis] + (mean - grid.lower[axis]) % width
        shifts = width * jnp.arange(-NUM_IMAGES, NUM_IMAGES + 1, dtype=mean.dtype)  # unrolled: compiles 20 times longer
        images = jax.vmap(lambda shift: _unnormalised(grid, axis, law, mean + shift, std))(shifts)
        log_masses = logsumexp(images, axis=0)
    else:
        log_masses = _unnormalised(grid, axis, law, mean, std)
    return log_masses - logsumexp(log_masses)


def _unnormalised(grid: Grid, axis: int, law: Law, mean: Array, std: Array) -> Float[Array, " n"]:
    if law == "point":
        z = (_array(grid.axis_nodes(axis), mean) - mean) / std
        return -0.5 * z**2
    if law == "cell":
        edges = grid.axis_edges(axis)
        z = (_array(edges, mean) - mean) / std
        step = _array(np.diff(edges), mean) / std
        return log_interval_mass(z[:-1], z[1:], step)
    return _log_hat_masses(grid, axis, mean, std)


def log_interval_mass(a: Array, b: Array, step: Array) -> Array:
    """log(Φ(b) − Φ(a)) for a < b = a + step."""
    near = jnp.where(a + b > 0, a, -b)  # mirrored, so that the nearer end comes first
    straddles = near < 0
    near_z = jnp.maximum(near, 0)
    tail = 0.5 * (_erfcx(near_z * _SQRT_HALF) - jnp.exp(-step * (near_z + step / 2)) * _erfcx((near_z + step) * _SQRT_HALF))
    middle = 0.5 * (erf(b * _SQRT_HALF) - erf(a * _SQRT_HALF))
    return jnp.where(straddles, jnp.log(jnp.where(straddles, middle, 1)), jnp.log(tail) - 0.5 * near_z**2)


def _log_hat_masses(grid: Grid, axis: int, mean: Array, std: Array) -> Float[Array, " n"]:
    """log ∫ hat_k(x) φ((x − μ)/σ) dx/σ: each interval [a, b] between nodes gives its mass to its two ends.

    Far end of the interval: ∫ (z − a)/(b − a) φ(z) dz for a the end nearer to the mean; near end: the rest. In the tail
    both are multiples of φ(a), with k of `_mills`: [k(a) − φ(b)/φ(a)·(k(b) + (b − a)·m(b))]/(b − a). All without √(2π).
    """
    nodes, circle = grid.axis_nodes(axis), grid.periodic[axis]
    ends = np.append(nodes, nodes[0] + grid.widths[axis]) if circle else nodes
    z = (_array(ends, mean) - mean) / std
    step = _array(np.diff(ends), mean) / std
    a, b = z[:-1], z[1:]
    is_right = a + b > 0
    near = jnp.where(is_right, a, -b)
    start = jnp.maximum(near, 0)
    (m0, k0), (m1, k1) = _mills(start), _mills(start + step)
    decay = jnp.exp(-step * (start + step / 2))  # φ(far)/φ(near)
    tail, tail_far = m0 - decay * m1, (k0 - decay * (k1 + step * m1)) / step
    middle = (np.pi / 2) ** 0.5 * (erf(b * _SQRT_HALF) - erf(a * _SQRT_HALF))
    fall = jnp.exp(-0.5 * near**2) * -jnp.expm1(-step * (near + step / 2))
    straddles = near < 0
    mass = jnp.where(straddles, middle, tail)
    far_share = jnp.clip(jnp.where(straddles, (fall - near * middle) / step, tail_far), 0, mass)
    exponent = 0.5 * start**2
    near_log, far_log = jnp.log(mass - far_share) - exponent, jnp.log(far_share) - exponent
    left, right = jnp.where(is_right, near_log, far_log), jnp.where(is_right, far_log, near_log)
    if circle:
        return jnp.logaddexp(left, jnp.roll(right, 1))
    nothing = jnp.full((1,), -jnp.inf, z.dtype)
    return jnp.logaddexp(jnp.concatenate([left, nothing]), jnp.concatenate([nothing, right]))


def _erfcx(x: Array) -> Array:
    """exp(x²)·erfc(x) for x ≥ 0: the product while erfc is far from underflow, the asymptotic series beyond.

    `jax.scipy.special.erfcx` (0.10.2) is 0 between 26.54 and 26.6, and in float32 about 9.2, where erfc is subnormal.
    """
    switch = 10.0 if x.dtype == jnp.float64 else 6.0
    small, large = jnp.minimum(x, switch), jnp.maximum(x, switch)
    u = -0.5 / large**2
    series = jnp.ones_like(x)
    for k in range(9, 0, -1):
        series = 1 + (2 * k - 1) * u * series
    return jnp.where(x < switch, jnp.exp(small**2) * erfc(small), series / (large * np.pi**0.5))


def _mills(x: Array) -> tuple[Array, Array]:
    """m = (1 − Φ(x))/φ(x) and k = 1 − x·m for x ≥ 0; far out k ≈ 1/x² is a series of its own, so that nothing cancels."""
    switch = 14.0 if x.dtype == jnp.float64 else 8.0
    small, large = jnp.minimum(x, switch), jnp.maximum(x, switch)
    u = -1 / large**2
    series = jnp.ones_like(x)
    for i in range(9, 1, -1):
        series = 1 + (2 * i - 1) * u * series
    ratio = (np.pi / 2) ** 0.5 * jnp.exp(0.5 * small**2) * erfc(small * _SQRT_HALF)
    is_near = x < switch
    return jnp.where(is_near, ratio, (1 + u * series) / large), jnp.where(is_near, 1 - small * ratio, -u * series)


def _array(values: np.ndarray, like: Array) -> Array:
    return jnp.asarray(values, like.dtype)
