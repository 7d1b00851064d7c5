"""Draws that are picked from rows of masses, for densities whose masses come from quadrature.

Rows are integrated on the host, so that each pair is refined where its own density needs it. Pairs that a call has twice, as
padding or because lanes repeat, are integrated once.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from hamq.learning.chunks import Call, Made
from hamq.learning.layout import smallest_integer
from hamq.problem import cells
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.sampling.draws import AbstractSampler, Info
from hamq.sampling.noise import uniforms
from hamq.types import HamqWarning, Key, is_cpu

MAX_EVALUATIONS = 10**6
"""Of one pair, beyond what its row costs unrefined."""
FAR = 10.0
"""Times the tolerance that a row may miss before it is said."""


def draw_from_rows(problem: Problem, sampler: AbstractSampler, call: Call, key: Key) -> Made:
    """Draws of a call by a sampler that needs rows."""
    states, actions, streams = (np.asarray(a) for a in call[:3])
    shape = streams.shape
    states, actions = (a.reshape(-1, *a.shape[2:]).astype(np.float64) for a in (states, actions))
    both = np.concatenate([states, actions.reshape(len(states), -1)], axis=1)
    _, first, own = np.unique(both, axis=0, return_index=True, return_inverse=True)
    own, numbers = own.reshape(-1), _uniforms(problem, sampler, streams.reshape(-1), key)
    given = problem, states[first], actions[first], sampler.mass_tolerance, MAX_EVALUATIONS
    if sampler.picks_by_axis(problem):
        rows = cells.all_axis_rows_of(*given)
        index, weights = sampler.pick_axes([of_axis.masses[own] for of_axis in rows], numbers)
    else:
        rows = [cells.rows_of(*given)]
        index, weights = sampler.pick(rows[0].masses[own], numbers)
    _warn_of(problem, sampler, np.sum([each.errors for each in rows], axis=0))
    evaluations = np.sum([each.evaluations for each in rows], axis=0)

    def points() -> Any:
        found = np.moveaxis(problem.grid.states_at(index.reshape(-1)).reshape(*index.shape, -1), 2, 1)
        return _placed(found.reshape(*shape, *found.shape[1:]).astype(np.float32))

    if problem.law == "linear":
        locations = points()
    else:
        locations = _placed(index.reshape(*shape, -1).astype(smallest_integer(problem.num_states)))
    weights = None if weights is None else _placed(weights.reshape(*shape, -1))
    return Made(locations, points, weights, _info(evaluations[own].reshape(shape)))


def _uniforms(problem: Problem, sampler: AbstractSampler, streams: np.ndarray, key: Key) -> Float[np.ndarray, "L u"]:
    num = sampler.num_uniforms(problem)
    if not num:
        return np.empty((len(streams), 0), np.float32)

    def trace(words, streams):
        return jax.vmap(lambda stream: uniforms((num,), key=jr.fold_in(jr.wrap_key_data(words), stream)))(streams)

    given = jr.key_data(key), streams
    return np.asarray(program(("uniforms", num), (), trace, *given)(*given))


def _warn_of(problem: Problem, sampler: AbstractSampler, errors: Float[np.ndarray, " P"]) -> None:
    far = errors > FAR * sampler.mass_tolerance
    if np.any(far):
        warnings.warn(
            f"{problem.name}: the masses of {int(far.sum())} of {len(far)} pairs may be off by up to {errors.max():.2g} "
            f"(total variation) after {MAX_EVALUATIONS:,} evaluations each; use more grid points, or HMC.",
            HamqWarning,
            stacklevel=6,
        )


def _placed(array: np.ndarray) -> Any:
    """On the host where that is the device."""
    return array if is_cpu() else jnp.asarray(array)


def _info(evaluations: Any) -> Info:
    """Of draws that cannot fail: a pair without masses was refused."""
    shape = evaluations.shape
    made: tuple[Any, Any, Any] = np.zeros(shape, bool), np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    flags, whole, real = made
    return Info(
        acceptance=real + 1,
        is_stuck=flags,
        stuck_share=real,
        outside=real,
        num_modes=whole + 1,
        num_crossings=whole,
        num_nonfinite=whole,
        is_cut=flags,
        weight_share=real + 1,
        has_failed=flags,
        density_evaluations=evaluations.astype(np.int32),
        gradient_evaluations=whole,
    )
