"""Every grid state with its mass: the expectation itself, as far as the masses are exact."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from hamq.problem import cells
from hamq.problem.problem import Problem
from hamq.sampling.draws import (
    MASS_TOLERANCE,
    AbstractSampler,
    Draws,
    Info,
    Picked,
    Smooth,
    Target,
    changed_fields,
    make_info,
)
from hamq.types import HamqError, Key

MAX_EVALUATIONS_PER_PAIR = 10**7


class Exhaustive(AbstractSampler):
    """All S next states, weighted by the law (`cell`, `linear` or `point`); S density evaluations or more per pair.

    `tolerance` is the total variation that quadrature may miss of a row, as it estimates it; closed forms miss nothing.
    """

    tolerance: float = eqx.field(static=True, default=MASS_TOLERANCE)

    def __check_init__(self):
        require_tolerance("Exhaustive", self.tolerance)

    @property
    def num_samples(self) -> int:
        return 0

    @property
    def is_exhaustive(self) -> bool:
        return True

    @property
    def evaluates_density(self) -> bool:
        return False

    @property
    def mass_tolerance(self) -> float:
        return self.tolerance

    def with_samples(self, num_samples: int) -> "Exhaustive":
        del num_samples  # there are none
        return self

    @property
    def not_smooth(self) -> tuple[str, ...]:
        return changed_fields(self, ())

    def smooth(self, problem: Problem) -> Smooth:
        if not (problem.is_product and problem.kernel.normal is not None):
            raise HamqError(
                "Exhaustive needs a normal law that is a product over the axes to sum axis by axis, and "
                f"{problem.name} has none; use IID for a Gaussian kernel, HMC or Importance for others."
            )
        return Smooth("sums", 0)

    def prepare(self, problem: Problem, *, key: Key) -> tuple["Exhaustive", Info]:
        del key  # nothing random here
        require_masses(problem, "Exhaustive")
        return self, make_info()

    def needs_rows(self, problem: Problem) -> bool:
        return cells.needs_quadrature(problem)

    def pick(self, masses: Float[np.ndarray, "L S"], uniforms: Float[np.ndarray, "L u"]) -> Picked:
        del uniforms
        return Picked(np.broadcast_to(np.arange(masses.shape[1]), masses.shape), masses.astype(np.float32))

    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        del key
        problem = target.problem
        log_masses = cells.log_masses(problem, target.state, target.action)
        points = jnp.asarray(problem.grid.states().T, log_masses.dtype)
        return Draws(points, log_masses), make_info(
            density_evaluations=masses_cost(problem),
            has_failed=~jnp.any(jnp.isfinite(log_masses)) | jnp.any(jnp.isnan(log_masses)),
        )


def masses_cost(problem: Problem) -> int:
    """Density evaluations of one row of masses, at least."""
    return cells.estimate(problem)[1] // (problem.num_states * problem.num_actions)


def require_masses(problem: Problem, what: str) -> None:
    """Refuses a problem whose rows of masses are too long or too dear."""
    problem.grid.require_enumerable(what)
    cost = masses_cost(problem)
    if cost > MAX_EVALUATIONS_PER_PAIR:
        raise HamqError(
            f"{what} needs {cost:.2e} density evaluations for every pair of {problem.name}, more than "
            f"{MAX_EVALUATIONS_PER_PAIR:.0e}; use fewer points, or HMC, which needs no masses."
        )


def require_tolerance(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise HamqError(f"{name}: tolerance must lie between 0 and 1, got {value!r}; 1e-4 is the default.")
