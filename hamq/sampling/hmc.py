"""Hamiltonian Monte Carlo draws of the next state: the paper's sampler, and the one that works.

A transition draws a momentum p ~ N(0, M), follows Hamilton's equations for `num_leapfrog` steps of size ε and accepts the
end with probability min(1, exp(−ΔH)). The mass M is the curvature of the energy at its mode, so ε is in units of the
target's standard deviation. Densities that may have several modes also make, after every trajectory, a jump proposed
from the modes' Laplace mixture (`jumps.py`) and accepted by Metropolis; which mode's mass a trajectory uses is drawn anew
each time, which leaves the target invariant because the choice does not look at the position.
"""

import functools
import math
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from hamq.problem.kernel import GaussianKernel, UserDensity
from hamq.problem.problem import Problem
from hamq.sampling.batch_last import scan_last
from hamq.sampling.calibration import calibrated_weights
from hamq.sampling.chain import ChainState, Scales, make_scales, run_chain
from hamq.sampling.draws import AbstractSampler, Draws, Info, Target, effective_share, even_weights, make_info, require_count
from hamq.sampling.jumps import (
    MAX_WHOLE,
    NUM_COORDINATES,
    CoordinateProposal,
    Jump,
    coordinate_noise,
    jump_noise,
    log_marginal,
    log_proposal,
    propose_coordinate,
    propose_jump,
)
from hamq.sampling.leapfrog import apply
from hamq.sampling.modes import Modes, choose, find_modes
from hamq.sampling.pilot import NUM_DRAWS, adapted_step_size
from hamq.sampling.walls import AbstractPotential, LogitPotential, make_potential
from hamq.types import HamqWarning, Key, Walls

WALLS = ("logit", "reflect", "sigmoid")
GAUSSIAN_STEP = 0.6
"""Times d^(−1/4), as the acceptance of HMC asks for: 0.5 standard deviations at d = 2, 0.38 at d = 6, the best measured
with 5 steps on truncated Gaussians (docs/sampling.md). Other densities adapt theirs."""
DISPERSIONS = (2.0, 1.0, 0.5)
"""Standard deviations of dispersed starts, in those of the mode: the first that the energy allows."""


class ChainInfo(NamedTuple):
    """What only diagnostics need of a transition, or of all of a chain."""

    acceptance: Float[Array, "*n"]
    has_moved: Bool[Array, "*n"]
    is_nonfinite: Bool[Array, "*n"]
    has_jumped: Bool[Array, "*n"]


class ChainNoise(NamedTuple):
    """What is random in one transition; actions of one state share the random numbers.

    Jumps do not look at the position of the chain: they are proposed for the whole chain before it starts.
    """

    momentum: Float[Array, "*n d"]
    log_uniform: Float[Array, "*n"]
    mass_choice: Float[Array, "*n"]
    jump: Jump | CoordinateProposal | None
    log_uniform_jump: Float[Array, "..."]


class HMC(AbstractSampler):
    """`num_samples` draws per pair by Hamiltonian Monte Carlo.

    `step_size` is in standard deviations of the target; None takes 0.6·d^(−1/4) for Gaussian kernels, whose curvature is
    known, and adapts it on a few pairs for all others. `walls` keeps the chain in the box (`walls.py`); `sharpness` is the
    paper's κ, used by `sigmoid` alone. Each of `num_chains` chains makes `num_warmup` draws that are thrown away and
    num_samples/num_chains that are kept. `calibrate` weights the draws so that they obey what is known of the density
    (`calibration.py`); it needs walls="logit", where it is the default, and costs no evaluation. Chains start at modes, or
    with `dispersed` at draws from the Laplace approximation with up to twice its standard deviations: chains that agree all
    the same have forgotten where they began (certificates, diagnostics).
    """

    num_samples: int = eqx.field(static=True)
    num_leapfrog: int = eqx.field(static=True, default=5)
    step_size: Any = None
    walls: Walls = eqx.field(static=True, default="logit")
    sharpness: Any = 80.0
    num_warmup: int = eqx.field(static=True, default=5)
    num_chains: int = eqx.field(static=True, default=1)
    calibrate: bool | None = eqx.field(static=True, default=None)
    dispersed: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        require_count("HMC: num_samples", self.num_samples)
        require_count("HMC: num_leapfrog", self.num_leapfrog)
        require_count("HMC: num_warmup", self.num_warmup, least=0)
        require_count("HMC: num_chains", self.num_chains)
        if self.num_samples % self.num_chains:
            raise ValueError(
                f"HMC: num_samples = {self.num_samples} does not divide into num_chains = {self.num_chains} chains of "
                "equal length; make it a multiple."
            )
        if self.walls not in WALLS:
            raise ValueError(f"HMC: walls must be one of {', '.join(WALLS)}, got {self.walls!r}.")
        if self.calibrate and self.walls != "logit":
            raise ValueError(
                f"HMC: calibrate=True needs walls='logit', got walls={self.walls!r}: draws at a wall obey no identity that "
                "is known without the normaliser; use calibrate=None."
            )
        if self.dispersed and self.walls != "logit":
            raise ValueError(
                f"HMC: dispersed=True needs walls='logit', got walls={self.walls!r}: a start far from the mode may lie "
                "outside of other walls; use dispersed=False."
            )
        _require_positive("HMC: step_size", self.step_size, "use None to have it adapted")
        _require_positive("HMC: sharpness", self.sharpness, "the authors' script has 80")

    @property
    def weighs(self) -> bool:
        return self.calibrate is not False and self.walls == "logit"

    def prepare(self, problem: Problem, *, key: Key) -> tuple["HMC", Info]:
        if problem.law == "point":
            raise ValueError(
                "HMC draws from the continuous density and cannot follow the point masses of law='point'; "
                "use law='cell' (the paper compares the two, which are different problems), Exhaustive or IID."
            )
        if self.walls == "sigmoid":
            self._warn_of_stiff_walls(problem)
        if self.step_size is not None:
            return self, make_info()
        if isinstance(problem.kernel, GaussianKernel):
            step = GAUSSIAN_STEP / problem.grid.dimension**0.25
            return eqx.tree_at(_step_size, self, step, is_leaf=_is_none), make_info()
        trial = HMC(NUM_DRAWS, self.num_leapfrog, GAUSSIAN_STEP, self.walls, self.sharpness, self.num_warmup)
        step, densities, gradients = adapted_step_size(problem, trial, key=key)
        info = make_info(density_evaluations=densities, gradient_evaluations=gradients)
        return eqx.tree_at(_step_size, self, step, is_leaf=_is_none), info

    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        potential = self._potential(target)
        modes = find_modes(potential, target.state)
        num_transitions = self.num_warmup + self.num_samples // self.num_chains
        chain_keys = jr.split(key, self.num_chains)
        runs = jax.vmap(lambda chain_key: self._chain(potential, modes, num_transitions, key=chain_key))(chain_keys)
        *places, infos, start_energies = runs
        positions, gradients = (a[:, self.num_warmup :].reshape(self.num_samples, a.shape[-1]) for a in places)
        points = jax.vmap(lambda y: potential.grid.wrap(potential.place(y)))(positions)
        log_weights = self._log_weights(potential, positions, gradients)
        never_moved = ~jnp.any(infos.has_moved | infos.has_jumped, axis=1)
        trajectories = self.num_chains * num_transitions
        jumps = trajectories if _may_jump(potential) else 0
        tries = jumps if potential.grid.dimension <= MAX_WHOLE else jumps * NUM_COORDINATES
        info = make_info(
            acceptance=jnp.mean(infos.acceptance[:, self.num_warmup :]),
            is_stuck=jnp.any(never_moved),
            stuck_share=jnp.mean(never_moved, dtype=jnp.float32),
            outside=jnp.mean(~jax.vmap(potential.grid.contains)(points), dtype=points.dtype),
            num_modes=modes.count,
            num_crossings=jnp.sum(infos.has_jumped, dtype=jnp.int32),
            num_nonfinite=jnp.sum(infos.is_nonfinite, dtype=jnp.int32),
            weight_share=effective_share(log_weights),
            has_failed=~(jnp.all(jnp.isfinite(start_energies)) & jnp.all(jnp.isfinite(points))),
            density_evaluations=modes.density_evaluations + trajectories + self.num_chains * self._per_start + tries,
            gradient_evaluations=modes.gradient_evaluations + trajectories * self.num_leapfrog + self.num_chains + jumps,
        )
        return Draws(points.T, log_weights), info

    @property
    def _per_start(self) -> int:
        """Density evaluations of the start of a chain."""
        return 2 + len(DISPERSIONS) if self.dispersed else 1

    def gradients_per_draw(self, problem: Problem) -> int:
        """What one more draw costs; a jump needs the gradient where it ends."""
        return self.num_leapfrog + (not isinstance(problem.kernel, GaussianKernel))

    def _log_weights(
        self, potential: AbstractPotential, positions: Float[Array, "n d"], gradients: Float[Array, "n d"]
    ) -> Float[Array, " n"]:
        if self.calibrate is False or not isinstance(potential, LogitPotential):
            return even_weights(self.num_samples)
        return calibrated_weights(potential, positions, gradients)

    def _chain(self, potential: AbstractPotential, modes: Modes, num: int, *, key: Key):
        start_key, noise_key = jr.split(key)
        k = choose(modes.log_weights, jr.uniform(start_key))
        position = modes.positions[k]
        if self.dispersed:
            position = _dispersed(potential, position, modes.factors[k], key=jr.fold_in(start_key, 1))
        start = ChainState(position, potential.energy(position), potential.gradient(position))
        noise = _chain_noise(potential, modes, num, key=noise_key)
        if not _may_jump(potential):
            scales = self._scales(modes, jnp.zeros((), jnp.int32))
            _, made = run_chain(potential, scales, start, noise.momentum, noise.log_uniform, self.num_leapfrog)
            info = ChainInfo(made.acceptance, made.has_moved, made.is_nonfinite, jnp.zeros((num,), bool))
            return made.positions, made.gradients, info, start.energy

        def body(given, state, noise):
            sampler, potential, modes = given
            state, info = sampler.transition(potential, modes, state, noise)
            return state, (state.position, state.gradient, info)

        given = (self, potential, modes)
        if position.shape[0] <= MAX_WHOLE:
            _, (positions, gradients, info) = scan_last(body, given, start, noise)
        else:  # jumps of single coordinates pick numbers out of vectors, which does not gain from that layout
            _, (positions, gradients, info) = jax.lax.scan(functools.partial(body, given), start, noise)
        return positions, gradients, info, start.energy

    def transition(
        self, potential: AbstractPotential, modes: Modes, state: ChainState, noise: ChainNoise
    ) -> tuple[ChainState, ChainInfo]:
        """One trajectory, accepted or not, and where the density may have several modes one jump."""
        scales = self._scales(modes, choose(modes.log_weights, noise.mass_choice))
        state, made = run_chain(potential, scales, state, noise.momentum[None], noise.log_uniform[None], self.num_leapfrog)
        info = ChainInfo(made.acceptance[0], made.has_moved[0], made.is_nonfinite[0], jnp.zeros((), bool))
        if not _may_jump(potential):
            return state, info
        jump = _jump if state.position.shape[0] <= MAX_WHOLE else _jump_by_coordinates
        state, has_jumped = jump(potential, modes, state, noise)
        return state, info._replace(has_jumped=has_jumped)

    def _scales(self, modes: Modes, k: Int[Array, ""]) -> Scales:
        """Those of mode k."""
        step = jnp.asarray(self.step_size, modes.positions.dtype)
        return make_scales(modes.factors[k], modes.inverse_factors[k], modes.covariances[k], step)

    def _potential(self, target: Target) -> AbstractPotential:
        return make_potential(self.walls, target.density, target.problem.grid, self.sharpness)

    def _warn_of_stiff_walls(self, problem: Problem) -> None:
        kernel, step = problem.kernel, self.step_size
        if not isinstance(kernel, GaussianKernel) or callable(kernel.covariance) or not isinstance(step, (int, float)):
            return
        covariance = np.asarray(kernel.covariance)
        widest = float(np.sqrt(covariance if covariance.ndim == 1 else np.diag(covariance)).max())
        if step * self.sharpness * widest > 2:
            warnings.warn(
                f"HMC: step_size·sharpness·σ = {step * self.sharpness * widest:.3g} is above 2, where sigmoid walls throw "
                f"trajectories off; use step_size below {2 / (self.sharpness * widest):.3g}, sharpness below "
                f"{2 / (step * widest):.3g}, or walls='logit'.",
                HamqWarning,
                stacklevel=2,
            )


def _jump(potential, modes, state: ChainState, noise: ChainNoise) -> tuple[ChainState, Bool[Array, ""]]:
    """Independence Metropolis: accept with probability min(1, p(y')q(y)/(p(y)q(y')))."""
    jump = noise.jump
    assert isinstance(jump, Jump)
    log_ratio = state.energy - jump.energy + log_proposal(potential, modes, state.position) - jump.log_density
    is_accepted = noise.log_uniform_jump < log_ratio
    return _choose(is_accepted, ChainState(jump.position, jump.energy, jump.gradient), state), is_accepted


def _jump_by_coordinates(potential, modes, state: ChainState, noise: ChainNoise) -> tuple[ChainState, Bool[Array, ""]]:
    """A few Metropolis moves of one coordinate each; the gradient is needed at the end only."""
    del modes
    index = jnp.arange(state.position.shape[0])

    def move(carry, one):
        y, energy, has_moved = carry
        proposal, log_uniform = one
        moved = jnp.where(index == proposal.index, proposal.value, y)
        new_energy = potential.energy(moved)
        log_ratio = log_marginal(potential, proposal.marginal, y[proposal.index]) - proposal.log_density
        is_accepted = log_uniform < energy - new_energy + log_ratio
        y, energy = jnp.where(is_accepted, moved, y), jnp.where(is_accepted, new_energy, energy)
        return (y, energy, has_moved | is_accepted), None

    start = (state.position, state.energy, jnp.zeros((), bool))
    (y, energy, has_moved), _ = jax.lax.scan(move, start, (noise.jump, noise.log_uniform_jump), unroll=True)
    return ChainState(y, energy, jnp.where(has_moved, potential.gradient(y), state.gradient)), has_moved


def _chain_noise(potential: AbstractPotential, modes: Modes, num: int, *, key: Key) -> ChainNoise:
    d = potential.grid.dimension
    momentum_key, accept_key, mass_key, jump_key, jump_accept_key = jr.split(key, 5)
    momentum, log_uniform = jr.normal(momentum_key, (num, d)), jnp.log(jr.uniform(accept_key, (num,)))
    if not _may_jump(potential):
        return ChainNoise(momentum, log_uniform, jnp.zeros((num,)), None, jnp.zeros((num,)))
    if d <= MAX_WHOLE:
        tries, noise = (num,), jump_noise(num, d, key=jump_key)
        jumps = jax.vmap(lambda one: propose_jump(potential, modes, one))(noise)
    else:
        tries = (num, NUM_COORDINATES)
        noise = coordinate_noise(tries, d, key=jump_key)
        jumps = jax.vmap(jax.vmap(lambda one: propose_coordinate(potential, modes, one)))(noise)
    log_uniform_jump = jnp.log(jr.uniform(jump_accept_key, tries))
    return ChainNoise(momentum, log_uniform, jr.uniform(mass_key, (num,)), jumps, log_uniform_jump)


def _may_jump(potential: AbstractPotential) -> bool:
    """Gaussian densities have one mode in any box; nothing is known of others."""
    return isinstance(potential.density, UserDensity)


def _dispersed(potential: AbstractPotential, mode: Float[Array, " d"], factor: Array, *, key: Key) -> Float[Array, " d"]:
    """mode + c·L·z with the largest c whose energy is at most 1.5 times that of the Laplace approximation, and 1 more.

    Beyond, the density falls much faster than the approximation, and a chain may be stuck there.
    """
    z = jr.normal(key, mode.shape, mode.dtype)
    least = potential.energy(mode)
    start = mode
    for c in reversed(DISPERSIONS):
        place = mode + c * apply(factor, z)
        is_near = potential.energy(place) - least <= 0.75 * c**2 * jnp.sum(z**2) + 1
        start = jnp.where(is_near, place, start)
    return start


def _choose(condition: Bool[Array, ""], new: ChainState, old: ChainState) -> ChainState:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _step_size(sampler: HMC):
    return sampler.step_size


def _is_none(value) -> bool:
    return value is None


def _require_positive(name: str, value, remedy: str) -> None:
    if value is None or isinstance(value, jax.Array):
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.floating))
        or not (math.isfinite(value) and value > 0)
    ):
        raise ValueError(f"{name} must be a positive number, got {value!r}; {remedy}.")
