"""DQN and DDPG whose targets come from a sampler: `make_train` for one key, `train_seeds` for several side by side."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int

from hamq.deep.config import DeepConfig
from hamq.deep.loop import Trained, train_function
from hamq.deep.plan import Plan, make_plan
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.solution import History
from hamq.types import HamqError, Key


@dataclasses.dataclass(frozen=True)
class DeepCost:
    """Samples used in targets (a set counts each time it is used), samples drawn, and what drawing them cost."""

    samples: int
    samples_drawn: int
    density_evaluations: int
    gradient_evaluations: int


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class DeepResult:
    """One seed: table, policy, how it was reached, and what it cost.

    `history` has the columns step, samples (used in targets so far), density_evaluations and gradient_evaluations (spent:
    all draws are made at the start), fresh_density_evaluations and fresh_gradient_evaluations (what it would have taken
    had every target drawn anew), frobenius, advantage, mse. `policies` has the policy of each row; `greedy` is argmax of
    q, and differs from `policy` for DDPG alone, whose actor does `actions`.
    """

    problem: Problem
    config: DeepConfig
    seed: int
    q: Float[np.ndarray, "S A"]
    policy: Int[np.ndarray, " S"]
    greedy: Int[np.ndarray, " S"]
    actions: Float[np.ndarray, "S k"] | None
    policies: Int[np.ndarray, "rows S"]
    history: History
    cost: DeepCost

    def __repr__(self) -> str:
        error = self.history.frobenius[-1]
        return f"DeepResult({self.config.algorithm} on {self.problem.name!r}, seed {self.seed}: relative error {error:.3g})"


def make_train(
    problem: Problem, config: DeepConfig, sampler: AbstractSampler, exact: Any = None
) -> Callable[[Key], Trained]:
    """The pure function train(key): `jax.jit(jax.vmap(train))(keys)` trains seeds side by side.

    `exact`, the solution of `solve_exact` or its table, gives the curves their distances. What is the same for all keys,
    such as the adapted step size of `HMC`, is settled here, with a fixed key.
    """
    return train_function(make_plan(problem, config, sampler), _checked(problem, exact))


def train_seeds(
    problem: Problem, config: DeepConfig, sampler: AbstractSampler, seeds: Sequence[int], exact: Any = None
) -> list[DeepResult]:
    """One result per seed, trained side by side; `exact` is the solution of `solve_exact`, or its table."""
    if not len(seeds):
        raise HamqError("train_seeds: seeds must name at least one seed, got none; use e.g. range(5).")
    plan = make_plan(problem, config, sampler)
    train = jax.jit(jax.vmap(train_function(plan, _checked(problem, exact))))
    keys = jnp.stack([jr.key(int(seed)) for seed in seeds])
    trained = jax.tree.map(np.asarray, train(keys)._replace(parameters=None))
    if np.any(trained.spent.has_failed):
        state = int(np.argwhere(trained.spent.has_failed)[0][1])
        raise HamqError(f"deep: no valid draw in state {state} of {problem.name}; check the log-density there, or use HMC.")
    return [_result(problem, plan, int(s), jax.tree.map(lambda x, i=i: x[i], trained)) for i, s in enumerate(seeds)]


def _result(problem: Problem, plan: Plan, seed: int, trained: Trained) -> DeepResult:
    config, curves = plan.config, trained.curves
    num_sets = problem.num_states * len(plan.trained) * plan.num_sets
    spent = {
        "density_evaluations": int(np.sum(trained.spent.density_evaluations, dtype=np.int64)),
        "gradient_evaluations": int(np.sum(trained.spent.gradient_evaluations, dtype=np.int64)),
    }
    steps = np.asarray(curves.step, np.int64)
    targets = steps * plan.pairs_per_step
    columns = {"step": steps, "samples": targets * plan.num_samples}
    for name, count in spent.items():
        columns[name] = np.full(len(steps), count + getattr(plan.preparation, name))
        columns["fresh_" + name] = targets * count / num_sets + getattr(plan.preparation, name)
    history = History(**columns, frobenius=curves.frobenius, advantage=curves.advantage, mse=curves.mse)
    cost = DeepCost(
        samples=int(columns["samples"][-1]),
        samples_drawn=num_sets * plan.num_samples,
        density_evaluations=int(columns["density_evaluations"][-1]),
        gradient_evaluations=int(columns["gradient_evaluations"][-1]),
    )
    return DeepResult(
        problem,
        config,
        seed,
        q=np.asarray(trained.q, np.float64),
        policy=np.asarray(trained.policy),
        greedy=np.asarray(trained.greedy),
        actions=None if trained.actions is None else np.asarray(trained.actions, np.float64),
        policies=np.asarray(curves.policies),
        history=history,
        cost=cost,
    )


def _checked(problem: Problem, exact: Any) -> np.ndarray | None:
    if exact is None:
        return None
    q = np.asarray(getattr(exact, "q", exact))
    if q.shape != (problem.num_states, problem.num_actions):
        raise HamqError(
            f"deep: exact has shape {q.shape}, and {problem.name} has {problem.num_states} states × "
            f"{problem.num_actions} actions; give the q of solve_exact(problem)."
        )
    return q
