"""How far V is off because of the draws that all pairs share, by quadrature at a few pairs, where that is cheap.

With δ what the draws say of γ·E[V] beyond what masses say, in the states that were looked at, V is off by about
mean(δ)/(1 − γ): all pairs share their draws, and their errors have one sign. A law that misses a narrow peak misses it
in every pair, with even weights: neither the residual nor the effective draws know of it.
"""

import warnings

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.cells import evaluations_per_pair, rows_of
from hamq.problem.problem import Problem
from hamq.tensor.backup import Engine
from hamq.types import HamqWarning

NUM_PAIRS = 24
MAX_DIMENSION, MAX_STATES, MAX_POINTS = 3, 2**15, 2 * 10**5
"""Up to where masses are cheap: dimensions, nodes, and evaluations of the density for a pair."""
ALLOWED = 0.03
"""Part of the range of V that draws may be off by; more is warned of."""


def can_compare(problem: Problem) -> bool:
    """Whether masses of a few pairs are cheap, and there are draws to compare them with."""
    is_small = problem.grid.dimension <= MAX_DIMENSION and problem.num_states <= MAX_STATES
    return is_small and problem.kernel.normal is None and not problem.is_product and problem.terminal is None


def require_masses(engine: Engine, cores: Array, states: Float[np.ndarray, "P d"]) -> str | None:
    """A sentence, which is warned of too, where the draws err by more than is allowed; None where not, or nobody knows."""
    error = compared(engine, cores, states)
    if error is None or error <= ALLOWED:
        return None
    said = (
        f"draws are too few, or miss a part of the density: by masses of {NUM_PAIRS} pairs V is off by {error:.0%} of its "
        f"range or more, where {ALLOWED:.0%} are allowed; use hamq.solve or hamq.solve_exact, which integrate the density"
    )
    warnings.warn(f"solve_tensor: {engine.bellman.problem.name}: {said}.", HamqWarning, stacklevel=3)
    return said


def compared(engine: Engine, cores: Array, states: Float[np.ndarray, "P d"]) -> float | None:
    """The error of V that the draws make at some of the states, with the best actions there, as a part of its range.

    What the quadrature itself may miss is taken off. None where masses are not cheap.
    """
    problem = engine.bellman.problem
    if not can_compare(problem) or evaluations_per_pair(problem) > MAX_POINTS:
        return None
    states, discount = states[:NUM_PAIRS], problem.discount
    backups, levels, kept = engine.greedy_and_keep(cores, states)
    drawn = backups - engine.evaluate(jnp.zeros_like(cores), kept, len(states))  # rewards cancel
    value = engine.interpolate(cores, problem.grid.states().astype(np.float32))
    actions = np.asarray(engine.bellman.choices.actions(levels), np.float64)
    rows = rows_of(problem, np.asarray(states, np.float64), actions, ALLOWED * (1 - discount) / 4, MAX_POINTS)
    span = max(float(np.ptp(value)), 1e-30)
    off = (drawn - discount * rows.masses @ value) / span
    far = max(abs(float(np.mean(off))) / (1 - discount), float(np.sqrt(np.mean(off**2))))
    return max(0.0, far - discount * float(np.mean(rows.errors)) / (1 - discount))
