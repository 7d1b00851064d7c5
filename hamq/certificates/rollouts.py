"""Returns of policies on the problem's own model, with the same random numbers for all of them.

A rollout starts somewhere, does what the policy says and moves by the density cut to the box, never by the draws or the
interpolation that a solver used. Its return is Σ_t γᵗ r(s_t, a_t) over the steps asked for: γᵗ of what comes later is
missing. With law="linear" states are continuous, with law="cell" they are nodes.

One next state is drawn from n weighted draws with fresh normals (`tensor/gaussian.py`, `tensor/tilted.py`), one of which
is picked with the probability of its weight. n → ∞ gives the law itself; what is missing is of the order of one over the
effective number of draws 1/Σw², whose mean is reported. Product laws have even weights and need one draw, which is exact.

Rollout i of every policy starts in the same state, and its step t has the same normals and the same uniform number:
differences between policies are differences of pairs, and much surer than either return.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from hamq.certificates.statistics import difference_interval
from hamq.problem.kernel import CorrelatedDensity, GaussianKernel, ProductDensity
from hamq.problem.problem import Problem
from hamq.problem.programs import program
from hamq.sampling.draws import require_count
from hamq.sampling.importance import Importance
from hamq.tensor.backup import ended
from hamq.tensor.choice import make_choices
from hamq.tensor.expectation import TiltedExpectation, make_expectation
from hamq.tensor.gaussian import cut_draws
from hamq.tensor.tilted import TiltedLaw, tilted_draws
from hamq.types import HamqWarning, Key, as_key

Policy = Callable[[Any], Any]
"""states `[B, d]` in float32 → actions `[B]`, or `[B, k]` where the problem's are vectors."""
NUM_CORRELATED, NUM_TILTED = 64, 256
"""Weighted draws of which one is picked: for correlated normal laws, and for densities without a normaliser."""
FEWEST = 10.0
"""Effective draws below which the next state is hardly drawn from the law."""
ROLLOUTS_PER_TILE = 64


class Model(eqx.Module):
    """How the next state of one pair is drawn; `law` is the normal law fitted to a density without a normaliser."""

    problem: Problem
    law: TiltedLaw | None
    num_draws: int = eqx.field(static=True)

    def next_state(
        self, state: Float[Array, " d"], action: Array, normals: Float[Array, "d n"], uniform: Float[Array, ""]
    ) -> tuple[Float[Array, " d"], Float[Array, ""]]:
        """(s', effective number of the draws it was picked from)."""
        if self.law is None:
            density = self.problem.density(state, action)
            assert isinstance(density, (ProductDensity, CorrelatedDensity))
            points, log_weights = cut_draws(density, self.problem.grid, normals)
            weights = jax.nn.softmax(log_weights)
        else:
            law = eqx.tree_at(lambda law: law.normals, self.law, normals)
            points, weights = tilted_draws(self.problem, law, state, action)
        reached = jnp.cumsum(weights)
        picked = jnp.searchsorted(reached, uniform * reached[-1], side="right").clip(0, self.num_draws - 1)
        return self._placed(points[:, picked]), 1 / jnp.sum(weights**2)

    def _placed(self, point: Float[Array, " d"]) -> Float[Array, " d"]:
        grid = self.problem.grid
        if self.problem.law == "linear":
            return grid.wrap(point)
        lower, spacing = (jnp.asarray(v, point.dtype) for v in (grid.lower, grid.spacing))
        return lower + spacing * grid.coordinates(point).astype(point.dtype)


def make_model(problem: Problem, num_draws: int | None = None, seed: int = 0) -> Model:
    if problem.law == "point":
        raise ValueError(
            f"rollouts: {problem.name} has law='point', masses at grid points that no continuous density has; use 'linear'."
        )
    if isinstance(problem.kernel, GaussianKernel):
        return Model(problem, None, num_draws or (1 if problem.is_product else NUM_CORRELATED))
    num_draws = num_draws or NUM_TILTED
    order = tuple(range(problem.grid.dimension))
    expectation = make_expectation(problem, Importance(num_draws), make_choices(problem), order, seed)
    assert isinstance(expectation, TiltedExpectation)
    return Model(problem, expectation.law, num_draws)


class Step(NamedTuple):
    """One step of all rollouts."""

    states: Float[Array, "B d"]
    rewards: Float[Array, " B"]
    effective: Float[Array, " B"]


def step(model: Model, states: Float[Array | np.ndarray, "B d"], actions: Array | np.ndarray, *, key: Key) -> Step:
    """Rewards of this step and the next states; a rollout that has ended stays where it is and is paid nothing."""
    return run_model("step", model, take_step, states, actions, key)


def run_model(job: str, model: Model, trace: Callable[..., Any], *given: Any) -> Any:
    """`trace` of the model and of arrays, compiled for the problem's functions and kept as long as they are."""
    problem, num_draws = model.problem, model.num_draws
    about = (job, problem.constants, problem.discount, len(problem.functions), num_draws)
    arrays = (model.law, *given)
    run = program(about, problem.functions, lambda law, *given: trace(Model(problem, law, num_draws), *given), *arrays)
    return run(*arrays)


def take_step(model: Model, states: Float[Array, "B d"], actions: Array, key: Key) -> Step:
    """`step`, traced."""
    normal_key, uniform_key = jr.split(key)
    size, d = states.shape
    normals = jr.normal(normal_key, (size, d, model.num_draws))
    uniforms = jr.uniform(uniform_key, (size,))
    found, effective = _in_tiles(
        lambda given: jax.vmap(model.next_state)(*given), (states, actions, normals, uniforms), size
    )
    is_over = ended(model.problem, states)
    rewards = jax.vmap(lambda state, action: jnp.asarray(model.problem.reward(state, action)))(states, actions)
    return Step(jnp.where(is_over[:, None], states, found), jnp.where(is_over, 0, rewards), effective)


def _in_tiles(function: Callable, given: tuple[Array, ...], size: int) -> tuple[Array, ...]:
    """`function` of all rows, tile by tile; the last one is filled up: what is left over would be a second program."""
    if size <= ROLLOUTS_PER_TILE:
        return function(given)
    rows = jnp.resize(jnp.arange(size), (-(-size // ROLLOUTS_PER_TILE), ROLLOUTS_PER_TILE))
    tiles = jax.lax.map(function, tuple(a[rows] for a in given))
    return tuple(a.reshape(-1, *a.shape[2:])[:size] for a in tiles)


class Difference(NamedTuple):
    """A mean difference of pairs and its 95 % interval; one without 0 says which is larger."""

    mean: float
    low: float
    high: float


def paired_difference(first: Any, second: Any) -> Difference:
    """mean(first − second) of two lists of returns, pair by pair, with a bootstrap interval over the pairs."""
    low, high = difference_interval(first, second, np.mean, paired=True)
    return Difference(float(np.mean(np.asarray(first) - np.asarray(second))), low, high)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Rollouts:
    """What each policy got, by name: `returns[name]` `[B]`, `states[name]` `[steps + 1, B, d]`.

    `effective[name]`: mean effective number of draws of which a next state was picked, 1 where one is enough.
    """

    returns: dict[str, Float[np.ndarray, " B"]]
    states: dict[str, Float[np.ndarray, "T B d"]]
    effective: dict[str, float]

    def difference(self, first: str, second: str) -> Difference:
        """How much more the first gets than the second, over pairs with the same start and random numbers."""
        return paired_difference(self.returns[first], self.returns[second])

    def visited(self, name: str) -> Float[np.ndarray, "N d"]:
        """All states of all rollouts in one list."""
        states = self.states[name]
        return states.reshape(-1, states.shape[-1])

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {values.mean():.4g}" for name, values in self.returns.items())
        return f"Rollouts({len(next(iter(self.returns.values())))} of each; mean returns: {means})"


def rollouts(
    problem: Problem,
    policies: Mapping[str, Policy],
    *,
    starts: Any,
    steps: int = 60,
    num_draws: int | None = None,
    key: Key | int = 0,
) -> Rollouts:
    """Returns of every policy from the same starts `[B, d]` with the same random numbers.

    num_draws   weighted draws of which one is picked; None: 1 for product laws, 64 for other Gaussian kernels, else 256
    """
    require_count("rollouts: steps", steps)
    if num_draws is not None:
        require_count("rollouts: num_draws", num_draws)
    if not policies:
        raise ValueError("rollouts: policies must name at least one policy, such as {'tensor': solution.actions}.")
    starts = np.asarray(starts, np.float32)
    if starts.ndim != 2 or starts.shape[1] != problem.grid.dimension or not len(starts):
        raise ValueError(f"rollouts: starts must have the shape [B, {problem.grid.dimension}], got {list(starts.shape)}.")
    model, key = make_model(problem, num_draws), as_key(key)
    followed = {name: _follow(model, name, policy, starts, steps, key) for name, policy in policies.items()}
    effective = {name: each[2] for name, each in followed.items()}
    if model.num_draws > 1 and min(effective.values()) < FEWEST:
        warnings.warn(
            f"rollouts: only {min(effective.values()):.1f} of {model.num_draws} draws carry weight on {problem.name}; the "
            "next states do not follow its law; use a larger num_draws.",
            HamqWarning,
            stacklevel=2,
        )
    return Rollouts({n: each[0] for n, each in followed.items()}, {n: each[1] for n, each in followed.items()}, effective)


def _follow(model: Model, name: str, policy: Policy, starts: np.ndarray, steps: int, key: Key):
    """(returns, states, mean effective number of draws) of one policy."""
    problem, states = model.problem, starts
    returns, visited, effective = np.zeros(len(starts)), [starts], []
    for t in range(steps):
        actions = _checked(problem, f"rollouts: policy {name!r} at step {t}", policy(states), len(states))
        moved = step(model, np.asarray(states, np.float32), actions, key=jr.fold_in(key, t))
        returns += problem.discount**t * np.asarray(moved.rewards, np.float64)
        states = np.asarray(moved.states)
        visited.append(states)
        effective.append(float(np.mean(moved.effective)))
    if not np.all(np.isfinite(returns)):
        first = int(np.argmax(~np.isfinite(returns)))
        raise ValueError(f"rollouts: the return of policy {name!r} from start {first} is {returns[first]}.")
    return returns, np.stack(visited), float(np.mean(effective))


def _checked(problem: Problem, who: str, actions: Any, size: int) -> Float[np.ndarray, "B *k"]:
    actions, shape = np.asarray(actions, np.float32), (size, *problem.action_shape)
    if actions.shape != shape:
        raise ValueError(f"{who} must return actions of the shape {list(shape)}, got {list(actions.shape)}.")
    if not np.all(np.isfinite(actions)):
        raise ValueError(
            f"{who} returned an action that is not finite, for rollout {np.argwhere(~np.isfinite(actions))[0][0]}."
        )
    return actions


def random_starts(problem: Problem, count: int, *, spread: float = 1.0, key: Key | int = 0) -> Float[np.ndarray, "B d"]:
    """Uniform in the box, shrunk by `spread` about its centre."""
    require_count("random_starts: count", count)
    if not 0 <= spread <= 1:
        raise ValueError(f"random_starts: spread must be between 0 and 1, the part of the box, got {spread!r}.")
    low, high = np.asarray(problem.grid.lower), np.asarray(problem.grid.upper)
    shares = np.asarray(jr.uniform(as_key(key), (count, problem.grid.dimension)), np.float64) - 0.5
    return ((low + high) / 2 + spread * (high - low) * shares).astype(np.float32)
