"""Everything about a run that does not depend on its key, settled and refused before anything is traced."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int

from hamq.deep.config import DeepConfig
from hamq.deep.ddpg import make_ddpg
from hamq.deep.learner import AbstractLearner, make_dqn
from hamq.deep.networks import make_output
from hamq.deep.targets import settled_sets
from hamq.learning.draws import prepare
from hamq.problem.problem import Problem, action_values
from hamq.problem.tables import reward_table, terminal_table
from hamq.sampling.draws import AbstractSampler, Target
from hamq.solution import Cost
from hamq.types import HamqError


class Plan(NamedTuple):
    """Plan of a run.

    `problem` is the one whose next states are drawn: without snapping its law is continuous. `trained` are the numbers of
    the actions that are trained on, `num_samples` the draws of a set, `preparation` what settling the sampler cost.
    """

    problem: Problem
    config: DeepConfig
    sampler: AbstractSampler
    learner: AbstractLearner
    trained: Int[np.ndarray, " K"]
    num_sets: int
    num_samples: int
    preparation: Cost
    rewards: Float[np.ndarray, "S A"]
    ended: Bool[np.ndarray, " S"] | None

    @property
    def pairs_per_step(self) -> int:
        size, row = self.config.batch_size, len(self.trained)
        return -(-size // row) * row if self.config.whole_rows else size


def make_plan(problem: Problem, config: DeepConfig, sampler: AbstractSampler) -> Plan:
    problem.require_enumerable("deep")
    _refuse(problem, config, sampler)
    sampled = problem if config.snap else _continuous(problem)
    sampler, preparation = prepare(sampled, sampler, key=jr.key(0), by_calls=False)
    rewards, ended = reward_table(problem), terminal_table(problem)
    make = make_dqn if config.algorithm == "dqn" else make_ddpg
    learner, trained = make(problem, config, make_output(problem, config, rewards))
    num_samples = _set_size(sampled, sampler)
    num_sets = settled_sets(sampler, num_samples, config.num_sets, config.draws_per_pair)
    return Plan(sampled, config, sampler, learner, trained, num_sets, num_samples, preparation, rewards, ended)


def _set_size(problem: Problem, sampler: AbstractSampler) -> int:
    """Draws of one call of the sampler."""
    state = jnp.asarray(problem.grid.states_at(np.zeros(1, np.int64))[0], jnp.float32)
    target = Target(problem, state, action_values(problem)[0])
    draws, _ = eqx.filter_eval_shape(lambda key: sampler.draw(target, key=key), jr.key(0))
    return draws.log_weights.shape[0]


def _continuous(problem: Problem) -> Problem:
    """The problem whose draws stay where they are."""
    return Problem(
        problem.grid,
        problem.actions,
        problem.kernel,
        problem.reward,
        problem.discount,
        problem.terminal,
        problem.name,
        law="linear",
        expected=("aliasing", "noise", "outside"),
    )


def _refuse(problem: Problem, config: DeepConfig, sampler: AbstractSampler) -> None:
    if config.snap and problem.law == "linear" and not sampler.is_exhaustive:
        raise HamqError(
            f"deep: snap=True makes grid states of the draws, and {problem.name} has law='linear', which interpolates; use "
            "law='cell', or snap=False, which evaluates the network where the draws are."
        )
    if not config.snap and sampler.is_exhaustive:
        raise HamqError(
            f"deep: snap=False has no use for {type(sampler).__name__}, whose next states are those of the grid; use "
            "snap=True."
        )
    if sampler.needs_rows(problem):
        raise HamqError(
            f"deep: {type(sampler).__name__} integrates the density of {problem.name}, which a training step cannot do; use "
            "HMC or Importance."
        )
    if not config.snap and problem.law == "point":
        raise HamqError("deep: snap=False needs a continuous law, got law='point', which has masses at grid states only.")
