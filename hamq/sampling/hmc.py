"""Hamiltonian Monte Carlo draws of the next state: the paper's sampler, and the one that works.

A transition draws a momentum p ~ N(0, M), follows Hamilton's equations for `num_leapfrog` steps of size ε and accepts the
end with probability min(1, exp(−ΔH)). The mass M is the curvature of the energy at its mode, so ε is in units of the
target's standard deviation. Densities that may have several modes also make a jump before every trajectory
(`jump_chain.py`).

A chain is made in stages that callers may take one by one: `find_modes`, `start`, and `advance` for any number of
transitions at a time. `draw` takes them all.
"""

import dataclasses
import math
import warnings
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int

from hamq.problem.grid import Grid
from hamq.problem.kernels.kernel import AbstractDensity
from hamq.problem.problem import Problem
from hamq.sampling.calibration import calibrated_weights, cleaned, stein_functions
from hamq.sampling.cell_table import CellTable, shares_of
from hamq.sampling.chain import Chain, ChainState, make_scales, run_chain
from hamq.sampling.draws import (
    AbstractSampler,
    Draws,
    Info,
    Smooth,
    Target,
    changed_fields,
    effective_share,
    even_weights,
    make_info,
    require_count,
)
from hamq.sampling.jump_chain import run_jumping_chain
from hamq.sampling.jumps import MAX_WHOLE, NUM_COORDINATES
from hamq.sampling.leapfrog import apply
from hamq.sampling.modes import Modes, choose, find_modes, search_gradients, with_table
from hamq.sampling.noise import ChainNoise, StartNoise, make_noise
from hamq.sampling.walls import AbstractPotential, LogitPotential, make_potential
from hamq.types import HamqError, HamqWarning, Key, Walls

Judged = Literal["unknown", "smooth", "shifted", "cut"]
"""What a pilot saw of a density: nothing was looked at; no jumps; draws that do not obey its identities; jumps, or zeros
inside of the box."""
WALLS = ("logit", "reflect", "sigmoid")
GAUSSIAN_STEP = 0.6
"""Times d^(−1/4), as the acceptance of HMC asks for: 0.5 standard deviations at d = 2, 0.38 at d = 6, the best measured
with 5 steps on truncated Gaussians (docs/sampling.md). Other densities adapt theirs."""
NUM_LEAPFROG = 5
GOLDEN = (5**0.5 - 1) / 2
SEVERAL_CHAINS, LEAST_OF_SEVERAL = 4, 40
"""Chains of a pair whose density may have several modes, where it has so many draws: chains that disagree are seen."""
DISPERSIONS = (2.0, 1.0, 0.5)
"""Standard deviations of dispersed starts, in those of the mode: the first that the energy allows."""


class HMC(AbstractSampler):
    """`num_samples` draws per pair by Hamiltonian Monte Carlo.

    `step_size` is in standard deviations of the target; None takes 0.6·d^(−1/4) for Gaussian kernels, whose curvature is
    known, and adapts it on a few pairs for all others. `num_leapfrog` None takes 5 steps where the step size is known, and
    else the number that brings draws farthest per gradient on those pairs (`learning/pilot.py`). `walls` keeps the chain
    in the box (`walls.py`); `sharpness` is the paper's κ, used by `sigmoid` alone. Each of `num_chains` chains (None: 4 for
    densities that may have several modes, else 1) makes `num_warmup` draws that are thrown away and num_samples/num_chains
    that are kept. `calibrate` weights the draws so that they obey what is known of the density (`calibration.py`); it
    needs walls="logit" and a density without jumps, where it is the default, and costs no evaluation. Chains start at modes,
    or with `dispersed` at draws from a law that is wider than the density: chains that agree all the same have forgotten
    where they began (certificates, diagnostics).

    A pilot sets the last two fields: `varies` (lengths between a half and three halves of `num_leapfrog`) where it chose
    the length, and `judged` to what it saw of the density.
    """

    num_samples: int = eqx.field(static=True)
    num_leapfrog: int | None = eqx.field(static=True, default=None)
    step_size: Any = None
    walls: Walls = eqx.field(static=True, default="logit")
    sharpness: Any = 80.0
    num_warmup: int = eqx.field(static=True, default=5)
    num_chains: int | None = eqx.field(static=True, default=None)
    calibrate: bool | None = eqx.field(static=True, default=None)
    dispersed: bool = eqx.field(static=True, default=False)
    varies: bool = eqx.field(static=True, default=False, metadata={"is_settled": True})
    judged: Judged = eqx.field(static=True, default="unknown", metadata={"is_settled": True})

    def __check_init__(self):
        require_count("HMC: num_samples", self.num_samples)
        if self.num_leapfrog is not None:
            require_count("HMC: num_leapfrog", self.num_leapfrog)
        require_count("HMC: num_warmup", self.num_warmup, least=0)
        if self.num_chains is not None:
            require_count("HMC: num_chains", self.num_chains)
        if self.num_samples % self.chains:
            raise HamqError(
                f"HMC: num_samples = {self.num_samples} does not divide into num_chains = {self.chains} chains of "
                "equal length; make it a multiple."
            )
        if self.walls not in WALLS:
            raise HamqError(f"HMC: walls must be one of {', '.join(WALLS)}, got {self.walls!r}.")
        if self.calibrate and self.walls != "logit":
            raise HamqError(
                f"HMC: calibrate=True needs walls='logit', got walls={self.walls!r}: draws at a wall obey no identity that "
                "is known without the normaliser; use calibrate=None."
            )
        if self.dispersed and self.walls != "logit":
            raise HamqError(
                f"HMC: dispersed=True needs walls='logit', got walls={self.walls!r}: a start far from the mode may lie "
                "outside of other walls; use dispersed=False."
            )
        _require_positive("HMC: step_size", self.step_size, "use None to have it adapted")
        _require_positive("HMC: sharpness", self.sharpness, "the authors' script has 80")

    @property
    def weights_note(self) -> str:
        """How the draws of a prepared sampler are weighted, and why."""
        if self.weighs:
            return "calibrated weights"
        if self.judged == "cut":
            return "even weights, because the density jumps or ends inside of the box"
        return "even weights, because draws do not obey its identities" if self.judged == "shifted" else "even weights"

    @property
    def weighs(self) -> bool:
        return self.calibrate is not False and self.walls == "logit"

    def prepare(self, problem: Problem, *, key: Key) -> tuple["HMC", Info]:
        del key
        if problem.law == "point":
            raise HamqError(
                "HMC draws from the continuous density and cannot follow the point masses of law='point'; "
                "use law='cell' (the paper compares the two, which are different problems), Exhaustive or IID."
            )
        if self.walls == "sigmoid":
            self._warn_of_stiff_walls(problem)
        sampler = self._with_counts(problem.kernel.has_one_mode)
        if self.step_size is not None or not problem.kernel.has_one_mode:
            return sampler, make_info()
        return sampler.with_step(GAUSSIAN_STEP / problem.grid.dimension**0.25), make_info()

    def _with_counts(self, has_one_mode: bool) -> "HMC":
        """Chains and steps that are known before a pilot: those of a step size that is given, or of one mode."""
        can_share = self.num_samples % SEVERAL_CHAINS == 0 and self.num_samples >= LEAST_OF_SEVERAL
        chains = self.num_chains or (SEVERAL_CHAINS if can_share and not has_one_mode else 1)
        is_known = has_one_mode or self.step_size is not None
        return dataclasses.replace(self, num_chains=chains, num_leapfrog=self.steps if is_known else self.num_leapfrog)

    @property
    def needs_pilot(self) -> bool:
        return self.step_size is None or self.num_leapfrog is None

    @property
    def steps(self) -> int:
        """Leapfrog steps of a trajectory, where a pilot has not chosen another number."""
        return NUM_LEAPFROG if self.num_leapfrog is None else self.num_leapfrog

    @property
    def chains(self) -> int:
        return 1 if self.num_chains is None else self.num_chains

    @property
    def has_chains(self) -> bool:
        return True

    @property
    def calibrates(self) -> bool:
        return self.weighs

    @property
    def is_cut(self) -> bool:
        return self.judged == "cut"

    @property
    def obeys_identities(self) -> bool:
        return self.judged in ("unknown", "smooth")

    @property
    def weights_remedy(self) -> str:
        return "use calibrate=False"

    @property
    def not_smooth(self) -> tuple[str, ...]:
        return changed_fields(self, ("num_samples", "num_leapfrog", "step_size"))

    def smooth(self, problem: Problem) -> Smooth:
        del problem
        return Smooth("tilted", self.num_samples, self.steps, self.step_size)

    def in_chunks(self) -> "HMC":
        return self

    def for_diagnosis(self) -> "HMC":
        return dataclasses.replace(self, calibrate=False, dispersed=self.walls == "logit")

    def with_step(self, step_size: Any) -> "HMC":
        return eqx.tree_at(lambda sampler: sampler.step_size, self, step_size, is_leaf=lambda value: value is None)

    @property
    def num_discarded(self) -> int:
        return self.num_warmup

    def potential(self, density: AbstractDensity, grid: Grid) -> AbstractPotential:
        return make_potential(self.walls, density, grid, self.sharpness)

    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        grid = target.problem.grid
        potential, step = self.potential(target.density, grid), jnp.asarray(self.step_size, target.state.dtype)
        jumps = not target.problem.kernel.has_one_mode
        modes = find_modes(potential, target.state)
        modes = with_table(potential, modes) if jumps else modes

        def run(chain):
            start, noise = make_noise(self.num_transitions, grid.dimension, jumps, key=jr.fold_in(key, chain))
            _, made = self.advance(potential, modes, step, self.start(potential, modes, start), noise)
            return made

        made = jax.vmap(run)(jnp.arange(self.chains))
        kept = jax.tree.map(lambda a: a[:, self.num_warmup :].reshape(self.num_samples, *a.shape[2:]), made)
        points = self.points(potential, kept.positions)
        functions = self.functions(potential, kept) if self.weighs else None
        log_weights = even_weights(self.num_samples) if functions is None else calibrated_weights(functions)
        never_moved = ~jnp.any(made.has_moved | made.has_jumped, axis=1)
        densities, gradients = self.evaluations(modes, jumps, grid.dimension)
        info = make_info(
            acceptance=jnp.mean(kept.acceptance),
            is_stuck=jnp.any(never_moved),
            stuck_share=jnp.mean(never_moved, dtype=jnp.float32),
            outside=jnp.mean(~jax.vmap(grid.contains)(points), dtype=points.dtype),
            num_modes=modes.count,
            num_crossings=jnp.sum(made.has_jumped, dtype=jnp.int32),
            num_nonfinite=jnp.sum(made.is_nonfinite, dtype=jnp.int32),
            weight_share=effective_share(log_weights),
            has_failed=~(jnp.any(jnp.isfinite(modes.energies)) & jnp.all(jnp.isfinite(points))),
            density_evaluations=densities,
            gradient_evaluations=gradients,
            is_cut=self.judged == "cut",
        )
        return Draws(points.T, log_weights), info

    def start(self, potential: AbstractPotential | None, modes: Modes, noise: StartNoise) -> ChainState:
        """Where a chain begins: at a mode that is chosen by its weight, or away from it, which needs the potential."""
        k = choose(modes.log_weights, noise.choice)
        if not self.dispersed or potential is None:
            return ChainState(modes.positions[k], modes.energies[k], modes.gradients[k])
        position = _dispersed(potential, modes.positions[k], modes.factors[k], noise.normal)
        if modes.table is not None:
            position = _tabled(potential, modes.table, noise, position)
        return ChainState(position, *potential.energy_and_gradient(position))

    def advance(
        self,
        potential: AbstractPotential,
        modes: Modes,
        step_size: Float[Array, ""],
        state: ChainState,
        noise: ChainNoise,
        lengths: Int[Array, " num"] | None = None,
        count: Int[Array, ""] | int | None = None,
    ) -> tuple[ChainState, Chain]:
        """The chain after the first `count` transitions of the noise (all where None), and what it went through.

        `lengths` are the leapfrog steps of each transition where the density may have several modes.
        """
        if noise.jump is not None:
            if lengths is None:
                lengths = jnp.asarray(self.lengths(0, len(noise.log_uniform)))
            return run_jumping_chain(potential, modes, step_size, state, noise, lengths, count)
        best = 0 if len(modes.log_weights) == 1 else jnp.argmax(modes.log_weights)
        matrices = modes.factors[best], modes.inverse_factors[best], modes.covariances[best]
        given = make_scales(*matrices, step_size), state, noise.momentum, noise.log_uniform
        return run_chain(potential, *given, self.steps, count)

    def lengths(self, first: int, num: int) -> Int[np.ndarray, " num"]:
        """Leapfrog steps of the transitions `first` … `first + num − 1` of a chain."""
        if not self.varies:
            return np.full(num, self.steps, np.int32)
        # Between a half and three halves, in an order without a period: what returns to its place after one length does
        # not after the next. The order does not look at the chain, so that every transition leaves the law as it is.
        share = 0.5 + (np.arange(first, first + num) + 0.5) * GOLDEN % 1
        return np.maximum(1, np.rint(self.steps * share)).astype(np.int32)

    def points(self, potential: AbstractPotential, positions: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return jax.vmap(lambda y: potential.grid.wrap(potential.place(y)))(positions)

    def functions(self, potential: AbstractPotential, made: Chain) -> Float[Array, "n functions"] | None:
        """Functions of the draws whose expectation is 0 if the density has no jumps; None where none are known."""
        if not isinstance(potential, LogitPotential):
            return None
        of_one = jax.vmap(lambda y, g: stein_functions(potential, y[:, None], g[:, None])[:, 0])
        return cleaned(of_one(made.positions, made.gradients))

    def evaluations(self, modes: Modes, jumps: bool, dimension: int) -> tuple[Any, Any]:
        """(densities, gradients) of one pair: mode search, starts and transitions."""
        densities, gradients = self.evaluations_of_chains(jumps, dimension)
        return modes.density_evaluations + densities, modes.gradient_evaluations + gradients

    def evaluations_of_chains(self, jumps: bool, dimension: int) -> tuple[int, int]:
        """The same without the mode search."""
        trajectories = self.chains * self.num_transitions
        num_jumps = trajectories if jumps else 0
        tries = num_jumps if dimension <= MAX_WHOLE else num_jumps * NUM_COORDINATES
        starts, slopes = (self.chains * (2 + len(DISPERSIONS)), self.chains) if self.dispersed else (0, 0)
        steps = int(self.chains * self.lengths(0, self.num_transitions).sum()) if jumps else trajectories * self.steps
        return starts + trajectories + tries, slopes + steps + num_jumps

    def gradients_per_draw(self, problem: Problem) -> int:
        """A jump needs the gradient where it ends."""
        return self.steps + (not problem.kernel.has_one_mode)

    def gradients_before_draws(self, problem: Problem) -> int | None:
        """Every search for modes costs the same; the way to the one mode of others depends on the pair."""
        if problem.kernel.has_one_mode:
            return None
        warmup = self.chains * (self.num_warmup + self.varies)
        return search_gradients(problem.grid.dimension) + self.gradients_per_draw(problem) * warmup

    def _warn_of_stiff_walls(self, problem: Problem) -> None:
        normal, step = problem.kernel.normal, self.step_size
        if normal is None or callable(normal.covariance) or not isinstance(step, (int, float)):
            return
        covariance = np.asarray(normal.covariance)
        widest = float(np.sqrt(covariance if covariance.ndim == 1 else np.diag(covariance)).max())
        if step * self.sharpness * widest > 2:
            warnings.warn(
                f"HMC: step_size·sharpness·σ = {step * self.sharpness * widest:.3g} is above 2, where sigmoid walls throw "
                f"trajectories off; use step_size below {2 / (self.sharpness * widest):.3g}, sharpness below "
                f"{2 / (step * widest):.3g}, or walls='logit'.",
                HamqWarning,
                stacklevel=2,
            )


def _dispersed(
    potential: AbstractPotential, mode: Float[Array, " d"], factor: Array, z: Float[Array, " d"]
) -> Float[Array, " d"]:
    """mode + c·L·z with the largest c whose energy is at most 1.5 times that of the Laplace approximation, and 1 more.

    Beyond, the density falls much faster than the approximation, and a chain may be stuck there.
    """
    least = potential.energy(mode)
    start = mode
    for c in reversed(DISPERSIONS):
        place = mode + c * apply(factor, z)
        is_near = potential.energy(place) - least <= 0.75 * c**2 * jnp.sum(z**2) + 1
        start = jnp.where(is_near, place, start)
    return start


def _tabled(
    potential: AbstractPotential, table: CellTable, noise: StartNoise, otherwise: Float[Array, " d"]
) -> Float[Array, " d"]:
    """A draw from the table of cells, whose law is wider than the density; `otherwise` where there is no density."""
    within = jax.scipy.special.ndtr(noise.normal)
    share = shares_of(table, noise.choice[None], within[None])[0]
    place = potential.lift(potential.lower + (potential.upper - potential.lower) * share)
    return jnp.where(jnp.isfinite(potential.energy(place)), place, otherwise)


def _require_positive(name: str, value, remedy: str) -> None:
    if value is None or isinstance(value, jax.Array):
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.floating))
        or not (math.isfinite(value) and value > 0)
    ):
        raise HamqError(f"{name} must be a positive number, got {value!r}; {remedy}.")
