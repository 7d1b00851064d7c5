"""Independent draws: the baseline that every chain is compared with, where it can be had.

product    truncated normals by inverse distribution function, axis by axis (periodic axes: normals, wrapped); other
           independent coordinates as nodes, by the inverse distribution function over the masses of each axis
masses     inverse distribution function over the row of masses, for kernels whose masses fit
rejection  correlated normals, coordinate by coordinate and kept with the right probability (`truncated_correlated.py`)
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float

from hamq.problem import cells
from hamq.problem.kernels.kernel import Normal
from hamq.problem.problem import Problem
from hamq.sampling import truncated_correlated
from hamq.sampling.draws import (
    MASS_TOLERANCE,
    AbstractSampler,
    Draws,
    Info,
    Picked,
    Smooth,
    Target,
    changed_fields,
    even_weights,
    make_info,
    require_count,
)
from hamq.sampling.exhaustive import MAX_EVALUATIONS_PER_PAIR, masses_cost, require_tolerance
from hamq.sampling.noise import uniforms
from hamq.sampling.truncated_normal import truncated_normal
from hamq.types import HamqError, Key

MAX_TRIES = 1000


class IID(AbstractSampler):
    """`num_samples` independent draws per pair; coupled actions share their uniforms.

    `tolerance` is the total variation that masses by quadrature may miss, as it estimates it.
    """

    num_samples: int = eqx.field(static=True)
    method: Literal["product", "masses", "rejection"] | None = eqx.field(static=True, default=None)
    tolerance: float = eqx.field(static=True, default=MASS_TOLERANCE)

    def __check_init__(self):
        require_count("IID: num_samples", self.num_samples)
        require_tolerance("IID", self.tolerance)
        if self.method not in (None, "product", "masses", "rejection"):
            raise HamqError(f"IID: method must be product, masses, rejection or None (the best one), got {self.method!r}.")

    @property
    def weighs(self) -> bool:
        return False

    @property
    def draws_nodes(self) -> bool:
        return self.method == "masses"

    @property
    def evaluates_density(self) -> bool:
        return False

    @property
    def mass_tolerance(self) -> float:
        return self.tolerance

    @property
    def not_smooth(self) -> tuple[str, ...]:
        return changed_fields(self, ("num_samples",))

    def smooth(self, problem: Problem) -> Smooth:
        if problem.kernel.normal is None:
            raise HamqError(
                f"IID needs a GaussianKernel for draws that all states share, and {problem.name} has an unnormalised one; "
                "use HMC or Importance."
            )
        return Smooth("normals", self.num_samples)

    def prepare(self, problem: Problem, *, key: Key) -> tuple["IID", Info]:
        del key
        method = self.method or _best_method(problem)
        if method == "product" and not _has_axes(problem):
            raise HamqError(
                "IID: method='product' needs independent coordinates (a diagonal covariance and a continuous law, or an "
                f"AxesKernel); {problem.name} has not; use method=None."
            )
        if method == "rejection" and (problem.kernel.normal is None or problem.law == "point"):
            raise HamqError(f"IID: method='rejection' draws from normals, and {problem.name} is none; use HMC.")
        return IID(self.num_samples, method, self.tolerance), make_info()

    def needs_rows(self, problem: Problem) -> bool:
        return self.picks_by_axis(problem) or (self.method == "masses" and cells.needs_quadrature(problem))

    def picks_by_axis(self, problem: Problem) -> bool:
        return self.method == "product" and problem.kernel.normal is None

    def num_uniforms(self, problem: Problem) -> int:
        return self.num_samples * (problem.grid.dimension if self.picks_by_axis(problem) else 1)

    def pick(self, masses: Float[np.ndarray, "L S"], uniforms: Float[np.ndarray, "L u"]) -> Picked:
        """By inverse distribution function over the rows."""
        cumulative = np.cumsum(masses, axis=1)
        index = [np.searchsorted(row, u * row[-1]) for row, u in zip(cumulative, uniforms, strict=True)]
        return Picked(np.minimum(np.stack(index), masses.shape[1] - 1), None)

    def pick_axes(self, masses: list[Float[np.ndarray, "L _"]], uniforms: Float[np.ndarray, "L u"]) -> Picked:
        """Every coordinate from its own row, with its own uniforms."""
        parts = zip(masses, np.split(uniforms, len(masses), axis=1), strict=True)
        each = [self.pick(of_axis, own).index for of_axis, own in parts]
        return Picked(np.ravel_multi_index(tuple(each), [of_axis.shape[1] for of_axis in masses]), None)

    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        normal, grid = target.density.normal, target.problem.grid
        if self.method == "rejection":
            assert normal is not None
            return _rejected(normal, target, self.num_samples, key=key)
        if self.method == "masses" or normal is None or not normal.is_product:
            return self._from_masses(target, key=key)
        u = uniforms((grid.dimension, self.num_samples), key=key)
        mean, std = normal.mean[:, None], normal.factor[:, None]
        lower, upper = jnp.asarray(grid.lower, u.dtype)[:, None], jnp.asarray(grid.upper, u.dtype)[:, None]
        points = truncated_normal(u, mean, std, lower, upper)
        if any(grid.periodic):
            points = jnp.where(jnp.asarray(grid.periodic)[:, None], mean + std * ndtri(u), points)
        points = jax.vmap(grid.wrap, in_axes=1, out_axes=1)(points)
        return Draws(points, even_weights(self.num_samples)), make_info(has_failed=~jnp.all(jnp.isfinite(points)))

    def _from_masses(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        problem = target.problem
        log_masses = cells.log_masses(problem, target.state, target.action)
        cumulative = jnp.cumsum(jnp.exp(log_masses))
        u = uniforms((self.num_samples,), key=key)
        index = jnp.searchsorted(cumulative, u * cumulative[-1], side="left").clip(0, problem.num_states - 1)
        points = jnp.asarray(problem.grid.states().T, log_masses.dtype)[:, index]
        info = make_info(
            density_evaluations=masses_cost(problem),
            has_failed=~jnp.any(jnp.isfinite(log_masses)) | jnp.any(jnp.isnan(log_masses)),
        )
        return Draws(points, even_weights(self.num_samples)), info


def _has_axes(problem: Problem) -> bool:
    """Whether coordinates are drawn one by one: points of a normal law, or nodes from the masses of axes."""
    return problem.is_product and (problem.law != "point" or problem.kernel.normal is None)


def _best_method(problem: Problem) -> Literal["product", "masses", "rejection"]:
    if _has_axes(problem) and problem.law != "point":
        return "product"
    cost = masses_cost(problem)
    if problem.num_states <= 10**6 and cost <= MAX_EVALUATIONS_PER_PAIR:
        return "masses"
    if problem.kernel.normal is not None and problem.law != "point":
        return "rejection"
    if _has_axes(problem):
        return "product"
    raise HamqError(
        f"IID cannot draw independently from {problem.name}: its masses need {cost:.2e} density evaluations for every pair, "
        "and its density is not Gaussian; use HMC, which needs neither."
    )


def _rejected(normal: Normal, target: Target, num_samples: int, *, key: Key) -> tuple[Draws, Info]:
    """Each draw tries until a proposal is kept; has_failed when one of them ran out of tries."""
    grid, d = target.problem.grid, target.problem.grid.dimension
    given = truncated_correlated.in_order(grid, normal)

    def missing(carry):
        tries, _, is_kept = carry
        return (tries < MAX_TRIES) & ~jnp.all(is_kept)

    def again(carry):
        tries, points, is_kept = carry
        u = uniforms((num_samples, d + 1), key=jr.fold_in(key, tries))
        new, log_kept = jax.vmap(lambda of_one: truncated_correlated.propose(given, of_one[:d]))(u)
        points = jnp.where(is_kept[:, None], points, new)
        return tries + 1, points, is_kept | (jnp.log(u[:, d]) < log_kept)

    empty: tuple[Array, Array, Array] = (jnp.zeros((), jnp.int32), jnp.zeros((num_samples, d)), jnp.zeros(num_samples, bool))
    _, points, is_kept = jax.lax.while_loop(missing, again, empty)
    points = jax.vmap(grid.wrap)(points).T
    is_valid = jnp.all(is_kept) & jnp.all(jnp.isfinite(points))
    return Draws(points, even_weights(num_samples)), make_info(has_failed=~is_valid)
