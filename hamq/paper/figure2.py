"""Figure 2: four tasks, convergence with HMC against IID draws; and what the variants end with against their gradients."""

from matplotlib.lines import Line2D

from hamq.paper import drawing as d
from hamq.paper.drawing import Picture, Records
from hamq.paper.evidence import Estimate, number
from hamq.paper.records import Group
from hamq.paper.tasks import LOW
from hamq.paper.variants import VARIANTS

TITLE = "Figure 2: four tasks: convergence with HMC against IID; final error and policy loss against gradients"
TASKS = tuple(task.name for task in LOW)
METHODS = ("hmc", "iid")
GROUPS: tuple[Group, ...] = (*d.groups_of(TASKS, VARIANTS, METHODS), *d.groups_of(TASKS, ["ours"], d.LOW_LADDER[1:]))
LADDERS = {"literal": ("hmc",), "corrected": ("hmc",), "ours": d.LOW_LADDER}


def pictures(records: Records, note: str = "") -> list[Picture]:
    return [_convergence(records, note), _cost(records, note)]


def _convergence(records: Records, note: str) -> Picture:
    figure, panels = d.canvas(len(VARIANTS), len(TASKS), 6.0, note, sharey="col")
    for i, variant in enumerate(VARIANTS):
        for j, task in enumerate(TASKS):
            panel = panels[i, j]
            found = {
                name: d.over(records.get(Group(task, variant, name), []), "iteration", d.column("frobenius"))
                for name in METHODS
            }
            d.draw(panel, [(d.METHOD_LOOKS[name], series) for name, series in found.items()])
        panels[i, 0].set_ylabel(f"{variant}\nrelative error of Q")
    for task, column in zip(TASKS, panels.T, strict=True):
        d.entitle(column[0], d.TASK_WORDS[task])
        column[-1].set_xlabel("iteration")
        for panel in column:
            d.rescale(panel, "linear")
    d.legend(figure, [d.METHOD_LOOKS[name] for name in METHODS])
    groups = d.groups_of(TASKS, VARIANTS, METHODS)
    text = d.caption(
        "Relative Frobenius error of Q over the iterations, HMC against IID draws. What they end with, HMC against IID.",
        *(_duels(records, variant) for variant in VARIANTS),
        d.references(records, groups),
        d.seeds(records, groups),
        d.gaps(records, groups),
    )
    return Picture("fig2", figure, text)


def _duels(records: Records, variant: str) -> str:
    """A sentence: per task both errors, and which is lower."""
    found, of = [], d.final("frobenius")
    for task in TASKS:
        hmc, iid = (records.get(Group(task, variant, name), []) for name in METHODS)
        ends = d.summary(hmc, of), d.summary(iid, of)
        if ends[0] and ends[1]:
            decided = d.verdict(hmc, iid, of, ("HMC", "IID"))
            found.append(f"{d.TASK_WORDS[task]} {ends[0]} against {ends[1]} ({decided})")
    return f"{variant.capitalize()}: {d.listed(found)}." if found else ""


def _cost(records: Records, note: str) -> Picture:
    figure, panels = d.canvas(2, len(TASKS), 4.4, note, sharex="col")
    rows = (("frobenius", "final relative error of Q"), ("policy_loss", "final policy loss"))
    for task, column in zip(TASKS, panels.T, strict=True):
        ladders = {variant: d.groups_of([task], [variant], LADDERS[variant]) for variant in VARIANTS}
        for panel, (name, _) in zip(column, rows, strict=True):
            found = {v: d.ladder(records, groups, "gradient_evaluations", d.final(name)) for v, groups in ladders.items()}
            d.draw(panel, [(d.VARIANT_LOOKS[variant], series) for variant, series in found.items()])
        d.constants(column[1], records, [group for groups in ladders.values() for group in groups])
        d.entitle(column[0], d.TASK_WORDS[task])
        column[1].set_xlabel("gradient evaluations")
        for panel in column:
            d.rescale(panel, "log")
    for panel, (_, label) in zip(panels[:, 0], rows, strict=True):
        panel.set_ylabel(label)
    d.legend(figure, d.VARIANT_LOOKS.values(), [Line2D([], [], label="best constant action", **d.LEVEL)])
    used = [group for variant in VARIANTS for group in d.groups_of(TASKS, [variant], LADDERS[variant])]
    text = d.caption(
        "What Hamiltonian Q-learning ends with against the gradients that it spent; ours with several budgets.",
        *(_savings(records, task) for task in TASKS),
        d.references(records, used),
        d.seeds(records, used),
        d.gaps(records, used),
    )
    return Picture("fig2-gradients", figure, text)


def _savings(records: Records, task: str) -> str:
    """A sentence: what the variants end with, and for how many of their gradients ours ends with no more of both."""
    found = []
    ours = [end for method in d.LOW_LADDER if (end := _end(records, Group(task, "ours", method)))]
    for variant in VARIANTS:
        if (end := _end(records, Group(task, variant, "hmc"))) is None:
            continue
        words = f"{variant} error {end[0]}, loss {end[1]} for {number(end[2].value)} gradients"
        if variant != "ours" and ours:
            enough = [rung for rung in ours if rung[0].value <= end[0].value and rung[1].value <= end[1].value]
            least = min((rung[2].value for rung in enough), default=None)
            share = f"1/{number(end[2].value / least)} of them" if least else "none of its budgets"
            words += f", ours no worse in both with {share}"
        found.append(words)
    return f"{d.TASK_WORDS[task].capitalize()}: {d.listed(found)}." if found else ""


def _end(records: Records, group: Group) -> tuple[Estimate, Estimate, Estimate] | None:
    """Final error, final loss and gradients."""
    runs = records.get(group, [])
    error, loss = d.summary(runs, d.final("frobenius")), d.summary(runs, d.final("policy_loss"))
    gradients = d.summary(runs, d.spent("gradient_evaluations"))
    return (error, loss, gradients) if error and loss and gradients else None
