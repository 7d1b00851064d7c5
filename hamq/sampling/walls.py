"""The box as seen by a chain: three ways to keep a Hamiltonian trajectory inside.

A chain moves in coordinates y ∈ ℝᵈ under the potential energy U(y), up to a constant, with next state s' = place(y).
Periodic axes have no walls: y is the coordinate itself, unwrapped, and draws are wrapped when they are written out.

logit    s' = lower + range·σ(y); U(y) = −log p(s') − Σ log(σ(y)(1 − σ(y))), the Jacobian. A hard box, smooth for the
         chain, at the price of one logistic per step. The default.
reflect  U(s') = −log p(s'); trajectories bounce off the faces. Exact for a diagonal mass only.
sigmoid  the paper's smooth cut-off, eq. (6): U(s') = −log p(s') + Σ softplus(κ(s' − upper)) + softplus(κ(lower − s')).
         The paper's displayed U carries the opposite sign on both softplus terms, which puts the mass OUTSIDE the box;
         −log of its eq. (6) gives the sign used here. Soft walls leak: draws outside the box are counted.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, ScalarLike

from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import AbstractDensity
from hamq.types import Walls


class AbstractPotential(eqx.Module):
    """U(y) and its gradient for one pair, and the way between y and the next state.

    `gradient` and `fold` use arrays alone, one number per axis each: for product densities they are elementwise, and
    `leapfrog.py` makes use of that.
    """

    density: AbstractDensity
    lower: Float[Array, " d"]
    upper: Float[Array, " d"]
    is_circle: Bool[Array, " d"] | None
    grid: Grid

    @abc.abstractmethod
    def place(self, y: Float[Array, " d"]) -> Float[Array, " d"]:
        """y ↦ s', periodic coordinates not wrapped."""

    @abc.abstractmethod
    def lift(self, point: Float[Array, " d"]) -> Float[Array, " d"]:
        """s' ↦ y for a point of the box; points on a wall are moved inside."""

    @abc.abstractmethod
    def energy_from(self, y: Float[Array, " d"], log: Float[Array, ""]) -> Float[Array, ""]:
        """U(y), with log p at the place of y."""

    @abc.abstractmethod
    def gradient_from(self, y: Float[Array, " d"], force: Float[Array, " d"]) -> Float[Array, " d"]:
        """∇U(y), with ∇ log p at the place of y."""

    def energy(self, y: Float[Array, " d"]) -> Float[Array, ""]:
        return self.energy_from(y, self.density.log(self.place(y)))

    def gradient(self, y: Float[Array, " d"]) -> Float[Array, " d"]:
        return self.gradient_from(y, self.density.gradient(self.place(y)))

    def energy_and_gradient(self, y: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
        log, force = self.density.log_and_gradient(self.place(y))
        return self.energy_from(y, log), self.gradient_from(y, force)

    @abc.abstractmethod
    def fold(self, y: Float[Array, " d"], w: Float[Array, " d"]) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """Puts a position that left the box back, with its displacement turned."""

    @abc.abstractmethod
    def log_volume(self, y: Float[Array, " d"]) -> Float[Array, ""]:
        """log |∂s'/∂y|: what turns a density over the box into one over y."""

    @property
    def circle(self) -> np.ndarray:
        return np.asarray(self.grid.periodic)

    @property
    def wraps(self) -> np.ndarray:
        """Axes on which y and y + width are the same point: circles, unless the density is lifted to the line."""
        return self.circle & (not self.density.is_lifted)

    def where_circle(self, on_circle: Array | float, elsewhere: Array) -> Array:
        return elsewhere if self.is_circle is None else jnp.where(self.is_circle, on_circle, elsewhere)


class LogitPotential(AbstractPotential):
    def place(self, y):
        return self.where_circle(y, self.lower + (self.upper - self.lower) * jax.nn.sigmoid(y))

    def lift(self, point):
        share = jnp.clip((point - self.lower) / (self.upper - self.lower), 1e-4, 1 - 1e-4)
        return self.where_circle(point, jnp.log(share) - jnp.log1p(-share))

    def energy_from(self, y, log):
        return -log - self.log_volume(y)

    def gradient_from(self, y, force):
        width, share = self.upper - self.lower, jax.nn.sigmoid(y)
        return self.where_circle(-force, 2 * share - 1 - width * share * (1 - share) * force)

    def fold(self, y, w):
        return y, w

    def log_volume(self, y):
        return jnp.sum(self.where_circle(0.0, self._log_volumes(y)))

    def _log_volumes(self, y):
        # log(σ(y)(1 − σ(y))), with the constant range left out: it is the same everywhere.
        away = jnp.abs(y)
        return -away - 2 * jnp.log1p(jnp.exp(-away))

    def energy_of_axis(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The summands of `energy` of an elementwise density without circles, one per axis."""
        return -self.density.log_of_axes(self.place(y)) - self._log_volumes(y)


class ReflectPotential(AbstractPotential):
    def place(self, y):
        return y

    def lift(self, point):
        return _inside(self, point)

    def energy_from(self, y, log):
        # Trajectories never end outside the box, but jumps may propose to.
        return jnp.where(self.grid.contains(y), -log, jnp.inf)

    def gradient_from(self, y, force):
        del y
        return -force

    def fold(self, y, w):
        width = self.upper - self.lower
        turns = ((y - self.lower) / width) % 2  # in units of the box, there and back again
        is_back = turns > 1
        inside = self.lower + width * jnp.where(is_back, 2 - turns, turns)
        return self.where_circle(y, inside), self.where_circle(w, jnp.where(is_back, -w, w))

    def log_volume(self, y):
        return jnp.zeros((), y.dtype)


class SigmoidPotential(AbstractPotential):
    """`is_sharp`: the wall further away pushes with less than exp(−20) of its strength everywhere, and is left out."""

    sharpness: Float[Array, " d"]
    is_sharp: bool = eqx.field(static=True)

    def place(self, y):
        return y

    def lift(self, point):
        return _inside(self, point)

    def energy_from(self, y, log):
        return -log + jnp.sum(self.where_circle(0.0, self._walls(y)))

    def _walls(self, y):
        above, below = self.sharpness * (y - self.upper), self.sharpness * (self.lower - y)
        return jax.nn.softplus(above) + jax.nn.softplus(below)

    def energy_of_axis(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The summands of `energy` of an elementwise density without circles, one per axis."""
        return -self.density.log_of_axes(y) + self._walls(y)

    def gradient_from(self, y, force):
        if self.is_sharp:
            from_centre = y - (self.lower + self.upper) / 2
            depth = self.sharpness * (jnp.abs(from_centre) - (self.upper - self.lower) / 2)
            push = jnp.sign(from_centre) * jax.nn.sigmoid(depth)
        else:
            above, below = self.sharpness * (y - self.upper), self.sharpness * (self.lower - y)
            push = jax.nn.sigmoid(above) - jax.nn.sigmoid(below)
        return self.where_circle(0.0, self.sharpness * push) - force

    def fold(self, y, w):
        return y, w

    def log_volume(self, y):
        return jnp.zeros((), y.dtype)


def _inside(potential: AbstractPotential, point: Array) -> Array:
    margin = 1e-3 * (potential.upper - potential.lower)
    return potential.where_circle(point, jnp.clip(point, potential.lower + margin, potential.upper - margin))


def make_potential(walls: Walls, density: AbstractDensity, grid: Grid, sharpness: ScalarLike) -> AbstractPotential:
    dtype = jnp.result_type(float)
    lower, upper = jnp.asarray(grid.lower, dtype), jnp.asarray(grid.upper, dtype)
    box = (density, lower, upper, jnp.asarray(grid.periodic) if any(grid.periodic) else None, grid)
    if walls == "logit":
        return LogitPotential(*box)
    if walls == "reflect":
        return ReflectPotential(*box)
    is_sharp = isinstance(sharpness, (int, float)) and sharpness * min(grid.widths) > 40
    return SigmoidPotential(*box, jnp.broadcast_to(jnp.asarray(sharpness, dtype), lower.shape), is_sharp)
