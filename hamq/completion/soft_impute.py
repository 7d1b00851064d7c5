"""min ½‖P_Ω(X − Y)‖² + λ‖X‖_*: completion that does not meet noisy entries exactly.

Proximal gradient with step 1, which fills the gaps with the current table and shrinks (Mazumder, Hastie and Tibshirani,
2010), with Nesterov's momentum, restarted when it points uphill:

    X⁺ = shrink(V on the gaps, Y on Ω; λ),    V = X⁺ + β·(X⁺ − X).

Certificate: any Λ supported on Ω with ‖Λ‖₂ ≤ λ gives ⟨Y, Λ⟩ − ½‖Λ‖² ≤ optimum; Λ is the scaled residual P_Ω(Y − X).

Without a given λ, some observed entries are held out, λ descends from λ_max = ‖P_Ω(Y)‖₂ (at and above it X = 0), each
solution starting the next, and the λ that predicts the held-out entries best is solved for with all entries.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from jaxtyping import ScalarLike as Scalar

from hamq.completion.completion import (
    AbstractCompletion,
    Completion,
    Observed,
    Part,
    Posed,
    Unidentified,
    finish,
    pose,
    recall,
    require_part,
    require_selection,
    require_settings,
    verdict,
)
from hamq.completion.nuclear_norm import nuclear_norm, shrink, spectral_norm
from hamq.completion.selection import FRACTION, Selection
from hamq.types import HamqError

CHECK_EVERY = 10
PATH = 0.6 ** np.arange(1, 21)
"""λ over λ_max, down to 4e-5."""
PATIENCE = 3
"""Values of λ without a better prediction after which the path ends."""
HELD_OUT = 0.2
HELD_OUT_SEED = 2718281828
"""Nobody's seed: with 0, a mask drawn as `default_rng(0).random(shape) < p` would be the held-out scores themselves."""


class SoftImpute(AbstractCompletion):
    """argmin ½‖P_Ω(X − Y)‖² + λ‖X‖_* with a relative duality gap ≤ tolerance; `rank` counts singular values above λ.

    `penalty` is λ in the units of the table; None chooses it by held-out entries. `gap` is relative to the objective,
    `residual` is the misfit that the noise is allowed. `memory` is (X,), the start for a given λ; a path starts itself.
    """

    penalty: float | None = None
    tolerance: float = 1e-5
    max_iterations: int = eqx.field(static=True, default=2000)
    unidentified: Unidentified = eqx.field(static=True, default="keep")
    fraction: float = FRACTION
    selection: Selection = eqx.field(static=True, default="per_state")
    completes: Part = eqx.field(static=True, default="increment")

    def __check_init__(self):
        require_selection("SoftImpute", self.selection, self.fraction)
        require_part("SoftImpute", self.completes)
        require_settings("SoftImpute", self.tolerance, self.max_iterations, self.unidentified)
        if self.penalty is not None and not 0 < self.penalty < np.inf:
            raise HamqError(
                f"SoftImpute: penalty must be positive and finite, got {self.penalty!r}; None chooses it, and NuclearNorm "
                "is the limit of 0."
            )

    def complete(
        self, observed: Observed, previous: Float[np.ndarray, "S A"], memory: tuple[np.ndarray, ...] = ()
    ) -> Completion:
        posed = pose(observed, previous, self.unidentified)
        (start,) = recall(memory, 1, posed)
        if self.penalty is None:
            start, penalty, spent, how = _choose_penalty(posed, self.tolerance, self.max_iterations)
        else:
            start, penalty, spent, how = start / posed.scale, self.penalty / posed.scale, 0, "as given"
        solved = _solve(posed.values, posed.mask, start, penalty, self.tolerance, self.max_iterations)
        sentence = verdict(solved.gap, self.tolerance, solved.iterations, "objective")
        return finish(
            solved.table,
            posed,
            previous,
            self.unidentified,
            rank=solved.rank,
            gap=solved.gap,
            iterations=spent + solved.iterations,
            converged=solved.gap <= self.tolerance,
            result=f"{sentence} Penalty {penalty * posed.scale:.3g}, {how}.",
            memory=(posed.turn(solved.table) * posed.scale,),
        )


def lambda_max(observed: Observed) -> float:
    """‖P_Ω(Y)‖₂, the smallest λ whose solution is 0."""
    posed = pose(observed, np.zeros(np.shape(observed.mask)), "zero")
    return _level(posed.values) * posed.scale


def _level(values: np.ndarray) -> float:
    # The largest singular value is the one that a Gram matrix gives to full precision.
    return float(np.sqrt(np.linalg.eigvalsh(values.T @ values)[-1]))


def held_out(mask: Bool[np.ndarray, "m n"]) -> Bool[np.ndarray, "m n"]:
    """A fixed fifth of the observed entries, never the last one of a row or a column."""
    scores = np.where(mask, np.random.default_rng(HELD_OUT_SEED).random(mask.shape), np.inf)
    is_last = (scores == scores.min(axis=1, keepdims=True)) | (scores == scores.min(axis=0, keepdims=True))
    return mask & (scores > 1 - HELD_OUT) & ~is_last


def _choose_penalty(posed: Posed, tolerance: float, max_iterations: int) -> tuple[np.ndarray, float, int, str]:
    """(a start, λ, iterations spent, a clause): the λ of the path with the smallest squared error on held-out entries."""
    out = held_out(posed.mask)
    if not out.any():
        raise HamqError(
            "SoftImpute(penalty=None) holds entries out to choose the penalty, but no row and column with an entry to spare "
            "was observed; observe more actions per state or give a penalty."
        )
    mask = posed.mask & ~out
    values = np.where(mask, posed.values, 0.0)
    level = _level(values) or 1.0
    table, spent, errors, tables = np.zeros(mask.shape), 0, [], []
    # As tightly as the answer: an iterate stopped early resembles a larger λ and misleads the choice.
    for share in PATH:
        solved = _solve(values, mask, table, share * level, tolerance, max_iterations)
        table, spent = solved.table, spent + solved.iterations
        errors.append(float(np.mean((table - posed.values)[out] ** 2)))
        tables.append(table)
        if len(errors) - 1 - int(np.argmin(errors)) >= PATIENCE:
            break
    best = int(np.argmin(errors))
    end = " (the smallest tried)" if best == len(PATH) - 1 else ""
    error = np.sqrt(errors[best]) * posed.scale
    how = f"chosen on {out.sum()} held-out entries{end}, root mean square error there {error:.3g}"
    return tables[best], float(PATH[best] * level), spent, how


class _State(NamedTuple):
    table: Float[Array, "m n"]
    ahead: Float[Array, "m n"]
    """V of the module's docstring."""
    momentum: Float[Array, ""]
    rank: Int[Array, ""]
    gap: Float[Array, ""]
    checks: Int[Array, ""]


class _Solved(NamedTuple):
    table: Float[np.ndarray, "m n"]
    rank: int
    gap: float
    iterations: int


def _solve(values, mask, start, penalty: float, tolerance: float, max_iterations: int) -> _Solved:
    with jax.enable_x64(True):
        state = _descend(values, mask, start, penalty, tolerance, -(-max_iterations // CHECK_EVERY))
        return _Solved(np.asarray(state.table), int(state.rank), float(state.gap), CHECK_EVERY * int(state.checks))


@jax.jit
def _descend(
    y: Float[Array, "m n"],
    mask: Bool[Array, "m n"],
    start: Float[Array, "m n"],
    penalty: Scalar,
    tolerance: Scalar,
    max_checks: Scalar,
) -> _State:
    """Accelerated proximal gradient until the gap is at most `tolerance`; no shape depends on the number of entries."""

    def step(_, state: _State) -> _State:
        table, rank = shrink(jnp.where(mask, y, state.ahead), penalty)
        change = table - state.table
        is_uphill = jnp.sum((state.ahead - table) * change) > 0
        momentum = jnp.where(is_uphill, 1.0, (1 + jnp.sqrt(1 + 4 * state.momentum**2)) / 2)
        ahead = table + jnp.where(is_uphill, 0.0, (state.momentum - 1) / momentum) * change
        return state._replace(table=table, ahead=ahead, momentum=momentum, rank=rank)

    def steps_and_check(state: _State) -> _State:
        state = jax.lax.fori_loop(0, CHECK_EVERY, step, state)
        return state._replace(gap=penalised_gap(y, mask, state.table, penalty), checks=state.checks + 1)

    def is_open(state: _State) -> Bool[Array, ""]:
        return (state.gap > tolerance) & (state.checks < max_checks)

    first = _State(start, start, jnp.asarray(1.0), jnp.asarray(0), jnp.asarray(jnp.inf), jnp.asarray(0))
    return jax.lax.while_loop(is_open, steps_and_check, first)


def penalised_gap(
    y: Float[Array, "m n"], mask: Bool[Array, "m n"], x: Float[Array, "m n"], penalty: Scalar
) -> Float[Array, ""]:
    """(objective − bound) / objective ≥ suboptimality, with Λ = t·P_Ω(Y − X) for the best t that keeps ‖Λ‖₂ ≤ λ."""
    rest = jnp.where(mask, y - x, 0.0)
    square, size = jnp.sum(rest**2), spectral_norm(rest)
    objective = 0.5 * square + penalty * nuclear_norm(x)
    slope = jnp.sum(y * rest)
    t = jnp.where(square > 0, jnp.minimum(slope / square, penalty / size), 0.0)
    bound = jnp.maximum(t * slope - 0.5 * t**2 * square, 0.0)
    return jnp.where(objective > 0, (objective - bound) / objective, 0.0)
