"""Weighted draws of a density without a normaliser, as a smooth function of state and action.

1. A normal law N(μ(s, a), P⁻¹) is fitted to the density's score ∇log p (Fisher divergence; needs no normaliser and does
   not see the walls): P is constant and μ(s, a) = B·(1, s, a), or one Newton step from there, μ + P⁻¹·∇log p(μ), if that
   makes the weights more even. With it the law is exact wherever the density is Gaussian with a constant covariance,
   whatever its mean does.
2. Its draws, cut to the box, with random numbers that all pairs share, are carried towards the density by
   `num_leapfrog` leapfrog steps of annealed Hamiltonian dynamics. There is no rejection: the leapfrog map preserves
   volume, so a draw that starts as q(y₀)·N(m₀) and ends at (y, m) has the weight

       w = p(y)/q(y₀) · Π_steps N(m_out)/N(m_in)

   (annealed importance sampling with uncorrected Hamiltonian moves). A rejection would make the weighted mean jump where
   state or action change a little, and cross approximation lives on its being smooth.
3. The weights are tilted to obey Stein's identities (sampling/calibration.py).

Zero steps are plain importance sampling.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from hamq.problem.kernels.gaussian import CorrelatedDensity
from hamq.problem.kernels.kernel import AbstractDensity
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.sampling.calibration import stein_functions, tilt
from hamq.sampling.walls import LogitPotential, make_potential
from hamq.tensor.gaussian import cut_draws, shared_normals
from hamq.tensor.law import TiltedLaw, features_of, tilted_draws

__all__ = ["NormalLaw", "TiltedLaw", "blank_law", "fit_law", "normal_at", "tilted_draws"]

NUM_FITTED, NUM_ROUNDS, NUM_TRIED = 2048, 3, 256
EDGE = 1e-6
"""Part of the box's width that draws are kept off the walls, where the logit coordinates end."""


def _as_flag(value: bool | Array) -> Array:
    return value if isinstance(value, jax.Array) else jax.device_put(np.asarray(value, bool))


class NormalLaw(TiltedLaw):
    """What is the same for all pairs: the fitted normal law and the shared random numbers.

    `is_corrected` is an array: programs are compiled before it is known.
    """

    regression: Float[Array, "d features"]
    root: Float[Array, "d d"]
    precision: Float[Array, "d d"]
    numbers: Float[Array, "d n"]
    momenta: Float[Array, "steps d n"]
    step_size: float = eqx.field(static=True)
    is_corrected: Bool[Array, ""] = eqx.field(converter=_as_flag)

    def with_draws(self, num_samples):
        normals, momenta = _shared(num_samples, self.numbers.shape[0], self.momenta.shape[0], 0)
        arrays = (jax.device_put(array.astype(np.float32)) for array in (normals, momenta))
        return dataclasses.replace(self, **dict(zip(("numbers", "momenta"), arrays, strict=True)))

    @property
    def cost(self) -> tuple[int, int, int]:
        n, steps = self.numbers.shape[1], self.momenta.shape[0]
        return n, n, n * (steps + 1) + 1

    @property
    def constants(self) -> tuple:
        return (self.step_size,)

    def draws(self, problem, state, action):
        target, y, log_weights, gradients = _carried(problem, self, state, action)
        log_weights = tilt(stein_functions(target, y, gradients), log_weights)
        placed = jax.vmap(lambda one: problem.grid.wrap(target.place(one)), 1, 1)(y)
        return placed, jnp.exp(log_weights)


def normal_at(law: NormalLaw, density: AbstractDensity, state, action, grid) -> CorrelatedDensity:
    """The fitted normal law of one pair."""
    mean = times_columns(law.regression, features_of(state, action))
    lower, upper = jnp.asarray(grid.lower, state.dtype), jnp.asarray(grid.upper, state.dtype)
    inside = jnp.where(jnp.asarray(grid.periodic), mean, jnp.clip(mean, lower, upper))
    moved = inside + times_columns(law.root, times_columns(law.root.T, density.gradient(inside)))
    return CorrelatedDensity(jnp.where(law.is_corrected, moved, mean), law.root, law.precision)


def times_columns(matrix: Float[Array, "rows columns"], vector: Float[Array, " columns"]) -> Float[Array, " rows"]:
    """Matrix times vector in full precision on every device."""
    return jnp.matmul(matrix, vector, precision="highest")


def _carried(problem: Problem, law: NormalLaw, state, action):
    """(potential, y `[d, n]`, log-weights, ∇U at y) of the draws after their trajectories."""
    density = problem.density(state, action)
    base = normal_at(law, density, state, action, problem.grid)
    points, log_base = cut_draws(base.normal, problem.grid, law.numbers)
    target = make_potential("logit", density, problem.grid, 1.0)
    start = make_potential("logit", base, problem.grid, 1.0)
    assert isinstance(target, LogitPotential) and isinstance(start, LogitPotential)
    scale = _scale(start, base)
    y = jax.vmap(lambda point: _lift(target, point), 1, 1)(points)
    y, gradients, gains = jax.vmap(
        lambda y, momenta: _carry(target, start, scale, y, momenta, law.step_size), (1, 2), (1, 1, 0)
    )(y, law.momenta)
    return target, y, log_base + gains, gradients


def _lift(potential: LogitPotential, point: Float[Array, " d"]) -> Float[Array, " d"]:
    share = jnp.clip((point - potential.lower) / (potential.upper - potential.lower), EDGE, 1 - EDGE)
    return potential.where_circle(point, jnp.log(share) - jnp.log1p(-share))


def _scale(potential: LogitPotential, base: CorrelatedDensity) -> Float[Array, " d"]:
    """Standard deviations in logit coordinates about where the base law has its mass: units of a leapfrog step."""
    width, std = potential.upper - potential.lower, 1 / jnp.sqrt(jnp.diagonal(base.precision))
    share = jnp.clip((base.mean - potential.lower) / width, std / width, 1 - std / width)
    slope = width * jnp.maximum(share * (1 - share), 0.05)
    return potential.where_circle(std, 1 / jnp.sqrt((slope / std) ** 2 + 0.25))


def _carry(target: LogitPotential, start: LogitPotential, scale, y, momenta, step_size: float):
    """(y, ∇U there, log-weight) after the annealed steps: U_β = (1 − β)·U_start + β·U_target, β from 1/steps to 1."""
    steps = momenta.shape[0]
    gain = start.energy(y)

    def step(carry, given):
        y, gain = carry
        momentum, share = given

        def slope(y):
            return scale * (share * target.gradient(y) + (1 - share) * start.gradient(y))

        before = 0.5 * jnp.sum(momentum**2)
        momentum = momentum - 0.5 * step_size * slope(y)
        y = y + step_size * scale * momentum
        momentum = momentum - 0.5 * step_size * slope(y)
        return (y, gain + before - 0.5 * jnp.sum(momentum**2)), None

    if steps:
        shares = jnp.arange(1, steps + 1, dtype=y.dtype) / steps
        (y, gain), _ = jax.lax.scan(step, (y, gain), (momenta, shares))
    energy, gradient = target.energy_and_gradient(y)
    return y, gradient, gain - energy


def fit_law(problem: Problem, actions_at, num_samples: int, num_leapfrog: int, step_size: float, seed: int) -> NormalLaw:
    """The normal law whose score is nearest to the density's, at draws of the law itself; three rounds.

    `actions_at(generator, count)` draws actions. The first round looks at points all over the box.
    """
    grid, generator = problem.grid, np.random.default_rng(seed)
    d = grid.dimension
    low, high = np.asarray(grid.lower), np.asarray(grid.upper)
    states = generator.uniform(low, high, (NUM_FITTED, d)).astype(np.float32)
    actions = np.asarray(actions_at(generator, NUM_FITTED), np.float32)
    points = generator.uniform(low, high, (2, NUM_FITTED, d))
    features = np.concatenate([np.ones((NUM_FITTED, 1)), states, actions.reshape(NUM_FITTED, -1)], axis=1)
    for _ in range(NUM_ROUNDS):
        scores = [_scores(problem, each.astype(np.float32), states, actions) for each in points]
        precision, regression = _fit(points, features, scores)
        root = np.linalg.cholesky(np.linalg.inv(precision))
        draws = (features @ regression.T)[None] + generator.standard_normal((2, NUM_FITTED, d)) @ root.T
        points = np.clip(draws, low, high)
    law = _on_device(regression, root, precision, *_shared(num_samples, d, num_leapfrog, seed), step_size)
    candidates = [law, dataclasses.replace(law, is_corrected=True)]
    return max(candidates, key=lambda law: _evenness(problem, law, states[:NUM_TRIED], actions[:NUM_TRIED]))


def _shared(num_samples: int, dimension: int, num_leapfrog: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(normals `[d, n]`, momenta `[steps, d, n]`)."""
    momenta = [shared_normals(num_samples, dimension, seed + 1 + t) for t in range(num_leapfrog)]
    momenta = np.asarray(momenta).reshape(num_leapfrog, dimension, num_samples)
    return shared_normals(num_samples, dimension, seed), momenta


def blank_law(problem: Problem, num_samples: int, num_leapfrog: int, step_size: float) -> NormalLaw:
    """Zeros in the shapes of what `fit_law` will return."""
    d, num_actuators = problem.grid.dimension, math.prod(problem.action_shape)
    shapes = ((d, 1 + d + num_actuators), (d, d), (d, d), (d, num_samples), (num_leapfrog, d, num_samples))
    regression, root, precision, normals, momenta = (np.zeros(shape) for shape in shapes)
    return _on_device(regression, root, precision, normals, momenta, step_size)


def _on_device(regression, root, precision, normals, momenta, step_size: float) -> NormalLaw:
    given = (regression, root, precision, normals, momenta)
    regression, root, precision, normals, momenta = (jax.device_put(np.asarray(a, np.float32)) for a in given)
    return NormalLaw(regression, root, precision, normals, momenta, step_size, False)


def _scores(problem: Problem, points, states, actions) -> Float[np.ndarray, "N d"]:
    """∇log p at one point of every pair."""
    trace = jax.vmap(lambda x, s, a: problem.density(s, a).gradient(x))
    given, kernel = (points, states, actions), problem.kernel
    job = ("scores", kernel.constants, problem.grid)
    return np.asarray(program(job, kernel.functions, trace, *given)(*given), np.float64)


def _evenness(problem: Problem, law: NormalLaw, states, actions) -> float:
    """Effective share of the weights, before they are tilted, that all but a twentieth of the pairs reach."""

    def share(law, state, action):
        _, _, log_weights, _ = _carried(problem, law, state, action)
        return 1 / jnp.sum(jax.nn.softmax(log_weights) ** 2) / log_weights.shape[0]

    given, kernel = (law, states, actions), problem.kernel
    job = ("evenness", kernel.constants, problem.grid)
    shares = program(job, kernel.functions, jax.vmap(share, (None, 0, 0)), *given)(*given)
    return float(np.quantile(np.nan_to_num(np.asarray(shares)), 0.05))


def _fit(points, features, scores) -> tuple[np.ndarray, np.ndarray]:
    """(P, B) of the least squares fits ∇log p(x) − ∇log p(x') ≈ −P·(x − x') and ∇log p(x) + P·x ≈ P·B·f.

    Two points of the same pair have one mean: P does not suffer from what a linear B cannot follow. It is made symmetric
    and positive.
    """
    finite = np.isfinite(scores).all(axis=(0, 2))
    (first, second), (one, other) = points[:, finite], np.asarray(scores)[:, finite]
    slope = np.linalg.lstsq(first - second, one - other, rcond=None)[0].T
    values, vectors = np.linalg.eigh(-(slope + slope.T) / 2)
    floor = 1e-3 * max(values.max(), 1e-12)
    precision = (vectors * np.maximum(values, floor)) @ vectors.T
    shifted = np.linalg.lstsq(features[finite], one + first @ precision, rcond=None)[0].T
    return precision, np.linalg.solve(precision, shifted)
