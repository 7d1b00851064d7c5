"""Independent coordinates, each with a one-dimensional density of any kind: a list of log-densities, one per axis.

    p(s' | s, a) ∝ Π_i exp(f_i(s'_i, s, a))

Masses are integrated axis by axis and multiplied, which costs a sum over the axes where a box costs a product.
"""

from collections.abc import Hashable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import AbstractDensity, AbstractKernel, Reading, check_output, shapes_of_pair
from hamq.types import HamqError, UserFunction


class AxesDensity(AbstractDensity):
    """The sum of the users' log-densities of the coordinates; derivatives by autodiff."""

    logdensities: tuple[UserFunction, ...] = eqx.field(static=True)
    grid: Grid
    state: Float[Array, " d"]
    action: Array

    def log(self, point):
        wrapped = self.grid.wrap(point)
        return jnp.sum(jnp.stack([f(wrapped[i], self.state, self.action) for i, f in enumerate(self.logdensities)]))

    def log_of_axis(self, axis, coordinate):
        if self.grid.periodic[axis]:
            lower, width = (jnp.asarray(each[axis], coordinate.dtype) for each in (self.grid.lower, self.grid.widths))
            coordinate = lower + (coordinate - lower) % width
        return self.logdensities[axis](coordinate, self.state, self.action)


class AxesKernel(AbstractKernel):
    """Independent next coordinates: logdensities[i](next_coordinate, state, action) is log p of coordinate i + constant.

    The next coordinate is a number, the state is whole. A log-density may jump, and is −inf where the coordinate cannot be.
    """

    logdensities: tuple[UserFunction, ...] = eqx.field(static=True)

    def __init__(self, logdensities: Sequence[UserFunction]):
        if callable(logdensities) or not isinstance(logdensities, (list, tuple)) or not logdensities:
            raise HamqError(
                "AxesKernel: logdensities must be a list of functions of (next_coordinate, state, action), one per axis, "
                f"got {logdensities!r}."
            )
        for i, function in enumerate(logdensities):
            if not callable(function):
                raise HamqError(
                    f"AxesKernel: logdensities[{i}] must be a function of (next_coordinate, state, action), "
                    f"got {function!r}."
                )
        self.logdensities = tuple(logdensities)

    @property
    def functions(self) -> tuple[UserFunction, ...]:
        return self.logdensities

    @property
    def constants(self) -> Hashable:
        return "axes"

    def at(self, grid: Grid, state: Float[Array, " d"], action: Array) -> AbstractDensity:
        return AxesDensity(self.logdensities, grid, state, action)

    def check(self, grid, action_shape):
        if len(self.logdensities) != grid.dimension:
            raise HamqError(
                f"AxesKernel: logdensities has {len(self.logdensities)} functions and the grid has {grid.dimension} "
                "dimensions; give one for each axis."
            )
        coordinate = jax.ShapeDtypeStruct((), jnp.float32)
        for i, function in enumerate(self.logdensities):
            check_output(f"logdensities[{i}]", function, (coordinate, *shapes_of_pair(grid, action_shape)), [()])

    def is_product(self, grid, action_shape):
        del grid, action_shape
        return True

    def functions_of_axis(self, axis):
        return (self.logdensities[axis],)

    def readings(self, grid, state, action):
        del grid
        return {
            f"logdensities[{i}]": Reading(function, function, (state[i], state, action))
            for i, function in enumerate(self.logdensities)
        }
