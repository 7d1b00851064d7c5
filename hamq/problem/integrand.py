"""What quadrature integrates: the density of the next state of a problem, or that of one of its coordinates."""

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any

from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.problem.problem import Problem
from hamq.types import Law


@dataclasses.dataclass(frozen=True, eq=False)
class Integrand:
    """The density of all coordinates, on the grid of the problem; or of coordinate `axis` alone, on that axis of it."""

    problem: Problem
    axis: int | None = None

    @functools.cached_property
    def grid(self) -> Grid:
        return self.problem.grid if self.axis is None else axis_grid(self.problem.grid, self.axis)

    @property
    def law(self) -> Law:
        return self.problem.law

    @property
    def functions(self) -> tuple[Any, ...]:
        kernel = self.problem.kernel
        return kernel.functions if self.axis is None else kernel.functions_of_axis(self.axis)

    @property
    def constants(self) -> Hashable:
        """What a compiled program depends on beside functions and arrays."""
        return self.problem.constants if self.axis is None else (self.problem.constants, self.axis)

    def log_at(self, state: Float[Array, " d"], action: Array) -> Callable[[Float[Array, " m"]], Float[Array, ""]]:
        """log p of points of the grid for one pair; a point of one axis has one coordinate."""
        density, axis = self.problem.density(state, action), self.axis
        if axis is None:
            return density.log_on_circles(self.grid)
        return lambda point: density.log_of_axis(axis, point[0])

    def __str__(self) -> str:
        """How messages name the density."""
        return f"{self.problem.name}" if self.axis is None else f"axis {self.axis} of {self.problem.name}"


def axis_grid(grid: Grid, axis: int) -> Grid:
    """One axis as a grid of its own."""
    return Grid([grid.lower[axis]], [grid.upper[axis]], [grid.points[axis]], [grid.periodic[axis]])
