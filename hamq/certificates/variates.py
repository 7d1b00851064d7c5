"""Numbers beside V(s') at every draw that make its average less uncertain without moving its expectation.

conditional   For Gaussian kernels the law of one coordinate given the others is a truncated normal, whose masses on the
              axis are closed forms. E[V | s'_{−j}] has the expectation of V and less variance; with

                  f = V − β Σ_j (V − E[V | s'_{−j}]),

              β = 1/d is an average of conditional expectations, which stays in the range of V, and β = 1 has no variance
              at all where V is a sum of functions of single coordinates, but a wider range. (Lifted normals on circles
              are wrapped, and have this for independent coordinates only.)
stein         For any density p on the box and any field that vanishes at its faces, integration by parts gives E[div g +
              g·∇log p] = 0, normaliser or not. With t = (s' − lower)/width, w = t(1 − t) and F_i = (1 − 2tᵢ) +
              w_i·width_i·∂ᵢ log p,

                  E[F_i] = 0,        E[(2tⱼ − 1) F_i + 2 w_i·1(i = j)] = 0,

              which spans the polynomials in whitened coordinates where p is Gaussian and the walls are far. On a circle the
              fields are 1, sin and cos. One gradient per draw.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.kernels.kernel import AbstractDensity, Normal
from hamq.problem.normal import axis_log_masses
from hamq.problem.problem import Problem, value_under_law
from hamq.sampling.draws import Target

MAX_PRODUCTS = 4
"""Dimensions up to which all d² products of coordinates and fields are used; beyond it the d squares."""


class Looked(NamedTuple):
    """At the n draws of one pair, for J functions: V, Σ_j E[V | s'_{−j}] (None where it is not known), and what is 0 on
    average."""

    plain: Float[Array, "J n"]
    conditional: Float[Array, "J n"] | None
    stein: Float[Array, "k n"] | None


def look(
    target: Target, points: Float[Array, "d n"], functions: Float[Array, "J S"], conditions: bool, uses_stein: bool
) -> Looked:
    problem, density = target.problem, target.density
    plain = jax.vmap(lambda point: value_at(problem, functions, point), in_axes=1, out_axes=1)(points)
    conditional = stein = None
    if conditions:
        normal = density.normal
        assert normal is not None
        conditional = jax.vmap(lambda x: _conditional(problem, normal, functions, x), in_axes=1, out_axes=1)(points)
    if uses_stein:
        stein = jax.vmap(lambda x: stein_functions(problem, density, x), in_axes=1, out_axes=1)(points)
    return Looked(plain, conditional, stein)


def value_at(problem: Problem, functions: Float[Array, "J S"], point: Float[Array, " d"]) -> Float[Array, " J"]:
    """V at a point, of each function."""
    return jax.vmap(lambda value: value_under_law(problem, value, point))(functions)


def has_conditionals(problem: Problem) -> bool:
    """Whether the law of one coordinate given the others is known."""
    is_normal = problem.kernel.normal is not None
    return is_normal and problem.law != "point" and (problem.is_product or not any(problem.grid.periodic))


def has_stein(problem: Problem) -> bool:
    """Whether there is an axis with identities: none on which a normal was wrapped, nor what is correlated with such."""
    if problem.law == "point":
        return False
    circles = problem.grid.periodic
    return problem.kernel.normal is None or not any(circles) or (problem.is_product and not all(circles))


def _conditional(problem: Problem, normal: Normal, functions: Array, x: Float[Array, " d"]) -> Float[Array, " J"]:
    """Σ_j E[V | x_{−j}]."""
    total = jnp.zeros(functions.shape[0], functions.dtype)
    for j in range(problem.grid.dimension):
        if normal.precision is None:
            mean, std = normal.mean[j], normal.factor[j]
        else:
            row = normal.precision[j]
            others = jnp.sum(row * (x - normal.mean)) - row[j] * (x[j] - normal.mean[j])
            mean, std = normal.mean[j] - others / row[j], 1 / jnp.sqrt(row[j])
        masses = jnp.exp(axis_log_masses(problem.grid, j, problem.law, mean, std))
        nodes = jnp.asarray(problem.grid.axis_nodes(j), x.dtype)
        at_nodes = jax.vmap(lambda node, j=j: value_at(problem, functions, x.at[j].set(node)), out_axes=1)(nodes)
        total = total + jnp.sum(at_nodes * (masses / jnp.sum(masses))[None, :], axis=1)
    return total


def stein_functions(problem: Problem, density: AbstractDensity, x: Float[Array, " d"]) -> Float[Array, " k"]:
    """Functions of a draw whose expectation is 0."""
    grid, d = problem.grid, problem.grid.dimension
    lower, width = (jnp.asarray(values, x.dtype) for values in (grid.lower, grid.widths))
    force = density.gradient(x)
    share = (x - lower) / width
    wall, across = share * (1 - share), 2 * share - 1
    flat = wall * width * force - across
    found = []
    for i in range(d):
        if not grid.periodic[i]:
            others = range(d) if d <= MAX_PRODUCTS else [i]
            lines = [j for j in others if not grid.periodic[j]]
            found += [flat[i], *(across[j] * flat[i] + (2 * wall[i] if i == j else 0) for j in lines)]
        elif not density.is_lifted:
            turn = 2 * np.pi / grid.widths[i]
            sine, cosine = jnp.sin(turn * x[i]), jnp.cos(turn * x[i])
            found += [force[i], sine * force[i] + turn * cosine, cosine * force[i] - turn * sine]
    return jnp.stack(found)
