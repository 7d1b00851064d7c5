"""Figure 4: four tasks with tables, DQN and DDPG: normalised mean squared error against samples and against gradients."""

from hamq.paper import drawing as d
from hamq.paper.drawing import Picture, Records, Series
from hamq.paper.evidence import number
from hamq.paper.records import Group
from hamq.paper.tasks import LOW
from hamq.paper.variants import VARIANTS

TITLE = "Figure 4: four tasks: squared error against samples and gradients, with tables, DQN and DDPG"
TASKS = tuple(task.name for task in LOW)
LEARNERS = {"": "Q-learning", "dqn-": "DQN", "ddpg-": "DDPG"}
METHODS = {
    "literal": ("exhaustive", "hmc"),
    "corrected": ("exhaustive", "hmc"),
    "ours": ("exhaustive", "hmc", "iid", "one"),
}
LABEL = "squared error,\npart of its maximum"


def shown(task: str, variant: str, learner: str, method: str) -> tuple[Group, ...]:
    """The groups of one line: several where ours has a ladder, none where there is no such method."""
    if learner == "" and variant == "ours":
        if method == "exhaustive":
            return (Group(task, "corrected", "exhaustive"),)
        return d.groups_of([task], ["ours"], {"hmc": d.LOW_LADDER, "iid": ("iid",)}.get(method, ()))
    return (Group(task, variant, learner + method),)


LINES = {
    (task, variant, learner, method): shown(task, variant, learner, method)
    for variant in VARIANTS
    for task in TASKS
    for learner in LEARNERS
    for method in METHODS[variant]
}
GROUPS: tuple[Group, ...] = tuple(dict.fromkeys(group for groups in LINES.values() for group in groups))


def pictures(records: Records, note: str = "") -> list[Picture]:
    return [*(_samples(records, variant, note) for variant in VARIANTS), _gradients(records, note)]


def _samples(records: Records, variant: str, note: str) -> Picture:
    figure, panels = d.canvas(len(LEARNERS), len(TASKS), 6.0, note, sharey="row")
    sentences, used = [], []
    for row, (learner, title) in zip(panels, LEARNERS.items(), strict=True):
        races = []
        for panel, task in zip(row, TASKS, strict=True):
            groups = {method: LINES[task, variant, learner, method] for method in METHODS[variant]}
            found = {method: d.against(records, some, "samples", 2) for method, some in groups.items() if some}
            d.draw(panel, [(d.METHOD_LOOKS[method], series) for method, series in found.items()])
            races.append(race(d.TASK_WORDS[task], {d.METHOD_LOOKS[name].label: series for name, series in found.items()}))
            used += [group for some in groups.values() for group in some]
        sentences.append(f"{title}: {d.listed(races)}." if any(races) else "")
        row[0].set_ylabel(f"{title}\n{LABEL}")
    _finish(panels, "samples")
    d.legend(figure, [d.METHOD_LOOKS[method] for method in METHODS[variant]])
    text = d.caption(
        f"Squared error of Q, divided by its maximum over the run, against samples, {variant}.",
        "Samples until it stays at or below a level that all reach." if any(sentences) else "",
        *sentences,
        "The exhaustive sums of the tables are those of corrected." if variant == "ours" else "",
        d.LADDER_WORDS if variant == "ours" else "",
        d.seeds(records, used),
        d.gaps(records, used),
    )
    return Picture(f"fig4-{variant}", figure, text)


def _gradients(records: Records, note: str) -> Picture:
    """HMC of the three variants; other methods need no gradients."""
    figure, panels = d.canvas(len(LEARNERS), len(TASKS), 6.0, note, sharey="row")
    sentences, used = [], []
    for row, (learner, title) in zip(panels, LEARNERS.items(), strict=True):
        races = []
        for panel, task in zip(row, TASKS, strict=True):
            groups = {variant: LINES[task, variant, learner, "hmc"] for variant in VARIANTS}
            found = {variant: d.against(records, some, "gradient_evaluations", 2) for variant, some in groups.items()}
            d.draw(panel, [(d.VARIANT_LOOKS[variant], series) for variant, series in found.items()])
            races.append(race(d.TASK_WORDS[task], found))
            used += [group for some in groups.values() for group in some]
        sentences.append(f"{title}: {d.listed(races)}." if any(races) else "")
        row[0].set_ylabel(f"{title}\n{LABEL}")
    _finish(panels, "gradient evaluations")
    d.legend(figure, d.VARIANT_LOOKS.values())
    text = d.caption(
        "Squared error of Q with HMC, divided by its maximum over the run, against gradients; exhaustive sums and IID draws "
        "need none.",
        "Gradients until it stays at or below a level that all reach." if any(sentences) else "",
        *sentences,
        d.LADDER_WORDS,
        "Gradients of networks are those of drawing anew for every target.",
        d.seeds(records, used),
        d.gaps(records, used),
    )
    return Picture("fig4-gradients", figure, text)


def _finish(panels, label: str) -> None:
    for panel, task in zip(panels[0], TASKS, strict=True):
        d.entitle(panel, d.TASK_WORDS[task])
    for panel in panels[-1]:
        panel.set_xlabel(label)
    for panel in panels.flat:
        d.rescale(panel, "log")


def race(title: str, entries: dict[str, Series | str]) -> str:
    """What each line costs until it stays at or below a level, 5 % above the highest that one of them ends with."""
    lines = {label: series for label, series in entries.items() if isinstance(series, Series)}
    if len(lines) < 2:
        return ""
    level = 1.05 * max(float(series.middle[-1]) for series in lines.values())
    costs = {label: series.settled_at(level) for label, series in lines.items()}
    return f"{title} {level:.2g}: {', '.join(f'{label} {number(cost)}' for label, cost in costs.items() if cost)}"
