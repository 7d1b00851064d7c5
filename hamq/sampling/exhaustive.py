"""Every grid state with its mass: the expectation itself, as far as the masses are exact."""

import equinox as eqx
import jax.numpy as jnp

from hamq.problem import cells
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler, Draws, Info, Target, make_info
from hamq.types import Key

MAX_EVALUATIONS_PER_PAIR = 10**7


class Exhaustive(AbstractSampler):
    """All S next states, weighted by the law (`cell`, `linear` or `point`); S density evaluations or more per pair."""

    num_nodes: int | None = eqx.field(static=True, default=None)

    def prepare(self, problem: Problem, *, key: Key) -> tuple["Exhaustive", Info]:
        del key  # nothing random here
        require_masses(problem, "Exhaustive")
        return Exhaustive(cells.settled_nodes(problem)), make_info()

    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        del key
        problem = target.problem
        log_masses = cells.log_masses(problem, target.state, target.action, self.num_nodes or cells.FIRST_NODES)
        points = jnp.asarray(problem.grid.states().T, log_masses.dtype)
        evaluations = masses_cost(problem, self.num_nodes)
        return Draws(points, log_masses), make_info(
            density_evaluations=evaluations, has_failed=~jnp.any(jnp.isfinite(log_masses)) | jnp.any(jnp.isnan(log_masses))
        )


def masses_cost(problem: Problem, num_nodes: int | None) -> int:
    """Density evaluations of one row of masses."""
    pairs = problem.num_states * problem.num_actions
    return cells.estimate(problem, num_nodes or cells.FIRST_NODES)[1] // pairs


def require_masses(problem: Problem, what: str) -> None:
    """Refuses a problem whose rows of masses are too long or too dear."""
    problem.grid.require_enumerable(what)
    cost = masses_cost(problem, cells.FIRST_NODES)
    if cost > MAX_EVALUATIONS_PER_PAIR:
        raise ValueError(
            f"{what} needs {cost:.2e} density evaluations for every pair of {problem.name}, more than "
            f"{MAX_EVALUATIONS_PER_PAIR:.0e}; use fewer points, or HMC, which needs no masses."
        )
