"""min ‖X‖_* subject to X_Ω = Y_Ω: the paper's completion, eq. (2) and (10), with a bound on how far it is from optimal.

ADMM on the split X = Z with X_Ω = Y_Ω, over-relaxed (α = 1.6). Between iterations it needs one matrix M, which is
Y + τΛ on Ω (Λ: the multipliers) and Z off Ω:

    Z = shrink(M, τ),    M ← M + α·(Y − Z) on Ω,    M ← M + α·(Z − M) off Ω.

shrink lowers every singular value by τ. It costs one eigendecomposition of the Gram matrix MᵀM, of the shorter side only,
and loses singular values below 1e-8 of the largest, all far below τ. τ is steered every 10 iterations so that M moves
three times less on Ω (where it carries Λ) than off Ω (where it carries the table): tables with a strong level end near
τ = 0.005·‖Y_Ω‖₂, small sparse ones near 0.3. On the paper's Q tables, to a gap of 1e-6, that takes 2 to 5 times fewer
iterations than τ = 0.1·‖Y_Ω‖₂ throughout and up to 3 times fewer than balancing relative residuals, which is up to twice as
fast on small sparse tables. Anderson acceleration did not pay.

Certificate: any Λ supported on Ω with ‖Λ‖₂ ≤ 1 gives ⟨Y, Λ⟩ ≤ ⟨X, Λ⟩ ≤ ‖X‖_* for every feasible X, the optimum among them.

The loop is a jit of its own in float64: fused by XLA, 0.5 to 0.8 ms per iteration at 15,625 × 10. NumPy took 0.6 ms with
one BLAS thread, and 4 to 8 ms with its default two on a busy machine.
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
    Unidentified,
    finish,
    pose,
    recall,
    require_part,
    require_selection,
    require_settings,
    verdict,
)
from hamq.completion.selection import FRACTION, Selection
from hamq.types import is_cpu

RELAXATION = 1.6
FIRST_THRESHOLD, SMALLEST_THRESHOLD, LARGEST_THRESHOLD = 0.3, 1e-3, 2.0
"""In units of ‖Y_Ω‖₂."""
BALANCE = 3.0
CHECK_EVERY = 10


class NuclearNorm(AbstractCompletion):
    """The feasible X with ‖X‖_* ≤ (1 + tolerance)·optimum, certified; `rank` counts singular values above the threshold.

    `q` equals the observed values on Ω exactly. `memory` is (X, Λ): on the same Ω it saves up to half of the iterations,
    on a new one little or nothing (docs/completion.md has the counts).
    """

    tolerance: float = 1e-7
    max_iterations: int = eqx.field(static=True, default=5000)
    unidentified: Unidentified = eqx.field(static=True, default="keep")
    fraction: float = FRACTION
    selection: Selection = eqx.field(static=True, default="per_state")
    completes: Part = eqx.field(static=True, default="increment")

    def __check_init__(self):
        require_selection("NuclearNorm", self.selection, self.fraction)
        require_part("NuclearNorm", self.completes)
        require_settings("NuclearNorm", self.tolerance, self.max_iterations, self.unidentified)

    def complete(
        self, observed: Observed, previous: Float[np.ndarray, "S A"], memory: tuple[np.ndarray, ...] = ()
    ) -> Completion:
        posed = pose(observed, previous, self.unidentified)
        table, dual = recall(memory, 2, posed)
        with jax.enable_x64(True):
            solved = _minimise(
                posed.values, posed.mask, table / posed.scale, dual, self.tolerance, -(-self.max_iterations // CHECK_EVERY)
            )
            solved = jax.tree.map(np.asarray, solved)
        gap, iterations = float(solved.gap), CHECK_EVERY * int(solved.checks)
        return finish(
            solved.table,
            posed,
            previous,
            self.unidentified,
            rank=int(solved.rank),
            gap=gap,
            iterations=iterations,
            converged=gap <= self.tolerance,
            result=verdict(gap, self.tolerance, iterations, "norm"),
            memory=(posed.turn(solved.table) * posed.scale, posed.turn(solved.dual)),
        )


class _State(NamedTuple):
    split: Float[Array, "m n"]
    """M of the module's docstring."""
    shrunk: Float[Array, "m n"]
    rank: Int[Array, ""]
    threshold: Float[Array, ""]
    gap: Float[Array, ""]
    checks: Int[Array, ""]


class _Solved(NamedTuple):
    table: Float[Array, "m n"]
    dual: Float[Array, "m n"]
    rank: Int[Array, ""]
    gap: Float[Array, ""]
    checks: Int[Array, ""]


@jax.jit
def _minimise(
    y: Float[Array, "m n"],
    mask: Bool[Array, "m n"],
    table: Float[Array, "m n"],
    dual: Float[Array, "m n"],
    tolerance: Scalar,
    max_checks: Scalar,
) -> _Solved:
    """ADMM until the gap is at most `tolerance`; shapes do not depend on the number of observed entries."""
    level = spectral_norm(y)

    def step(_, state: _State) -> _State:
        z, rank = shrink(state.split, state.threshold)
        split = state.split + RELAXATION * jnp.where(mask, y - z, z - state.split)
        return state._replace(split=split, shrunk=z, rank=rank)

    def multipliers(state: _State) -> Float[Array, "m n"]:
        return jnp.where(mask, state.split - y, 0.0) / state.threshold

    def steps_and_check(state: _State) -> _State:
        before = state.split
        state = jax.lax.fori_loop(0, CHECK_EVERY, step, state)
        lam = multipliers(state)
        gap = relative_gap(y, jnp.where(mask, y, state.shrunk), lam)
        threshold = balanced(state.threshold, state.split - before, mask, level)
        # The multipliers stay what they are; M carries them in units of the threshold.
        split = jnp.where(mask, y + threshold * lam, state.split)
        return state._replace(split=split, threshold=threshold, gap=gap, checks=state.checks + 1)

    def is_open(state: _State) -> Bool[Array, ""]:
        return (state.gap > tolerance) & (state.checks < max_checks)

    # A table of zeros has no level; any threshold will do.
    threshold = jnp.where(level > 0, FIRST_THRESHOLD * level, 1.0)
    split = jnp.where(mask, y + threshold * dual, table)
    start = _State(split, split, jnp.asarray(0), threshold, jnp.asarray(jnp.inf), jnp.asarray(0))
    state = jax.lax.while_loop(is_open, steps_and_check, start)
    return _Solved(jnp.where(mask, y, state.shrunk), multipliers(state), state.rank, state.gap, state.checks)


def balanced(
    threshold: Float[Array, ""], change: Float[Array, "m n"], mask: Bool[Array, "m n"], level: Float[Array, ""]
) -> Float[Array, ""]:
    """τ·√(‖ΔM off Ω‖ / 3‖ΔM on Ω‖), at most halved or doubled: a larger τ moves the table faster, a smaller one Λ."""
    tiny = jnp.finfo(change.dtype).tiny
    on, off = (jnp.linalg.norm(jnp.where(where, change, 0.0)) for where in (mask, ~mask))
    factor = jnp.clip(jnp.sqrt((off + tiny) / (BALANCE * on + tiny)), 0.5, 2.0)
    return jnp.where(
        level > 0, jnp.clip(factor * threshold, SMALLEST_THRESHOLD * level, LARGEST_THRESHOLD * level), threshold
    )


def relative_gap(y: Float[Array, "m n"], x: Float[Array, "m n"], lam: Float[Array, "m n"]) -> Float[Array, ""]:
    """(‖X‖_* − ⟨Y, Λ⟩/‖Λ‖₂) / ‖X‖_* ≥ suboptimality of a feasible X, for any Λ supported on Ω; 0 for X = 0."""
    norm, size = nuclear_norm(x), spectral_norm(lam)
    lower = jnp.where(size > 0, jnp.sum(y * lam) / jnp.where(size > 0, size, 1.0), 0.0)
    return jnp.where(norm > 0, (norm - jnp.maximum(lower, 0.0)) / jnp.where(norm > 0, norm, 1.0), 0.0)


def shrink(matrix: Float[Array, "m n"], threshold: Scalar) -> tuple[Float[Array, "m n"], Int[Array, ""]]:
    """U·(Σ − τ)₊·Vᵀ, the proximal map of τ‖·‖_*, and how many singular values are left."""
    squares, v = small_eigh(matrix.T @ matrix)
    s = jnp.sqrt(jnp.maximum(squares, 0.0))
    is_left = s > threshold
    factor = jnp.where(is_left, 1 - threshold / jnp.where(is_left, s, 1.0), 0.0)
    return matrix @ ((v * factor[None, :]) @ v.T), jnp.sum(is_left)


def nuclear_norm(matrix: Float[Array, "m n"]) -> Float[Array, ""]:
    """Σ ‖X vᵢ‖ ≥ ‖X‖_* for any orthonormal v, equal for the right singular vectors.

    The roots of the Gram matrix's eigenvalues would be wrong by 1e-8·s₁; the lengths are not, and a bound from above
    keeps the gap rigorous.
    """
    _, v = small_eigh(matrix.T @ matrix)
    return jnp.sum(jnp.sqrt(jnp.sum((matrix @ v) ** 2, axis=0)))


def small_eigh(gram: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues in ascending order, and vectors. For 10 × 10 a GPU takes 380 µs by its default, Jacobi, and 120 by QR."""
    method = None if is_cpu() else jax.lax.linalg.EighImplementation.QR
    v, squares = jax.lax.linalg.eigh(gram, implementation=method)
    return squares, v


def spectral_norm(matrix: Float[Array, "m n"]) -> Float[Array, ""]:
    return jnp.sqrt(jnp.maximum(small_eigh(matrix.T @ matrix)[0][-1], 0.0))
