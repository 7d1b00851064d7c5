"""Each sentence of the paper's Abstract, Introduction and Results that can be checked, and what the records say of it.

A claim is put to each of the variants on its own, task by task. Of a variant it holds on all tasks, on some, or on none;
of the paper it holds if it holds as printed (`literal`), holds under a condition if only some variant or some tasks bear it
out, and does not hold otherwise. What counts is written beside each claim (`rule`); nothing here is typed by hand.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hamq.paper.evidence import Estimate, Evidence, number
from hamq.paper.tasks import HIGH, LOW, TASKS
from hamq.paper.variants import VARIANTS

FOUR = tuple(task.name for task in LOW)
FIVE = tuple(TASKS)
WORDS = {name: name.replace("_", " ") for name in TASKS}

LEARNED = 0.1
"""Relative error up to which a table counts as learned."""
NEAR_OPTIMAL = 0.1
"""Part of the best constant action's loss up to which a policy counts as near optimal."""
MUCH_LOWER = 0.9
"""Ratio of errors up to which one is much lower."""
FEWER = 2.0
"""Factor from which fewer samples are significantly fewer."""


class Finding(NamedTuple):
    """What one task says of a claim; `holds` is None where it was not run."""

    task: str
    text: str
    holds: bool | None


class Claim(NamedTuple):
    """`judge` is given the evidence and a variant; `rule` says in words what it looks at."""

    quote: str
    where: str
    figure: str
    rule: str
    judge: Callable[[Evidence, str], list[Finding]]
    condition: str = ""
    """What it rests on besides, where measurements alone cannot decide."""


class Verdict(NamedTuple):
    claim: Claim
    measured: dict[str, str]
    """By variant: the numbers, and on which tasks the claim holds."""
    verdict: str


def _final(field: str, tasks: Sequence[str], bound: Callable[[Evidence, str, str], float]):
    """Whether the final number of HMC lies below a bound, on every task."""

    def judge(evidence: Evidence, variant: str) -> list[Finding]:
        found = []
        for task in tasks:
            if not evidence.has(task, variant, "hmc"):
                found.append(Finding(task, "not run", None))
                continue
            value = evidence.estimate(task, variant, "hmc", field)
            found.append(Finding(task, str(value), value.highest <= bound(evidence, task, variant)))
        return found

    return judge


def _tenth_of_constant(evidence: Evidence, task: str, variant: str) -> float:
    return NEAR_OPTIMAL * evidence.estimate(task, variant, "hmc", "constant_action_loss").value


def _converges(evidence: Evidence, variant: str) -> list[Finding]:
    """Whether the 6-D table is learned at the end."""
    task = HIGH.name
    if not evidence.has(task, variant, "hmc"):
        return [Finding(task, "not run", None)]
    value = evidence.estimate(task, variant, "hmc", "frobenius")
    iterations = evidence.runs(task, variant, "hmc")[0].settings["iterations"]
    return [Finding(task, f"{value} after {iterations} iterations", value.highest <= LEARNED)]


def _against_iid(field: str, is_lower_better: bool):
    """HMC against IID, paired by seed, decided by the interval."""

    def judge(evidence: Evidence, variant: str) -> list[Finding]:
        found = []
        for task in FOUR:
            if not all(evidence.has(task, variant, method) for method in ("hmc", "iid")):
                found.append(Finding(task, "not run", None))
            elif is_lower_better:
                ratio = evidence.ratio(task, variant, ("hmc", "iid"), field)
                found.append(Finding(task, f"× {ratio}", ratio.highest <= MUCH_LOWER))
            else:
                gain = evidence.difference(task, variant, ("hmc", "iid"), field)
                found.append(Finding(task, str(gain), gain.lowest > 0))
        return found

    return judge


def _agreement(evidence: Evidence, variant: str) -> list[Finding]:
    """Share of states in which HMC's action is one of the best, at least 0.9, on the 6-D problem."""
    task = HIGH.name
    if not evidence.has(task, variant, "hmc"):
        return [Finding(task, "not run", None)]
    share = evidence.estimate(task, variant, "hmc", "agreement")
    return [Finding(task, str(share), share.value >= 0.9)]


def samples_saved(evidence: Evidence, task: str, variant: str, learner: str = "") -> tuple[float, float] | None:
    """(error level, samples of the exhaustive sum over samples of HMC) to get as low as HMC gets, within 5 %."""
    exhaustive = ("corrected" if variant == "ours" and not learner else variant, f"{learner}exhaustive")
    methods = ((variant, f"{learner}hmc"), exhaustive)
    if not all(evidence.has(task, *method) for method in methods):
        return None
    level = 1.05 * evidence.estimate(task, variant, f"{learner}hmc", "frobenius").value
    if learner:  # the curve of a network is not monotone: both must get there
        level = max(level, 1.05 * evidence.estimate(task, *exhaustive, "frobenius").value)
    ours, theirs = (evidence.reached_at(task, *method, level) for method in methods)
    if ours is None or theirs is None or ours == 0:
        return None
    return level, theirs / ours


def _fewer_samples(tasks: Sequence[str], learner: str = ""):
    def judge(evidence: Evidence, variant: str) -> list[Finding]:
        found = []
        for task in tasks:
            saved = samples_saved(evidence, task, variant, learner)
            if saved is None:
                is_run = evidence.has(task, variant, f"{learner}hmc")
                found.append(Finding(task, "not reached" if is_run else "not run", False if is_run else None))
            else:
                level, factor = saved
                is_learned = level <= 1.05 * LEARNED
                found.append(Finding(task, f"÷ {number(factor)} to error {number(level)}", is_learned and factor >= FEWER))
        return found

    return judge


def _with_dimension(evidence: Evidence, variant: str) -> list[Finding]:
    """Samples saved on the 6-D problem against the most saved on the others."""
    saved = {task: samples_saved(evidence, task, variant) for task in FIVE}
    factors = {task: part[1] for task, part in saved.items() if part is not None}
    if HIGH.name not in factors or len(factors) < 2:
        return [Finding(HIGH.name, "not run", None)]
    low = [factor for task, factor in factors.items() if task != HIGH.name]
    text = f"samples ÷ {number(factors[HIGH.name])} in 6-D, ÷ {number(min(low))} to {number(max(low))} in 2-D and 4-D"
    levels = {task: part[0] for task, part in saved.items() if part is not None}
    exhaustive, evaluations = "corrected" if variant == "ours" else variant, []
    for task, level in levels.items():
        densities = evidence.reached_at(task, exhaustive, "exhaustive", level) or math.nan
        gradients = evidence.reached_at(task, variant, "hmc", level, "gradient_evaluations") or math.nan
        evaluations.append(f"{WORDS[task]} {number(densities / gradients)}")
    text += f"; densities of the sum over gradients of HMC: {', '.join(evaluations)}"
    is_learned = levels[HIGH.name] <= 1.05 * LEARNED
    return [Finding(HIGH.name, text, is_learned and factors[HIGH.name] > max(low))]


def _low_rank(evidence: Evidence, variant: str) -> list[Finding]:
    if variant != "ours" or "low_rank" not in evidence.studies:
        return [Finding("", "a property of Q*, see ours" if variant != "ours" else "not run", None)]
    tasks = evidence.studies["low_rank"]["tasks"]
    return [
        Finding(name, f"{task['rank']}, advantages {task['advantage_rank']}", task["advantage_rank"] <= 3)
        for name, task in tasks.items()
    ]


def _part_of_the_table(evidence: Evidence, variant: str) -> list[Finding]:
    """Learned from backups of a part of the pairs."""
    found = []
    for task in FIVE:
        if not evidence.has(task, variant, "hmc"):
            found.append(Finding(task, "not run", None))
            continue
        runs = evidence.runs(task, variant, "hmc")
        is_full = sum("every entry is backed up" in run.settings.get("result", "") for run in runs) > len(runs) / 2
        error = evidence.estimate(task, variant, "hmc", "frobenius")
        found.append(Finding(task, f"{error}{', all pairs' if is_full else ''}", error.value <= LEARNED and not is_full))
    return found


def _efficiency(evidence: Evidence, variant: str) -> list[Finding]:
    """Mean squared error of IID over that of the paper's HMC, at 100 draws: the study `antithetic`."""
    if variant != "corrected" or "antithetic" not in evidence.studies:
        return [Finding("", "a property of the sampler, see corrected" if variant != "corrected" else "not run", None)]
    study = evidence.studies["antithetic"]
    found = []
    for task, value in study["efficiency_at_paper"].items():
        low, high = study["interval_at_paper"][task]
        found.append(Finding(task, str(Estimate(value, low, high)), low > 1))
    return found


def _rate(evidence: Evidence, variant: str) -> list[Finding]:
    """Exponent of ε in the number of samples against Theorem 3's: the study `rates`."""
    if variant != "ours" or "rates" not in evidence.studies:
        return [Finding("", "a property of the problem, see ours" if variant != "ours" else "not run", None)]
    return [
        Finding(
            f"d = {row['dimension']}",
            f"{row['exponent']:.1f} [{row['low']:.1f}, {row['high']:.1f}] (theorem {row['theorem']:g})",
            row["low"] <= row["theorem"],
        )
        for row in evidence.studies["rates"]["summary"]
    ]


CLAIMS = (
    Claim(
        "Q values can be learned from a dataset generated by HMC samples of actions, rewards, and state transitions",
        "Abstract",
        "fig1, fig2",
        f"final relative error of Q at most {LEARNED:g} (upper end of the interval)",
        _final("frobenius", FIVE, lambda *_: LEARNED),
    ),
    Claim(
        "Hamiltonian Q-Learning can infer optimal policies even when it calculates the expected Q values using HMC samples "
        "instead of IID samples",
        "Introduction",
        "fig1, fig2",
        "policy loss at most a tenth of the best constant action's (upper end of the interval)",
        _final("policy_loss", FIVE, _tenth_of_constant),
    ),
    Claim(
        "formulating planning and control tasks [...] as Q-Learning problems leads to low-rank structures in the Q matrix",
        "Introduction",
        "low_rank",
        "99 % of the advantages' nuclear norm in 3 of 10 singular values; the first number is the paper's, of Q itself",
        _low_rank,
    ),
    Claim(
        "update Q values for only a small subset of state-action pairs and reconstruct the complete Q matrix",
        "Introduction, first contribution",
        "fig1, fig2",
        f"relative error at most {LEARNED:g} with backups of a part of the pairs",
        _part_of_the_table,
    ),
    Claim(
        "sample Q values from the region with the dominant contribution [...] provides a data-efficient approach",
        "Introduction, first contribution",
        "antithetic",
        "efficiency against IID, mean squared error of IID over HMC's at 100 draws, above 1 with its whole interval",
        _efficiency,
    ),
    Claim(
        "the error between the optimal Q function and the Q function computed [...] can be made arbitrarily small",
        "Introduction, second contribution",
        "fig1, fig2",
        "final relative error at most 0.01: with a fixed number of draws the variants stop at a floor of their own",
        _final("frobenius", FIVE, lambda *_: 0.01),
    ),
    Claim(
        "the sampling complexity of our algorithm matches the mini-max sampling complexity",
        "Introduction, second contribution",
        "rates",
        "measured exponent of the samples on a smooth problem, at most d_s + d_a + 2",
        _rate,
        "for a full table and Lipschitz Q*, by the corrected derivation (theory.md); the printed proof needs γ < 1/2, and "
        "its lemmas add up to another exponent",
    ),
    Claim(
        "the proposed approach becomes more effective with increase in state space dimension",
        "Introduction, third contribution",
        "fig1, fig4",
        f"samples saved on the way to an error of at most {LEARNED:g}: more on the 6-D problem than on all others (which "
        "have 625 states each, in 2-D and in 4-D: what grows is the number of states)",
        _with_dimension,
    ),
    Claim(
        "Hamiltonian Q-Learning converges to an ε optimal Q function",
        "Results, high-dimensional",
        "fig1",
        f"final relative error at most {LEARNED:g}",
        _converges,
    ),
    Claim(
        "the policy heat map for Hamiltonian Q-Learning is close to the one from Q-Learning with exhaustive sampling",
        "Results, high-dimensional",
        "fig1",
        "the greedy action is one of the best in at least 0.9 of all states",
        _agreement,
    ),
    Claim(
        "converges to an ε optimal Q function with significantly fewer samples than exhaustive sampling",
        "Results, high-dimensional",
        "fig1",
        f"samples of the sum over HMC's to the error where HMC ends: {FEWER:g} or more, the error at most {LEARNED:g}",
        _fewer_samples((HIGH.name,)),
    ),
    Claim(
        "the Frobenius norm of the difference [...] can achieve a much lower value when HMC samples are used instead of IID",
        "Results, low-dimensional",
        "fig2",
        f"final error with HMC over that with IID, paired by seed: at most {MUCH_LOWER:g} with its whole interval",
        _against_iid("frobenius", True),
    ),
    Claim(
        "the policy heatmaps associated from Hamiltonian Q-Learning are closer to [those] with exhaustive sampling",
        "Results, low-dimensional",
        "fig3",
        "agreement with the best actions, HMC minus IID, paired by seed: above 0 with its whole interval",
        _against_iid("agreement", False),
    ),
    Claim(
        "Hamiltonian Q-Learning can achieve the same level of accuracy with significantly fewer samples (vanilla)",
        "Results, low-dimensional",
        "fig4",
        f"samples of the sum over HMC's to the error where HMC ends: {FEWER:g} or more, the error at most {LEARNED:g}",
        _fewer_samples(FOUR),
    ),
    Claim(
        "the same with DQN",
        "Results, low-dimensional",
        "fig4",
        f"the same, to the error that both reach: {FEWER:g} or more, the error at most {LEARNED:g}",
        _fewer_samples(FOUR, "dqn-"),
    ),
    Claim(
        "the same with DDPG",
        "Results, low-dimensional",
        "fig4",
        f"the same, to the error that both reach: {FEWER:g} or more, the error at most {LEARNED:g}",
        _fewer_samples(FOUR, "ddpg-"),
    ),
)


def judge(claim: Claim, evidence: Evidence) -> Verdict:
    found = {variant: claim.judge(evidence, variant) for variant in VARIANTS}
    measured = {variant: _sentence(findings) for variant, findings in found.items()}
    verdict = _verdict(found)
    if verdict == "holds" and claim.condition:
        verdict = f"holds under a condition: {claim.condition}"
    return Verdict(claim, measured, verdict)


def _sentence(findings: Sequence[Finding]) -> str:
    return "; ".join(
        f"{WORDS.get(finding.task, finding.task)} {finding.text}{_mark(finding)}".strip() for finding in findings
    )


def _mark(finding: Finding) -> str:
    return "" if finding.holds is None else " (yes)" if finding.holds else " (no)"


def _verdict(found: dict[str, list[Finding]]) -> str:
    """Of the variants that were run: as printed first, then whatever else bears the claim out."""
    run = {variant: [f for f in findings if f.holds is not None] for variant, findings in found.items()}
    run = {variant: findings for variant, findings in run.items() if findings}
    if not run:
        return "not run"
    first = next(iter(run))
    if all(finding.holds for finding in run[first]) and (first == "literal" or len(run) == 1):
        return "holds"
    conditions = []
    for variant, findings in run.items():
        kept = [WORDS.get(finding.task, finding.task) for finding in findings if finding.holds]
        if len(kept) == len(findings):
            conditions.append(variant)
        elif kept:
            conditions.append(f"{variant} on {', '.join(kept)}")
    missing = sorted(
        {WORDS[f.task] for findings in found.values() for f in findings if f.text == "not run" and f.task in WORDS}
    )
    rest = f" (not run: {', '.join(missing)})" if missing else ""
    return (f"holds under a condition: {'; '.join(conditions)}" if conditions else "does not hold") + rest
