"""Transition densities, known up to a constant: what a family of kernels says of itself.

A kernel gives, for one state and one action, the density of the next state on ℝᵈ before it is cut to the box. A family is
one file of this folder, or a class of your own: a subclass of `AbstractKernel` whose `at` returns a subclass of
`AbstractDensity` with a `log`. Everything else has a default that is right for any density. A family that knows more says
so, and whoever can use it asks: nobody outside of this folder asks for a type.

    normal                 the law is a normal one (mean and covariance): conditional laws, closed forms, draws, LQR, MPC
    is_product             coordinates are independent: masses axis by axis (`log_of_axis`)
    has_closed_masses      and these are closed forms (`axis_log_masses`); otherwise they are integrated
    has_one_mode           chains need neither a search for modes nor jumps between them
    is_elementwise         log p and its gradient are formulas of one axis each: chains in registers of a GPU

On a periodic axis a normal density is *lifted*: it lives on the line, and wrapping its draws round the circle gives the
wrapped normal. Any other density is a function on the circle: it must give the same value one turn further on.

What a user's function returns, looked at by tracing it: shape and type are refused by the function's name.
"""

import abc
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.grid import Grid
from hamq.types import HamqError, Law, UserFunction


def check_output(
    name: str,
    function: UserFunction,
    arguments: tuple[Any, ...],
    shapes: list[tuple[int, ...]],
    kinds: str = "f",
    remedy: str = "",
) -> tuple[int, ...]:
    """The shape that a function returns for one pair, which must be one of `shapes`; its dtype one of `kinds`."""
    try:
        result = jax.eval_shape(lambda *given: jax.tree.map(jnp.asarray, function(*given)), *arguments)
    except Exception as error:
        given = ", ".join(f"array of shape {a.shape}" for a in arguments)
        error.add_note(f"hamq called {name} with ({given}): one state and one action, traced by JAX.")
        raise
    expected = " or ".join(str(shape) for shape in shapes)
    if not isinstance(result, jax.ShapeDtypeStruct):
        raise HamqError(f"{name} must return one array of shape {expected}, got {jax.tree.structure(result)}.")
    if result.shape not in shapes:
        raise HamqError(
            f"{name} must return shape {expected} for ONE state and ONE action, got {result.shape}; the library batches."
        )
    if np.dtype(result.dtype).kind not in kinds:
        raise HamqError(
            f"{name} must return {'a boolean' if kinds == 'b' else 'floats'}, got {result.dtype}; "
            + (remedy or "write 0.0 instead of 0, and take the real part of complex values")
            + "."
        )
    return result.shape


class Normal(NamedTuple):
    """A normal law of one pair: standard deviations `[d]` of independent coordinates, or the factor L of the covariance
    L·Lᵀ and its inverse, the precision."""

    mean: Float[Array, " d"]
    factor: Float[Array, "..."]
    precision: Float[Array, "d d"] | None = None

    @property
    def is_product(self) -> bool:
        return self.factor.ndim == 1


class NormalFunctions(NamedTuple):
    """Mean and covariance of all pairs: functions of (state, action). A covariance that is the same everywhere is given by
    its numbers, variances `[d]` or a matrix `[d, d]` as tuples."""

    mean: UserFunction
    covariance: Any


class Reading(NamedTuple):
    """A call that must have the same result twice, and whose programs are dropped when `owner` reads differently."""

    owner: Any
    function: UserFunction
    given: tuple[Array, ...]


class AbstractDensity(eqx.Module):
    """log p(s') + constant and its gradient, for one state and one action."""

    is_elementwise: ClassVar[bool] = False
    """Whether `log_of_axes` and `gradient` are formulas of one axis each, with no array but `[d]`."""

    @abc.abstractmethod
    def log(self, point: Float[Array, " d"]) -> Float[Array, ""]:
        """log p up to a constant; −inf where the next state cannot be."""

    def gradient(self, point: Float[Array, " d"]) -> Float[Array, " d"]:
        return jax.grad(self.log)(point)

    def log_and_gradient(self, point: Float[Array, " d"]) -> tuple[Float[Array, ""], Float[Array, " d"]]:
        """Both at once: where autodiff makes the gradient, the function is traced and compiled once for the two."""
        return jax.value_and_grad(self.log)(point)

    def curvature(self, point: Float[Array, " d"]) -> Float[Array, "..."]:
        """−∇² log p: `[d]` where it is diagonal, else `[d, d]`."""
        return -jax.hessian(self.log)(point)

    def log_on_circles(self, grid: Grid) -> Callable[[Float[Array, " d"]], Float[Array, ""]]:
        """log p of points of the grid's box, periodic coordinates as points of their circles."""
        del grid
        return self.log

    @property
    def normal(self) -> Normal | None:
        """The normal law that this density is, or None."""
        return None

    @property
    def is_lifted(self) -> bool:
        """Whether periodic coordinates live on the line, where one turn further on is another point."""
        return self.normal is not None

    def log_of_axes(self, point: Float[Array, "..."]) -> Float[Array, "..."]:
        """The summands of `log`, one per axis, of an elementwise density."""
        raise NotImplementedError(f"{type(self).__name__} is not elementwise.")

    def log_of_axis(self, axis: int, coordinate: Float[Array, ""]) -> Float[Array, ""]:
        """log p of one coordinate up to a constant, of a kernel that `is_product`."""
        raise NotImplementedError(f"{type(self).__name__} is no product over the axes.")

    def axis_log_masses(self, grid: Grid, axis: int, law: Law) -> Float[Array, " n"]:
        """log P(node) on one axis, of a kernel that `has_closed_masses`."""
        raise NotImplementedError(f"{type(self).__name__} has no closed forms.")


class AbstractKernel(eqx.Module):
    """The density of the next state of every pair."""

    has_one_mode: ClassVar[bool] = False
    """Whether every density is known to have one mode in any box; others are searched for modes."""
    has_closed_masses: ClassVar[bool] = False
    """Whether the masses of the axes are closed forms where the kernel is a product."""

    @abc.abstractmethod
    def at(self, grid: Grid, state: Float[Array, " d"], action: Array) -> AbstractDensity:
        """The density of the next state of one pair, before it is cut to the box of the grid."""

    @property
    def functions(self) -> tuple[Any, ...]:
        """What compiled programs are found by, and kept as long as: the user's functions, or the kernel itself."""
        return (self,)

    @property
    def constants(self) -> Hashable:
        """What else a compiled program depends on."""
        return type(self).__qualname__

    @property
    def normal(self) -> NormalFunctions | None:
        """Mean and covariance where every density has a `normal`, or None."""
        return None

    def check(self, grid: Grid, action_shape: tuple[int, ...]) -> None:
        """Refuses functions that do not fit the grid and the actions."""
        state, action = shapes_of_pair(grid, action_shape)
        check_output(f"the log-density of {type(self).__name__}", self._log_at(grid), (state, state, action), [()])

    def is_product(self, grid: Grid, action_shape: tuple[int, ...]) -> bool:
        """Whether the coordinates of the next state are independent, given the pair."""
        del grid, action_shape
        return False

    def functions_of_axis(self, axis: int) -> tuple[Any, ...]:
        """`functions` as far as `log_of_axis` uses them."""
        del axis
        return self.functions

    def readings(self, grid: Grid, state: Float[Array, " d"], action: Array) -> dict[str, Reading]:
        """A call of each function at a pair, by name."""
        return {f"the log-density of {type(self).__name__}": Reading(self, self._log_at(grid), (state, state, action))}

    def _log_at(self, grid: Grid) -> UserFunction:
        def log_at(point, state, action):
            density = self.at(grid, state, action)
            if not isinstance(density, AbstractDensity):
                raise HamqError(
                    f"{type(self).__name__}: at(grid, state, action) must return a hamq.AbstractDensity, got "
                    f"{type(density).__name__}."
                )
            return density.log(point)

        return log_at


def shapes_of_pair(grid: Grid, action_shape: tuple[int, ...]) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """One state and one action, as samplers give them."""
    return jax.ShapeDtypeStruct((grid.dimension,), jnp.float32), jax.ShapeDtypeStruct(action_shape, jnp.float32)
