"""What Algorithm 1 needs before its first iteration: rewards, anchors, the number of draws, the draws to reuse."""

import dataclasses
import functools
import math
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

from hamq.completion import selection
from hamq.completion.completion import AbstractCompletion
from hamq.completion.keep import Keep
from hamq.completion.selection import Pairs
from hamq.learning.backup import Stock, draw_stock, make_recipe
from hamq.learning.budget import (
    MIN_SAMPLES,
    affordable_samples,
    least_budget,
    require_memory,
    samples_of,
)
from hamq.learning.choosing import choose_sampler
from hamq.learning.devices import Devices, choose_devices
from hamq.learning.draws import Drawn, Progress, draw_pairs, prepare_within, warn_of
from hamq.learning.health import Diagnosis, diagnose
from hamq.learning.layout import pairs_at_once
from hamq.learning.pilot import Allowance
from hamq.learning.settings import Settings
from hamq.learning.sweep import Sweep, make_sweep
from hamq.learning.trial import Pilot
from hamq.problem.problem import Problem, is_same
from hamq.problem.tables import reward_table, terminal_table
from hamq.sampling.draws import AbstractSampler
from hamq.solution import Cost, Solution
from hamq.types import HamqError, Key, is_cpu

PILOT_SHARE = 0.25
"""Part of `max_gradients` that the pilots of chains may take."""
TRIAL_SAMPLES = 10
TRIAL_STATES = 16
SMALL = 2**18
"""Entries of a table that a CPU has improved by NumPy in all iterations before XLA has compiled one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One solve: what stays the same over its iterations."""

    problem: Problem
    settings: Settings
    sampler: AbstractSampler
    completion: AbstractCompletion
    blocks: tuple[Pairs, ...] | None
    """Ω where it is the same in every iteration."""
    stocks: tuple[Stock, ...] | None
    """Draws that are kept: of `blocks`, or of all pairs."""
    sweep: Sweep | None
    """Iterations that stay on the devices, where that is possible and pays."""
    diagnoses: tuple[Diagnosis, ...] | None
    """What the sampler said of the kept draws."""
    devices: Devices
    progress: Progress | None
    rewards: Float[np.ndarray, "S A"]
    is_ended: Bool[np.ndarray, "S 1"]
    exact: Solution | None
    first: Float[np.ndarray, "S A"]
    """Q⁰."""
    cost: Cost
    note: str
    keys: dict[str, Key]

    def choose(self, t: int) -> tuple[Pairs, ...]:
        """Step 1: Ω_t."""
        if self.blocks is not None:
            return self.blocks
        return self.completion.choose(self.problem, key=jr.fold_in(self.keys["selection"], t))

    def mask(self, pairs: tuple[Pairs, ...]) -> Bool[np.ndarray, "S A"]:
        """Where Ω_t is."""
        return self._fixed_mask if pairs is self.blocks else selection.as_mask(self.problem, pairs)

    @functools.cached_property
    def _fixed_mask(self) -> Bool[np.ndarray, "S A"]:
        assert self.blocks is not None
        return selection.as_mask(self.problem, self.blocks)

    @property
    def reused(self) -> tuple[Pairs, ...]:
        """The pairs of `stocks`."""
        return self.blocks or (selection.all_pairs(self.problem),)

    def turn(self) -> int:
        """Iterations in which every pair has had its turn, with a probability of 99 %."""
        if self.blocks is not None:
            return 1
        share = min(self.completion.fraction, 1 - 1e-9)
        return max(1, math.ceil(math.log(0.01 / self.rewards.size) / math.log1p(-share)))

    def back_up(
        self, pairs: tuple[Pairs, ...], value: Float[np.ndarray, " S"], t: int
    ) -> tuple[Float[np.ndarray, "S A"], Cost]:
        """Steps 2 and 3: E[V] of Ω_t from its draws H_t or from those that are kept, NaN elsewhere; and what it cost."""
        expected, cost = np.full(self.rewards.shape, np.nan), Cost(0, 0, 0)
        if self.stocks is not None:
            for block, stock in zip(self.reused, self.stocks, strict=True):
                expected[block.states[:, None], block.actions] = stock.expected(self.problem, value)
            return expected, cost
        key = self.keys["draws"] if self.settings.passes.draws == "regenerate" else jr.fold_in(self.keys["draws"], t)
        for block in pairs:
            recipe = make_recipe(self.sampler, block, key=key, coupled=self.settings.passes.coupled, devices=self.devices)
            progress = self.progress if self.settings.passes.draws == "regenerate" else None
            found, info, spent = recipe.expected(self.problem, value, progress)
            if t == 0:
                warn_of(self.problem, info, self.sampler)
            expected[block.states[:, None], block.actions] = found
            cost = cost.plus(spent)
        return expected, cost


def first_table(problem: Problem, initial: Any, rewards, is_ended, *, key: Key) -> Float[np.ndarray, "S A"]:
    """Q⁰; by default the value of earning the mean reward for ever, which is of the size of Q* and saves iterations."""
    if initial is None:
        table = np.asarray(rewards.mean() / (1 - problem.discount))
    elif isinstance(initial, str):
        table = _uniform(initial, rewards.shape, key)
    else:
        table = np.asarray(initial, np.float64)
    if table.ndim == 0:
        table = np.broadcast_to(table, rewards.shape)
    if table.shape != rewards.shape:
        raise HamqError(f"solve: initial must be a number or a table of shape {rewards.shape}, got shape {table.shape}.")
    if not np.all(np.isfinite(table)):
        raise HamqError("solve: initial must be finite; it has a value that is not.")
    return np.where(is_ended, 0.0, table)


def _uniform(initial: str, shape: tuple[int, ...], key: Key) -> np.ndarray:
    """`uniform` or `uniform:2`: the paper's random first table, on [0, 1] or [0, 2]."""
    name, _, high = initial.partition(":")
    try:
        top = float(high or 1)
    except ValueError:
        top = math.nan
    if name != "uniform" or not 0 < top < math.inf:
        raise HamqError(
            f"solve: initial must be a table, a number, 'uniform' or 'uniform:2' (its upper end), got {initial!r}."
        )
    return np.asarray(jr.uniform(key, shape), np.float64) * top


def prepare_run(
    problem: Problem, settings: Settings, exact: Solution | None, initial: Any, *, key: Key, progress: Progress | None
) -> Run:
    """All that is settled before the first iteration; what is wrong with an argument is said before anything is drawn."""
    names = ("prepare", "pilot", "draws", "selection", "initial", "choice")
    keys: dict[str, Key] = {name: jr.fold_in(key, i) for i, name in enumerate(names)}
    if exact is not None and not is_same(exact.problem, problem):
        raise HamqError(f"solve: exact must be a solution of this problem, got one of {exact.problem!r} for {problem!r}.")
    devices = choose_devices(settings.passes.devices)
    rewards, ended = reward_table(problem), terminal_table(problem)
    is_ended = np.zeros((problem.num_states, 1), bool) if ended is None else ended[:, None]
    first = first_table(problem, initial, rewards, is_ended, key=keys["initial"])
    if settings.max_gradients is None and settings.passes.schedule == "constant":
        # Before the pilot, what is sure whatever it chooses: every state has its draws.
        share = settings.completion.fraction if settings.passes.draws == "fresh" else 1
        _require_memory(problem, settings, settings.sampler, round(share * problem.num_states))
    settings, note, spent = _chosen(problem, settings, key=keys["choice"])
    sampler, cost, unpaid = prepare_within(problem, settings.sampler, _allowance(problem, settings), key=keys["prepare"])
    settings, cost = dataclasses.replace(settings, sampler=sampler), cost.plus(spent)
    pilot = Pilot(problem, settings, rewards, is_ended, devices, keys["pilot"], progress)
    plan = settings.completion.plan(pilot)
    completion: AbstractCompletion = Keep("all") if plan.completion is None else plan.completion
    cost, note = cost.plus(pilot.cost), plan.reason or note
    blocks = completion.choose(problem, key=keys["selection"]) if completion.is_fixed else None
    trial = None if plan.trial is None else plan.trial.drawn
    reused = blocks or (selection.all_pairs(problem),)
    sampler, cost = _with_budget(problem, settings, blocks, trial, cost, keys["pilot"])
    _require_memory(problem, settings, sampler, _num_pairs(problem, settings, blocks))
    stocks = sweep = diagnoses = None
    if settings.passes.draws == "reuse":
        stocks, diagnoses, cost = _stock(problem, settings, sampler, reused, devices, keys["draws"], cost, progress)
        is_compiled = not is_cpu() or rewards.size > SMALL
        if is_compiled and blocks is not None:
            sweep = make_sweep(problem, completion, stocks, rewards, is_ended, None if exact is None else exact.q)
    return Run(
        problem, settings, sampler, completion, blocks, stocks, sweep, diagnoses, devices, progress, rewards, is_ended,
        exact, first, cost, "; ".join(part for part in (note, unpaid) if part), keys,
    )  # fmt: skip


def _chosen(problem: Problem, settings: Settings, *, key: Key) -> tuple[Settings, str, Cost]:
    """(settings with the sampler that a pilot chose where none was given, a note, what that cost)."""
    if not settings.chooses_sampler or settings.max_gradients is None:
        return settings, "", Cost(0, 0, 0)
    choice = choose_sampler(problem, settings, settings.max_gradients, key=key)
    if choice.sampler is None:
        return settings, "", choice.cost
    chosen = dataclasses.replace(
        settings, sampler=choice.sampler, completion=Keep("all"), max_gradients=None, is_default_budget=False
    )
    return chosen, choice.reason, choice.cost


def _allowance(problem: Problem, settings: Settings) -> Allowance:
    """Pilots of chains have a quarter of a budget that was asked for, that of anchors another; draws have half."""
    if settings.max_gradients is None or problem.kernel.has_one_mode:
        return Allowance()
    if settings.is_default_budget:  # may be exceeded
        return Allowance(PILOT_SHARE * settings.max_gradients)
    backups = _num_pairs(problem, settings, None) * (settings.iterations if settings.passes.draws == "fresh" else 1)
    if (few := settings.completion.few_actions) is not None:
        backups = min(backups, few * problem.num_states)
    return Allowance(PILOT_SHARE * settings.max_gradients, settings.max_gradients / 2 / backups)


def _with_budget(problem, settings, blocks, trial: Drawn | None, cost: Cost, key: Key) -> tuple[AbstractSampler, Cost]:
    """The sampler with as many draws as the budget, or Lemma 3, gives; and the cost so far."""
    sampler, num_pairs = settings.sampler, _num_pairs(problem, settings, blocks)
    if settings.passes.schedule == "lemma3":
        return sampler.with_samples(lemma3_samples(problem.discount, num_pairs, settings.iterations)), cost
    if settings.max_gradients is None:
        return sampler, cost
    backups = num_pairs * (settings.iterations if settings.passes.draws == "fresh" else 1)
    left = settings.max_gradients - cost.gradient_evaluations
    if sampler.gradients_before_draws(problem) is not None:
        num = samples_of(problem, sampler, backups, left)
    else:
        if trial is None:
            block = selection.some_states(problem, np.arange(min(TRIAL_STATES, problem.num_states)))
            trial = draw_pairs(
                problem, sampler.with_samples(TRIAL_SAMPLES), *block, key=key, coupled=settings.passes.coupled
            )
            cost, left = cost.plus(trial.cost), left - trial.cost.gradient_evaluations
        num = affordable_samples(problem, trial, backups, left)
    if settings.is_default_budget:
        num = max(num, MIN_SAMPLES)
    if num < 1:
        raise HamqError(_too_little(problem, settings, sampler, backups, cost))
    return sampler.with_samples(num), cost


def _too_little(problem: Problem, settings: Settings, sampler: AbstractSampler, backups: int, cost: Cost) -> str:
    """A refusal with a budget that is enough: draws have half of it, and pilots keep to the rest."""
    assert settings.max_gradients is not None
    enough = 2 * cost.gradient_evaluations
    if (chains := sampler.in_chunks()) is not None and not problem.kernel.has_one_mode:
        enough = least_budget(problem, chains, backups)
    at_least = f"raise it to {max(enough, 2 * settings.max_gradients):,}"
    return (
        f"solve: max_gradients = {settings.max_gradients:,} does not buy one draw for each of {backups:,} backups of "
        f"{problem.name} ({cost.gradient_evaluations:,} went into pilots); {at_least}, or leave it out and give the draws "
        "instead: sampler=HMC(40)."
    )


def _require_memory(problem: Problem, settings: Settings, sampler: AbstractSampler, num_pairs: int) -> None:
    if not sampler.is_exhaustive:
        num_kept = num_pairs if settings.passes.draws == "reuse" else 0
        require_memory(problem, sampler, num_kept, min(num_pairs, pairs_at_once()), settings.passes.max_bytes)


def _num_pairs(problem: Problem, settings: Settings, blocks: tuple[Pairs, ...] | None) -> int:
    """Pairs that are drawn together: of the blocks, of the whole table when reused, else of Ω_t on average."""
    if blocks is not None:
        return sum(block.num for block in blocks)
    share = settings.completion.fraction if settings.passes.draws == "fresh" else 1
    return max(1, round(share * problem.num_states * problem.num_actions))


def lemma3_samples(discount: float, num_pairs: int, iterations: int, correlation: float = 0.0, failure: float = 0.05) -> int:
    """|H_t| = (1+ξ)/(1−ξ)·(2/γ²)·log(2|Ω_t|T/δ), the paper's Lemma 3, with ξ = 0 (independent draws) and δ = 0.05."""
    if discount == 0:
        return 1
    spread = (1 + correlation) / (1 - correlation)
    return math.ceil(spread * 2 / discount**2 * math.log(2 * num_pairs * iterations / failure))


def _stock(
    problem, settings, sampler, blocks, devices: Devices, key, cost: Cost, progress: Progress | None
) -> tuple[tuple[Stock, ...], tuple[Diagnosis, ...], Cost]:
    stocks, diagnoses = [], []
    for block in blocks:
        stock, info, spent = draw_stock(
            problem, sampler, block, key=key, coupled=settings.passes.coupled, devices=devices, progress=progress
        )
        warn_of(problem, info, sampler, of_weights=problem.kernel.has_one_mode)  # `worth.py` judges those of others
        stocks.append(stock)
        diagnoses.append(diagnose(info))
        cost = cost.plus(spent)
    return tuple(stocks), tuple(diagnoses), cost
