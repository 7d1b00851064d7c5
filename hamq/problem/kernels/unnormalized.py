"""Any log-density that a user writes as a JAX function, known up to a constant."""

from collections.abc import Hashable

import equinox as eqx
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import AbstractDensity, AbstractKernel, Reading, check_output, shapes_of_pair
from hamq.types import HamqError, UserFunction


class UserDensity(AbstractDensity):
    """A user's log-density; derivatives by autodiff."""

    logdensity: UserFunction = eqx.field(static=True)
    grid: Grid
    state: Float[Array, " d"]
    action: Array

    def log(self, point):
        return self.logdensity(self.grid.wrap(point), self.state, self.action)


class UnnormalizedKernel(AbstractKernel):
    """s' ∝ exp(logdensity(next_state, state, action)) on the box: any JAX function, no constant needed."""

    logdensity: UserFunction = eqx.field(static=True)

    def __check_init__(self):
        if not callable(self.logdensity):
            raise HamqError(
                f"UnnormalizedKernel: logdensity must be a function of (next_state, state, action), got {self.logdensity!r}."
            )

    @property
    def functions(self) -> tuple[UserFunction, ...]:
        return (self.logdensity,)

    @property
    def constants(self) -> Hashable:
        return "unnormalized"

    def at(self, grid: Grid, state: Float[Array, " d"], action: Array) -> AbstractDensity:
        return UserDensity(self.logdensity, grid, state, action)

    def check(self, grid, action_shape):
        state, action = shapes_of_pair(grid, action_shape)
        check_output("logdensity", self.logdensity, (state, state, action), [()])

    def readings(self, grid, state, action):
        del grid
        return {"logdensity": Reading(self.logdensity, self.logdensity, (state, state, action))}
