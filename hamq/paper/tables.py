"""The tables of the page, in Markdown: errors with their costs, gradients that `ours` saves, claims, provenance."""

from collections.abc import Iterable, Sequence

from hamq.deep.config import deep_provenance
from hamq.learning.literal import literal_provenance
from hamq.paper import deep
from hamq.paper.claims import CLAIMS, FOUR, WORDS, judge
from hamq.paper.evidence import Evidence, number
from hamq.paper.plan import FULL
from hamq.paper.records import Group
from hamq.paper.tasks import TASKS, pose
from hamq.paper.variants import VARIANTS
from hamq.problem.zoo.preset import Sourced
from hamq.problem.zoo.provenance import provenance

ERRORS = ("frobenius", "advantage", "policy_loss", "agreement")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def errors(evidence: Evidence, groups: Iterable[Group]) -> str:
    """One row per group, and two rows for scale per task and law."""
    header = ("task", "variant", "method", "seeds", "relative error", "advantages", "policy loss", "agreement")
    rows, scaled = [], set()
    for group in groups:
        if not evidence.has(*group):
            continue
        task, variant, method = group
        scale = (task, evidence.runs(*group)[0].settings["law_of_reference"], method.startswith(deep.ALGORITHMS))
        if scale not in scaled:
            scaled.add(scale)
            rows += _scale_rows(evidence, group, scale[1])
        values = [str(evidence.estimate(*group, field)) for field in ERRORS]
        spent = (number(evidence.cost(*group, "samples")), number(evidence.gradients(*group)))
        num, of = len(evidence.runs(*group)), len(evidence.records[group])
        seeds = str(num) if num == of else f"{num} of {of}, others diverged"
        rows.append((WORDS[task], variant, method, seeds, *values, *spent))
    return markdown((*header, "samples", "gradients"), rows) if rows else "Not run."


def _scale_rows(evidence: Evidence, group: Group, law: str) -> list[tuple[str, ...]]:
    constant = number(float(evidence.final(*group, "constant_action_loss")[0]))
    random = number(float(evidence.final(*group, "random_policy_loss")[0]))
    task = WORDS[group.task]
    return [
        (task, f"law {law}", "best constant action", "", "", "", constant, "", "", ""),
        (task, f"law {law}", "greedy on the random policy's Q", "", "", "", random, "", "", ""),
    ]


def savings(evidence: Evidence) -> str:
    """The smallest budget of `ours` that ends at or below the final error AND loss of both other variants, and its share."""
    header = (
        "task",
        "gradients of the others",
        "their lower final error",
        "their lower final loss",
        "gradients of ours to reach both",
    )
    rows = [_saving(evidence, task) for task in TASKS if all(evidence.has(task, variant, "hmc") for variant in VARIANTS)]
    return markdown((*header, "share", "policy loss, corrected / ours"), rows) if rows else "Not run."


def _saving(evidence: Evidence, task: str) -> tuple[str, ...]:
    others, fields = [(task, variant, "hmc") for variant in ("literal", "corrected")], ("frobenius", "policy_loss")
    levels = {field: min(evidence.estimate(*group, field).value for group in others) for field in fields}
    spent = min(evidence.cost(*group, "gradient_evaluations") for group in others)
    ours = [group for group in evidence.records if group[:2] == (task, "ours") and group.method.startswith("hmc")]
    enough = [group for group in ours if all(evidence.estimate(*group, f).value <= levels[f] for f in fields)]
    gradients = min((evidence.cost(*group, "gradient_evaluations") for group in enough), default=None)
    reached = ("not reached", "") if gradients is None else (number(gradients), f"1/{number(spent / gradients)}")
    loss, own = (evidence.estimate(task, variant, "hmc", "policy_loss").value for variant in ("corrected", "ours"))
    ends = f"{number(loss)} / {number(own)}" + (f" = {number(loss / own)}" if own > 0 else "")
    return (WORDS[task], number(spent), *(number(level) for level in levels.values()), *reached, ends)


def claims(evidence: Evidence) -> str:
    rows = []
    for claim in CLAIMS:
        found = judge(claim, evidence)
        measured = [found.measured[variant] for variant in VARIANTS]
        quote = f"“{claim.quote}” ({claim.where})"
        rows.append((quote, claim.figure, claim.rule, *measured, f"**{found.verdict}**"))
    return markdown(("the paper says", "see", "what we look at", *VARIANTS, "verdict"), rows)


def verdicts(evidence: Evidence) -> list[tuple[str, str]]:
    """(sentence, verdict), for the console."""
    return [(claim.quote, judge(claim, evidence).verdict) for claim in CLAIMS]


def networks(evidence: Evidence) -> str:
    """The faster preset by algorithm, task and sampler: mean over the seeds, and the worst."""
    samplers = {"exhaustive": "`Exhaustive`", "iid": "`IID(100)`", "hmc": "`HMC(100)`", "one": "one draw, `IID(1)`"}
    rows = []
    for algorithm in deep.ALGORITHMS:
        for task in FOUR:
            groups = [(task, "ours", f"{algorithm}-{sampler}") for sampler in samplers]
            if not all(evidence.has(*group) for group in groups):
                continue
            errors = [evidence.final(*group, "frobenius") for group in groups]
            scales = [evidence.final(*group, "constant_action_loss") for group in groups]
            losses = [evidence.final(*g, "policy_loss") / scale for g, scale in zip(groups, scales, strict=True)]
            rows.append(
                (f"{algorithm.upper()} {WORDS[task]}", "error", *(f"{e.mean():.4f} ({e.max():.4f})" for e in errors))
            )
            rows.append(("", "loss", *(f"{loss.mean():.3f} ({loss.max():.3f})" for loss in losses)))
    return markdown(("", "", *samplers.values()), rows) if rows else "Not run."


def sources() -> str:
    """Every constant with its value and where it comes from."""
    rows = [
        (WORDS[task], name, _value(sourced.value), sourced.source)
        for task in TASKS
        for name, sourced in provenance(task).items()
    ]
    for label, task in (("Algorithm 1, 2-D and 4-D", "pendulum"), ("Algorithm 1, 6-D", "cart_double_pendulum")):
        found = literal_provenance(pose(task))
        rows += [(label, name, _value(sourced.value), sourced.source) for name, sourced in found.items()]
    networks = deep_provenance("paper") | {
        "optimiser": Sourced("Adam", "paper"),
        "discount": Sourced(deep.DISCOUNT, "paper"),
        "draws per target": Sourced(deep.NUM_SAMPLES, "paper"),
        "steps": Sourced(FULL.deep_paper_steps, "assumed"),
        "sets of draws per pair": Sourced(1, "assumed"),
        "actions of DDPG's Q*": Sourced(deep.NUM_ACTIONS["ddpg"], "assumed"),
    }
    rows += [("DQN and DDPG", name, _value(sourced.value), sourced.source) for name, sourced in networks.items()]
    return markdown(("of", "parameter", "value", "source"), rows)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(_value(part) for part in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
