"""Figure 1: the cart with a double pendulum, six dimensions. (a) convergence, (b, c) policies, (d) error against cost."""

from matplotlib.lines import Line2D

from hamq.paper import drawing as d
from hamq.paper import figure3 as maps
from hamq.paper.drawing import Picture, Records
from hamq.paper.evidence import number
from hamq.paper.figure4 import race
from hamq.paper.records import Group
from hamq.paper.tasks import HIGH
from hamq.paper.variants import VARIANTS

TITLE = "Figure 1: cart double pendulum (6-D): convergence, policies, error against samples and gradients"
TASK = HIGH.name
EXHAUSTIVE = {
    "literal": Group(TASK, "literal", "exhaustive"),
    "corrected": Group(TASK, "corrected", "exhaustive"),
    "ours": Group(TASK, "corrected", "exhaustive"),
}
LADDERS = {
    "literal": d.groups_of([TASK], ["literal"], ["hmc"]),
    "corrected": d.groups_of([TASK], ["corrected"], ["hmc"]),
    "ours": d.groups_of([TASK], ["ours"], d.HIGH_LADDER),
}
HMC = {variant: ladder[0] for variant, ladder in LADDERS.items()}
GROUPS: tuple[Group, ...] = tuple(dict.fromkeys([*EXHAUSTIVE.values(), *(g for ladder in LADDERS.values() for g in ladder)]))


def pictures(records: Records, note: str = "") -> list[Picture]:
    return [
        _convergence(records, note),
        *(_policies(records, name, note) for name in HIGH.slices),
        _efficiency(records, note),
    ]


def _convergence(records: Records, note: str) -> Picture:
    """(a): error and policy loss over the iterations."""
    figure, ((error, loss),) = d.canvas(1, 2, 3.0, note)
    for panel, name, label in ((error, "frobenius", "relative error of Q"), (loss, "policy_loss", "policy loss")):
        series = [(variant, d.over(records.get(HMC[variant], []), "iteration", d.column(name))) for variant in VARIANTS]
        d.draw(panel, [(d.VARIANT_LOOKS[variant], found) for variant, found in series])
        panel.set_xlabel("iteration")
        panel.set_ylabel(label)
    d.constants(loss, records, HMC.values())
    for panel in (error, loss):
        d.rescale(panel, "linear")
    d.legend(figure, d.VARIANT_LOOKS.values(), [Line2D([], [], label="best constant action", **d.LEVEL)])
    parts = []
    for variant, group in HMC.items():
        ends = [
            d.summary(records.get(group, []), d.final(name)) for name in ("frobenius", "policy_loss", "constant_action_loss")
        ]
        spent = [d.summary(records.get(group, []), d.spent(name)) for name in ("samples", "gradient_evaluations")]
        if ends[0] and ends[2] and spent[0] and spent[1]:
            cost = f"{number(spent[0].value)} samples and {number(spent[1].value)} gradients"
            parts.append(
                f"{variant} {ends[0]}, policy loss {ends[1]} (best constant action {ends[2].value:.3g}), for {cost}"
            )
    text = d.caption(
        "Hamiltonian Q-learning on the cart double pendulum. Left, relative Frobenius error of Q over the iterations; "
        "right, mean loss of the greedy policy.",
        f"At the end: {d.listed(parts)}." if parts else "",
        d.references(records, HMC.values()),
        d.seeds(records, HMC.values()),
        d.gaps(records, HMC.values()),
    )
    return Picture("fig1a", figure, text)


def _policies(records: Records, name: str, note: str) -> Picture:
    """(b, c): exhaustive and HMC, and what HMC gives up."""
    pairs = {
        variant: [maps.find_map(records.get(group, []), name) for group in (EXHAUSTIVE[variant], HMC[variant])]
        for variant in VARIANTS
    }
    everything = [part for pair in pairs.values() for part in pair]
    tops = {"actions": maps.action_top(TASK), "given_up": maps.top_of(everything, "given_up")}
    figure, panels = d.canvas(len(VARIANTS), 3, 6.6, note, sharex=True, sharey=True)
    bars = {}
    for row, (variant, (exhaustive, hmc)) in zip(panels, pairs.items(), strict=True):
        whose = "exhaustive" + (" (of corrected)" if variant == "ours" else "")
        for panel, part, shown in zip(row, (exhaustive, hmc, hmc), ("actions", "actions", "given_up"), strict=True):
            bars[shown] = maps.draw_map(panel, part, shown, tops[shown]) or bars.get(shown)
        for panel, words in zip(row, (whose, "HMC", maps.cost_words(hmc, exhaustive, "HMC")), strict=True):
            d.entitle(panel, words)
        maps.mark(row[2], hmc, exhaustive)
        row[0].set_ylabel(f"{variant}\n{maps.axis_words(everything)[1]}")
    for panel in panels[-1]:
        panel.set_xlabel(maps.axis_words(everything)[0])
    maps.colour_bar(figure, [bars.get("actions")], panels[:, :2], "action")
    maps.colour_bar(figure, [bars.get("given_up")], panels[:, 2:], "value given up")
    hold = next((part.hold for part in everything if not isinstance(part, str)), "")
    text = d.caption(
        f"Greedy actions of one seed on the slice that the {name} of the paper names ({hold or 'not run'}), and what they "
        "give up of max Q*; crosses: HMC acts differently from the exhaustive sum.",
        *(maps.differences(variant, {"HMC": pair[1]}, pair[0]) for variant, pair in pairs.items()),
        "The exhaustive map beside ours is that of corrected." if records.get(EXHAUSTIVE["ours"]) else "",
        d.gaps(records, [*EXHAUSTIVE.values(), *HMC.values()]),
    )
    return Picture(f"fig1bc-{name}", figure, text)


def _efficiency(records: Records, note: str) -> Picture:
    """(d): normalised error against samples per variant, and against gradients."""
    figure, panels = d.canvas(2, 2, 5.0, note, sharey=True)
    methods, variants = d.METHOD_LOOKS, d.VARIANT_LOOKS
    parts = []
    for panel, variant in zip(panels.flat, VARIANTS, strict=False):
        exhaustive = d.against(records, [EXHAUSTIVE[variant]], "samples", 1)
        hmc = d.against(records, LADDERS[variant], "samples", 1)
        d.draw(panel, [(methods["exhaustive"], exhaustive), (methods["hmc"], hmc)])
        d.entitle(panel, variant + (" (exhaustive: of corrected)" if variant == "ours" else ""))
        panel.set_xlabel("samples")
        parts.append(race(variant, {"exhaustive": exhaustive, "HMC": hmc}))
    last = panels[1, 1]
    gradients = {variant: d.against(records, ladder, "gradient_evaluations", 1) for variant, ladder in LADDERS.items()}
    d.draw(last, [(variants[variant], series) for variant, series in gradients.items()])
    d.entitle(last, "HMC of the three variants")
    last.set_xlabel("gradient evaluations")
    for panel in panels.flat:
        d.rescale(panel, "log")
    for panel in panels[:, 0]:
        panel.set_ylabel("error of Q, part of its maximum")
    d.legend(figure, [methods["exhaustive"], methods["hmc"]])
    d.legend(figure, variants.values(), panel=last)
    densities = d.summary(records.get(EXHAUSTIVE["corrected"], []), d.spent("density_evaluations"))
    text = d.caption(
        "Relative error of Q, divided by its maximum over the run, against samples and against gradients.",
        f"Samples until it stays at or below: {d.listed(parts)}." if any(parts) else "",
        f"The exhaustive sum needs no gradients, but {number(densities.value)} densities." if densities else "",
        f"Gradients until it stays at or below{duel}." if (duel := race("", gradients)) else "",
        d.LADDER_WORDS,
        d.seeds(records, GROUPS),
        d.gaps(records, GROUPS),
    )
    return Picture("fig1d", figure, text)
