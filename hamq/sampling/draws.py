"""What a sampler is given, and what it returns, for ONE state-action pair. Callers batch.

Draws carry log-weights, so that every sampler shares one update line: E[V] ≈ Σ_i exp(log_weights_i) · V(points_i).
"""

import abc
import dataclasses
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, ScalarLike, Shaped

from hamq.problem.kernels.kernel import AbstractDensity
from hamq.problem.problem import Problem
from hamq.types import Key
from hamq.types import require_count as require_count

MASS_TOLERANCE = 1e-4
"""Total variation that quadrature may miss of a row of masses."""


class Draws(NamedTuple):
    """Next states and their log-weights, which sum to one; the draw axis comes last."""

    points: Float[Array, "d n"]
    log_weights: Float[Array, " n"]


class Picked(NamedTuple):
    """Grid states picked from rows of masses, and their weights, which sum to one; None where all are the same."""

    index: Int[np.ndarray, "L n"]
    weights: Float[np.ndarray, "L n"] | None


class Info(NamedTuple):
    """What only diagnostics need; each entry is one number per pair.

    acceptance      mean acceptance probability of the trajectories (1 for samplers that reject nothing)
    is_stuck        a chain never moved
    stuck_share     share of the chains that never moved
    outside         fraction of the draws outside the box (soft walls leak)
    num_modes       modes found (1 where the density is known to have one)
    num_crossings   accepted jumps between modes; 0 with several modes means that they were not crossed
    num_nonfinite   trajectories that ended in a non-finite energy (they are rejected)
    weight_share    effective sample size of the weights, as a fraction of the draws
    has_failed      there is no valid draw: a start of no finite density, or tries that ran out
    is_cut          the density was seen to jump, or to be cut to zero inside of the box, in some pairs of the problem
    density_evaluations, gradient_evaluations   what the pair cost, mode search included
    """

    acceptance: Float[Array, "*batch"]
    is_stuck: Shaped[Array, "*batch"]
    stuck_share: Float[Array, "*batch"]
    outside: Float[Array, "*batch"]
    num_modes: Int[Array, "*batch"]
    num_crossings: Int[Array, "*batch"]
    num_nonfinite: Int[Array, "*batch"]
    weight_share: Float[Array, "*batch"]
    has_failed: Shaped[Array, "*batch"]
    is_cut: Shaped[Array, "*batch"]
    density_evaluations: Int[Array, "*batch"]
    gradient_evaluations: Int[Array, "*batch"]


def make_info(
    acceptance: ScalarLike = 1.0,
    is_stuck: ScalarLike = False,
    stuck_share: ScalarLike = 0.0,
    outside: ScalarLike = 0.0,
    num_modes: ScalarLike = 1,
    num_crossings: ScalarLike = 0,
    num_nonfinite: ScalarLike = 0,
    weight_share: ScalarLike = 1.0,
    has_failed: ScalarLike = False,
    is_cut: ScalarLike = False,
    density_evaluations: ScalarLike = 0,
    gradient_evaluations: ScalarLike = 0,
) -> Info:
    """Info of a sampler that says only what it has to say."""
    whole = (num_modes, num_crossings, num_nonfinite, density_evaluations, gradient_evaluations)
    modes, crossings, nonfinite, densities, gradients = (jnp.asarray(v, jnp.int32) for v in whole)
    real = (jnp.asarray(v, jnp.float32) for v in (acceptance, stuck_share, outside, weight_share))
    acceptance, stuck_share, outside, weight_share = real
    return Info(
        acceptance,
        jnp.asarray(is_stuck, bool),
        stuck_share,
        outside,
        modes,
        crossings,
        nonfinite,
        weight_share,
        jnp.asarray(has_failed, bool),
        jnp.asarray(is_cut, bool),
        densities,
        gradients,
    )


class Target(eqx.Module):
    """The law that is sampled: the next state of one state and one action of a problem."""

    problem: Problem
    state: Float[Array, " d"]
    action: Array

    @property
    def density(self) -> AbstractDensity:
        return self.problem.density(self.state, self.action)


class Smooth(NamedTuple):
    """Draws that move smoothly with state and action, because all states share their random numbers (`tensor/`).

    kind            "sums" over the nodes of every axis, "normals" cut to the box, "tilted" draws of a fitted law with
                    weights, or "drawn": what `draw` returns when every state has the same key
    num_leapfrog    steps of a trajectory from each tilted draw; 0: none
    step_size       of a step, in standard deviations; None: what suits trajectories that are weighted
    """

    kind: Literal["sums", "normals", "tilted", "drawn"]
    num_samples: int
    num_leapfrog: int = 0
    step_size: Any = None


class AbstractSampler(eqx.Module):
    """Draws of the next state.

    A sampler of your own is one class with `num_samples`, `prepare` and `draw`. All else has a default that is right for
    independent draws with weights; solvers ask for it here, and never for the class.
    """

    if TYPE_CHECKING:  # a field or a property, as the sampler likes: checkers would take it for a field of this class

        @property
        def num_samples(self) -> int:
            """Draws of a pair; 0 where all next states are weighted by their masses."""
            ...
    else:
        num_samples: eqx.AbstractVar[int]

    @property
    def weighs(self) -> bool:
        """Whether draws may have different weights; where they cannot, none are kept."""
        return True

    @property
    def calibrates(self) -> bool:
        """Whether the weights only correct draws that are even, so that chains are compared without them."""
        return False

    @property
    def is_exhaustive(self) -> bool:
        """Whether its draws are all next states with their masses, in the order of the grid: nothing is random."""
        return False

    @property
    def draws_nodes(self) -> bool:
        """Whether its draws are grid states picked by their masses: what is known of the density between them is lost."""
        return self.is_exhaustive

    @property
    def has_chains(self) -> bool:
        """Whether draws that follow each other are correlated."""
        return False

    @property
    def chains(self) -> int:
        """Chains of equal length that are the draws of a pair, one after the other."""
        return 1

    @property
    def num_discarded(self) -> int:
        """Draws that each chain throws away."""
        return 0

    @property
    def num_transitions(self) -> int:
        """Draws of one chain, those that are thrown away included."""
        return self.num_discarded + self.num_samples // self.chains

    @property
    def evaluates_density(self) -> bool:
        """Whether it looks at the density at places of its own choice, which must be defined there."""
        return True

    @property
    def is_cut(self) -> bool:
        """Whether the density was seen to jump, or to end inside of the box."""
        return False

    @property
    def obeys_identities(self) -> bool:
        """Whether nothing is known against Stein's identities, which densities without jumps obey."""
        return True

    @property
    def mass_tolerance(self) -> float:
        """Total variation that masses by quadrature may miss, where it needs rows of them."""
        return MASS_TOLERANCE

    @property
    def weights_remedy(self) -> str:
        """What to change where weights leave few of the draws; empty: more of them, or others."""
        return ""

    def gradients_per_draw(self, problem: Problem) -> int:
        """Gradients of the density that one more draw costs; 0: a budget of gradients cannot say how many to make."""
        del problem
        return 0

    def gradients_before_draws(self, problem: Problem) -> int | None:
        """Gradients of a pair beside those of its draws, where they are known without a trial."""
        del problem
        return None

    def with_samples(self, num_samples: int) -> "AbstractSampler":
        """The same sampler with so many draws, or a few more where its chains have to be of equal length."""
        return dataclasses.replace(self, num_samples=math.ceil(num_samples / self.chains) * self.chains)

    def for_diagnosis(self) -> "AbstractSampler":
        """Its chains as they are looked at: with even weights, begun away from where they usually begin."""
        return self

    def smooth(self, problem: Problem) -> Smooth:
        """How its draws can share their random numbers among all states; refuses a problem where they cannot."""
        del problem
        return Smooth("drawn", self.num_samples)

    @property
    def not_smooth(self) -> tuple[str, ...]:
        """Settings that were given and that `smooth` does not honour."""
        return ()

    def in_chunks(self) -> Any:
        """The sampler itself where `learning/chunks.py` makes its chains some transitions at a time, else None."""
        return None

    @property
    def needs_pilot(self) -> bool:
        """Whether its step size is still to be found, on a few pairs (`learning/pilot.py`)."""
        return False

    def needs_rows(self, problem: Problem) -> bool:
        """Whether a prepared sampler picks from rows of masses that the host makes, because `draw` cannot trace them."""
        del problem
        return False

    def picks_by_axis(self, problem: Problem) -> bool:
        """Whether a prepared sampler that needs rows takes those of the axes (`pick_axes`) and not of the whole box."""
        del problem
        return False

    def num_uniforms(self, problem: Problem) -> int:
        """Uniform numbers that picking needs of each pair."""
        del problem
        return 0

    def pick(self, masses: Float[np.ndarray, "L S"], uniforms: Float[np.ndarray, "L u"]) -> Picked:
        """Draws of pairs with these masses; of samplers that need rows."""
        raise NotImplementedError(f"{type(self).__name__} picks from no rows of masses.")

    def pick_axes(self, masses: list[Float[np.ndarray, "L _"]], uniforms: Float[np.ndarray, "L u"]) -> Picked:
        """Draws of pairs with these masses of each axis; of samplers that pick by axis."""
        raise NotImplementedError(f"{type(self).__name__} picks from no rows of axes.")

    @abc.abstractmethod
    def prepare(self, problem: Problem, *, key: Key) -> "tuple[AbstractSampler, Info]":
        """Refuses a problem that this sampler cannot do; settles what is the same for all pairs; Info: what that cost."""

    @abc.abstractmethod
    def draw(self, target: Target, *, key: Key) -> tuple[Draws, Info]:
        """Next states of ONE pair. The same key for all actions of a state couples them."""


def even_weights(num_samples: int) -> Float[Array, " n"]:
    return jnp.full((num_samples,), -jnp.log(jnp.asarray(num_samples, jnp.float32)), jnp.float32)


def effective_share(log_weights: Float[Array, " n"]) -> Float[Array, ""]:
    """1/(n·Σ w²): 1 for even weights, 1/n where one draw has them all."""
    return 1 / (len(log_weights) * jnp.sum(jnp.exp(2 * log_weights)))


def changed_fields(sampler: AbstractSampler, honoured: tuple[str, ...]) -> tuple[str, ...]:
    """`name=value` of the fields that are not at their defaults, but for those that are honoured."""
    fields = [field for field in dataclasses.fields(sampler) if field.name not in honoured]
    kept = [field for field in fields if not field.metadata.get("is_settled")]
    return tuple(f"{f.name}={value!r}" for f in kept if (value := getattr(sampler, f.name)) != f.default)
