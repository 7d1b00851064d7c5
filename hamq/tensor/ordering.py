"""The order of the axes along the train: what depends on each other should be neighbours, or ranks grow.

The strength of the bond between axes i and j is how much next coordinate i moves with coordinate j, |∂μ_i/∂s_j| in units of
the box, plus the correlation of their noise; for a density without a mean, its second derivatives |∂²log p/∂x_i∂(x, s)_j|,
in units of the curvature. The order starts from the Fiedler vector of the graph with these weights, which puts
neighbours in the graph side by side, and is improved by swaps and moves until Σ_ij w_ij·|place_i − place_j| is least.
"""

import jax
import numpy as np
from jaxtyping import Float

from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.tensor.choice import Choices

NUM_PROBES = 16
MAX_ROUNDS = 50
REACH = 6
"""Places that an axis may move at a time."""


def find_order(problem: Problem, choices: Choices) -> tuple[int, ...]:
    return arranged(couplings(problem, choices))


def couplings(problem: Problem, choices: Choices) -> Float[np.ndarray, "d d"]:
    """Symmetric weights of the pairs of axes, 0 on the diagonal."""
    grid, generator = problem.grid, np.random.default_rng(0)
    d, widths = grid.dimension, np.asarray(grid.widths)
    states = generator.uniform(grid.lower, grid.upper, (NUM_PROBES, d)).astype(np.float32)
    pairs = (states, choices.actions(choices.random(generator, NUM_PROBES)))
    normal = problem.kernel.normal
    if normal is not None:
        trace = jax.vmap(jax.jacfwd(normal.mean))
        jacobians = program("moves", problem.kernel.functions, trace, *pairs)(*pairs)
        strength = np.abs(np.asarray(jacobians, np.float64)).mean(axis=0) * widths[None, :] / widths[:, None]
        if not callable(normal.covariance) and not problem.is_product:
            covariance = np.asarray(normal.covariance)
            std = np.sqrt(np.diag(covariance))
            strength = strength + np.abs(covariance) / np.outer(std, std) / d
    else:
        given = (generator.uniform(grid.lower, grid.upper, (NUM_PROBES, d)).astype(np.float32), *pairs)
        trace = jax.vmap(jax.jacfwd(lambda point, *pair: problem.density(*pair).gradient(point), argnums=(0, 1)))
        found = program(("curvatures", problem.kernel.constants, grid), problem.kernel.functions, trace, *given)(*given)
        within, across = (np.abs(np.asarray(of_pairs, np.float64)) for of_pairs in found)
        both = np.nan_to_num(within + across).mean(axis=0)
        scale = np.sqrt(np.maximum(np.diag(both), 1e-12))
        strength = both / np.outer(scale, scale)
    weights = strength + strength.T
    np.fill_diagonal(weights, 0)
    return weights


def arranged(weights: Float[np.ndarray, "d d"]) -> tuple[int, ...]:
    """An order of small Σ w_ij·|place_i − place_j|; the given one where nothing is better."""
    d = len(weights)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    fiedler = np.linalg.eigh(laplacian)[1][:, 1] if d > 2 else np.arange(d)
    candidates = [np.arange(d), np.argsort(fiedler, kind="stable")]
    best = min((_improved(weights, order) for order in candidates), key=lambda order: _length(weights, order))
    return tuple(int(axis) for axis in best)


def _length(weights: np.ndarray, order: np.ndarray) -> float:
    place = np.argsort(order)
    return round(float(np.sum(weights * np.abs(place[:, None] - place[None, :]))), 9)


def _improved(weights: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Moves one axis to another place while that makes the order shorter."""
    d, best = len(order), _length(weights, order)
    for _ in range(MAX_ROUNDS):
        found = order
        for now, axis in enumerate(order):
            rest = order[order != axis]
            for place in range(max(0, now - REACH), min(d, now + REACH + 1)):
                tried = np.insert(rest, place, axis)
                if (length := _length(weights, tried)) < best - 1e-9:
                    best, found = length, tried
        if found is order:
            return order
        order = found
    return order
