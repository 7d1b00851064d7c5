"""Self-normalised importance sampling: in low dimension the honest winner, in high dimension nothing but weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler, Draws, Info, Smooth, Target, effective_share, make_info, require_count
from hamq.sampling.jumps import JumpNoise, box_of, log_proposal, propose, student_quantile
from hamq.sampling.modes import Modes, find_modes
from hamq.sampling.noise import uniforms
from hamq.sampling.walls import make_potential
from hamq.types import HamqError, Key


class Importance(AbstractSampler):
    """`num_samples` weighted draws from the Laplace mixture at the modes, widened by 1.3, plus 10 % spread evenly."""

    num_samples: int = eqx.field(static=True)

    def __check_init__(self):
        require_count("Importance: num_samples", self.num_samples)

    def smooth(self, problem: Problem) -> Smooth:
        del problem
        return Smooth("tilted", self.num_samples)

    def prepare(self, problem: Problem, *, key: Key) -> tuple["Importance", Info]:
        del key
        if problem.law == "point":
            raise HamqError(
                "Importance weighs draws of the continuous density and cannot follow the point masses of law='point'; "
                "use law='cell', Exhaustive or IID."
            )
        return self, make_info()

    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        potential = make_potential("logit", target.density, target.problem.grid, 1.0)
        modes = find_modes(potential, target.state)
        noise, box = _noise(self.num_samples, target.problem.grid.dimension, key=key), box_of(potential)
        of_all = jax.tree.map(lambda a: a[..., None], _dense(modes))  # shared by all draws, which are the lanes
        y = propose(box, of_all, noise)
        energies = jax.vmap(potential.energy, in_axes=1)(y)
        logs = -energies - log_proposal(box, of_all, y)
        logs = jnp.where(jnp.isnan(logs), -jnp.inf, logs)
        log_weights = logs - logsumexp(logs)
        points = jax.vmap(lambda y: potential.grid.wrap(potential.place(y)), in_axes=1, out_axes=1)(y)
        info = make_info(
            weight_share=effective_share(log_weights),
            num_modes=modes.count,
            num_crossings=modes.count,  # independent draws fall into all of them
            has_failed=~jnp.any(jnp.isfinite(logs)),
            density_evaluations=modes.density_evaluations + self.num_samples,
            gradient_evaluations=modes.gradient_evaluations,
        )
        return Draws(points, log_weights), info


def _dense(modes: Modes) -> Modes:
    """The same with matrices that are not given by their diagonals."""
    if modes.factors.ndim == 3:
        return modes
    factors, inverses, covariances = (
        jax.vmap(jnp.diag)(diagonal) for diagonal in (modes.factors, modes.inverse_factors, modes.covariances)
    )
    return modes._replace(factors=factors, inverse_factors=inverses, covariances=covariances)


def _noise(num: int, d: int, *, key: Key) -> JumpNoise:
    u = uniforms((2 + 2 * d, num), key=key)
    return JumpNoise(u[:2], student_quantile(u[2 : 2 + d]), u[2 + d :], jnp.zeros((num,), u.dtype))
