"""DQN and DDPG, all seeds of a group at once.

    literal     the paper's optimiser; HMC as printed, the exhaustive sum and Q* on point masses
    corrected   the same, one law for all
    ours        the faster preset, and the library's HMC

A curve's `gradient_evaluations` are what drawing anew for every target would have cost up to that step, as the paper does;
the record's `cost` is what was spent: draws are made once and used again (docs/deep.md).
"""

import dataclasses
import time
from collections.abc import Sequence

import numpy as np

from hamq.deep.config import DeepConfig, deep_config
from hamq.deep.train import DeepResult, train_seeds
from hamq.paper.records import Record, versions
from hamq.paper.tasks import Reference, pose, reference
from hamq.paper.variants import law_of, literal_sampler
from hamq.problem.problem import Problem
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID

ALGORITHMS = ("dqn", "ddpg")
DISCOUNT = 0.99
NUM_ACTIONS = {"dqn": 10, "ddpg": 101}
"""DDPG has continuous actions: its critic is compared with Q* on 101 of them."""
NUM_SAMPLES = 100
NUM_RECORDS = 25


def run(task: str, variant: str, method: str, seeds: Sequence[int], steps: int) -> list[Record]:
    """One record per seed; `method` is such as `dqn-hmc` or `ddpg-one`."""
    began = time.monotonic()
    algorithm, _, sampler_name = method.partition("-")
    law = law_of(variant)
    gauge = reference(task, law, DISCOUNT, NUM_ACTIONS[algorithm])
    problem = pose(task, "cell" if sampler_name == "hmc" else law, DISCOUNT, NUM_ACTIONS[algorithm])
    sampler = _sampler(sampler_name, variant, problem)
    config = _config(algorithm, variant, steps)
    results = train_seeds(problem, config, sampler, seeds, gauge.exact.q)
    settings = dataclasses.asdict(config) | {"sampler": str(sampler), "law_of_reference": law, "discount": DISCOUNT}
    seconds = (time.monotonic() - began) / len(seeds)
    return [_record(task, variant, method, result, gauge, settings, seconds) for result in results]


def _config(algorithm: str, variant: str, steps: int) -> DeepConfig:
    if variant == "ours":
        return deep_config("faster", algorithm, steps=steps, num_records=NUM_RECORDS)  # type: ignore[arg-type]
    # One set of the paper's draws per pair: they cost 100 gradients each.
    return deep_config("paper", algorithm, steps=steps, num_records=NUM_RECORDS, num_sets=1)  # type: ignore[arg-type]


def _sampler(name: str, variant: str, problem: Problem) -> AbstractSampler:
    ours = {"exhaustive": Exhaustive(), "iid": IID(NUM_SAMPLES), "one": IID(1), "hmc": HMC(NUM_SAMPLES)}
    return literal_sampler(problem) if name == "hmc" and variant != "ours" else ours[name]


def _record(task: str, variant: str, method: str, result: DeepResult, gauge: Reference, settings, seconds) -> Record:
    history, q = result.history, result.q
    losses = [float(gauge.losses(policy).mean()) for policy in result.policies]
    kept = {name: name for name in ("step", "frobenius", "advantage", "samples")}
    kept["gradient_evaluations"] = "fresh_gradient_evaluations"
    curve: dict[str, list[float | None]] = {
        name: np.asarray(history[column], float).tolist() for name, column in kept.items()
    }
    curve["policy_loss"] = [*losses]
    final = dataclasses.asdict(gauge.compare(q))
    final |= {"greedy_loss": final["policy_loss"], "policy_loss": losses[-1]}
    final["worst_loss"] = float(gauge.losses(np.asarray(result.policy)).max())
    return Record(
        task=task,
        variant=variant,
        method=method,
        seed=result.seed,
        settings=settings,
        curve=curve,
        final=final,
        cost=dataclasses.asdict(result.cost),
        seconds=seconds,
        versions=versions(),
    )
